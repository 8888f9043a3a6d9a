"""Sums of equal copies: a collective that adds up, over devices, a value that is the same on all of them. Well typed
and legal; the sum is n times the value, and rarely what is meant: a gradient that is summed already, summed again, or
a bias that each device adds to its part of a sum.

What is the same along an axis: what is not typed as varying along it, what a cast or a gather has spread over it, and
what a primitive of the table makes from such values alone; into calls and loops, and out of them. Inside a shard_map
with check_vma=False no type says what varies: there only what is summed or gathered, what in_specs leave whole, and
what is made from such. A value that no input has a part in is a constant: its sum counts devices, and is meant, but for
one that is added to parts of a sum.

A mean of equal copies, their greatest and their least, give back the value: nothing is multiplied, and nothing gained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from calculus.checking import Checked
from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from calculus.effects import Charge, Inner
from calculus.parameters import Spec, names, spec
from calculus.primitives import TABLE
from calculus.programs import Atom, Equation, Literal
from calculus.types import ArrayType, Axes, Type

CONSTANT: Final = 0
GIVEN: Final = 1
SUMMED: Final = 2

_NONE: Final[frozenset[str]] = frozenset()
_SPREADS: Final = {"pvary": "axes", "reduced_vary_cast": "axes", "all_gather": "axis_name", "pbroadcast": "axis_name"}
_SUMS: Final = frozenset({
    "psum", "psum_invariant", "psum_invariant_start", "psum_start", "reduce_scatter", "psum_scatter",
})  # fmt: skip
_EQUAL: Final = frozenset({"psum", "psum_invariant", "pmax", "pmin", "all_gather", "all_gather_invariant"})
"""What gives every device the same, tracked or not."""
_EXTREMES: Final = frozenset({"pmax", "pmin"})
_GATHERS: Final = frozenset({"all_gather", "all_gather_invariant"})
_LINEAR: Final = frozenset({
    "neg", "convert_element_type", "reshape", "squeeze", "expand_dims", "transpose", "copy", "broadcast_in_dim",
    "pvary", "name",
})  # fmt: skip
"""What gives the sum of its results for the sum of its operands."""
_PARTS: Final = frozenset({"dot_general", "reduce_sum", "conv_general_dilated"})
_ROUNDS: Final = 8


class Same(NamedTuple):
    """A value that is the same on devices along some axes. source: `CONSTANT` where no input has a part in it, `SUMMED`
    where a collective has, else `GIVEN`."""

    axes: frozenset[str]
    source: int


_VARIES: Final = Same(_NONE, CONSTANT)


class Found(NamedTuple):
    """Copies that a collective meets. axes: those along which it adds them up. added: those along which it adds up the
    same value with parts of a sum. idle: those along which it averages them, takes their greatest or least, or gathers
    them. total: whether what it averages there is itself a sum over devices along them."""

    axes: Axes = ()
    added: Axes = ()
    idle: Axes = ()
    total: bool = False

    @property
    def multiplies(self) -> bool:
        """Whether a value comes out as many times as there are devices."""
        return bool(self.axes or self.added)


class _Frame(NamedTuple):
    """A body where it stands: in the body around it, as that of an equation there."""

    body: _Body
    around: _Frame | None = None
    equation: Equation | None = None
    inner: Inner | None = None


class Copies:
    """What is the same on every device in the bodies of one program, each looked through once for what it is given."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[object, ...], _Body] = {}

    def summed(self, charge: Charge) -> Found:
        """The copies that a collective meets, on the first of its ways on which it meets any; none for most."""
        kinds = {ALL_REDUCE: _SUMS | _EXTREMES, REDUCE_SCATTER: _SUMS, ALL_GATHER: _GATHERS}
        if charge.equation.primitive not in kinds.get(charge.collective.kind, ()):
            return Found()
        if charge.equation.parameters.get("axis_index_groups") is not None:
            return Found()
        return next(filter(any, (self._met(charge, way) for way in (charge.sites, *charge.others))), Found())

    def _met(self, charge: Charge, way: Sequence[tuple[Checked, int]]) -> Found:
        """The copies that it meets on one way to it. Where what it adds up was divided by the number of devices, or the
        sum is (a mean), nothing is multiplied."""
        equation, axes, group = charge.equation, charge.collective.axes, charge.collective.group
        summands = [atom for atom in equation.inputs if not isinstance(atom, Literal)]
        if charge.slot >= len(summands):
            return Found()
        frame, summand = self._reached(way), summands[charge.slot]
        found = frame.body.same(summand)
        copied = tuple(axis for axis in axes if axis in found.axes) if found.source != CONSTANT else ()
        whole = len(copied) == len(axes)
        if equation.primitive not in _SUMS:
            return Found(idle=axes if whole else ())
        added = () if copied else tuple(axis for axis in axes if self._adds_copies(frame, summand, axis, group))
        if not copied and not added:
            return Found()
        if not self._averages(frame, equation, charge.slot, summand, group):
            return Found(copied, added)
        if not whole or charge.collective.kind != ALL_REDUCE:
            return Found()
        return Found(idle=axes, total=self._is_total(frame, summand, axes))

    def _reached(self, sites: Sequence[tuple[Checked, int]]) -> _Frame:
        """The innermost body of a way, with what it is given there."""
        checked = sites[0][0]
        found = _Frame(self._body(checked, (_VARIES,) * _inputs(checked), tracked=True))
        for (outer, at), (checked, _) in itertools.pairwise(sites):
            inner = next(
                one for effect in outer.effects if effect.at == at for one in effect.inner if one.body is checked
            )
            found = self._entered(found, outer.program.equations[at], inner)
        return found

    def _entered(self, frame: _Frame, equation: Equation, inner: Inner) -> _Frame:
        return _Frame(self._inside(frame.body, equation, inner), frame, equation, inner)

    def _body(self, checked: Checked, given: tuple[Same, ...], tracked: bool) -> _Body:
        key = (id(checked), given, tracked)
        found = self._bodies.get(key)
        if found is None:
            found = self._bodies[key] = _Body(self, checked, given, tracked)
        return found

    def _inside(self, around: _Body, equation: Equation, inner: Inner) -> _Body:
        """A body inside an equation, with what it is given: in a loop, at every iteration."""
        count = _inputs(inner.body)
        if equation.primitive == "shard_map":
            tracked = equation.parameters.get("check_vma") is not False
            return self._body(inner.body, _entering(equation, count, tracked), tracked)
        places = [inner.operand(position, len(equation.inputs)) for position in range(count)]
        given = [
            around.same(equation.inputs[place]) if inner.offset <= place < len(equation.inputs) else _VARIES
            for place in places
        ]
        if inner.label.startswith("while"):  # conditions and bodies share carries: only constants are followed
            held = equation.parameters.get("cond_nconsts" if "condition" in inner.label else "body_nconsts")
            given = [same if isinstance(held, int) and at < held else _VARIES for at, same in enumerate(given)]
        elif inner.carry is not None:
            first, carried = inner.carry
            for _ in range(_ROUNDS):
                outputs = self._body(inner.body, tuple(given), around.tracked).outputs
                grown = [
                    _both((same, outputs[place - first])) if first <= place < first + carried else same
                    for place, same in zip(places, given, strict=True)
                ]
                if grown == given:
                    break
                given = grown
            else:
                given = [_VARIES if place >= first else same for place, same in zip(places, given, strict=True)]
        return self._body(inner.body, tuple(given), around.tracked)

    def results(self, around: _Body, equation: Equation, inners: Sequence[Inner]) -> Sequence[Same]:
        """What the results of an equation with bodies are; nothing is known of loops whose length the data decide, and
        of choices."""
        if len(inners) != 1 or inners[0].maybe or inners[0].every or inners[0].times is None:
            return [_VARIES] * len(equation.binders)
        if equation.primitive == "shard_map":
            return [_VARIES] * len(equation.binders)
        return self._inside(around, equation, inners[0]).outputs

    # --- what a value is made of ------------------------------------------------------------------------------------

    def _made(self, frame: _Frame, atom: Atom) -> tuple[_Frame, Atom, Equation | None]:
        """Where a value is made, and by which equation, into calls and out of them; by none, what a program, a region
        or a loop is given."""
        while isinstance(atom, str):
            maker = frame.body.made.get(atom)
            if maker is None:
                outside = _outside(frame, atom)
                if outside is None:
                    return frame, atom, None
                frame, atom = outside
                continue
            inners = frame.body.inners.get(id(maker), ())
            if len(inners) != 1 or not _called(maker, inners[0]):
                return frame, atom, maker
            frame, atom = self._entered(frame, maker, inners[0]), _result(maker, inners[0], atom)
        return frame, atom, None

    def _adds_copies(self, frame: _Frame, summand: Atom, axis: str, group: int | None) -> bool:
        """Whether a summand is a part of a sum (of a contraction, a reduction) plus a value that is the same along an
        axis: that value is added up too. What was divided by the number of devices is a share, and adds up to one."""
        found = self._terms(frame, summand, axis, group, _ROUNDS)
        return found is not None and any(parts and copies for parts, copies in found)

    def _terms(
        self, frame: _Frame, atom: Atom, axis: str, group: int | None, depth: int
    ) -> frozenset[tuple[bool, bool]] | None:
        """Of what a value is the sum: whether of parts, and whether of copies, on each way that it may be made; `None`
        where it is something else. depth: how many choices are followed into each other."""
        if axis in frame.body.same(atom).axes:
            counts = not self._vanishes(frame, atom) and not self._divided(frame, atom, group)
            return frozenset({(False, counts)})
        frame, atom, maker = self._made(frame, atom)
        if maker is None:
            return None
        same, inputs = frame.body.same, maker.inputs
        if axis in same(atom).axes:
            return self._terms(frame, atom, axis, group, depth)
        inners = frame.body.inners.get(id(maker), ())
        if maker.primitive == "cond" and isinstance(atom, str) and depth:
            ways: frozenset[tuple[bool, bool]] = frozenset()
            for inner in inners:
                entered = self._entered(frame, maker, inner)
                way = self._terms(entered, _result(maker, inner, atom), axis, group, depth - 1)
                if way is None:
                    return None
                ways |= way
            return ways
        if maker.primitive in ("add", "sub", "add_any"):
            first, *others = inputs
            less = maker.primitive == "sub"  # what was summed is taken away to centre the rest: that may be meant
            found = self._terms(frame, first, axis, group, depth)
            for one in others:
                if less and axis in same(one).axes:
                    continue
                more = self._terms(frame, one, axis, group, depth)
                found = None if found is None or more is None else _plus(found, more)
            return found
        if maker.primitive in _LINEAR or (maker.primitive in ("mul", "div") and axis in same(inputs[1]).axes):
            return self._terms(frame, inputs[0], axis, group, depth)
        if maker.primitive == "mul" and axis in same(inputs[0]).axes:
            return self._terms(frame, inputs[1], axis, group, depth)
        if maker.primitive in _PARTS and not any(axis in same(one).axes for one in inputs):
            return frozenset({(True, False)})
        return None

    def _vanishes(self, frame: _Frame, atom: Atom) -> bool:
        """Whether a value is a literal zero, everywhere."""
        while True:
            frame, atom, maker = self._made(frame, atom)
            if isinstance(atom, Literal):
                return _number(atom) == 0
            if maker is None or maker.primitive not in _LINEAR:
                return False
            atom = maker.inputs[0]

    def _divided(self, frame: _Frame, atom: Atom, group: int | None) -> bool:
        """Whether a value was divided by the number of devices."""
        while True:
            frame, atom, maker = self._made(frame, atom)
            if maker is None:
                return False
            if _divides(maker, group):
                return True
            others = [one for one in maker.inputs if not isinstance(one, Literal)]
            if len(others) != 1 or maker.primitive not in (*_LINEAR, "mul", "div", "reduce_sum"):
                return False
            atom = others[0]

    def _is_total(self, frame: _Frame, atom: Atom, axes: Axes) -> bool:
        """Whether a value is a sum over devices along these axes, as a gradient is that was summed already."""
        while True:
            frame, atom, maker = self._made(frame, atom)
            if maker is None:
                return False
            if maker.primitive in _SUMS:
                return set(axes) <= set(_along(maker))
            if maker.primitive not in _LINEAR:
                return False
            atom = maker.inputs[0]

    def _averages(self, frame: _Frame, equation: Equation, slot: int, summand: Atom, group: int | None) -> bool:
        """Whether a sum is a mean: its operand was divided by the number of devices, or all that reads it divides."""
        if self._divided(frame, summand, group):
            return True
        waiting = [(frame, equation.binders[slot if slot < len(equation.binders) else 0])]
        count = 0
        for where, name in waiting:  # grows while it is read
            program = where.body.program
            for at, output in enumerate(program.outputs):
                if output != name:
                    continue
                if where.around is None or where.equation is None or where.inner is None:
                    return False
                if not _called(where.equation, where.inner) or at >= len(where.equation.binders):
                    return False
                waiting.append((where.around, where.equation.binders[at]))
            for reader in program.equations:
                if name not in reader.inputs:
                    continue
                if reader.primitive in _LINEAR:
                    waiting.append((where, reader.binders[0]))
                elif not _divides(reader, group):
                    return False
                else:
                    count += 1
        return count > 0


