"""The bodies inside an equation: what goes into them, and what comes out.

A body's result is mostly a value with one type. It may also be a literal that prints no type (the older dialect), or
`_` where several values are called so: both are settled against the type that is wanted of them, and never fit by
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from calculus.meshes import Mesh
from calculus.programs import Equation, Literal, Program, body
from calculus.reconciling import turned
from calculus.refusals import Place, refuse
from calculus.types import ArrayType, Type, same
from calculus.uses import Operand, operand_type

if TYPE_CHECKING:
    from calculus.checking import Checked, Checker, Scope
    from calculus.effects import Inner
    from calculus.rules import Typing

Formed: TypeAlias = "tuple[Typing, tuple[Inner, ...], bool]"
"""A form's typing, the bodies inside it, and whether its judgment may be remembered."""
Form: TypeAlias = "Callable[[Checker, Equation, Sequence[Operand], Scope], Formed]"


class Several:
    """The types of several values that all print as `_`: JAX calls so what nothing uses, and at times what is used."""

    __slots__ = ("types",)

    def __init__(self, types: tuple[Type | None, ...]) -> None:
        self.types = types


Result: TypeAlias = "Type | Literal | Several | None"
"""What a body gives back. `None` where an earlier refusal left its type open."""


def agree(found: Type | None, wanted: Type | None) -> bool:
    """Whether two types are equal; a type that an earlier refusal left open agrees with all."""
    return found is None or wanted is None or same(found, wanted)


def settle(checker: Checker, result: Result, wanted: Type | None) -> Type | None:
    """The type of a result where a type is wanted. Of several values called `_`, the newest that fits is assumed, and
    the assumption counted; where none fits, it is the newest. `None` for a literal without a type where none is
    wanted."""
    if isinstance(result, Several):
        checker.assume("_")
        return next((type for type in reversed(result.types) if agree(type, wanted)), result.types[-1])
    if isinstance(result, Literal):
        return operand_type(result, wanted)
    return result


def program_of(equation: Equation, *names: str) -> Program:
    """The body that a parameter holds, under the first of the names that holds one. Refuses `bad-parameter`."""
    for name in names:
        found = body(equation.parameters.get(name))
        if found is not None:
            return found
    raise refuse(
        "bad-parameter",
        f"{equation.primitive} has no body: {' or '.join(names)} holds none",
        because="a call says what it calls",
        help=f"print {names[0]}={{ lambda ; ... }}",
    )


def inputs_of(program: Program, count: int) -> tuple[Type | None, ...]:
    """The types that a body's operands must have, where it is given `count` of them: constants that a closed body
    carries along are no operands."""
    return program.input_types if count == len(program.inputs) else (*program.constant_types, *program.input_types)


def names_of(program: Program, count: int) -> tuple[str, ...]:
    """The names of the inputs that these types are of."""
    return program.inputs if count == len(program.inputs) else (*program.constants, *program.inputs)


def enter(
    checker: Checker, program: Program, scope: Scope, operands: Sequence[Operand], what: str, offset: int = 0
) -> Checked:
    """Check a body against the operands it is given; an input that prints no type has its operand's. Refuses `arity`
    and `inconsistent-type`."""
    wanted = inputs_of(program, len(operands))
    if len(wanted) != len(operands):
        raise refuse(
            "arity",
            f"{what} takes {len(wanted)} inputs and is given {len(operands)}",
            because="every input of a body is one operand",
            place=Place("operand", offset + min(len(wanted), len(operands)) - 1),
        )
    if None in wanted:
        program = checker.at(program, [operand_type(one, type) for one, type in zip(operands, wanted, strict=True)])
        wanted = inputs_of(program, len(operands))
    checked = checker.body(program, scope)
    for index, (operand, type) in enumerate(zip(operands, wanted, strict=True)):
        given = operand_type(operand, type)
        if not agree(given, type):
            raise refuse(
                "inconsistent-type",
                f"input {index} of {what} is {type}; the operand is {given}",
                because="a body is checked once, at the types its inputs are printed with",
                help=_reconcile(given, type, scope.mesh),
                place=Place("operand", offset + index),
            )
    return checked


def _reconcile(given: Type | None, wanted: Type | None, mesh: Mesh) -> str:
    way = turned(given, wanted, mesh) if isinstance(given, ArrayType) and isinstance(wanted, ArrayType) else None
    if way is not None and wanted is not None:
        return f"{way.of('the operand', wanted)}, or print the body for {given}"
    return f"give it a value of type {wanted}, or print the body for {given}"


def leave(
    checker: Checker, equation: Equation, results: Sequence[Result], what: str, code: str = "inconsistent-type"
) -> tuple[Type | None, ...]:
    """The types of a body's results, compared with the binders. Refuses `arity`, `choose-type` and `code`."""
    counted(results, equation, what)
    found: list[Type | None] = []
    for index, (result, printed) in enumerate(zip(results, equation.types, strict=True)):
        type = settle(checker, result, printed)
        if not agree(type, printed):
            raise refuse(
                code,
                f"result {index} of {what} is {type}, and it is printed as {printed}",
                because="the equation's results are the body's",
                help=f"bind it at {type}",
                place=Place("binder", index),
            )
        if type is None and printed is None and isinstance(result, Literal):
            raise undetermined(result, index, what)
        found.append(printed if type is None else type)
    return tuple(found)


def unchanged(equation: Equation, type: Type, because: str) -> None:
    """The one result has the operand's type. Refuses `inconsistent-type`."""
    result = equation.types[0]
    if not agree(type, result):
        raise refuse(
            "inconsistent-type",
            f"the result is printed as {result}; the operand is {type}",
            because=because,
            help=f"bind it at {type}",
            place=Place("binder", 0),
        )


def counted(results: Sequence[object], equation: Equation, what: str) -> None:
    """Every result is bound. Refuses `arity`."""
    if len(results) != len(equation.types):
        raise refuse(
            "arity",
            f"{what} has {len(results)} results, and {len(equation.types)} are bound",
            because="every result has a name",
            place=Place("binder", min(len(results), len(equation.types))),
        )


def undetermined(result: Literal, index: int, what: str) -> Exception:
    """The refusal of a literal without a type where none is wanted."""
    return refuse(
        "choose-type",
        f"result {index} of {what} is the literal {result}, and neither prints a type",
        because="a number alone does not say its dtype",
        help="write the type after the binder's name",
        place=Place("binder", index),
    )
