"""Advice about a program: what its price is, and a program that computes the same at a lower one.

The solver proposes, and nothing that it says is believed: what is proposed is a program, which is typed by the checker,
differentiated, and priced as a whole, as the one that was handed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.effects import Charge, charges
from calculus.gradients import vjp
from calculus.meshes import AxisMode, Mesh
from calculus.naming import tidy
from calculus.programs import Document, Program
from calculus.refusals import Refused
from calculus.typed import typed
from calculus.types import Axes
from verifier.advising.cells import Cells
from verifier.advising.network import Network
from verifier.advising.rewriting import Rewritten, rewritten
from verifier.advising.solving import Unsolved
from verifier.advising.taken import Refusal, Taken
from verifier.advising.transposes import bound

SECONDS: Final = 12.0
"""How long the solver may think about one axis, or several at once, of this process's own time."""

BUSY: Final = 8.0
"""How many seconds may pass by the clock for one of this process's own, where others use the machine too."""

LEAST: Final = 0.005
"""The least share of the price that is worth to be written for."""

ROUNDS: Final = 12
"""How often it is asked again without what somebody else does not take."""


class WithoutPrice(ValueError):
    """A program whose price is not known: the sizes of its mesh are not."""


@dataclass(slots=True)
class Price:
    """What a program communicates, its backward pass included where it is differentiated. wire: bytes per device over
    all runs. payload: likewise, as reports show it. runs: how many collectives are run. unknown: whether some are not
    in the sums, because the data decide."""

    wire: float
    payload: int
    runs: int
    unknown: bool = False
    charges: list[Charge] = field(default_factory=list, repr=False)


@dataclass(slots=True)
class Advice:
    """before, after: the programs, and their prices. steps: what was
    rewritten along which axes. expected: the price that the solver saw, for each. refused: the cells that would make it
    cheaper, and that somebody else does not take. ideal: the wire bytes that it could have with those. proved: whether
    the solver is done, so that nothing is cheaper among what it was asked about."""

    program: Program
    changed: Program
    before: Price
    after: Price
    wrt: tuple[int, ...]
    steps: list[tuple[Axes, Rewritten]] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    ideal: float | None = None
    proved: bool = True

    @property
    def better(self) -> bool:
        """Whether it saves anything."""
        return self.after.wire < self.before.wire

    @property
    def document(self) -> Document:
        """The proposed program, in names that JAX would print."""
        return tidy(self.changed)


def priced(program: Program, meshes: Sequence[Mesh], wrt: Sequence[int] = ()) -> Price:
    """What a program communicates, and, with respect to some of its inputs, its backward pass. Raises `Refused` where
    one of the two is not well typed, `WithoutPrice` where a size is not known."""
    checker = Checker(meshes)
    checked = checker.check(program)
    if checker.refusals:
        raise Refused(checker.refusals[0][0])
    if wrt:
        whole = vjp(typed(checked), Workbench(checker), wrt)
        checker = Checker(meshes)
        checked = checker.check(whole)
        if checker.refusals:
            raise Refused(checker.refusals[0][0])
    found = charges(checked)
    price = Price(0.0, 0, 0, charges=found)
    for one in found:
        if one.collective.payload is None or one.collective.wire is None:
            if any(axis.size is None for axis in checker.scope.mesh.axes):
                raise WithoutPrice("the sizes of the mesh are not known")
            price.unknown = True
            continue
        price.unknown = price.unknown or one.times is None
        times = 1 if one.times is None else one.times
        price.wire += float(one.collective.wire) * times
        price.payload += one.collective.payload * times
        price.runs += times
    return price


