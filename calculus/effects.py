"""What a program communicates: the effects of its equations, dead ones left out, counted through loops and calls.

κ is a multiset of collectives with multiplicities. A body that is called from several places is counted once and
multiplied, so that the size of κ is bounded by the size of the text. Equations whose results nothing uses are typed and
not priced; the same value moved to the same place twice in one body is moved once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from calculus.communication import AT_MOST, EXACT, UNKNOWN, Collective
from calculus.copied import items_of, size_of
from calculus.pieces import Steps, taking
from calculus.programs import Atom, Equation

if TYPE_CHECKING:
    from calculus.checking import Checked

#: primitives that are kept for what they do, whatever becomes of their results
EFFECTFUL: Final = frozenset({
    "debug_callback", "debug_print", "io_callback", "check", "swap", "addupdate", "outside_call", "ffi_call",
    "pure_callback", "print", "assert", "rng_uniform", "run_state", "pallas_call", "core_call_effect",
    "psend", "precv",
})  # fmt: skip

#: those of them that are kept themselves: the others compute something, and JAX drops them where nothing reads it
_KEPT: Final = EFFECTFUL - {"pure_callback", "rng_uniform"}

#: those that a body is kept for: what they do is seen outside of it
_SEEN: Final = EFFECTFUL - {"ffi_call", "pure_callback", "rng_uniform", "run_state", "pallas_call"}

#: beyond these, paths into a body are told apart no longer: a text of n lines must not have 2^n rows
MOST_ROWS: Final = 4096
MOST_USES: Final = 64


class Inner(NamedTuple):
    """A body inside an equation. times: how often it runs, `None` where the data decide. label: what the reader calls
    it. carry: for a loop, the first operand that is a carry, and the number of carries. maybe: it may not run at all,
    or do with less. every: all its results count as used. offset: the first of the equation's operands that is an input
    of it. without: the operands after it that are none, where others stand between. until: for a while loop, its
    condition, of the body and of itself."""

    body: Checked
    times: int | None
    label: str
    carry: tuple[int, int] | None = None
    maybe: bool = False
    every: bool = False
    offset: int = 0
    without: range = range(0)
    until: Checked | None = None

    def operand(self, position: int, count: int) -> int:
        """Which of the equation's `count` operands the body's input at a position is (constants first); below
        `offset` for a constant that the body carries along."""
        program = self.body.program
        given = count - self.offset - len(self.without)
        held = len(program.constants) if given == len(program.inputs) else 0
        place = position - held + self.offset
        return place + len(self.without) if place >= self.without.start else place


class Effect(NamedTuple):
    """What one equation (by its place in the body) communicates itself, and the bodies inside it."""

    at: int
    collectives: tuple[Collective, ...]
    inner: tuple[Inner, ...]


@dataclass(slots=True)
class Charge:
    """One row of κ: a collective, where it stands, how often it runs (`None` where the data decide), and the
    constructs around it, outermost first.

    sites: the way to it, as bodies with the place of an equation in each, outermost first. slot: which of its
    equation's collectives it is. others: other ways to it, while there are few, where one body is entered from several
    places.
    """

    sites: tuple[tuple[Checked, int], ...]
    collective: Collective
    times: int | None
    inside: tuple[str, ...] = ()
    exactness: str = EXACT
    slot: int = 0
    others: tuple[tuple[tuple[Checked, int], ...], ...] = ()
    _equation: Equation | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def equation(self) -> Equation:
        """The equation that communicates."""
        if self._equation is None:
            checked, at = self.sites[-1]
            self._equation = checked.program.equation(at)
        return self._equation


def charges(checked: Checked, apart: bool = False) -> list[Charge]:
    """κ of a whole program, in the order of the text. apart: with a row for every way into a body, while there are few,
    instead of one with all its times."""
    return Pricing(apart).body(checked, frozenset(range(len(checked.program.outputs))))


class _Live(NamedTuple):
    """The equations that some used result needs, the inputs (constants first) that they read, and all names needed."""

    equations: AbstractSet[int]
    reads: frozenset[int]
    needed: AbstractSet[Atom]


class _InCopies(NamedTuple):
    """The equations of a copy that some used result needs, and what gives all that is needed, of the copy's values."""

    equations: Sequence[int]
    values: Callable[[tuple[Atom, ...]], tuple[Atom, ...]]


