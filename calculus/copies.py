"""Sums of equal copies: a collective that adds up, over devices, a value that is the same on all of them. Well typed
and legal; the sum is n times the value, and rarely what is meant: a gradient that is summed already, summed again, or
a bias that each device adds to its part of a sum.

What is the same along an axis: what is not typed as varying along it, what a cast or a gather has spread over it, and
what a primitive of the table makes from such values alone; into calls and loops, and out of them. Inside a shard_map
with check_vma=False no type says what varies: there only what is summed or gathered, what in_specs leave whole, and
what is made from such. A value that no input has a part in is a constant: its sum counts devices, and is meant.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from calculus.checking import Checked
from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_REDUCE, REDUCE_SCATTER
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
    """Copies that a collective adds up. axes: those along which its operand is the same. added: those along which it is
    the same value, added to parts of a sum."""

    axes: Axes
    added: Axes


class Copies:
    """What is the same on every device in the bodies of one program, each looked through once for what it is given."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[object, ...], _Body] = {}

    def summed(self, charge: Charge) -> Found:
        """The axes along which a collective adds up equal copies; none for most. Where what it adds up was divided by
        the number of devices, or the sum is (a mean), nothing is multiplied, and there are none."""
        equation = charge.equation
        if charge.collective.kind not in (ALL_REDUCE, REDUCE_SCATTER) or equation.primitive not in _SUMS:
            return Found((), ())
        summands = [atom for atom in equation.inputs if not isinstance(atom, Literal)]
        if charge.slot >= len(summands) or equation.parameters.get("axis_index_groups") is not None:
            return Found((), ())
        body = self._reached(charge.sites)
        summand, axes = summands[charge.slot], charge.collective.axes
        found = body.same(summand)
        copied = tuple(axis for axis in axes if axis in found.axes) if found.source != CONSTANT else ()
        added = (
            () if copied else tuple(axis for axis in axes if body.adds_copies(summand, axis, charge.collective.group))
        )
        if (copied or added) and body.averages(equation, charge.slot, summand, charge.collective.group):
            return Found((), ())
        return Found(copied, added)

    def _reached(self, sites: Sequence[tuple[Checked, int]]) -> _Body:
        """The innermost body of a way, with what it is given there."""
        checked = sites[0][0]
        found = self._body(checked, (_VARIES,) * _inputs(checked), tracked=True)
        for (outer, at), (checked, _) in itertools.pairwise(sites):
            inner = next(
                one for effect in outer.effects if effect.at == at for one in effect.inner if one.body is checked
            )
            found = self._inside(found, outer.program.equations[at], inner)
        return found

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


class _Body:
    """One body, with what it is given. tracked: whether types say what varies."""

    def __init__(self, copies: Copies, checked: Checked, given: Sequence[Same], tracked: bool) -> None:
        program = checked.program
        self.tracked = tracked
        self._program = program
        self._made = {binder: equation for equation in program.equations for binder in equation.binders}
        inputs = (*program.constants, *program.inputs)
        types: dict[str, Type | None] = dict(zip(inputs, (*program.constant_types, *program.input_types), strict=True))
        self._everywhere = Same(checked.over, CONSTANT)
        self._found: dict[str, Same] = {
            name: self._typed(Same(same.axes, max(same.source, GIVEN)), types[name])
            for name, same in zip(inputs, given, strict=True)
        }
        inners = {effect.at: effect.inner for effect in checked.effects if effect.inner}
        for at, equation in enumerate(program.equations):
            results = (
                copies.results(self, equation, inners[at])
                if at in inners
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

    def adds_copies(self, summand: Atom, axis: str, group: int | None) -> bool:
        """Whether a summand is a part of a sum (of a contraction, a reduction) plus a value that is the same along an
        axis: that value is added up too. What was divided by the number of devices is a share, and adds up to one."""
        parts = copies = False
        waiting = [summand]
        for atom in waiting:  # grows while it is read
            same = self.same(atom)
            if axis in same.axes:
                copies |= same.source != CONSTANT and not self._divided(atom, group)
                continue
            maker = self._made.get(atom) if isinstance(atom, str) else None
            if maker is None:
                return False
            if maker.primitive in ("add", "sub", "add_any"):
                first, *others = maker.inputs
                less = maker.primitive == "sub"  # what was summed is taken away to centre the rest: that may be meant
                waiting += [first, *(one for one in others if not (less and axis in self.same(one).axes))]
            elif maker.primitive in _LINEAR or (
                maker.primitive in ("mul", "div") and axis in self.same(maker.inputs[1]).axes
            ):
                waiting += maker.inputs[:1]
            elif maker.primitive == "mul" and axis in self.same(maker.inputs[0]).axes:
                waiting += maker.inputs[1:]
            elif maker.primitive in _PARTS and not any(axis in self.same(one).axes for one in maker.inputs):
                parts = True
            else:
                return False
        return parts and copies

    def _divided(self, atom: Atom, group: int | None) -> bool:
        """Whether a value was divided by the number of devices."""
        while isinstance(atom, str) and (maker := self._made.get(atom)) is not None:
            if _divides(maker, group):
                return True
            others = [one for one in maker.inputs if not isinstance(one, Literal)]
            if len(others) != 1 or maker.primitive not in (*_LINEAR, "mul", "div", "reduce_sum"):
                return False
            atom = others[0]
        return False

    def averages(self, equation: Equation, slot: int, summand: Atom, group: int | None) -> bool:
        """Whether a sum is a mean: its operand was divided by the number of devices, or all that reads it divides."""
        if self._divided(summand, group):
            return True
        waiting = [equation.binders[slot if slot < len(equation.binders) else 0]]
        if waiting[0] in self._program.outputs:
            return False
        count = 0
        for name in waiting:  # grows while it is read
            for reader in self._program.equations:
                if name not in reader.inputs:
                    continue
                if reader.primitive in _LINEAR and reader.binders[0] not in self._program.outputs:
                    waiting.append(reader.binders[0])
                elif not _divides(reader, group):
                    return False
                else:
                    count += 1
        return count > 0


def _divides(equation: Equation, group: int | None) -> bool:
    """Whether an equation divides by the number of devices; of a number that is not known, by any whole number."""
    by = next((atom for atom in reversed(equation.inputs) if isinstance(atom, Literal)), None)
    if by is None or equation.primitive not in ("div", "mul"):
        return False
    try:
        number = float(by.text)
    except ValueError:
        return False
    if equation.primitive == "mul":
        return group is not None and abs(number * group - 1) < 1e-6
    return equation.inputs[-1] is by and (number == group or (group is None and number.is_integer() and number > 1))


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