class _Body:
    """One body, with what it is given. tracked: whether types say what varies."""

    def __init__(self, copies: Copies, checked: Checked, given: Sequence[Same], tracked: bool) -> None:
        program = checked.program
        self.tracked = tracked
        self.program = program
        self.made = {binder: equation for equation in program.equations for binder in equation.binders}
        self.inners = {id(program.equations[effect.at]): effect.inner for effect in checked.effects if effect.inner}
        inputs = (*program.constants, *program.inputs)
        types: dict[str, Type | None] = dict(zip(inputs, (*program.constant_types, *program.input_types), strict=True))
        self._everywhere = Same(checked.over, CONSTANT)
        self._found: dict[str, Same] = {
            name: self._typed(Same(same.axes, max(same.source, GIVEN)), types[name])
            for name, same in zip(inputs, given, strict=True)
        }
        for equation in program.equations:
            results = (
                copies.results(self, equation, self.inners[id(equation)])
                if id(equation) in self.inners
                else [self._result(equation)] * len(equation.binders)
            )
            for binder, type, same in zip(equation.binders, equation.types, results, strict=False):
                self._found[binder] = self._typed(same, type)
        self.outputs = [self.same(atom) for atom in program.outputs]

    def same(self, atom: Atom) -> Same:
        """Along which axes a value is the same."""
        return self._everywhere if isinstance(atom, Literal) else self._found.get(atom, _VARIES)

    def _typed(self, same: Same, type: Type | None) -> Same:
        """With what a value's type says."""
        if not self.tracked or not isinstance(type, ArrayType):
            return same
        return Same(same.axes | self._everywhere.axes.difference(type.varying, type.unreduced), same.source)

    def _result(self, equation: Equation) -> Same:
        operands = [self.same(atom) for atom in equation.inputs]
        both = _both(operands) if operands else self._everywhere
        name = equation.primitive
        grouped = equation.parameters.get("axis_index_groups") is not None
        if name in _SPREADS and not grouped:
            axes = names(equation.parameters[_SPREADS[name]], _SPREADS[name])
            return Same(
                both.axes.union(axes), SUMMED if name in COLLECTIVES and COLLECTIVES[name].kind else both.source
            )
        if name in _EQUAL and not grouped:
            return Same(both.axes.union(_along(equation)), SUMMED)
        if name in COLLECTIVES or "axis_name" in equation.parameters:
            return Same(_NONE if name == "axis_index" else both.axes.difference(_along(equation)), SUMMED)
        return both if name in TABLE and equation.cell is None else Same(_NONE, both.source)


