"""Cells: Refs, and the statements that read and write them. Seeds A40, B9.

A cell of type `Ref{τ}` holds a value of type τ as long as it lives, in the state that τ says along every axis. So what
is stored has the type τ, however it got there, and what is read has it too. A part of a cell is taken and put back by
the declarations of the table (`dynamic_slice`, `dynamic_update_slice`, `gather`, `scatter`): nothing about states,
shapes or communication is said here a second time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from calculus.bodies import Formed
from calculus.communication import Collective
from calculus.judgments import need, rule
from calculus.primitives import TABLE
from calculus.programs import Call, Equation, Literal, Parameters, Value, Word
from calculus.refusals import Place, Refused, refuse
from calculus.rules import Typing, agreeing, has_type
from calculus.types import ArrayType, Axes, Dim, RefType, Type, array_type
from calculus.uses import Operand, operand_type

if TYPE_CHECKING:
    from calculus.checking import Checked, Checker, Scope


class Part(NamedTuple):
    """What is taken of one dim: `size` elements from `start` on; where `single`, one, and the dim is dropped. entire:
    all of it. place: the operand of the equation that says so."""

    size: Dim
    start: Operand
    place: int = 0
    single: bool = False
    entire: bool = False


@rule
def read(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ a : Ref{τ}      x : τ ⊢ x[i] : σ ▷ κ
        ──────────────────────────────────────── read
        Γ ⊢ a[i] : σ ▷ κ

    The transpose adds to the cotangent cell, `addupdate`.
    """
    work, inner = _opened(equation, operands, scope)
    result = work.taken(inner, work.brackets, equation.types[0])
    return Typing((agreeing(result, equation.types[0], 0),), tuple(work.collectives)), (), False


