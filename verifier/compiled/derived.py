"""The collectives that the types say, with what a comparison must know of each besides: in which loops it stands, from
which lines it comes, and what of its surroundings lets a compiler do with less."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from calculus.checking import Checked
from calculus.communication import PERMUTE
from calculus.copied import typed_names
from calculus.effects import Charge
from calculus.evaluation import Use
from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.programs import Atom, Equation, Literal, Program, bodies
from calculus.types import ArrayType, Type
from verifier.compiled.module import Frame
from verifier.compiled.reading import product
from verifier.compiled.values import Values, inner_of

_TRIPS: Final = re.compile(r"scan x(\d+)$")

_SAME: Final = frozenset({
    "reshard", "convert_element_type", "transpose", "reshape", "squeeze", "expand_dims", "copy", "stop_gradient",
    "pvary", "optimization_barrier", "name", "broadcast_in_dim", "slice",
})  # fmt: skip
"""What gives one value for one operand: of the same value, the same."""

_SPREADS: Final = frozenset({"broadcast_in_dim", "reshard", "copy"})
"""What leaves one number what it is, wherever it is put."""
_ENTERED: Final = frozenset({"jit", "pjit", "closed_call", "core_call", "cond"})
"""What hands on what its body gives."""
_MOVES: Final = frozenset({"transpose", "reshape", "slice"})
"""What leaves elements what they are, in other places."""


@dataclass(frozen=True, slots=True)
class Said:
    """One collective that the types say, each time that its equation is reached by another way.

    Fields as in `verifier.compiled.reading.Moved`. exactness: how far the types determine it. dtype: of what is moved.
    invariant: in how many of the loops around it, the innermost first, it moves the same value each time. constant:
    whether it moves what no input has a part in. masked: whether it adds up pieces that were cut, just before, from a
    value that every device had. spread: whether what is moved is one number in many places. cut: whether a block is cut
    out of what it gives, along its axes. later: in how many of the loops around it, the innermost first, its result is
    only added to what is carried, or stacked; and how many of it are stacked. terms: the additions that its result goes
    into, by identity. source: what is moved, so that two with the same source move one value, or make the same one.
    site: which equation it is of, reached how; no two have the same. made: the innermost line of what made the operand,
    after which a compiler may name the collective. along: the axes that the equation's operands and results are cut
    along, or pending.
    """

    kind: str
    axes: tuple[str, ...]
    payload: int | None
    group: int | None
    exactness: str
    primitive: str
    dtype: str = ""
    loops: tuple[int | None, ...] = ()
    frames: tuple[Frame, ...] = ()
    where: str = ""
    value: str = ""
    invariant: int = 0
    constant: bool = False
    masked: bool = False
    spread: bool = False
    cut: bool = False
    later: tuple[int, int] = (0, 1)
    terms: frozenset[object] = frozenset()
    source: object = None
    site: object = None
    made: tuple[Frame, ...] = ()
    along: tuple[str, ...] = ()

    @property
    def times(self) -> int | None:
        """How often it runs; `None` where the data decide."""
        return product(self.loops)


Place = Callable[[Charge], "tuple[tuple[Frame, ...], str, str]"]
"""The lines of a collective's equation, the user's as people know it, and the value that it moves."""


def said(charges: list[Charge], mesh: Mesh, place: Place) -> list[Said]:
    """The collectives of κ, one for each way to it; without those along axes of one device."""
    sizes = {axis.name: axis.size for axis in mesh.axes}
    values = Values()
    return [one for charge in charges for one in _of(charge, sizes, place, values)]


def _of(charge: Charge, sizes: Mapping[str, int | None], place: Place, values: Values) -> Iterator[Said]:
    collective = charge.collective
    axes = tuple(sorted(axis for axis in collective.axes if sizes.get(axis) != 1))
    if not axes:
        return
    loops = tuple(trips for label in charge.inside if (trips := _trips(label)) != 1)
    near = Surroundings(charge, values)
    frames, where, value = place(charge)
    one = Said(
        collective.kind, axes, collective.payload, collective.group, charge.exactness, charge.equation.primitive,
        near.dtype, loops, frames, where, value, near.invariant, near.constant, near.masked, near.spread,
        near.onward.cut, (near.onward.levels, near.onward.stacked), frozenset(near.onward.terms), near.source,
        along=near.along,
    )  # fmt: skip
    if near.maker is not None:
        checked, _ = charge.sites[-1]
        made = charge.collective.of(-1)  # what is moved is what that equation makes
        maker = replace(charge, sites=(*charge.sites[:-1], (checked, near.maker)), collective=made)
        one = replace(one, made=place(maker)[0][:1])
    once = product(loops)
    ways = 1 if charge.times is None or not once else charge.times // once
    for around, copies in _unrolled(charge):
        for copy in range(ways * copies):
            yield replace(one, loops=around, site=(near.site, charge.slot, around, copy))


def _unrolled(charge: Charge) -> list[tuple[tuple[int | None, ...], int]]:
    """The loops around a collective as they are compiled, and how many copies of it stand in them: a scan repeats its
    body `unroll` times in each round, and what is left over behind the rounds."""
    found: list[tuple[tuple[int | None, ...], int]] = [((), 1)]
    for label, (checked, at) in zip(charge.inside, charge.sites, strict=False):
        trips = _trips(label)
        unroll = checked.program.equations[at].parameters.get("unroll", 1) if trips is not None else 1
        unroll = unroll if isinstance(unroll, int) and not isinstance(unroll, bool) and unroll > 0 else 1
        if trips is None or trips == 1 or unroll == 1:
            found = [((*loops, *(() if trips == 1 else (trips,))), copies) for loops, copies in found]
            continue
        rounds, rest = (1, 0) if unroll >= trips else divmod(trips, unroll)
        inside = min(unroll, trips)
        grown = []
        for loops, copies in found:
            grown.append(((*loops, *((rounds,) if rounds != 1 else ())), copies * inside))
            if rest:
                grown.append((loops, copies * rest))
        found = grown
    return found


def _trips(label: str) -> int | None:
    """How often the inside of a construct runs each time that it is reached."""
    found = _TRIPS.match(label)
    return int(found[1]) if found is not None else None if label.startswith("while") else 1


class Surroundings:
    """What stands around a collective."""

    def __init__(self, charge: Charge, values: Values) -> None:
        self._charge = charge
        self._sites = charge.sites
        self.site = tuple((id(checked), at) for checked, at in charge.sites)
        subject = charge.collective.subject
        operands = charge.equation.inputs
        self._moved: Atom | None = operands[subject] if 0 <= subject < len(operands) else None
        read = operands if self._moved is None else (self._moved,)
        self.invariant, self.constant = self._through_loops({atom for atom in read if isinstance(atom, str)})
        self.source = values.results(self._sites) if self._moved is None else values.operand(self._sites, self._moved)
        moved = self._type(self._moved) if self._moved is not None else next(iter(charge.equation.types), None)
        volume = charge.collective.volume
        self.dtype = volume.dtype if volume is not None else moved.dtype if isinstance(moved, ArrayType) else ""
        self.masked = self._masked()
        self.spread = self._is_spread(self._moved)
        self.maker = self._maker()
        self.along = self._along()
        self.onward = Onward(charge)

    def _along(self) -> tuple[str, ...]:
        """The axes that the operands and results are cut along, or pending."""
        every = [self._type(atom) for atom in self._charge.equation.inputs] + [*self._charge.equation.types]
        arrays = [type for type in every if isinstance(type, ArrayType)]
        return tuple(sorted({axis for type in arrays for axes in (*type.axes, type.unreduced) for axis in axes}))

    def _maker(self) -> int | None:
        """The place of the equation that made the operand, in the same body."""
        checked, _ = self._sites[-1]
        places = (at for at, one in enumerate(checked.program.equations) if self._moved in one.binders)
        return next(places, None) if isinstance(self._moved, str) else None

    def _type(self, atom: Atom) -> Type | None:
        checked, _ = self._sites[-1]
        return _types(checked).get(atom) if isinstance(atom, str) else None

    def _masked(self) -> bool:
        """Whether the operand is pieces of a value that every device had: the result of a cast, which is free."""
        checked, atom = self._outside_of_branches(self._moved)
        maker = _makers(checked.program).get(atom) if isinstance(atom, str) else None
        if maker is None or maker.primitive not in ("reshard", "vary_unreduced_cast", "preduced") or not maker.inputs:
            return False
        before, after = _types(checked).get(maker.inputs[0]), maker.types[0]  # type: ignore[arg-type]
        if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
            return isinstance(maker.inputs[0], Literal)
        axes = {*self._charge.collective.axes}
        return axes <= {*after.unreduced} and axes.isdisjoint(before.unreduced)

    def _outside_of_branches(self, atom: Atom | None) -> tuple[Checked, Atom | None]:
        """A value, or what it is outside of the branches that are given it, and the body in which it is that."""
        for depth in range(len(self._sites) - 1, 0, -1):
            checked, _ = self._sites[depth]
            outer, at = self._sites[depth - 1]
            call, names = outer.program.equations[at], (*checked.program.constants, *checked.program.inputs)
            if call.primitive != "cond" or atom not in names:
                return checked, atom
            atom = call.inputs[names.index(atom) - len(names)]
        return self._sites[0][0], atom

    def _is_spread(self, atom: Atom | None) -> bool:
        """Whether a value is one number in many places, by the equations that made it. Where blocks are permuted, what
        is computed of such values, element by element, is one too (measured; what is gathered of it is gathered)."""
        program = self._sites[-1][0].program
        made = isinstance(atom, str) and any(atom in one.binders for one in program.equations)
        return made and _one_number(program, atom, self._charge.collective.kind == PERMUTE)

    def _through_loops(self, names: set[str]) -> tuple[int, bool]:
        """In how many loops, from the innermost on, all these values are the same each time; and whether no input of
        the whole program has a part in them."""
        count = 0
        for depth in range(len(self._sites) - 1, -1, -1):
            checked, _ = self._sites[depth]
            positions = _read_from(checked, names)
            if not positions:
                return sum(_trips(label) != 1 for label in self._charge.inside), True
            if depth == 0:
                break
            outer, at = self._sites[depth - 1]
            call, inner = outer.program.equations[at], inner_of(outer, at, checked)
            if inner is None or inner.label.startswith("while"):
                break
            places = {inner.operand(position, len(call.inputs)) for position in positions}
            if inner.carry is not None:
                if any(not 0 <= place < inner.carry[0] for place in places):
                    break
                count += _trips(inner.label) != 1
            names = {name for place in places if isinstance(name := call.inputs[place], str)}
        return count, False


_ADD: Final = frozenset({"add", "add_any"})


class Onward:
    """What becomes of a collective's result, through equations that only hand it on or add to it."""

    def __init__(self, charge: Charge) -> None:
        self._axes = {*charge.collective.axes}
        self._sites = charge.sites
        self.cut = False
        self.levels, self.stacked = 0, 1
        self.terms: set[object] = set()
        names = [*charge.equation.binders]
        if charge.collective.kind != "reduce-scatter" and any(self._is_cut(type) for type in charge.equation.types):
            return
        for depth in range(len(self._sites) - 1, -1, -1):
            names = self._outside(depth, self._in_body(depth, names))
            if not names:
                return

    def _is_cut(self, type: Type | None) -> bool:
        return isinstance(type, ArrayType) and self._axes <= {axis for dim in type.axes for axis in dim}

    def _hands_on(self, user: Equation, checked: Checked) -> bool:
        """Whether an equation gives all elements of its only operand; a sum over dims of size 1 does."""
        if len(user.inputs) != 1 or user.primitive not in (*_SAME, "reduce_sum"):
            return False
        before, after = _types(checked).get(str(user.inputs[0])), user.types[0]
        if user.primitive != "reduce_sum":
            return True
        if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
            return False
        return [size for size in before.shape if size != 1] == [size for size in after.shape if size != 1]

    def _in_body(self, depth: int, names: list[str]) -> dict[str, bool]:
        """The values that these become in a body, and whether a carry of it was added on the way."""
        checked, _ = self._sites[depth]
        way = tuple(at for _, at in self._sites[:depth])
        program = checked.program
        carried = {*program.inputs}
        found = dict.fromkeys(names, False)
        waiting = [*names]
        alone = {*names}
        users: dict[Atom, list[Equation]] = {}
        for one in program.equations:
            for atom in one.inputs:
                users.setdefault(atom, []).append(one)
        for name in waiting:  # grows while it is read
            for user in users.get(name, ()):
                added = user.primitive in _ADD
                self.cut = self.cut or any(self._is_cut(type) for type in user.types)
                if len(user.binders) != 1 or not (added or self._hands_on(user, checked)):
                    continue
                binder = user.binders[0]
                if name in alone and len(users[name]) == 1 and name not in program.outputs:
                    alone.add(binder)
                    if added:
                        self.terms.add((way, id(user)))
                summed = found[name] or (added and any(atom in carried for atom in user.inputs))
                if binder not in found:
                    waiting.append(binder)
                found[binder] = found.get(binder, False) or summed
        return found

    def _outside(self, depth: int, found: dict[str, bool]) -> list[str]:
        """What those become around the body, where they are its results."""
        checked, _ = self._sites[depth]
        places = [
            index for index, atom in enumerate(checked.program.outputs) if isinstance(atom, str) and atom in found
        ]
        if depth == 0 or not places:
            return []
        outer, at = self._sites[depth - 1]
        call, inner = outer.program.equations[at], inner_of(outer, at, checked)
        if inner is None or inner.label.startswith(("while", "branch")):
            return []
        if inner.carry is not None and inner.times != 1:
            count = inner.carry[1]
            stacks = [index for index in places if index >= count]
            sums = [index for index in places if index < count and found[str(checked.program.outputs[index])]]
            if bool(stacks) == bool(sums) or len(stacks) + len(sums) != len(places):
                return []
            self.levels += 1
            self.stacked *= (inner.times or 1) if stacks else 1
        return [call.binders[index] for index in places if index < len(call.binders) and call.binders[index] != "_"]


