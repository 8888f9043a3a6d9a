"""What is well typed, and rarely what is meant: warnings beside an explanation, each at the author's line.

copies-summed    a sum over devices of a value that is the same on all of them: it multiplies by their number
unused           a collective that is asked for, whose result nothing uses: no compiler runs it
in-a-loop        a sum in a loop that the types allow once, outside of it
reduced-lost     a value is cast to reduced, and cast back before it is used: its gradient is summed at each use
summed-apart     a replicated value has several uses, each of which sums its own part of the cotangent
untracked        check_vma=False around a gradient: no type says what varies, and a gradient may be wrong
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from calculus.checking import Checked
from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_REDUCE, REDUCE_SCATTER
from calculus.copies import Copies
from calculus.effects import Charge, Pricing
from calculus.programs import Atom, Equation
from calculus.types import ArrayType
from verifier.compiled.derived import Onward
from verifier.explaining.entries import BACKWARD, Entry
from verifier.explaining.facts import REPLICATED
from verifier.wording import Words

COPIES: Final = "copies-summed"
UNUSED: Final = "unused"
LOOP: Final = "in-a-loop"
LOST: Final = "reduced-lost"
APART: Final = "summed-apart"
UNTRACKED: Final = "untracked"

SUMS: Final = (ALL_REDUCE, REDUCE_SCATTER)


class Warned(NamedTuple):
    """A warning. code: one of those above. where: the author's line. says: what happens there. help: what to write."""

    code: str
    where: str
    says: str
    help: str = ""

    def data(self) -> dict[str, object]:
        """The warning as plain data."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.where}: {self.says}{f'; {self.help}' if self.help else ''} [{self.code}]"


def warnings(checked: Checked, words: Words, entries: Sequence[Entry], differentiated: bool) -> list[Warned]:
    """What there is to warn of in a forward program, or in a step with its gradient. checked: that program. entries:
    the rows of both passes. differentiated: whether there is a backward pass."""
    found = [*_copies(entries, words), *_in_loops(entries), *_apart(entries)]
    for body in _bodies(checked):
        found += _unused(body, words)
        found += _lost(body, words)
        found += _untracked(body, words) if differentiated else ()
    return list(dict.fromkeys(found))


def _copies(entries: Iterable[Entry], words: Words) -> Iterator[Warned]:
    copies = Copies()
    for one in entries:
        axes = copies.summed(one.charge)
        if axes:
            names = ", ".join(axes)
            group = one.group if axes == one.row.axes else None
            times = "by the number of devices" if group is None else f"by {group}"
            yield Warned(
                COPIES, one.row.where,
                f"{one.row.primitive} over {names} adds up equal copies: it multiplies {times}",
                "leave it out, or multiply, which needs no communication",
            )  # fmt: skip


def _in_loops(entries: Iterable[Entry]) -> Iterator[Warned]:
    """Of the backward pass, sums of a weight's gradient in each iteration; of the forward pass, sums that a loop only
    adds to what it carries, or stacks."""
    for one in entries:
        along = ", ".join(one.row.axes)
        if one.row.kind not in SUMS or not _loops(one.charge):
            continue
        fact = one.fact
        if fact is not None and fact.state == REPLICATED and fact.value:
            yield Warned(
                LOOP, one.row.where,
                f"the gradient of {fact.value} is summed over {along} in every iteration",
                f"cast it before the loop, jax.reshard({fact.value}, P(..., reduced={{{_quoted(one.row.axes)}}})): its "
                "gradient stays pending, and is summed once",
            )  # fmt: skip
        elif fact is None and Onward(one.charge).levels and _only_added(one.charge):
            yield Warned(
                LOOP, one.row.where,
                f"{one.row.primitive} finishes a sum over {along} in every iteration, and the loop only adds the "
                "results up, or stacks them",
                f"leave it pending in the loop, unreduced={{{_quoted(one.row.axes)}}}, and reshard it once, outside",
            )  # fmt: skip


def _apart(entries: Iterable[Entry]) -> Iterator[Warned]:
    """One value whose cotangent is summed at several uses, in a place where they could be added first."""
    uses: dict[tuple[object, ...], list[Entry]] = {}
    for one in entries:
        fact = one.fact
        if one.direction == BACKWARD and fact is not None and fact.state == REPLICATED and fact.use is not None:
            atom = fact.use.equation.inputs[fact.use.operand] if fact.use.operand is not None else None
            if isinstance(atom, str) and one.row.kind in SUMS:
                uses.setdefault((atom, fact.type, one.row.axes, one.row.inside), []).append(one)
    for (_, type, axes, _), those in uses.items():
        lines = {id(one.fact.use.equation) for one in those if one.fact is not None and one.fact.use is not None}
        if len(lines) > 1:
            assert isinstance(axes, tuple)
            name = next((one.fact.value for one in those if one.fact is not None and one.fact.value), "")
            what = f"{name} {type}".strip()
            yield Warned(
                APART, those[0].row.where,
                f"{what} is replicated along {', '.join(axes)} and has {len(lines)} uses, each of which sums its part "
                "of the cotangent over devices",
                f"cast it once, reduced={{{_quoted(axes)}}}: the parts are added where they are, and summed once",
            )  # fmt: skip


def _unused(body: Checked, words: Words) -> Iterator[Warned]:
    """Collectives of per-device code, and reshards, that communicate and whose results nothing uses."""
    asked = [effect for effect in body.effects if effect.collectives and not effect.inner]
    if not asked:
        return
    alive = Pricing().live(body, frozenset(range(len(body.program.outputs)))).equations
    for effect in asked:
        equation = body.program.equations[effect.at]
        if effect.at not in alive and equation.primitive in (*COLLECTIVES, "reshard"):
            kinds = ", ".join(dict.fromkeys(one.kind for one in effect.collectives))
            yield Warned(
                UNUSED, words.place(equation),
                f"nothing uses the result of {equation.primitive}, which is a {kinds}: no compiler runs it",
                "leave it out",
            )  # fmt: skip


def _lost(body: Checked, words: Words) -> Iterator[Warned]:
    """Casts from reduced back to replicated."""
    casts = [one for one in body.program.equations if one.primitive == "reshard" and isinstance(one.inputs[0], str)]
    if not casts:
        return
    asked = {one.inputs[0] for one in casts}
    types = {
        binder: type
        for one in body.program.equations
        if not asked.isdisjoint(one.binders)
        for binder, type in zip(one.binders, one.types, strict=True)
    }
    for equation in casts:
        before, after = types.get(str(equation.inputs[0])), equation.types[0]
        if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
            continue
        gone = [axis for axis in before.reduced if after.state(axis) == "N"]
        if gone:
            yield Warned(
                LOST, words.place(equation),
                f"what is reduced along {', '.join(gone)} is cast back to replicated: what uses it from here on sums "
                "its part of the gradient at each use, and where it was cast to reduced the sum is made once more",
                "use the reduced value",
            )  # fmt: skip


def _untracked(body: Checked, words: Words) -> Iterator[Warned]:
    for equation in body.program.equations:
        if equation.primitive == "shard_map" and equation.parameters.get("check_vma") is False:
            yield Warned(
                UNTRACKED, words.place(equation),
                "check_vma=False around what is differentiated: no type says what varies inside, every input that "
                "in_specs leave whole has its cotangent summed, needed or not, and the gradient may be wrong",
                "leave check_vma at True; shardproof run shows what devices hold",
            )  # fmt: skip


def _only_added(charge: Charge) -> bool:
    """Whether what a loop carries is read by nothing but the addition that a collective's result goes into, or the
    result is stacked."""
    body, at = charge.sites[-1]
    program = body.program
    readers: dict[Atom, list[Equation]] = {}
    for equation in program.equations:
        for atom in equation.inputs:
            readers.setdefault(atom, []).append(equation)
    name: Atom = program.equations[at].binders[0]
    while name not in program.outputs:
        following = readers.get(name, [])
        if len(following) != 1 or len(following[0].binders) != 1:
            return False
        (reader,) = following
        others = [atom for atom in reader.inputs if atom != name]
        if reader.primitive in ("add", "add_any") and any(len(readers[other]) > 1 for other in others):
            return False
        name = reader.binders[0]
    return name not in readers


def _bodies(checked: Checked) -> Iterator[Checked]:
    """A body and those inside it, each once."""
    seen: set[int] = set()
    waiting = [checked]
    for body in waiting:  # grows while it is read
        if id(body) not in seen:
            seen.add(id(body))
            yield body
            waiting += [inner.body for effect in body.effects for inner in effect.inner]


def _loops(charge: Charge) -> bool:
    return any(label.startswith(("scan", "while")) and not label.endswith(" x1") for label in charge.inside)


def _quoted(axes: Iterable[str]) -> str:
    return ", ".join(f"'{axis}'" for axis in axes)