class Pricing:
    """The charges of bodies, and what of them is alive, each found once."""

    def __init__(self, apart: bool = False) -> None:
        self._apart = apart
        self._priced: dict[tuple[int, frozenset[int]], list[Charge]] = {}
        self._live: dict[tuple[int, frozenset[int]], _Live] = {}
        self._silent: dict[int, bool] = {}
        self._effectful: dict[int, bool] = {}
        self._ways: dict[int, set[frozenset[int]]] = {}
        self._copies: dict[tuple[Any, ...], _InCopies] = {}

    def body(self, checked: Checked, used: frozenset[int]) -> list[Charge]:
        """The charges of a body of which these results are used."""
        used = self._bounded(checked, used)
        found = self._priced.get((id(checked), used))
        if found is None:
            found = [] if self.silent(checked) else self._price(checked, used)
            self._priced[id(checked), used] = found
        return found

    def _bounded(self, checked: Checked, used: frozenset[int]) -> frozenset[int]:
        """A body that is used in very many ways counts as used entirely in all others: the work stays linear."""
        ways = self._ways.setdefault(id(checked), set())
        if used in ways:
            return used
        if len(ways) < MOST_USES:
            ways.add(used)
            return used
        return frozenset(range(len(checked.program.outputs)))

    def silent(self, checked: Checked) -> bool:
        """Whether the body and all bodies inside it communicate nothing, dead or alive."""
        found = self._silent.get(id(checked))
        if found is None:
            found = self._silent[id(checked)] = all(map(self._says_nothing, checked.effects))
        return found

    def _says_nothing(self, effect: Effect) -> bool:
        return not effect.collectives and all(self.silent(inner.body) for inner in effect.inner)

    def effectful(self, checked: Checked) -> bool:
        """Whether the body, or one inside it, does what is seen outside, whatever becomes of its results."""
        found = self._effectful.get(id(checked))
        if found is None:
            inner_of = {effect.at: effect.inner for effect in checked.effects if effect.inner}
            found = self._effectful[id(checked)] = any(
                any(self.effectful(inner.body) for inner in inner_of[at])
                if at in inner_of
                else equation.primitive in _SEEN or not equation.binders
                for at, equation in enumerate(checked.program.equations)
            )
        return found

    def _price(self, checked: Checked, used: frozenset[int]) -> list[Charge]:
        first = next((effect.at for effect in checked.effects if not self._says_nothing(effect)), 0)
        alive, _, needed = self._find_live(checked, used, first)  # what stands before costs nothing, dead or alive
        program = checked.program
        rows: dict[tuple[object, ...], Charge] = {}
        moved: dict[tuple[object, ...], Charge] = {}
        for effect in checked.effects:
            if effect.at not in alive:
                continue
            equation = program.equation(effect.at)
            site = (checked, effect.at)
            idle = self._idle(effect, equation, needed) if effect.inner and effect.collectives else ()
            for slot, collective in enumerate(effect.collectives):
                if slot in idle:
                    continue
                charge = Charge((site,), collective, 1, (), collective.exactness, slot)
                subject = equation.inputs[collective.subject] if collective.subject >= 0 else "_"
                if subject != "_" and collective.goal is not None:  # several values are called _
                    move = (subject, collective.kind, collective.axes, collective.payload, collective.goal)
                    before = moved.setdefault(move, charge)
                    if before is not charge:  # moved already, unless a partitioner does something else here
                        before.exactness = charge.exactness if before.exactness == EXACT else before.exactness
                        continue
                self._add(rows, charge)
            for inner in effect.inner:
                if inner.times == 0:  # a branch that is never taken
                    continue
                wanted = wanted_of(self, inner, equation.inputs, equation.binders, needed)
                for charge in self.body(inner.body, wanted):
                    times = None if charge.times is None or inner.times is None else charge.times * inner.times
                    exactness = AT_MOST if inner.maybe and charge.exactness == EXACT else charge.exactness
                    inside = (inner.label, *charge.inside)
                    sites = (site, *charge.sites)
                    others = tuple((site, *way) for way in charge.others)
                    self._add(rows, Charge(sites, charge.collective, times, inside, exactness, charge.slot, others))
        return list(rows.values())

    def _add(self, rows: dict[tuple[object, ...], Charge], charge: Charge) -> None:
        """Add a charge; the same collective at the same place adds up."""
        key: tuple[object, ...] = (charge.equation, charge.slot, charge.collective, charge.exactness)
        if len(rows) >= MOST_ROWS:
            charge.inside = ("several paths",)
        elif self._apart:
            key = (*key, *(at for _, at in charge.sites))
        key = (*key, charge.inside, charge.times is None)
        found = rows.get(key)
        if found is None:
            rows[key] = charge
            return
        if len(found.others) < MOST_USES:
            found.others = (*found.others, charge.sites, *charge.others)[:MOST_USES]
        if found.times is not None and charge.times is not None:
            found.times += charge.times

    def _idle(self, effect: Effect, equation: Equation, needed: AbstractSet[Atom]) -> frozenset[int]:
        """The collectives of a call (`calculus.handovers`) that move operands which its body does not read for its used
        results, or results that are not used."""
        if equation.parameters.keys().isdisjoint(("in_shardings", "out_shardings")):
            return frozenset()
        binders = equation.binders
        read = self._needed_by(effect.inner, equation.inputs, binders, needed)
        subjects = [(slot, one.subject) for slot, one in enumerate(effect.collectives) if one.kind != UNKNOWN]
        return frozenset(
            slot
            for slot, subject in subjects
            if (equation.inputs[subject] not in read if subject >= 0 else binders[-1 - subject] not in needed)
        )

    def live(self, checked: Checked, used: frozenset[int]) -> _Live:
        """What the used results of a body need."""
        used = self._bounded(checked, used)
        found = self._live.get((id(checked), used))
        if found is None:
            found = self._live[id(checked), used] = self._find_live(checked, used)
        return found

    def _find_live(self, checked: Checked, used: frozenset[int], first: int = 0) -> _Live:
        """The same, of the equations from a place on; then `reads` is not to be relied on."""
        program = checked.program
        inner_of = {effect.at: effect.inner for effect in checked.effects if effect.inner}
        needed: set[Atom] = {atom for index, atom in enumerate(program.outputs) if index in used}
        alive: set[int] = set()
        holding = sorted(inner_of)
        end = size_of(program)
        for item in reversed(items_of(program)):
            if end <= first:
                break
            if isinstance(item, Equation):
                end -= 1
                self._see(end, item.primitive, item.inputs, item.binders, inner_of.get(end), needed, alive)
                continue
            start = end - len(item)
            places = holding[bisect_left(holding, start) : bisect_left(holding, end)]
            inners = tuple([(place - start, inner_of[place]) for place in places])
            wanted = bytes(map(needed.__contains__, item.names))
            found = self._copies.get((item.steps, wanted, inners))
            if found is None:
                found = self._copies[item.steps, wanted, inners] = self._in_copies(item.steps, wanted, inners)
            alive.update(map(start.__add__, found.equations))
            needed.update(found.values(item.values))
            end = start
        inputs = (*program.constants, *program.inputs)
        reads = frozenset(index for index, name in enumerate(inputs) if name in needed)
        return _Live(alive, reads, needed)

    def _see(
        self, index: int, primitive: str, inputs: Sequence[Any], binders: Sequence[Any],
        inners: tuple[Inner, ...] | None, needed: set[Any], alive: set[int],
    ) -> None:  # fmt: skip
        """Whether an equation is alive, given what those after it need; then it is put in, and what it needs."""
        if (
            needed.isdisjoint(binders)
            and binders
            and primitive not in _KEPT
            and not (inners and any(self.effectful(inner.body) for inner in inners))
        ):
            return
        alive.add(index)
        needed.update(self._needed_by(inners, inputs, binders, needed) if inners else inputs)

    def _in_copies(self, steps: Steps, wanted: bytes, inners: tuple[tuple[int, tuple[Inner, ...]], ...]) -> _InCopies:
        """The same of a whole copy, by places instead of names: of all copies of a piece of which the same is wanted
        and which hold the same bodies."""
        needed = {steps.given + place for place, one in enumerate(wanted) if one}
        alive: set[int] = set()
        bodies = dict(inners)
        for at in range(len(steps.steps) - 1, -1, -1):
            one = steps.steps[at]
            binders = range(steps.given + steps.starts[at], steps.given + steps.starts[at + 1])
            self._see(at, one.primitive, one.places, binders, bodies.get(at), needed, alive)
        return _InCopies(sorted(alive), taking(sorted(needed)))

    def _needed_by(
        self, inners: Iterable[Inner], inputs: Sequence[Atom], binders: Sequence[str], needed: AbstractSet[Atom]
    ) -> set[Atom]:
        """The operands that the used results of an equation with bodies need, by name or by place."""
        used: set[Atom] = set()
        for inner in inners:
            if inner.every:
                used.update(self._ever_read(inner, inputs, binders, needed))
                continue
            used.update(inputs[: inner.offset])
            if inner.times == 0:  # a branch that is never taken
                continue
            wanted = wanted_of(self, inner, inputs, binders, needed)
            read = {inner.operand(position, len(inputs)) for position in self.live(inner.body, wanted).reads}
            if inner.carry is not None:  # a loop that does not run gives what it begins with
                first, count = inner.carry
                read.update(first + index for index in wanted if index < count)
            used.update(atom for index, atom in enumerate(inputs) if index in read)
        return used

    def _ever_read(
        self, inner: Inner, inputs: Sequence[Atom], binders: Sequence[str], needed: AbstractSet[Atom]
    ) -> Iterator[Atom]:
        """The operands of a body all of whose results count as used: without what is carried, never read, and not used
        afterwards. What is carried stands last, among the operands and among the body's inputs."""
        held = len(inputs) - len(binders)
        yield from inputs[: max(held, 0)]
        names = len(inner.body.program.constants) + len(inner.body.program.inputs)
        reads = self.live(inner.body, frozenset(range(len(inner.body.program.outputs)))).reads
        carried = {position - names + len(inputs) for position in reads}
        for index in range(max(held, 0), len(inputs)):
            if index in carried or held < 0 or binders[index - held] in needed:
                yield inputs[index]


def wanted_of(
    pricing: Pricing, inner: Inner, inputs: Sequence[Atom], binders: Sequence[str], needed: AbstractSet[Atom]
) -> frozenset[int]:
    """The results of a body that are used: those whose binders are, and, in a loop, the carries that feed them, or that
    decide whether there is another iteration: what that decides is not theirs alone, whatever it is computed from."""
    if inner.every or inner.until is inner.body:
        return frozenset(range(len(inner.body.program.outputs)))
    wanted = frozenset(index for index, name in enumerate(binders) if name in needed)
    if inner.carry is None:
        return wanted
    first, count = inner.carry
    if inner.until is not None:
        names = len(inner.until.program.constants) + len(inner.until.program.inputs)
        asked = (position - names + count for position in pricing.live(inner.until, frozenset((0,))).reads)
        wanted |= {index for index in asked if index >= 0}  # carries stand last
    for _ in range(MOST_USES):
        reads = pricing.live(inner.body, wanted).reads
        carried = (inner.operand(position, len(inputs)) - first for position in reads)
        grown = wanted | {index for index in carried if 0 <= index < count}
        if grown == wanted:
            return wanted
        wanted = grown
    return frozenset(range(len(inner.body.program.outputs)))  # more than it needs, after long enough
