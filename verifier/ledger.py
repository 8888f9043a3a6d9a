"""The ledger of differences: where a JAX release differs from what is sound, each difference once, with its evidence.

`differences.toml` holds the entries. An entry covers cells of the matrix by *patterns*; a cell belongs to the first
entry, in the order of their numbers, of which a pattern fits it. Which side accepts follows from the entry's kind. An
entry that covers no cell of a release that it names is wrong: JAX has repaired it, or the entry never said it right.
By `devices` patterns it covers cells that both type alike, and that do not run right on devices; `says` then means how.
Likewise by `backward` patterns the functions whose derivative one side makes and the other does not, or otherwise, and
by `programs` patterns what drawn programs show.

What is no convention is a defect. Its entry says how it shows, the function of JAX at fault, the public functions that
reach it, and the file in `proofs/differences` that reproduces it; then it may cover nothing, as what is typed right and
runs wrong.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from calculus.meshes import Mesh
from calculus.types import ArrayType, Type, same
from verifier.cells import Call, Cell, Refusal, Verdict

if TYPE_CHECKING:
    from verifier.backward_agreement import Comparison
    from verifier.findings import Finding

PATH: Final = Path(__file__).with_name("differences.toml")

UNSOUND, SOUND, CONVENTION, PAGE = "jax-accepts-unsound", "jax-refuses-sound", "convention", "page-differs"
KINDS: Final[Mapping[str, str]] = {
    UNSOUND: "JAX accepts, unsound",
    SOUND: "JAX refuses, sound",
    CONVENTION: "convention",
    PAGE: "the page differs from the release",
}
CAUSES: Final = ("typing rule", "lowering", "partitioner", "documentation")
DEFECTS: Final[Mapping[str, str]] = {
    "wrong value": "a value reads back wrong",
    "wrong gradient": "a gradient is wrong",
    "backward fails": "what is typed forward has no gradient",
    "crash": "what is typed ends in an error that nobody meant, or in none",
    "ill-typed accepted": "an ill-typed program is accepted",
    "documentation": "it does not do what its documentation says",
    "sound refused": "a sound program is refused",
}
"""How a defect shows."""

FILES: Final = PATH.resolve().parents[1] / "proofs" / "differences"
"""The folder of the programs that reproduce the defects. An installed package comes without it."""

MOST_CONVENTIONS: Final = 10
PENDING: Final = "pending"
"""What stands for evidence that is still to be made."""

ABOUT: Final = ("any", "some", "every", "target", "jax", "we")
"""What a condition of a pattern may be about, beside the number of an operand."""

JAX, OURS, BOTH = "jax", "ours", "both"
"""Who accepts: JAX alone, we alone, or both, each another type."""


class BadLedger(ValueError):
    """An entry that says something that no entry can say."""


@dataclass(frozen=True)
class Difference:
    """A cell on which the two sides differ."""

    call: Call
    mesh: Mesh
    cell: Cell
    ours: Verdict
    theirs: Verdict

    @property
    def modes(self) -> frozenset[str]:
        """The modes of the mesh: `explicit` or `manual`, or both, and then `partial` too."""
        found = frozenset(axis.mode.value for axis in self.mesh.axes)
        return found | {"partial"} if len(found) > 1 else found

    @property
    def accepts(self) -> str:
        """Who accepts."""
        if self.ours.types is None:
            return JAX
        return OURS if self.theirs.types is None else BOTH

    def __str__(self) -> str:
        return f"{self.call.name} {self.cell} on {self.mesh}: we say {self.ours}; JAX says {self.theirs}"


def agree(ours: Verdict, theirs: Verdict) -> bool:
    """Whether both refuse, or both give the same types."""
    if ours.types is None or theirs.types is None:
        return ours.types is theirs.types
    return len(ours.types) == len(theirs.types) and all(map(same, ours.types, theirs.types))


Conditions: TypeAlias = "tuple[tuple[int | str, frozenset[str]], ...]"


@dataclass(frozen=True)
class Pattern:
    """Which cells an entry covers: all of what is given must hold.

    primitives: their names. mode: that of an axis of the mesh, `explicit` or `manual`, or `partial` where it has axes
    of both. accepts: who accepts. says: a regular expression that is found in JAX's refusal (`class: message`). codes:
    codes of our refusal. target: whether a sharding is asked for.
    along: conditions `(what, states)` that hold together along one mesh axis, where `what` is an operand's number,
    `any` operand (or `some`, where another one is meant too), all that are in one state (`every`), the `target`, or the
    results as `jax` or as `we` type them; states are letters as types print
    them (`N`, `S`, `R`, `V`, `U`, `U_max`, `U_min`, and `U*` for the last three). beside: such conditions that hold
    together along another axis.
    """

    primitives: frozenset[str] | None = None
    mode: str | None = None
    accepts: frozenset[str] | None = None
    says: re.Pattern[str] | None = None
    codes: frozenset[str] | None = None
    target: bool | None = None
    along: Conditions = ()
    beside: Conditions = ()

    def fits(self, difference: Difference, ran: str | None = None) -> bool:
        """Whether a difference is of this pattern. ran: how a cell that both type alike ran; then `says` means that."""
        refusal, theirs = difference.ours.refusal, difference.theirs.refusal
        said = ran if ran is not None else f"{theirs.code}: {theirs.message}" if theirs is not None else None
        return (
            (self.primitives is None or difference.call.primitive in self.primitives)
            and (self.mode is None or self.mode in difference.modes)
            and (self.accepts is None or difference.accepts in self.accepts)
            and (self.codes is None or (refusal is not None and refusal.code in self.codes))
            and (self.target is None or (difference.cell.target is not None) is self.target)
            and (self.says is None or (said is not None and bool(self.says.search(said))))
            and self._placed(difference)
        )

    def _placed(self, difference: Difference) -> bool:
        axes = list(difference.mesh.by_name)
        if not self.along:
            return True
        return any(
            _holds(self.along, difference, axis)
            and (not self.beside or any(_holds(self.beside, difference, other) for other in axes if other != axis))
            for axis in axes
        )


def _holds(conditions: Conditions, difference: Difference, axis: str) -> bool:
    return all(states & _states(what, difference, axis) for what, states in conditions)


@dataclass(frozen=True)
class BackwardPattern:
    """Which differences of backward programs an entry covers: all of what is given must hold.

    accepts: who differentiates. says: a regular expression that is found in JAX's refusal (`class: message`), or in
    what our checker says of JAX's program (`code: message`). ours: one that is found in our own refusal. retyped:
    whether JAX types the function itself otherwise than we do. Where our checker objects to JAX's program, the two are
    alike besides; uncounted: but for what they communicate, of which there is no count where devices go different ways
    to it.
    """

    accepts: frozenset[str]
    says: re.Pattern[str] | None = None
    ours: re.Pattern[str] | None = None
    retyped: bool | None = None
    uncounted: bool = False

    def fits(self, found: Comparison) -> bool:
        """Whether two derivatives differ in this way."""
        ours, theirs = found.ours.refusal, found.theirs.refusal or found.theirs.objection
        alike = found.typed_alike if self.uncounted else found.alike
        return (
            found.accepts in self.accepts
            and _found(self.ours, ours)
            and (self.retyped is None or found.ours.retyped is self.retyped)
            and (found.theirs.objection is None or found.accepts != BOTH or alike)
            and _found(self.says, theirs)
        )


@dataclass(frozen=True)
class ProgramPattern:
    """Which findings in drawn programs an entry covers: all of what is given must hold.

    shows: what is found (`verifier.findings`). says: a regular expression that is found in what is said of it.
    primitives: of which the smallest program uses one at least; all: of which it uses each. single: whether an axis of
    the mesh has one device.
    """

    shows: frozenset[str]
    says: re.Pattern[str] | None = None
    primitives: frozenset[str] = frozenset()
    all: frozenset[str] = frozenset()
    single: bool | None = None

    def fits(self, finding: Finding) -> bool:
        """Whether a finding is of this pattern."""
        return (
            finding.shows in self.shows
            and (self.says is None or bool(self.says.search(finding.message)))
            and (not self.primitives or bool(self.primitives & finding.primitives))
            and self.all <= finding.primitives
            and self.single in (None, any(axis.size == 1 for axis in finding.mesh.axes))
        )


def _found(asked: re.Pattern[str] | None, refusal: Refusal | None) -> bool:
    """Whether what is asked for is found in a refusal."""
    return asked is None or (refusal is not None and bool(asked.search(f"{refusal.code}: {refusal.message}")))


def _states(what: int | str, difference: Difference, axis: str) -> frozenset[str]:
    """The states, along an axis, of what a condition is about. Of every operand, only one that all share."""
    if isinstance(what, int):
        return frozenset(letter(type, axis) for type in difference.cell.operands[what : what + 1])
    if what in ("any", "some"):
        return frozenset(letter(type, axis) for type in difference.cell.operands)
    if what == "every":
        found = {letter(type, axis) for type in difference.cell.operands}
        return frozenset(found if len(found) == 1 else ())
    types: Iterable[Type] = {
        "target": () if difference.cell.target is None else (difference.cell.target,),
        "jax": difference.theirs.types or (),
        "we": difference.ours.types or (),
    }[what]
    return frozenset(letter(type, axis) for type in types)


def letter(type: Type, axis: str) -> str:
    """The state of a type along an axis, as types print it."""
    if not isinstance(type, ArrayType):
        return ""
    if axis in type.unreduced and axis in type.reduced:
        return "UR"
    state = type.state(axis)
    return f"U_{type.kind}" if state == "U" and type.kind != "sum" else state


@dataclass(frozen=True)
class Entry:
    """One difference: its number, what it is called, its kind and cause, the smallest program that shows it, the
    releases of JAX that have it, why the calculus says what it says, and the evidence. Of a defect besides: how it
    shows, the function of JAX at fault (`module:name`), the public functions that reach it, and the file that
    reproduces it."""

    number: int
    title: str
    kind: str
    cause: str
    program: str
    versions: tuple[str, ...]
    because: str
    evidence: str
    patterns: tuple[Pattern, ...] = field(repr=False)
    backward: tuple[BackwardPattern, ...] = field(default=(), repr=False)
    devices: tuple[Pattern, ...] = field(default=(), repr=False)
    defect: str = ""
    function: str = ""
    reaches: str = ""
    file: str = ""
    programs: tuple[ProgramPattern, ...] = field(default=(), repr=False)

    @property
    def path(self) -> Path:
        """The program that reproduces a defect."""
        return FILES / self.file

    def covers(self, difference: Difference) -> bool:
        """Whether the entry covers a difference."""
        return any(pattern.fits(difference) for pattern in self.patterns)

    def runs_wrong(self, typed_alike: Difference, says: str) -> bool:
        """Whether the entry covers a cell that both sides type alike, and that does not run right. `says`: how."""
        return any(pattern.fits(typed_alike, says) for pattern in self.devices)

    def explains(self, found: Comparison) -> bool:
        """Whether the entry covers a difference of backward programs."""
        return any(pattern.fits(found) for pattern in self.backward)

    def spoils(self, difference: Difference) -> bool:
        """Whether, by the entry, a cell that both sides type alike goes wrong on devices, however it shows."""
        return any(pattern.says is None and pattern.fits(difference, "") for pattern in self.devices)

    def shows(self, finding: Finding) -> bool:
        """Whether the entry covers what was found in a drawn program."""
        return any(pattern.fits(finding) for pattern in self.programs)


_SIDES: Final = {UNSOUND: (JAX, BOTH), SOUND: (OURS,), CONVENTION: (JAX, OURS, BOTH), PAGE: (JAX, OURS, BOTH)}
_TEXTS: Final = ("title", "kind", "cause", "program", "because", "evidence")
_OF_A_DEFECT: Final = ("defect", "function", "reaches", "file")


@cache
def ledger(path: Path = PATH) -> tuple[Entry, ...]:
    """The entries, by number. Raises `BadLedger` where the file does not keep its own rules."""
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadLedger(f"{path.name}: {error}") from error
    entries = tuple(_entry(number, table) for number, table in enumerate(read.get("entry", ()), 1))
    conventions = sum(entry.kind == CONVENTION for entry in entries)
    if conventions > MOST_CONVENTIONS:
        raise BadLedger(f"{conventions} conventions, and {MOST_CONVENTIONS} are the most")
    return entries


def _entry(number: int, table: Mapping[str, Any]) -> Entry:
    for name in _TEXTS:
        if not isinstance(table.get(name), str) or not table[name].strip():
            raise BadLedger(f"entry {number} has no {name}")
    unknown = table.keys() - {*_TEXTS, *_OF_A_DEFECT, "number", "versions", "cells", "backward", "devices", "programs"}
    if unknown or table.get("number") != number:
        raise BadLedger(f"entry {number}: {', '.join(sorted(unknown)) or 'its number is another'}")
    if table["kind"] not in KINDS or table["cause"] not in CAUSES:
        raise BadLedger(f"entry {number} is of kind {table['kind']}, cause {table['cause']}")
    patterns = tuple(_pattern(number, cells, _SIDES[table["kind"]]) for cells in table.get("cells", ()))
    backward = tuple(_backward_pattern(number, said) for said in table.get("backward", ()))
    devices = tuple(_pattern(number, ran, (BOTH,)) for ran in table.get("devices", ()))
    said = [table.get(name, "") for name in _OF_A_DEFECT]
    if any(said) and (not all(said) or said[0] not in DEFECTS or table["kind"] == CONVENTION):
        raise BadLedger(f"entry {number}: a defect has {', '.join(_OF_A_DEFECT)}, and is no convention")
    programs = tuple(_program_pattern(number, held) for held in table.get("programs", ()))
    if not (patterns or backward or programs or any(said)) or not table.get("versions"):
        raise BadLedger(f"entry {number} covers no cells, or names no version")
    title, kind, cause, program, because, evidence = (table[name].strip() for name in _TEXTS)
    versions = tuple(table["versions"])
    covering = (patterns, backward, devices, *said, programs)
    return Entry(number, title, kind, cause, program, versions, because, evidence, *covering)


def _pattern(number: int, cells: Mapping[str, Any], sides: Sequence[str]) -> Pattern:
    known = {"primitives", "mode", "accepts", "says", "codes", "target", "along", "beside"}
    if not cells.keys() <= known:
        raise BadLedger(f"entry {number}: cells have no {', '.join(sorted(cells.keys() - known))}")
    accepts = frozenset(cells.get("accepts", sides))
    if not accepts <= set(sides):
        raise BadLedger(f"entry {number}: where {', '.join(sorted(accepts))} accepts, it is of another kind")
    along, beside = (_conditions(number, cells.get(name, {})) for name in ("along", "beside"))
    return Pattern(
        frozenset(cells["primitives"]) if "primitives" in cells else None,
        cells.get("mode"),
        accepts,
        re.compile(cells["says"]) if "says" in cells else None,
        frozenset(cells["codes"]) if "codes" in cells else None,
        cells.get("target"),
        along,
        beside,
    )


def _conditions(number: int, said: Mapping[str, str]) -> Conditions:
    found = tuple(
        (int(what) if what.lstrip("-").isdigit() else what, _letters(states)) for what, states in said.items()
    )
    if any(isinstance(what, str) and what not in ABOUT for what, _ in found):
        raise BadLedger(f"entry {number}: along {said}")
    return found


def _backward_pattern(number: int, said: Mapping[str, Any]) -> BackwardPattern:
    known = {"accepts", "says", "ours", "retyped", "uncounted"}
    if not said.keys() <= known or not set(said.get("accepts", ())) <= {JAX, OURS, BOTH} or len(said) < 2:
        raise BadLedger(f"entry {number}: backward programs have no {', '.join(sorted(said.keys() - known)) or 'side'}")
    says, ours = (re.compile(said[name]) if name in said else None for name in ("says", "ours"))
    accepts, uncounted = frozenset(said.get("accepts", ())), bool(said.get("uncounted"))
    return BackwardPattern(accepts, says, ours, said.get("retyped"), uncounted)


def _program_pattern(number: int, said: Mapping[str, Any]) -> ProgramPattern:
    if not said.keys() <= {"shows", "says", "primitives", "all", "single"} or not said.get("shows") or len(said) < 2:
        raise BadLedger(f"entry {number}: programs show what, and say or use what?")
    says = re.compile(said["says"]) if "says" in said else None
    some, each = (frozenset(said.get(name, ())) for name in ("primitives", "all"))
    return ProgramPattern(frozenset(said["shows"]), says, some, each, said.get("single"))


def _letters(states: str) -> frozenset[str]:
    return frozenset(
        one for state in states.split() for one in (("U", "U_max", "U_min") if state == "U*" else (state,))
    )


def assign(
    differences: Iterable[Difference], entries: Sequence[Entry]
) -> tuple[dict[int, list[Difference]], list[Difference]]:
    """The differences that each entry covers, by its number, and those that no entry covers."""
    covered: dict[int, list[Difference]] = {entry.number: [] for entry in entries}
    unexplained: list[Difference] = []
    for difference in differences:
        entry = next((entry for entry in entries if entry.covers(difference)), None)
        (unexplained if entry is None else covered[entry.number]).append(difference)
    return covered, unexplained