@rule
def write(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ a : Ref{τ}      x : τ ⊢ x[i] : σ      x : τ, v ⊢ x with v at i : τ ▷ κ
        ────────────────────────────────────────────────────────────────────────── write
        Γ ⊢ a[i] <- v : σ ▷ κ

    The result is what was there before. Where a whole cell is written, v has the type τ (a copy may be sliced, free).
    """
    work, inner = _opened(equation, operands, scope)
    types: tuple[Type, ...] = ()
    if equation.types:
        before = work.taken(inner, work.brackets, equation.types[0])
        types = (agreeing(before, equation.types[0], 0),)
    work.put(inner, work.brackets, operands[1], "scatter")
    return Typing(types, tuple(work.collectives)), (), False


@rule
def accumulate(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ a : Ref{τ}      x : τ ⊢ add x[i] v : σ      x : τ ⊢ x with (add x[i] v) at i : τ ▷ κ
        ──────────────────────────────────────────────────────────────────────────────────────── accumulate
        Γ ⊢ a[i] += v ▷ κ

    Sums are taken in the state of the cell: pieces are added to pieces, and nothing that is whole to what is pending.
    """
    work, inner = _opened(equation, operands, scope)
    work.put(inner, work.brackets, operands[1], "scatter-add", add=True)
    return Typing((), tuple(work.collectives)), (), False


def statement(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """The judgment of a Ref statement."""
    if equation.cell is None:
        raise refuse(
            "unmodelled-construct",
            f"{equation.primitive} of a cell through something else than indices",
            because="which part of the cell it means is not printed in brackets",
            help="index the cell with integers and slices",
        )
    return {"get": read, "swap": write, "addupdate": accumulate}[equation.primitive](checker, equation, operands, scope)


def held(operands: Sequence[Operand], what: str, index: int = 0) -> ArrayType:
    """The type of what a cell holds. Refuses `dtype` where the operand is no cell of an array."""
    type = operands[index] if index < len(operands) else None
    if isinstance(type, RefType) and isinstance(type.inner, ArrayType):
        return type.inner
    raise refuse(
        "dtype",
        f"{what} of {type}, which is not a cell of an array",
        because="only a Ref can be read and written",
        help="make one with new_ref",
        place=Place("operand", index),
    )


def _opened(equation: Equation, operands: Sequence[Operand], scope: Scope) -> tuple[_Work, ArrayType]:
    inner = held(operands, {"get": "a read"}.get(equation.primitive, "a write"))
    return _Work(equation, operands, scope), inner


class _Work:
    """The steps of one statement, each a judgment of the table. Their refusals point at the operand of the statement
    that the step's operand came from."""

    def __init__(self, equation: Equation, operands: Sequence[Operand], scope: Scope) -> None:
        assert equation.cell is not None
        self.cell = equation.cell
        self.result = equation.types
        self.mesh = scope.common_mesh(equation, operands)
        self.collectives: list[Collective] = []
        self.brackets = self.cell.indices.split("][")
        first = len(operands) - len(self.cell.names)
        self._given = {name: (operands[first + k], first + k) for k, name in enumerate(self.cell.names)}

    def taken(self, whole: ArrayType, brackets: Sequence[str], printed: Type | None) -> ArrayType:
        """The type of a part. printed: what is printed of it, where it is the result of the statement."""
        for number, bracket in enumerate(brackets):
            last = number == len(brackets) - 1
            parts = self._parts(bracket, whole)
            whole = self._taken(whole, parts, printed if last else None)
        return whole

    def put(self, whole: ArrayType, brackets: Sequence[str], value: Operand, scatter: str, add: bool = False) -> None:
        """Put a value where a part is, or its sum with what is there. The whole keeps its type."""
        parts = self._parts(brackets[0], whole)
        rest = brackets[1:]
        where = [part for part in parts if part.single and _shape(part.start)]
        if rest:
            self.put(self._taken(whole, parts, None), rest, value, scatter, add)
            value = self._taken(whole, parts, None)  # the part keeps its type too
        elif where:
            self._scattered(whole, parts, value, scatter)
            return
        elif add:
            before = self._taken(whole, parts, _like(operand_type(value), whole))
            (value,) = self._step("add", Parameters(), (before, value), (before,), (0, 1))
        self._placed(whole, parts, value)

    def _taken(self, whole: ArrayType, parts: Sequence[Part], printed: Type | None) -> ArrayType:
        arrays = [dim for dim, part in enumerate(parts) if part.single and _shape(part.start)]
        if arrays:
            return self._gathered(whole, parts, printed)
        single = tuple(dim for dim, part in enumerate(parts) if part.single)
        wider = _widened(printed, single)
        window = Parameters((("slice_sizes", tuple(_size(part) for part in parts)),))
        starts, places = self._starts(parts)
        (found,) = self._step("dynamic_slice", window, (whole, *starts), (wider,), (0, *places))
        if single:
            (found,) = self._step("squeeze", Parameters((("dimensions", single),)), (found,), (None,), (0,))
        return found

    def _placed(self, whole: ArrayType, parts: Sequence[Part], value: Operand) -> None:
        single = tuple(dim for dim, part in enumerate(parts) if part.single)
        if single:
            wanted = None
            if isinstance(value, Literal) and (value.zero or not whole.unreduced):  # it is in the state of the cell
                wanted = array_type(
                    whole.dtype, (1,) * len(single), None, (), whole.unreduced, whole.reduced, whole.kind
                )
            (value,) = self._step("expand_dims", Parameters((("dimensions", single),)), (value,), (wanted,), (1,))
        starts, places = self._starts(parts)
        need(
            not isinstance(value, ArrayType) or value.shape == tuple(part.size for part in parts),
            "shape",
            lambda: f"{value} is written to a part of shape {[part.size for part in parts]} of {whole}",
            because="what is written has the shape of the part",
            help="broadcast or slice it first",
            place=Place("operand", 1),
        )
        self._step("dynamic_update_slice", Parameters(), (whole, value, *starts), (whole,), (0, 1, *places))

    def _gathered(self, whole: ArrayType, parts: Sequence[Part], printed: Type | None) -> ArrayType:
        """A part at places that arrays of indices say: first the slices, then a gather."""
        slices = [part._replace(size=size, start=_ZERO, single=False, entire=True) if part.single else part
                  for part, size in zip(parts, whole.shape, strict=True)]  # fmt: skip
        part = self._taken(whole, slices, None)
        indices, numbers, window = self._windows(part, parts)
        named = Call("GatherDimensionNumbers", (), (
            ("offset_dims", numbers.windows), ("collapsed_slice_dims", numbers.looked),
            ("start_index_map", numbers.looked), ("operand_batching_dims", ()), ("start_indices_batching_dims", ()),
        ))  # fmt: skip
        parameters = (("dimension_numbers", named), ("fill_value", None), ("mode", _CLIPPED), ("slice_sizes", window))
        (found,) = self._step("gather", Parameters(parameters), (part, indices), (printed,), (0, numbers.place))
        return found

    def _scattered(self, whole: ArrayType, parts: Sequence[Part], value: Operand, scatter: str) -> None:
        need(
            scatter in TABLE and all(part.single or part.entire for part in parts),
            "unmodelled-construct",
            lambda: f"a write to {self.cell.variable}[{self.cell.indices}], at places that arrays say, of slices",
            because="which part of the cell is written is no one window",
            help="write whole rows, or read the cell, scatter, and write it whole",
        )
        indices, numbers, _ = self._windows(whole, parts)
        named = Call("ScatterDimensionNumbers", (), (
            ("update_window_dims", numbers.windows), ("inserted_window_dims", numbers.looked),
            ("scatter_dims_to_operand_dims", numbers.looked), ("operand_batching_dims", ()),
            ("scatter_indices_batching_dims", ()),
        ))  # fmt: skip
        parameters = (
            ("dimension_numbers", named), ("indices_are_sorted", False), ("mode", _CLIPPED), ("unique_indices", False),
            ("update_jaxpr", None), ("update_consts", ()),
        )  # fmt: skip
        places = (0, numbers.place, 1)
        self._step(scatter, Parameters(parameters), (whole, indices, value), (whole,), places)

    def _windows(self, whole: ArrayType, parts: Sequence[Part]) -> tuple[ArrayType, _Numbers, tuple[Value, ...]]:
        """The index array of a gather or scatter, its dims, and the shape of its windows."""
        looked = tuple(dim for dim, part in enumerate(parts) if part.single)
        starts = [parts[dim].start for dim in looked]
        shape = _shape(starts[0])
        (indices,) = self._step(
            "stack", Parameters((("axis", len(shape)),)), tuple(starts), (None,), [parts[dim].place for dim in looked]
        )
        together = looked == tuple(range(looked[0], looked[0] + len(looked)))
        first = looked[0] if together else 0
        rank = len(parts) - len(looked) + len(shape)
        places = range(first, first + len(shape))
        windows = tuple(dim for dim in range(rank) if dim not in places)
        window = tuple(1 if dim in looked else _written(size) for dim, size in enumerate(whole.shape))
        return indices, _Numbers(windows, looked, parts[looked[0]].place), window

    def _starts(self, parts: Sequence[Part]) -> tuple[list[Operand], list[int]]:
        """Where a window begins: numbers have the dtype of what stands beside them."""
        starts = [part.start for part in parts]
        dtype = next((type.dtype for type in starts if isinstance(type, ArrayType)), "i32")
        number = array_type(dtype)
        return (
            [Literal(start.text, number) if isinstance(start, Literal) else start for start in starts],
            [part.place for part in parts],
        )

    def _start(self, name: str, whole: ArrayType) -> tuple[Operand, int]:
        """A value that says where a part begins. What the cell varies over, an index that is the same everywhere is
        taken to vary over too: it has no cotangent that would have to be summed. Refuses `mixed-variation` and
        `hidden-variation` for an index that varies where the cell does not."""
        start, place = self._given[name]
        if not isinstance(start, ArrayType):
            return start, place
        apart = [axis for axis in start.varying if axis not in whole.varying]
        if apart:
            over = ", ".join(apart)
            types = self.result or (whole,)
            said = all(axis in type.varying for type in types if isinstance(type, ArrayType) for axis in apart)
            raise refuse(
                "mixed-variation" if said else "hidden-variation",
                f"the index {name}, {start}, varies over {over}, and the cell holds {whole}",
                because=f"the transpose would have to sum the cell's cotangent over {over}, unasked"
                if said
                else f"devices along {over} mean different places, and the type says they have one value",
                help=f"make the cell of a value that is cast with pvary over {over}, or read it whole and cast that",
                place=Place("operand", place),
            )
        varying = tuple(axis for axis in whole.varying if start.state(axis) == "N")
        if not varying:
            return start, place
        return array_type(
            start.dtype, start.shape, start.axes, self.mesh.in_order((*start.varying, *varying)), start.unreduced,
            start.reduced, start.kind, start.memory,
        ), place  # fmt: skip

    def _step(
        self,
        name: str,
        parameters: Parameters,
        operands: tuple[Operand, ...],
        printed: tuple[Type | None, ...],
        places: Sequence[int],
    ) -> tuple[ArrayType, ...]:
        try:
            typing = has_type(TABLE[name], parameters, operands, printed, self.mesh)
        except Refused as refused:
            place = refused.refusal.place
            if place.part == "operand" and place.index < len(places):
                refused.refusal.place = Place("operand", places[place.index])
            elif place.part != "binder" or printed[0] is None or name in _WRITES:
                refused.refusal.place = Place("operand", 1 if name in _WRITES else 0)
            raise
        self.collectives += (one._replace(subject=-1, goal=None) for one in typing.collectives)
        return typing.types  # type: ignore[return-value]

    def _parts(self, bracket: str, whole: ArrayType) -> list[Part]:
        """What a bracket says of each dim. Refuses `shape`, `dtype` and `unmodelled-construct`."""
        pieces = [piece.strip() for piece in bracket.split(",")] if bracket.strip() else []
        if "..." in pieces:
            at = pieces.index("...")
            pieces[at : at + 1] = [":"] * (whole.rank - len(pieces) + 1)
        need(
            len(pieces) == whole.rank,
            "shape",
            lambda: f"[{bracket}] has {len(pieces)} indices for the {whole.rank} dims of {whole}",
            because="each dim has its index",
            place=Place("operand", 0),
        )
        return [self._part(piece, size, whole) for piece, size in zip(pieces, whole.shape, strict=True)]

    def _part(self, piece: str, size: Dim, whole: ArrayType) -> Part:
        if piece == ":":
            return Part(size, _ZERO, entire=True)
        if _NUMBER.fullmatch(piece):
            at = int(piece)
            _inside(at + size if at < 0 and isinstance(size, int) else at, 1, size, piece)
            return Part(1, Literal(piece, None), single=True)
        if piece in self._given:
            start, place = self._start(piece, whole)
            return Part(1, start, place, single=True)
        window = _WINDOW.fullmatch(piece)
        if window is not None and window[1] in self._given:
            start, place = self._start(window[1], whole)
            return Part(int(window[2]), start, place)
        bounds = _SLICE.fullmatch(piece)
        end = int(bounds[2]) if bounds is not None and bounds[2] else size
        if bounds is None or isinstance(end, str):
            raise refuse(
                "unmodelled-construct",
                f"the index {piece} of a cell",
                because="the size of the part is not a number",
                help="take a slice of a fixed size",
                place=Place("operand", 0),
            )
        start_at = int(bounds[1] or 0)
        length = end - start_at
        _inside(start_at, length, size, piece)
        return Part(length, Literal(str(start_at), None), entire=length == size)


def written(checked: Checked) -> list[tuple[int, RefType]]:
    """The inputs of a body (constants first) that are cells and may be written in it, with their types. Whatever takes
    a cell may write it, unless it is known to read."""
    program = checked.program
    types = (*program.constant_types, *program.input_types)
    cells = {
        name: (position, type)
        for position, (name, type) in enumerate(zip((*program.constants, *program.inputs), types, strict=True))
        if isinstance(type, RefType)
    }
    if not cells:
        return []
    bodies = {effect.at: effect.inner for effect in checked.effects if effect.inner}
    found: dict[int, RefType] = {}
    for at, equation in enumerate(program.equations):
        touched = [index for index, atom in enumerate(equation.inputs) if isinstance(atom, str) and atom in cells]
        if not touched or equation.primitive in _READS:
            continue
        if at in bodies:
            into = {inner.operand(k, len(equation.inputs)) for inner in bodies[at] for k, _ in written(inner.body)}
            touched = [index for index in touched if index in into]
        found.update(cells[equation.inputs[index]] for index in touched)  # type: ignore[index]
    return sorted(found.items(), key=lambda item: item[0])


_READS: Final = frozenset({"get", "freeze", "free_ref"})


class _Numbers(NamedTuple):
    """windows: the dims of the part that are dims of windows. looked: the dims of the cell that are looked up. place:
    the operand of the statement that says where."""

    windows: tuple[int, ...]
    looked: tuple[int, ...]
    place: int


_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_WINDOW: Final = re.compile(r"([^\W\d]\w*):\1\+([0-9]{1,18})")
_SLICE: Final = re.compile(r"([0-9]{0,18}):([0-9]{0,18})")
_ZERO: Final = Literal("0", None)
_CLIPPED: Final = Word("GatherScatterMode.CLIP")
_WRITES: Final = frozenset({"add", "expand_dims", "dynamic_update_slice", "scatter", "scatter-add"})


def _inside(start: int, length: int, size: Dim, piece: str) -> None:
    need(
        length >= 0 and start >= 0 and (not isinstance(size, int) or start + length <= size),
        "shape",
        lambda: f"[{piece}] of a dim of size {size}",
        because="the part lies inside the cell",
        help="correct the index",
        place=Place("operand", 0),
    )


def _shape(operand: Operand) -> tuple[Dim, ...]:
    return operand.shape if isinstance(operand, ArrayType) else ()


def _written(size: Dim) -> Value:
    return Word(size) if isinstance(size, str) else size


def _size(part: Part) -> Value:
    return _written(part.size)


def _widened(type: Type | None, dims: Sequence[int]) -> Type | None:
    """A type with dims of size 1 put in."""
    if not isinstance(type, ArrayType) or not dims:
        return type
    shape: list[Dim] = list(type.shape)
    lists: list[Axes] = list(type.axes)
    for dim in dims:
        shape.insert(dim, 1)
        lists.insert(dim, ())
    return _relaid(type, tuple(shape), tuple(lists))


def _like(type: Type | None, whole: ArrayType) -> Type | None:
    """The type of the part that a value is added to: placed as the value is, in the state of the cell."""
    return _relaid(whole, type.shape, type.axes) if isinstance(type, ArrayType) and type.rank else None


def _relaid(type: ArrayType, shape: tuple[Dim, ...], lists: tuple[Axes, ...]) -> ArrayType:
    return array_type(type.dtype, shape, lists, type.varying, type.unreduced, type.reduced, type.kind, type.memory)
