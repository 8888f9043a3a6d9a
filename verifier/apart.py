"""Collectives that devices may not reach together: with check_vma=False types do not say along which axes a choice, or
the end of a loop, varies. What can be seen is said: that it is made from a device's number, or from what is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from calculus.checking import Checked
from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_GATHER, ALL_REDUCE, BROADCAST
from calculus.effects import Charge, Inner
from calculus.parameters import names, sequence, spec
from calculus.programs import Atom, Equation

UNTRACKED = "shard_map (check_vma=False)"


def apart(charges: Iterable[Charge]) -> Iterator[tuple[Charge, str]]:
    """The collectives in a branch or loop which devices along their axes are seen to decide apart; with its label."""
    for charge in charges:
        if UNTRACKED in charge.inside and any(label.startswith(("branch", "while")) for label in charge.inside):
            label = _apart(charge)
            if label:
                yield charge, label


def _apart(charge: Charge) -> str:
    axes = {*charge.collective.axes}
    inside = False
    varying: set[Atom] = set()
    for (checked, at), label, (body, _) in zip(charge.sites, charge.inside, charge.sites[1:], strict=False):
        equation = checked.program.equations[at]
        given = (*body.program.constants, *body.program.inputs)
        if label == UNTRACKED:
            inside = True
            specs = [spec(item, "in_specs") for item in sequence(equation.parameters["in_specs"], "in_specs")]
            cut = [one is not None and any(axis in axes for dim in one.dims for axis in dim or ()) for one in specs]
            varying = {name for name, along in zip(given, cut, strict=False) if along}
            continue
        if not inside:
            continue
        varying = _spread(checked, varying, axes)
        inners = next((effect.inner for effect in checked.effects if effect.at == at), ())
        if equation.primitive == "cond" and equation.inputs[0] in varying:
            return label
        if equation.primitive == "while":
            condition = inners[0]
            decides = _spread(condition.body, _entered(condition, equation, varying), axes)
            if not decides.isdisjoint(condition.body.program.outputs):
                return label
        inner = next((one for one in inners if one.body is body), None)
        varying = set() if inner is None else _entered(inner, equation, varying)
    return ""


def _entered(inner: Inner, equation: Equation, varying: set[Atom]) -> set[Atom]:
    """What of a body's inputs varies as it is entered."""
    program, operands = inner.body.program, equation.inputs
    found: set[Atom] = set()
    for index, name in enumerate((*program.constants, *program.inputs)):
        place = inner.operand(index, len(operands))
        if 0 <= place < len(operands) and operands[place] in varying:
            found.add(name)
    return found


def _spread(checked: Checked, varying: set[Atom], axes: set[str]) -> set[Atom]:
    """What varies in a body along some axis: these inputs, devices' numbers, and what is made from either."""
    found = {*varying}
    for equation in checked.program.equations:
        row = COLLECTIVES.get(equation.primitive)
        along = {*names(equation.parameters[row.axes], row.axes)} if row is not None else set()
        if row is not None and not row.before:
            new = not along.isdisjoint(axes)
        elif row is not None and row.kind in (ALL_REDUCE, ALL_GATHER, BROADCAST) and axes <= along:
            new = False
        else:
            new = not found.isdisjoint(equation.inputs)
        if new:
            found |= {name for name in equation.binders if name != "_"}
    return found