def _makers(program: Program) -> Mapping[str, Equation]:
    return {binder: one for one in program.equations for binder in one.binders if binder != "_"}


def _one_number(program: Program, atom: Atom | None, computed: bool) -> bool:
    """Whether a value of a body is one number in many places, whatever its inputs are, but for those that are numbers
    themselves. computed: also where it is computed of such values; then calls and choices are looked into too."""
    makers, types = _makers(program), typed_names(program)

    @cache
    def holds(atom: Atom) -> bool:
        type = types.get(atom) if isinstance(atom, str) else None
        if isinstance(atom, Literal) or (isinstance(type, ArrayType) and not type.shape):
            return True
        maker = makers.get(atom)
        if maker is None:
            return False
        if maker.primitive in _SPREADS or (computed and _computes_each(maker, types)):
            return all(map(holds, maker.inputs))
        inside = [inner for _, inner in bodies(maker.parameters)] if computed and maker.primitive in _ENTERED else []
        place = maker.binders.index(atom)
        return bool(inside) and all(_one_number(inner, inner.outputs[place], computed) for inner in inside)

    return atom is not None and holds(atom)


def _computes_each(equation: Equation, types: Mapping[str, Type | None]) -> bool:
    """Whether each element of the result is a function of one element of each operand."""
    declared = TABLE.get(equation.primitive)
    result = equation.types[0] if len(equation.types) == 1 else None
    operands = [atom if isinstance(atom, Literal) else types.get(atom) for atom in equation.inputs]
    if declared is None or not isinstance(result, ArrayType):
        return False
    given = [one for one in operands if isinstance(one, (ArrayType, Literal))]
    if len(given) != len(operands):
        return False
    return equation.primitive in _MOVES or Use.of(declared, equation.parameters, given, [result]).elementwise


def _types(checked: Checked) -> Mapping[str, Type | None]:
    program = checked.program
    found = dict(
        zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
    )
    for one in program.equations:
        found.update(zip(one.binders, one.types, strict=True))
    return found


def _read_from(checked: Checked, names: set[str]) -> set[int]:
    """The positions of the inputs (constants first) that values are made from."""
    makers = _makers(checked.program)
    inputs = {name: index for index, name in enumerate((*checked.program.constants, *checked.program.inputs))}
    waiting, seen = [*names], {*names}
    found: set[int] = set()
    for name in waiting:  # grows while it is read
        if name in inputs:
            found.add(inputs[name])
        elif name in makers:
            fresh = {atom for atom in makers[name].inputs if isinstance(atom, str)} - seen
            seen |= fresh
            waiting += fresh
    return found
