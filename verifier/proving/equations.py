"""What the typing of an equation claims, along each mesh axis: judgments of its primitive, and obligations of those.

An equation of a program has types on a mesh. Along one axis each operand's type is a state of its factors; a copy that
meets what is cut is sliced. What has to move, before or after, is moved by a reshard, which keeps the value (theorem
`reshards`): then the judgment is that of what is computed between. Axes are asked one at a time (theorem `product`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from calculus.cotangents import State
from calculus.linearity import PENDING
from calculus.meshes import Mesh
from calculus.placement import dealt_to
from calculus.primitives import TABLE
from calculus.programs import Equation, Literal, Program
from calculus.schemes import Indices, Scheme
from calculus.types import ArrayType, Type, array_type
from calculus.uses import Operand, operand_type
from verifier.proving.judgments import WORDS, Judgment, of_declaration
from verifier.samples import Sample

ACROSS: Final = "across"
"""A dim that is cut otherwise than a factor is: it has to be moved first."""
VARIES: Final = "varies"
"""What each device has for itself: a copy, as far as one device sees."""


class Claim(NamedTuple):
    """What an equation claims of one of its results along an axis, and the judgment that this rests on.

    given, result: the states of the types. written: of each operand that is a literal, its text. judgment: `None` where
    none that is Local leads there. moved: whether operands are brought to copies first, or the result from what is
    pending or cut to where it belongs.
    """

    sample: Sample
    number: int
    axis: str
    given: tuple[State, ...]
    result: State
    judgment: Judgment | None
    moved: bool = False
    written: tuple[str, ...] = ()

    @property
    def states(self) -> str:
        """The states in a name."""
        words = ["copy" if state in ("N", "R") else _name(state) for state in (*self.given, self.result)]
        return f"{'_'.join(words[:-1]) or 'nothing'}.{words[-1]}"

    def __str__(self) -> str:
        said = ", ".join(_said(self.given[at], self.sample.operands[at]) for at in range(len(self.given)))
        return f"{self.sample.primitive} ({said}) → {_word(self.result)} along {self.axis}"


def _name(state: State) -> str:
    return WORDS.get(state, state) if isinstance(state, str) else f"cut{state[1]}"


def _word(state: State) -> str:
    return f"cut{state[1]}" if isinstance(state, tuple) else state


def _said(state: State, type: ArrayType) -> str:
    return f"{_word(state)} {type}"


def sample_of(equation: Equation, operands: Sequence[Operand | None]) -> Sample:
    """An equation of the table as a sample call: its operands as if they were on one device. Raises `ValueError` where
    a type is not printed, or is no array's."""
    types = [operand_type(one) if one is not None else None for one in operands]
    results = [one if isinstance(one, ArrayType) else None for one in equation.types]
    if not all(isinstance(one, ArrayType) for one in types) or None in results:
        raise ValueError(f"a type of {equation.primitive} is not printed, or is no array's")
    plain = tuple(array_type(one.dtype, one.shape) for one in types if isinstance(one, ArrayType))
    made = tuple(array_type(one.dtype, one.shape) for one in results if one is not None)
    kind = plain[0].dtype_class if plain else made[0].dtype_class
    return Sample(equation.primitive, plain, equation.parameters, made, (None,) * len(plain), kind)


def claims(equation: Equation, operands: Sequence[Operand | None], mesh: Mesh, direct: bool = False) -> list[Claim]:
    """The claims of an equation of the table: of each result, along each axis along which its type or an operand's is
    no copy. direct: nothing may be moved."""
    sample = sample_of(equation, operands)
    primitive = TABLE[equation.primitive]
    found = []
    for number, result in enumerate(equation.types):
        scheme, q = of_declaration(primitive, sample, number)
        given = [one for position, one in enumerate(operands) if position not in q.signature.unseen]
        for axis in mesh.by_name:
            types = [one for one in (*given, result) if isinstance(one, ArrayType)]
            if all(one.state(axis) == "N" for one in types):
                continue
            found.append(_claim(sample, number, scheme, axis, mesh, operands, result, direct))
    return found