def _divides(equation: Equation, group: int | None) -> bool:
    """Whether an equation divides by the number of devices; of a number that is not known, by any whole number."""
    by = next((atom for atom in reversed(equation.inputs) if isinstance(atom, Literal)), None)
    if by is None or equation.primitive not in ("div", "mul"):
        return False
    number = _number(by)
    if number is None:
        return False
    if equation.primitive == "mul":
        return group is not None and abs(number * group - 1) < 1e-6
    return equation.inputs[-1] is by and (number == group or (group is None and number.is_integer() and number > 1))


def _number(literal: Literal) -> float | None:
    try:
        return float(literal.text)
    except ValueError:
        return None


def _called(equation: Equation, inner: Inner) -> bool:
    """Whether a body is that of a call: it runs once, with the operands as its inputs."""
    once = inner.times == 1 and inner.carry is None and not inner.maybe and not inner.every
    same = len(inner.body.program.outputs) == len(equation.binders)
    return once and same and equation.primitive != "shard_map"


def _result(equation: Equation, inner: Inner, name: str) -> Atom:
    """What a body gives for a result of its equation."""
    return inner.body.program.outputs[equation.binders.index(name)]


def _outside(frame: _Frame, name: str) -> tuple[_Frame, Atom] | None:
    """What an input of a body is in the body around it; `None` for one that a region or a loop cuts or changes."""
    equation, inner, program = frame.equation, frame.inner, frame.body.program
    names = (*program.constants, *program.inputs)
    if frame.around is None or equation is None or inner is None or name not in names:
        return None
    if equation.primitive == "shard_map" or inner.label.startswith("while"):
        return None
    place = inner.operand(names.index(name), len(equation.inputs))
    changed = inner.carry is not None and place >= inner.carry[0]
    if changed or not inner.offset <= place < len(equation.inputs):
        return None
    return frame.around, equation.inputs[place]


