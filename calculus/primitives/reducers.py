"""Functions of numbers that a parameter spells as a program: how a window is reduced, and what is chosen in it.

They run element by element on one device, so they compute and never move, look up or communicate: every equation is an
elementwise primitive of the table on scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calculus.meshes import Mesh
from calculus.parameters import bad, required
from calculus.primitives.declaration import Primitive
from calculus.programs import Atom, Literal, Parameters, Program, body
from calculus.refusals import Place, Refused, refuse
from calculus.types import DTYPES, ArrayType, Type, array_type, same


def reducer(
    parameters: Parameters, name: str, constants: str, inputs: Sequence[str | None], outputs: Sequence[str | None]
) -> Program:
    """The program that a parameter holds, as a function of scalars of these dtypes (`None` for any). Refuses
    `bad-parameter` where it is none, `unmodelled-construct` where it is more than arithmetic, and what its equations
    are refused for."""
    from calculus.rules import has_type

    program = held(parameters, name)
    if program.constants or parameters.get(constants):
        raise _more(name, "captures arrays")
    if len(program.inputs) != len(inputs) or len(program.outputs) != len(outputs):
        raise bad(
            name,
            f"a program of {len(program.inputs)} inputs and {len(program.outputs)} outputs",
            f"one of {len(inputs)} and {len(outputs)}",
        )
    known: dict[Atom, Type] = {}

    def operand(atom: Atom) -> Type | Literal:
        if isinstance(atom, Literal):
            return atom
        if atom not in known:
            raise bad(name, f"a program that uses {atom} before it is bound", "one that binds it first")
        return known[atom]

    for variable, type, dtype in zip(program.inputs, program.input_types, inputs, strict=True):
        wanted = array_type(dtype) if dtype is not None else type
        if wanted is None or (type is not None and not same(type, wanted)):
            raise bad(name, f"a program of {type}", f"one of {wanted}")
        known[variable] = wanted
    for equation in program.equations:
        primitive = _arithmetic(name, equation.primitive)
        operands = [operand(atom) for atom in equation.inputs]
        try:
            typing = has_type(primitive, equation.parameters, operands, equation.types, Mesh(()))
        except Refused as refused:
            inner = refused.refusal
            place = Place("parameter", name=name)
            raise refuse(inner.code, inner.message, because=inner.because, help=inner.help, place=place) from None
        known |= zip(equation.binders, typing.types, strict=True)
    for atom, dtype in zip(program.outputs, outputs, strict=True):
        found = operand(atom)
        type = found.type if isinstance(found, Literal) else found
        if not isinstance(type, ArrayType) or type.rank or dtype not in (None, type.dtype):
            raise bad(name, f"a program that makes {type}", f"one that makes {dtype}[]")
    return program


def held(parameters: Parameters, name: str) -> Program:
    """The program that a parameter holds or names."""
    found = body(required(parameters, name))
    if found is None:
        raise bad(name, str(parameters[name]), "a program")
    return found


def _arithmetic(name: str, primitive: str) -> Primitive:
    from calculus.primitives.elementwise import ELEMENTWISE

    found = next((one for one in ELEMENTWISE if one.name == primitive), None)
    if found is None or found.kernel is None:
        raise _more(name, f"applies {primitive}")
    return found


def _more(name: str, does: str) -> Exception:
    return refuse(
        "unmodelled-construct",
        f"{name} {does}",
        because="how numbers are combined is read as arithmetic on one device, number by number",
        help="write it with elementwise primitives alone",
        place=Place("parameter", name=name),
    )


def computed(np: Any, program: Program, *values: Any) -> list[Any]:
    """What such a program computes of these arrays, element by element."""
    from calculus.primitives import TABLE

    known: dict[Atom, Any] = dict(zip(program.inputs, values, strict=True))

    def value(atom: Atom) -> Any:
        return _number(np, atom) if isinstance(atom, Literal) else known[atom]

    for equation in program.equations:
        kernel = TABLE[equation.primitive].kernel
        assert kernel is not None
        found = kernel(np, equation.parameters, *map(value, equation.inputs))
        known |= zip(equation.binders, [found] if len(equation.binders) == 1 else found, strict=True)
    return [value(atom) for atom in program.outputs]


def _number(np: Any, literal: Literal) -> Any:
    dtype = literal.type.dtype if isinstance(literal.type, ArrayType) else "f32"
    truth = {"True": 1, "False": 0}
    written: Any = truth.get(literal.text, literal.text)
    return np.asarray(complex(written) if DTYPES[dtype][2] == "c" else written).astype(np.dtype(DTYPES[dtype][0]))