def _claim(
    sample: Sample, number: int, scheme: Scheme, axis: str, mesh: Mesh, operands: Sequence[Operand | None],
    result: Type | None, direct: bool,
) -> Claim:  # fmt: skip
    _, q = of_declaration(TABLE[sample.primitive], sample, number)
    assert isinstance(result, ArrayType)
    wanted = _state(scheme, scheme.results[number], result, axis, mesh)
    given: list[State] = []
    for indices, one in zip(scheme.operands, operands, strict=True):
        given.append(_state(scheme, indices, one, axis, mesh) if isinstance(one, ArrayType) else "N")
    written = tuple(one.text if isinstance(one, Literal) else "" for one in operands)
    told = Claim(sample, number, axis, tuple(given), wanted, None, written=written)
    if wanted == VARIES:
        return told._replace(judgment=Judgment(("C",) * len(given), "C", 1))
    if VARIES in given:
        return told
    factors = {state for state in (*given, wanted) if isinstance(state, tuple)}
    best: tuple[int, Judgment] | None = None
    each = [
        _choices(state, indices, factors, one, direct)
        for state, indices, one in zip(given, scheme.operands, operands, strict=True)
    ]
    for chosen in itertools.product(*each):
        moves = sum(cost for _, cost in chosen)
        states = tuple(state for state, _ in chosen)
        if len({state for state in states if isinstance(state, tuple)}) > 1 or (best and best[0] <= moves):
            continue
        local = q.local_results(tuple("N" if state == "C" else state for state in states))
        for made in sorted(local, key=str):
            after = _after(made, wanted, direct)
            if after is not None and (best is None or best[0] > moves + after):
                best = moves + after, Judgment(states, "C" if made in ("N", "R") else made, 1)
    return told if best is None else told._replace(judgment=best[1], moved=best[0] > 0)


def _choices(
    state: State, indices: Indices, factors: set[Any], operand: Operand | None, direct: bool
) -> list[tuple[State, int]]:
    """What an operand may be taken for, and whether it is moved for that."""
    own = {factor for dim in indices for factor in dim}
    if isinstance(state, tuple):
        return [(state, 0)] if direct else [(state, 0), ("C", 1)]
    if state == ACROSS:
        return [] if direct else [("C", 1)]
    if state not in ("N", "R"):
        return [(state, 0)]
    zero = isinstance(operand, Literal) and operand.text.strip("+-").rstrip("0") in ("", ".", "0.")
    pending: list[tuple[State, int]] = [("U", 0)] if zero else []
    return [("C", 0), *pending, *((one, 0) for one in factors if one[1] in own)]


def _after(made: State, wanted: State, direct: bool) -> int | None:
    """Whether what is made is what is wanted (0), a reshard away (1), or neither (`None`). A copy is a maximum of
    copies. Nothing is made pending here, as that is nothing that a reshard of an equation's result does."""
    if made == wanted or (made in ("N", "R") and wanted in ("N", "R", "Umax", "Umin")):
        return 0
    if direct or (isinstance(wanted, str) and wanted not in ("N", "R", ACROSS)):
        return None
    return 1


def _state(scheme: Scheme, indices: Indices, type: ArrayType, axis: str, mesh: Mesh) -> State:
    """The state of a type's factors along an axis."""
    state = type.state(axis)
    if state == "U":
        return PENDING[type.kind]
    if state == "V":
        return VARIES
    if state != "S":
        return state
    (dim,) = (dim for dim, axes in enumerate(type.axes) if axis in axes)
    dealt = dealt_to(indices[dim], type.axes[dim], scheme, mesh)
    return next((("S", factor) for factor, axes in dealt or () if axis in axes), ACROSS)


class Placed(NamedTuple):
    """An equation of a program, with its operands' types, and the literals among them."""

    equation: Equation
    operands: tuple[Operand | None, ...]


def placed(program: Program) -> Iterator[Placed]:
    """The equations of one body, at the types that are printed."""
    types: dict[str, Type | None] = dict(
        zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
    )
    for equation in program.equations:
        yield Placed(equation, tuple(_operand(atom, types) for atom in equation.inputs))
        types.update(zip(equation.binders, equation.types, strict=True))


def _operand(atom: Any, types: Mapping[str, Type | None]) -> Operand | None:
    return atom if isinstance(atom, Literal) else types.get(atom)