def _plus(some: frozenset[tuple[bool, bool]], more: frozenset[tuple[bool, bool]]) -> frozenset[tuple[bool, bool]]:
    """The ways to make a sum of two, each made in its ways."""
    return frozenset((a or c, b or d) for a, b in some for c, d in more)


def _both(those: Iterable[Same]) -> Same:
    """What is made from these."""
    every = list(those)
    return Same(frozenset.intersection(*(one.axes for one in every)), max(one.source for one in every))


def _along(equation: Equation) -> Axes:
    """The axes that a collective is over."""
    for parameter in ("axes", "axis_name"):
        if parameter in equation.parameters:
            return names(equation.parameters[parameter], parameter)
    return ()


def _inputs(checked: Checked) -> int:
    return len(checked.program.constants) + len(checked.program.inputs)


def _entering(equation: Equation, count: int, tracked: bool) -> tuple[Same, ...]:
    """What a shard_map is given: where types do not say what varies, its specs do."""
    specs = equation.parameters.get("in_specs")
    if tracked or not isinstance(specs, tuple) or len(specs) != count:
        return (_VARIES,) * count
    manual = frozenset(names(equation.parameters["newly_manual_axes"], "newly_manual_axes"))
    asked = [spec(one, "in_specs") or Spec(()) for one in specs]
    return tuple(Same(manual.difference(one.unreduced, *(dim or () for dim in one.dims)), GIVEN) for one in asked)


__all__ = ["CONSTANT", "GIVEN", "SUMMED", "Copies", "Found", "Same"]