def advise(
    program: Program, meshes: Sequence[Mesh], wrt: Sequence[int] = (), axes: Sequence[str] = (),
    taken: Taken | None = None, plain: bool = False, cut: bool = True,
    transposed: Callable[[int], bool] = lambda line: False, seconds: float = SECONDS,
    show: Callable[[str], None] = lambda what: None,
) -> Advice:  # fmt: skip
    """A cheaper program, along axes that are summed over together, then along one after the other. wrt: the inputs
    (constants aside) that it is differentiated in; none where the program is a whole step. axes: those to change; by
    default all that are explicit. taken: who else has a say. plain: whether only inputs, accumulators and results get
    other types, and all else those that follow. cut: see `Network`. transposed: which lines hold what JAX made of
    others. Raises `Refused` for a program that is not well typed, `WithoutPrice`, `network.TooLarge` and
    `NoSolver`."""
    checker = Checker(meshes)
    checked = checker.check(program)
    if checker.refusals:
        raise Refused(checker.refusals[0][0])
    mesh = checker.scope.mesh
    program = typed(checked)
    before = priced(program, meshes, wrt)
    found = Advice(program, program, before, before, tuple(wrt))
    wanted = axes or [axis.name for axis in mesh.axes if axis.mode is AxisMode.EXPLICIT and axis.size != 1]
    clocks = time.monotonic(), time.process_time()

    def allowed() -> float:
        passed, own = time.monotonic() - clocks[0], time.process_time() - clocks[1]
        return seconds * min(max(passed / own if own else 1.0, 1.0), BUSY)

    for those in (*_together(before.charges, wanted), *((axis,) for axis in wanted)):
        if all(any(axis in one.collective.axes for one in found.after.charges) for axis in those):
            _along(found, those, meshes, taken, plain, cut, transposed, allowed, show)
    return found


def _together(every: Sequence[Charge], wanted: Sequence[str]) -> list[Axes]:
    """The axes, several at once, that one equation communicates over: a batch that is cut along both."""
    over: dict[int, set[str]] = {}
    for one in every:
        over.setdefault(id(one.equation), set()).update(one.collective.axes)
    found = dict.fromkeys(tuple(axis for axis in wanted if axis in axes) for axes in over.values())
    return sorted((axes for axes in found if len(axes) > 1), key=len, reverse=True)


def further(first: Advice, then: Advice) -> Advice:
    """Advice about the program that other advice proposes, as advice about the one that was handed in."""
    ideal = [one for one in (first.ideal, then.ideal) if one is not None]
    refused = {one.cell: one for one in (*first.refused, *then.refused)}
    return Advice(
        first.program, then.changed, first.before, then.after, first.wrt, [*first.steps, *then.steps],
        [*first.expected, *then.expected], list(refused.values()), min(ideal) if ideal else None,
        then.proved,
    )  # fmt: skip


def _along(
    found: Advice, axes: Axes, meshes: Sequence[Mesh], taken: Taken | None, plain: bool, cut: bool,
    transposed: Callable[[int], bool], allowed: Callable[[], float],
    show: Callable[[str], None],
) -> None:  # fmt: skip
    """Change a program along one axis, or several at once, if that saves anything. allowed: how long the solver may
    think, by the clock."""
    cells = Cells(Checker(meshes), axes)
    axis = ", ".join(axes)
    ideal: float | None = None
    unwanted: dict[str, Refusal] = {}
    enough = found.after.wire * (1 - LEAST)
    for again in range(ROUNDS):
        show(f"along {axis}: which types values may have" + (f", without what was refused, {again}" if again else ""))
        network = Network(found.changed, cells, found.wrt, cut, plain)
        bound(network, transposed)
        show(f"along {axis}: solving for {len(network.model.prices):,} variables")
        try:
            values = network.model.solved(allowed(), enough)
        except Unsolved:  # what was found before is proposed
            network.model.proved, values = False, None
        found.proved = found.proved and network.model.proved
        if values is None:
            break
        made = rewritten(network, values)
        show(f"along {axis}: checking and pricing the proposal")
        price = priced(made.program, meshes, found.wrt)
        if price.wire > enough:
            break
        if taken is not None:
            show(f"along {axis}: asking JAX about what is new")
            refused = taken.refused(network, values, made.casts)
            if refused:
                ideal = price.wire if ideal is None else ideal
                unwanted.update({refusal.cell: refusal for refusal in refused.values()})
                cells.refused |= refused.keys()
                continue
        found.changed, found.after = made.program, price
        found.steps.append((axes, made))
        found.expected.append(sum(one * value for one, value in zip(network.model.prices, values, strict=True)))
        break
    found.refused += unwanted.values()
    if ideal is not None:
        found.ideal = found.after.wire if found.ideal is None else found.ideal
        found.ideal = min(found.ideal, ideal)
