"""Our backward programs beside JAX's: of a function, the derivative that we derive from its program, and the one that
JAX makes, both checked and priced by our checker.

They agree if they communicate alike (kinds, axes, bytes, how often) and their results have the same types. Whether they
are the same program besides, names, order and dead code aside, `calculus.equivalence` says. Where they do not agree, an
entry of the ledger says which is right. The door to JAX is `verifier.with_jax.gradients`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from calculus.bodies import settle
from calculus.building import Workbench
from calculus.checking import Checker
from calculus.equivalence import difference
from calculus.gradients import gradient, vjp
from calculus.meshes import Mesh
from calculus.naming import tidy
from calculus.programs import Program
from calculus.refusals import Refused
from calculus.typed import typed
from calculus.types import Type, same
from verifier.cells import Refusal
from verifier.examine import examine
from verifier.ledger import KINDS, Entry, ledger
from verifier.patterns import BOTH, JAX, OURS
from verifier.report import count

if TYPE_CHECKING:
    from verifier.with_jax.gradients import Traced

Move: TypeAlias = "tuple[str, tuple[str, ...], int | None, str, bool]"
"""A collective: kind, mesh axes, payload bytes, how far they are known, and whether how often it runs depends on the
data. A program is a count of these: of how often each runs, all loops and calls taken together."""

MOST_SHOWN: Final = 20
"""The most unexplained programs that text shows; `--json` lists all."""


class Side(NamedTuple):
    """One of the two derivatives: what it communicates and the types of its results; or why there is none. objection:
    what our checker has against JAX's. retyped: of ours, whether JAX types the function itself otherwise."""

    moves: Counter[Move] = Counter()
    types: tuple[Type, ...] = ()
    program: Program | None = None
    refusal: Refusal | None = None
    objection: Refusal | None = None
    retyped: bool = False


class Comparison(NamedTuple):
    """Of one function. written: where the two programs differ, though they agree; empty where they are the same."""

    name: str
    ours: Side
    theirs: Side
    written: str = ""

    @property
    def accepts(self) -> str:
        """Who differentiates; empty where nobody does."""
        if self.ours.refusal:
            return "" if self.theirs.refusal else JAX
        return OURS if self.theirs.refusal else BOTH

    @property
    def alike(self) -> bool:
        """Whether both communicate alike and give the same types."""
        return self.ours.moves == self.theirs.moves and self.typed_alike

    @property
    def typed_alike(self) -> bool:
        """Whether both give the same types."""
        mine, theirs = self.ours.types, self.theirs.types
        return len(mine) == len(theirs) and all(map(same, mine, theirs))

    @property
    def agree(self) -> bool:
        """Whether nobody differentiates, or both do, and alike."""
        return not self.accepts or (self.accepts == BOTH and self.alike and self.theirs.objection is None)


@dataclass
class Agreement:
    """What a run finds. untraced: the functions that JAX itself refuses, with what it says. beside: texts that are not
    compared, and why. entries: those of the
    ledger that speak of this release. covered: the differences of each, by number. idle: entries that should cover
    programs, and cover none."""

    version: str
    entries: Sequence[Entry] = ()
    compared: list[Comparison] = field(default_factory=list)
    untraced: dict[str, str] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    covered: dict[int, list[Comparison]] = field(default_factory=dict)
    unexplained: list[Comparison] = field(default_factory=list)
    idle: list[Entry] = field(default_factory=list)
    seconds: float = 0.0

    def chosen(self, which: Callable[[Comparison], bool]) -> list[Comparison]:
        """The comparisons of which something holds."""
        return [one for one in self.compared if which(one)]

    @property
    def same(self) -> list[Comparison]:
        """Those that are the same program."""
        return self.chosen(lambda one: one.agree and bool(one.accepts) and not one.written)

    @property
    def otherwise(self) -> list[Comparison]:
        """Those that agree in communication and types, and are written otherwise."""
        return self.chosen(lambda one: one.agree and bool(one.written))

    @property
    def neither(self) -> list[Comparison]:
        """Those that neither side differentiates."""
        return self.chosen(lambda one: not one.accepts)


