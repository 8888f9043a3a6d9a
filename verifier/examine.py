"""One examination of a document, whichever door it came in by: typed, priced, with what is to be said beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from calculus.checking import Checked, Checker
from calculus.communication import ALL_GATHER, COMPILER
from calculus.copies import Copies, Found
from calculus.effects import Charge, charges
from calculus.meshes import AxisMode
from calculus.programs import Equation, Program
from calculus.refusals import Refusal, Refused
from verifier.apart import apart
from verifier.report import Row, count, verdict_on


class Examined(NamedTuple):
    """What an examination leaves. checked: `None` where the program could not be walked. charges: κ, without the
    equations that were refused; none where the program is malformed."""

    checker: Checker
    checked: Checked | None
    charges: list[Charge]

    @property
    def refusals(self) -> list[Refusal]:
        """The refusals in the order in which they were found."""
        return [refusal for refusal, _ in self.checker.refusals]

    @property
    def assumed(self) -> int:
        """How much was trusted rather than checked."""
        return self.checker.assumptions + sum(self.checker.assumed.values())


def examine(program: Program, checker: Checker) -> Examined:
    """Check a whole program, and price it."""
    try:
        checked: Checked | None = checker.check(program)
    except Refused as refused:
        checker.refuse(refused.refusal, program)
        checked = None
    verdict = verdict_on(refusal for refusal, _ in checker.refusals)
    priced = charges(checked) if checked is not None and verdict != "malformed" else []
    return Examined(checker, checked, priced)


def row(charge: Charge, line: int, where: str = "", value: str = "", library: str = "", forward: str = "") -> Row:
    """A charge as a row of a report."""
    collective = charge.collective
    return Row(
        line, collective.kind, collective.axes, collective.payload, collective.wire, charge.times, charge.exactness,
        charge.equation.primitive, charge.inside, where, value, library, forward,
    )  # fmt: skip


def counted(refusals: Sequence[Refusal]) -> list[Refusal]:
    """Each thing is said once. An axis that no mesh has is said of the first type that mentions it; what is not
    modelled comes last, each primitive once, with the number of its equations."""
    found: list[Refusal] = []
    last: list[Refusal] = []
    same: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refusals:
        if refusal.code not in _SAID_ONCE:
            found.append(refusal)
            continue
        alike = same.setdefault((refusal.code, _SAID_ONCE[refusal.code](refusal)), [])
        if not alike:
            (last if refusal.code == "unmodelled-primitive" else found).append(refusal)
        alike.append(refusal)
    for (code, _), (first, *more) in same.items():
        if more:
            what = "equations" if code == "unmodelled-primitive" else "types"
            first.message = f"{first.message}: {1 + len(more)} {what}, this the first"
    return [*found, *last]


_SAID_ONCE: Final[dict[str, Callable[[Refusal], str]]] = {
    "unmodelled-primitive": lambda refusal: refusal.message,
    "unknown-axis": lambda refusal: refusal.help,
}
"""The codes of which one refusal stands for all that say the same."""


def idle(charge: Charge, found: Found) -> str:
    """What a collective does to equal copies that gains nothing, in words."""
    names, primitive = ", ".join(found.idle), charge.equation.primitive
    if primitive in ("pmax", "pmin"):
        return f"{primitive} over {names} takes the {'greatest' if primitive == 'pmax' else 'least'} of equal copies"
    if charge.collective.kind == ALL_GATHER:
        return f"{primitive} over {names} gathers equal copies, which a broadcast gives without communication"
    total = ", which is a sum over them already: this is no mean" if found.total else ""
    return f"{primitive} over {names} is a mean of equal copies: it gives back the value{total}"


def _summed(charge: Charge, found: Found, where: str) -> str:
    axes = found.axes or found.added or found.idle
    if found.idle:
        return f"{where}: {idle(charge, found)}"
    count = charge.collective.group if set(axes) == set(charge.collective.axes) else None
    names = ", ".join(axes)
    times = f"as many times the value as {names} has devices" if count is None else f"{count} times the value"
    if found.axes:
        what = f"{charge.equation.primitive} over {names} adds up equal copies"
        return f"{where}: {what}: {times} is the same, and needs no communication"
    what = f"{charge.equation.primitive} over {names} adds up parts of a sum, and equal copies of what is added to each"
    return f"{where}: {what}: {times} that is added"


def _waiting(charge: Charge, label: str, where: str) -> str:
    axes = ", ".join(charge.collective.axes)
    label = f"a {label}" if label.startswith("while") else label
    what = f"{charge.equation.primitive} over {axes} stands in {label}, which devices along {axes} may decide apart"
    return f"check_vma=False: {where}: {what}: those that enter wait for the others; run shows it"


def notes(examined: Examined, repair: Callable[[str], str], place: Callable[[Equation], str]) -> list[str]:
    """What a reader must know beside the verdict: what was assumed, what the compiler chooses, what has no price, what
    is summed though it is the same everywhere. `repair` says how the sizes of axes are given at the door at hand,
    `place` where an equation stands."""
    checker = examined.checker
    found: list[str] = []
    kernels = {name: number for name, number in sorted(checker.assumed.items()) if name != "_"}
    if kernels:
        shown = ", ".join(f"{name} ({number})" for name, number in kernels.items())
        found.append(f"assumed, not checked: the printed types of opaque kernels: {shown}")
    if "_" in checker.assumed:
        found.append(
            f"assumed: {count(checker.assumed['_'], 'use')} of a value printed as _, as others are, taken to be that "
            "of the last one that fits"
        )
    if checker.assumptions:
        found.append(
            f"check_vma=False: {count(checker.assumptions, 'claim')} that values lie along an axis as their types say, "
            "assumed and not checked"
        )
        found += dict.fromkeys(
            _waiting(charge, label, place(charge.equation))
            for charge, label in apart(() if checker.refusals else examined.charges)
        )
    copies = Copies()
    tracked = [charge for charge in examined.charges if "check_vma=False" not in str(charge.inside)]
    summed = [(charge, copies.summed(charge)) for charge in tracked]  # what a transpose sums elsewhere, nobody can help
    found += dict.fromkeys(_summed(charge, one, place(charge.equation)) for charge, one in summed if any(one))
    hidden = [axis.name for axis in checker.scope.mesh.axes if axis.mode is AxisMode.AUTO]
    chosen = {axis for one in examined.charges if one.collective.exactness == COMPILER for axis in one.collective.axes}
    hidden += sorted(chosen.difference(hidden))
    if hidden:
        found.append(f"along the auto axes {', '.join(hidden)} communication is {COMPILER}")
    unknown = [axis.name for axis in checker.scope.mesh.axes if axis.size is None]
    if unknown and any(None in (one.collective.payload, one.collective.wire) for one in examined.charges):
        sizes = ",".join(f"{name}=…" for name in unknown)
        found.append(f"sizes of {', '.join(unknown)} are not known, so bytes are not either: {repair(sizes)}")
    return found
