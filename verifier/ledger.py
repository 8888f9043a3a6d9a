"""The ledger of differences: where a JAX release differs from what is sound, each difference once, with its evidence.

`differences.toml` holds the entries. An entry covers cells of the matrix by *patterns*; a cell belongs to the first
entry, in the order of their numbers, of which a pattern fits it. Which side accepts follows from the entry's kind. An
entry that covers no cell of a release that it names is wrong: JAX has repaired it, or the entry never said it right.
By `devices` patterns it covers cells that both type alike, and that do not run right on devices; `says` then means how.
By `equations` patterns those that no sample call has: what goes wrong when a program is differentiated, or where a
region ends. From both a check knows what is well typed and goes wrong in JAX (`verifier.known`).
Likewise by `backward` patterns the functions whose derivative one side makes and the other does not, or otherwise, and
by `programs` patterns what drawn programs show.

What says that something is sound carries a proof, what says that it is not a counterexample: how they are read and
shown, proofs/evidence.md.

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
from typing import TYPE_CHECKING, Any, Final

from verifier.patterns import (
    BOTH,
    JAX,
    OURS,
    BackwardPattern,
    BadLedger,
    Difference,
    Pattern,
    ProgramPattern,
    backward_pattern,
    pattern,
    program_pattern,
)

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
WRONG: Final = ("wrong value", "wrong gradient")
"""Those that show in the values that a program leaves."""

FILES: Final = PATH.resolve().parents[1] / "proofs" / "differences"
"""The folder of the programs that reproduce the defects. An installed package comes without it."""

SOLVER, SEARCH, DEVICES = "solver", "search", "devices"
RUN_WRONG: Final = ("lowering", "partitioner")
"""The causes of what is typed right and runs wrong."""

MOST_CONVENTIONS: Final = 10
PENDING: Final = r"pending\b(?! (sum|max|min))|to be|todo\b|tbd\b"
"""How evidence begins that is still to be made, and is none."""


@dataclass(frozen=True)
class Proof:
    """What shows that something is sound: a program, of which every typing is proved. backward: with its backward pass,
    with respect to the inputs that `wrt` names (by default all that can change). rests: obligations of the theorems
    (`shardproof prove --list`) that it needs besides those that its constructs name themselves."""

    program: str
    backward: bool = False
    wrt: tuple[str, ...] = ()
    rests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counterexample:
    """What shows that something is not, in blocks of devices, and who finds it.

    SOLVER: of a program as JAX types it a typing is refuted (by a search, where the solver cannot look into a kernel).
    SEARCH: the program, run as JAX types it, reads back wrong. without: it moves something over axes over which JAX
    says that it moves nothing. tangents: what JAX says that its derivative is, of its inputs and as many directions;
    gradient: the same of a number that it computes, of its inputs.
    DEVICES: what is typed right runs wrong; the typing has the entry's proof, and real devices run its file.
    """

    by: str
    program: str = ""
    without: tuple[str, ...] = ()
    tangents: str = ""
    gradient: str = ""


@dataclass(frozen=True)
class Entry:
    """One difference: its number, what it is called, its kind and cause, the smallest program that shows it, the
    releases of JAX that have it, why the calculus says what it says, and the evidence. Of a defect besides: how it
    shows, the function of JAX at fault (`module:name`), the public functions that reach it, and the file that
    reproduces it. instead: where JAX refuses what is sound, how the same is written so that it takes it,
    by primitive: `code for code`, or words."""

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
    equations: tuple[Pattern, ...] = field(default=(), repr=False)
    proof: Proof | None = field(default=None, repr=False)
    counterexample: Counterexample | None = field(default=None, repr=False)
    instead: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def foreseen(self) -> tuple[Pattern, ...]:
        """The patterns of what both sides type alike, and what goes wrong, however it shows: on devices, or, where no
        sample call of the matrix can have it, in programs."""
        return (*(pattern for pattern in self.devices if pattern.says is None), *self.equations)

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

    def ends(self, difference: Difference) -> bool:
        """Whether, by the entry, the process ends where a cell that JAX types runs."""
        return any(pattern.dies and pattern.fits(difference, "") for pattern in self.devices)

    def explains(self, found: Comparison) -> bool:
        """Whether the entry covers a difference of backward programs."""
        return any(pattern.fits(found) for pattern in self.backward)

    def spoils(self, difference: Difference) -> bool:
        """Whether, by the entry, a cell that both sides type alike goes wrong on devices, however it shows."""
        return any(pattern.says is None and pattern.fits(difference, "") for pattern in self.devices)

    def shows(self, finding: Finding, large: bool = False) -> bool:
        """Whether the entry covers what was found in a drawn program. large: the program has not been made smaller, so
        that what it uses says nothing."""
        return any(pattern.fits(finding) for pattern in self.programs if not (large and pattern.looks))


_SIDES: Final = {UNSOUND: (JAX, BOTH), SOUND: (OURS,), CONVENTION: (JAX, OURS, BOTH), PAGE: (JAX, OURS, BOTH)}
_TEXTS: Final = ("title", "kind", "cause", "program", "because", "evidence")
_COVERING: Final = ("cells", "backward", "devices", "programs", "equations")
_SHOWING: Final = ("proof", "counterexample")
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
    unknown = table.keys() - {*_TEXTS, *_OF_A_DEFECT, "number", "versions", *_COVERING, *_SHOWING, "instead"}
    if unknown or table.get("number") != number:
        raise BadLedger(f"entry {number}: {', '.join(sorted(unknown)) or 'its number is another'}")
    if table["kind"] not in KINDS or table["cause"] not in CAUSES:
        raise BadLedger(f"entry {number} is of kind {table['kind']}, cause {table['cause']}")
    patterns = tuple(pattern(number, cells, _SIDES[table["kind"]]) for cells in table.get("cells", ()))
    backward = tuple(backward_pattern(number, said) for said in table.get("backward", ()))
    devices = tuple(pattern(number, ran, (BOTH,)) for ran in table.get("devices", ()))
    said = [table.get(name, "") for name in _OF_A_DEFECT]
    if any(said) and (not all(said) or said[0] not in DEFECTS or table["kind"] == CONVENTION):
        raise BadLedger(f"entry {number}: a defect has {', '.join(_OF_A_DEFECT)}, and is no convention")
    programs = tuple(program_pattern(number, held) for held in table.get("programs", ()))
    equations = tuple(pattern(number, held, (BOTH,)) for held in table.get("equations", ()))
    if any(pattern.says is not None for pattern in equations) or (equations and not said[0]):
        raise BadLedger(f"entry {number}: that equations go wrong is said of a defect, and without how")
    if not (patterns or backward or programs or any(said)) or not table.get("versions"):
        raise BadLedger(f"entry {number} covers no cells, or names no version")
    title, kind, cause, program, because, evidence = (table[name].strip() for name in _TEXTS)
    versions = tuple(table["versions"])
    instead = table.get("instead", {})
    if not isinstance(instead, dict) or (instead and table["kind"] != SOUND):
        raise BadLedger(f"entry {number}: instead says, by primitive, how what JAX refuses is written")
    covering = (patterns, backward, devices, *said, programs, equations, *_shown(number, table), instead)
    return Entry(number, title, kind, cause, program, versions, because, evidence, *covering)


def _shown(number: int, table: Mapping[str, Any]) -> tuple[Proof | None, Counterexample | None]:
    """What shows the entry. That something is sound has a proof; that it is not, a counterexample: a program, or the
    file that runs."""
    if re.match(PENDING, table["evidence"].strip(), re.IGNORECASE):
        raise BadLedger(f"entry {number}: evidence that is pending is none")
    proof, counterexample = table.get("proof"), table.get("counterexample")
    if proof is not None and (
        proof.keys() - {"program", "backward", "wrt", "rests"} or not isinstance(proof.get("program"), str)
    ):
        raise BadLedger(f"entry {number}: a proof has a program, and backward, wrt, rests")
    if table["kind"] == SOUND and proof is None:
        raise BadLedger(f"entry {number} says that something is sound, and has no proof")
    if table["kind"] == UNSOUND and counterexample is None:
        raise BadLedger(f"entry {number} says that something is unsound, and has no counterexample")
    if counterexample is not None and table["kind"] != UNSOUND:
        raise BadLedger(f"entry {number}: a counterexample is of what is unsound")
    return (
        None if proof is None else Proof(proof["program"].strip() + "\n", proof.get("backward", False),
                                         tuple(proof.get("wrt", ())), tuple(proof.get("rests", ()))),
        None if counterexample is None else _counterexample(number, table, counterexample),
    )  # fmt: skip


_SAID_OF: Final = {SOLVER: {"program"}, SEARCH: {"program", "without", "tangents", "gradient"}, DEVICES: set[str]()}


def _counterexample(number: int, table: Mapping[str, Any], said: Mapping[str, Any]) -> Counterexample:
    """Of what is typed right and runs wrong, what devices hold; of all else, a program."""
    by = said.get("by")
    if by not in _SAID_OF:
        raise BadLedger(f"entry {number}: a counterexample is found by {', '.join(_SAID_OF)}")
    if said.keys() - {"by"} - _SAID_OF[by] or isinstance(said.get("program"), str) != (by != DEVICES):
        raise BadLedger(f"entry {number}: a counterexample by {by} has {', '.join(sorted(_SAID_OF[by])) or 'no more'}")
    if by == DEVICES and not (table["cause"] in RUN_WRONG and table.get("proof") and table.get("file")):
        raise BadLedger(
            f"entry {number}: what devices alone show has a proof of its typing, a file, and {' or '.join(RUN_WRONG)} "
            "as its cause"
        )
    texts = [said[name].strip() + "\n" if said.get(name) else "" for name in ("program", "tangents", "gradient")]
    return Counterexample(by, texts[0], tuple(said.get("without", ())), *texts[1:])


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