class UnknownProgram(ValueError):
    """A name that no program has. known: those that there are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.known = known


def compare(
    names: Sequence[str] = (),
    entries: Sequence[Entry] | None = None,
    progress: Callable[[str], None] = lambda name: None,
    meshes: Sequence[Mesh] = (),
) -> Agreement:
    """Compare. names: of programs or of rooms of them, texts (`FILE.jaxpr`, on `meshes` or those that they say), or
    targets (`package.module:factory`); without any, all.

    Opens the door to JAX. Raises `BadLedger`, `UnknownProgram`, and `BadFactory` for a target that leads nowhere.
    """
    from verifier.with_jax.backward_programs import chosen
    from verifier.with_jax.gradients import VERSION

    started = time.monotonic()
    every = ledger() if entries is None else entries
    speaking = [entry for entry in every if VERSION in entry.versions] or every
    found = Agreement(VERSION, speaking)
    for name, make in chosen(names, meshes):
        progress(name)
        answer = answered(name, make)
        if isinstance(answer, Comparison):
            found.compared.append(answer)
        else:
            kept, says = answer
            (found.beside if kept else found.untraced)[name] = says
    explain(found)
    if not names:
        found.idle = [entry for entry in speaking if entry.backward and not found.covered[entry.number]]
    found.seconds = time.monotonic() - started
    return found


def answered(name: str, make: Callable[[], Traced]) -> Comparison | tuple[bool, str]:
    """The comparison of one function; else whether it was left out by us, and not refused by JAX, and why. Raises
    `ImportError` and `OSError`."""
    from verifier.with_jax.python_values import Unwritten

    try:
        traced = make()
    except (ImportError, OSError):
        raise
    except Refused as refused:
        line = f"line {refused.refusal.line}: " if refused.refusal.line else ""
        return True, f"{line}{refused.refusal.code}: {refused.refusal.message}"
    except Unwritten as error:
        return True, f"JAX's Python for {error} is not written"
    except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
        return False, _said(error).message
    return compared(name, traced)


def explain(found: Agreement) -> None:
    """Say of every difference which entry covers it."""
    found.covered = {entry.number: [] for entry in found.entries}
    for one in found.compared:
        if not one.agree:
            entry = next((entry for entry in found.entries if entry.explains(one)), None)
            (found.unexplained if entry is None else found.covered[entry.number]).append(one)


def compared(name: str, traced: Traced) -> Comparison:
    """Compare the derivatives of one function."""
    ours = _ours(traced)
    try:
        theirs = _side(traced.derivative().program, traced.meshes)
    except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
        theirs = Side(refusal=_said(error))
    found = Comparison(name, ours, theirs)
    if found.alike and ours.program is not None and theirs.program is not None:
        return found._replace(written=difference(ours.program, theirs.program))
    return found


def _ours(traced: Traced) -> Side:
    """Our derivative. Where JAX has typed the function as we would not, its types are inferred from the inputs on."""
    forward = traced.forward.program
    refusal: Refusal | None = None
    for again in (False, True):
        program = traced.retyped() if again else forward
        checker = Checker(traced.meshes)
        try:
            checked = checker.check(program)
            if checker.refusals:
                first = checker.refusals[0][0]
                refusal = refusal or Refusal(first.code, f"in the function itself: {first.message}")
                continue
            made = (gradient if traced.scalar else vjp)(typed(checked), Workbench(checker), traced.wrt)
        except Refused as refused:
            refusal = refusal or Refusal(refused.refusal.code, refused.refusal.message)
            break
        found = _side(tidy(made).program, traced.meshes)
        return found._replace(retyped=again) if found.objection is None else Side(refusal=found.objection)
    return Side(refusal=refusal)


def _side(program: Program, meshes: Sequence[Mesh]) -> Side:
    examined = examine(program, Checker(meshes))
    moves: Counter[Move] = Counter()
    for one in examined.charges:
        moved = one.collective
        move = moved.kind, tuple(sorted(moved.axes)), moved.payload, moved.exactness, one.times is None
        moves[move] += 1 if one.times is None else one.times
    objections = [Refusal(refusal.code, refusal.message) for refusal in examined.refusals]
    found = examined.checked.types if examined.checked is not None else ()
    types = tuple(type for type in (settle(examined.checker, one, None) for one in found) if type is not None)
    return Side(moves, types, program, objection=objections[0] if objections else None)


def _said(error: Exception) -> Refusal:
    return Refusal(type(error).__name__, " ".join(str(error).split())[:400])


def _worded(refusal: Refusal | None) -> str:
    return "" if refusal is None else f"{refusal.code}: {refusal.message}"


def lines(found: Agreement) -> Iterator[str]:
    """The report as text."""
    same, otherwise = found.same, found.otherwise
    explained = sum(map(len, found.covered.values()))
    yield f"JAX {found.version}: derivatives of {count(len(found.compared), 'program')} in {found.seconds:.0f} seconds"
    yield f"  equal         {len(same) + len(otherwise):>7,}  in communication and types"
    yield f"    the same    {len(same):>7,}  program besides"
    yield f"    otherwise   {len(otherwise):>7,}  written"
    yield f"  neither       {len(found.neither):>7,}  side differentiates"
    yield f"  in the ledger {explained:>7,}"
    yield f"  unexplained   {len(found.unexplained):>7,}"
    for name, why in found.beside.items():
        yield f"  not compared: {name}: {why}"
    if found.untraced:
        yield f"  Besides, JAX refuses {count(len(found.untraced), 'function')} itself: there is nothing to derive."
    shown = [(entry, len(found.covered[entry.number])) for entry in found.entries if found.covered[entry.number]]
    if shown:
        yield ""
        yield "  entry  programs  kind                  difference"
    for entry, number in shown:
        yield f"  {entry.number:>5}  {number:>8,}  {KINDS[entry.kind]:<20}  {entry.title}"
    for entry in found.idle:
        yield ""
        yield f"  entry {entry.number} covers no program of JAX {found.version}: {entry.title}"
    if otherwise:
        yield ""
        yield "  written otherwise: " + "; ".join(one.name for one in otherwise[:MOST_SHOWN])
        if len(otherwise) > MOST_SHOWN:
            yield f"    and {len(otherwise) - MOST_SHOWN} more: --json lists all"
    for one in found.unexplained[:MOST_SHOWN]:
        yield ""
        yield from _shown(one)
    if len(found.unexplained) > MOST_SHOWN:
        yield f"\n  {count(len(found.unexplained) - MOST_SHOWN, 'more unexplained program')}: --json lists all"


def _shown(one: Comparison) -> Iterator[str]:
    yield f"  unexplained: {one.name}"
    for who, side, other in (("we", one.ours, one.theirs), ("JAX", one.theirs, one.ours)):
        if side.refusal is not None:
            yield f"    {who} refuse{'s' if who == 'JAX' else ''}: {_worded(side.refusal)}"
            continue
        if side.objection is not None:
            yield f"    {who}: our checker objects: {_worded(side.objection)}"
        for (kind, axes, size, known, _), times in sorted((side.moves - other.moves).items(), key=str):
            yield f"    {who} alone: {kind} over {', '.join(axes)}, {size} bytes ({known}), {times} more"
    if one.accepts == BOTH:
        for index, (mine, theirs) in enumerate(zip(one.ours.types, one.theirs.types, strict=False)):
            if not same(mine, theirs):
                yield f"    result {index}: we say {mine}, JAX {theirs}"


def as_data(found: Agreement) -> dict[str, Any]:
    """The report as plain data for `--json`."""
    return {
        "jax": found.version,
        "programs": len(found.compared),
        "equal": len(found.same) + len(found.otherwise),
        "same": [one.name for one in found.same],
        "otherwise": [one.name for one in found.otherwise],
        "neither": {
            one.name: {"ours": _worded(one.ours.refusal), "jax": _worded(one.theirs.refusal)} for one in found.neither
        },
        "untraced": found.untraced,
        "not compared": found.beside,
        "seconds": round(found.seconds, 1),
        "entries": [
            {
                "number": entry.number,
                "title": entry.title,
                "kind": entry.kind,
                "cause": entry.cause,
                "programs": [one.name for one in found.covered[entry.number]],
            }
            for entry in found.entries
            if entry.backward
        ],
        "idle": [entry.number for entry in found.idle],
        "unexplained": [{"program": one.name, "says": list(_shown(one))[1:]} for one in found.unexplained],
    }
