"""The engines that run the blocks of a section, and what each finds wrong.

Each block language has one function. It says which engines asserted something, and every way in which the document and
the project disagree. Nothing is asserted about a section by an engine that is not in what its blocks return.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from calculus.equivalence import difference
from calculus.gradients import gradient, jvp, vjp
from calculus.meshes import Mesh
from calculus.programs import Atom, Program
from calculus.refusals import CATALOGUE, Family, Refusal, Refused
from grammar.fast import read_fast
from grammar.leaves import Odd
from grammar.meshes import parse_meshes
from grammar.parse import parse_document
from grammar.print import print_document
from grammar.read import read
from tests.spec.document import Block, Said, Section
from verifier.backward import Derive, UnknownInput, derive
from verifier.cli import main
from verifier.report import Row
from verifier.texts import check_text

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "corpus"


@dataclass(slots=True)
class Outcome:
    """Which engines asserted something, and what is wrong: a document's line (0 for the block) with a sentence each.
    lacking: the engines that would have, and the module that is not installed."""

    ran: set[str] = field(default_factory=set)
    lacking: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def need(self, holds: bool, line: int, sentence: str) -> None:
        """Record a problem unless it holds."""
        if not holds:
            self.problems.append((line, sentence))


def run_section(section: Section) -> Outcome:
    """Run every block of a section."""
    found = Outcome()
    for block in section.blocks:
        runner = LANGUAGES.get(block.language)
        if runner is None:
            known = ", ".join(LANGUAGES)
            found.problems.append((block.line, f"no engine runs a block of {block.language}; one of {known} does"))
            continue
        unknown = sorted(set(block.options) - OPTIONS[block.language])
        found.need(not unknown, block.line, f"a block of {block.language} has no option {', '.join(unknown)}")
        outcome = runner(block, section)
        found.ran |= outcome.ran
        found.lacking |= outcome.lacking
        found.problems += ((line or block.line, sentence) for line, sentence in outcome.problems)
    return found


# --- programs ---------------------------------------------------------------------------------------------------------

REFUSAL: Final = re.compile(rf"({'|'.join(family.value for family in Family)}): ([\w-]+)(?:, (\w+)(?: (\w+))?)?")
COLLECTIVE: Final = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|all-to-all|collective-(?:permute|broadcast)|unknown) ([\w,]+) "
    r"(\d+|\?) bytes(?: x(\d+|\?))?(?:, wire (\d+(?:/\d+)?))?(?: \((.+)\))?"
)
_TOTAL: Final = re.compile(r"(\d+) bytes in all")


@dataclass(slots=True)
class _Expected:
    """What a program's comments say, sorted by what they are about."""

    refusals: list[tuple[Said, re.Match[str]]] = field(default_factory=list)
    collectives: list[tuple[Said, re.Match[str]]] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    notes: list[Said] = field(default_factory=list)
    silent: bool = False


def jaxpr(block: Block, section: Section) -> Outcome:
    """A program: both readers give one term, it prints as it stands, and its refusals and collectives are exactly those
    that the comments list."""
    found = Outcome()
    expected = _expectations(block, found)
    malformed = any(match[2] in ("syntax", "too-deep", "not-text") for _, match in expected.refusals)
    if not malformed:
        _round_trip(block, found, {match[2] for _, match in expected.refusals})
    golden = block.options.get("printed")
    if golden is not None:
        text = (GOLDEN / f"{golden}.jaxpr").read_text(encoding="utf-8")
        found.need(_trimmed(block.text) == _trimmed(text), 0, f"the program is not what JAX printed as {golden}")
    report = check_text(block.text, _meshes(block), block.options.get("file", "the block"))
    found.ran.add("P" if malformed else "T")
    _compare_refusals(report.refusals, expected, found)
    if expected.collectives or expected.silent or expected.totals:
        found.ran.add("C")
    _compare_collectives(report.communication, expected, found)
    for how, make in DERIVED.items():
        if how in block.options:
            found.ran.add("G")
            found.need(*_derived(block, section, how, make))
    for total in expected.totals:
        found.need(report.payload == total, 0, f"{report.payload} bytes in all, not {total}")
    for note in expected.notes:
        wanted = note.text.removeprefix("note: ")
        found.need(any(wanted in said for said in report.notes), note.written, f"no note says this: {report.notes}")
    return found


DERIVED: Final[dict[str, Derive]] = {"gradient": gradient, "vjp": vjp, "jvp": jvp}
"""How a program is derived from another, by the option that names the other."""


def _derived(block: Block, section: Section, how: str, make: Derive) -> tuple[bool, int, str]:
    """Engine G. Whether a block is what is derived from the section's program with this name, up to what
    `calculus.equivalence` passes over. The block may leave out the results of that program, which come first."""
    file = block.options[how]
    source = next((one for one in section.blocks if one.options.get("file") == file), None)
    if source is None:
        return False, 0, f"no program of the section is called {file}"
    wrt = block.options.get("wrt")
    try:
        derived = derive(source.text, _meshes(source), file, make, None if wrt is None else wrt.split(","))
    except UnknownInput as error:
        return False, 0, str(error)
    if not derived.text:
        report = derived.backward or derived.forward
        return False, 0, f"{file} has no {how}: {[refusal.message for refusal in report.refusals]}"
    found, primal, wanted = read(derived.text).program, read(source.text).program, read(block.text).program
    own = len(primal.outputs)
    parts = [(found, wanted)]
    if how == "gradient" and len(wanted.outputs) == own + len(found.outputs):
        parts = [(primal, _ending(wanted, wanted.outputs[:own])),
                 (found, _ending(wanted, wanted.outputs[own:]))]  # fmt: skip
    elif how != "gradient" and own + len(wanted.outputs) == len(found.outputs):
        parts = [(_ending(found, found.outputs[own:]), wanted)]
    unlike = "".join(difference(*pair) for pair in parts)
    return not unlike, 0, f"the program is not the {how} of {file}: {unlike}"


def _ending(program: Program, outputs: tuple[Atom, ...]) -> Program:
    """A program that gives back these results instead."""
    one = program
    return Program(one.constants, one.constant_types, one.inputs, one.input_types, one.equations, outputs)


def _expectations(block: Block, found: Outcome) -> _Expected:
    expected = _Expected()
    for said in block.said:
        refusal, collective = REFUSAL.fullmatch(said.text), COLLECTIVE.fullmatch(said.text)
        total = _TOTAL.fullmatch(said.text)
        if refusal is not None and said.line:
            expected.refusals.append((said, refusal))
            family = CATALOGUE[refusal[2]][0].value if refusal[2] in CATALOGUE else "no"
            found.need(family == refusal[1], said.written, f"{refusal[2]} is of {family} family, not {refusal[1]}")
        elif collective is not None and said.line:
            expected.collectives.append((said, collective))
        elif said.text == "no communication" and not said.line:
            expected.silent = True
        elif total is not None and not said.line:
            expected.totals.append(int(total[1]))
        elif said.text.startswith("note: ") and not said.line:
            expected.notes.append(said)
        elif said.text != "well typed" or said.line:
            found.problems.append((said.written, f"this expectation does not read here: {said.text!r}"))
    contradicts = (expected.silent and expected.collectives) or (
        expected.refusals and (expected.silent or expected.collectives)
    )
    found.need(not contradicts, 0, "the expectations contradict each other")
    if any(said.text == "well typed" for said in block.said):
        found.need(not expected.refusals, 0, "a program that is well typed has no refusals")
    return expected


def _round_trip(block: Block, found: Outcome, codes: set[str]) -> None:
    """Engine P. Blanks at the ends of lines are not compared: an editor may remove them. Where the readers refuse the
    text by one of the codes, there is nothing to print."""
    found.ran.add("P")
    try:
        normative = parse_document(block.text)
    except Refused as refused:
        refusal = refused.refusal
        if refusal.code in codes:
            return
        where = f"line {refusal.line} of the block, column {refusal.column}"
        found.problems.append((0, f"the grammar does not read this: {where}: {refusal.message}"))
        return
    try:
        found.need(read_fast(block.text) == normative, 0, "the fast reader and the grammar read different terms")
    except (Odd, Refused):
        found.problems.append((0, "the fast reader does not take this: write it as JAX lays it out"))
    printed = _trimmed(print_document(normative))
    if printed != _trimmed(block.text):
        pairs = zip([*block.text.splitlines(), ""], [*printed.splitlines(), ""], strict=False)
        differ = ((n, *pair) for n, pair in enumerate(pairs, 1) if pair[0].rstrip() != pair[1].rstrip())
        line, mine, theirs = next(differ)
        found.problems.append((0, f"printed, line {line} of the block reads {theirs!r}, not {mine!r}"))


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def _meshes(block: Block) -> list[Mesh]:
    text = block.options.get("mesh")
    return parse_meshes(text) if text else []


def _compare_refusals(refusals: Sequence[Refusal], expected: _Expected, found: Outcome) -> None:
    """Every refusal is expected and every expectation is a refusal, one for one."""
    open_ = list(expected.refusals)
    for refusal in refusals:
        for position, (said, match) in enumerate(open_):
            if said.line == refusal.line and match[2] == refusal.code and _at(refusal, match):
                del open_[position]
                break
        else:
            place = " ".join(str(part) for part in (refusal.place.part, refusal.place.name or refusal.place.index))
            text = f"{refusal.family.value}: {refusal.code}, {place}"
            found.problems.append((0, f"not expected: line {refusal.line} of the block: {text}: {refusal.message}"))
    found.problems += ((said.written, f"not refused: {said.text}") for said, _ in open_)


def _at(refusal: Refusal, match: re.Match[str]) -> bool:
    place = refusal.place
    return (match[3] is None or match[3] == place.part) and match[4] in (None, str(place.index), place.name)


def _compare_collectives(rows: Sequence[Row], expected: _Expected, found: Outcome) -> None:
    open_ = list(expected.collectives)
    for row in rows:
        for position, (said, match) in enumerate(open_):
            if said.line == row.line and _matches(row, match):
                del open_[position]
                break
        else:
            found.problems.append((0, f"not expected: line {row.line} of the block: {_described(row)}"))
    found.problems += ((said.written, f"no such collective: {said.text}") for said, _ in open_)


def _matches(row: Row, match: re.Match[str]) -> bool:
    kind, axes, payload, times, wire, exactness = match.groups()
    return (
        (row.kind, row.axes, row.exactness) == (kind, tuple(axes.split(",")), exactness or "exact")
        and _shown(row.bytes) == payload
        and _shown(row.times) == (times or "1")
        and (wire is None or row.wire_bytes == Fraction(wire))
    )


def _described(row: Row) -> str:
    times = "" if row.times == 1 else f" x{_shown(row.times)}"
    exactness = "" if row.exactness == "exact" else f" ({row.exactness})"
    wire = "" if row.wire_bytes is None else f", wire {Fraction(row.wire_bytes)}"
    return f"{row.kind} {','.join(row.axes)} {_shown(row.bytes)} bytes{times}{wire}{exactness}"


def _shown(number: int | None) -> str:
    return "?" if number is None else str(number)


# --- types and the command line ---------------------------------------------------------------------------------------


def types(block: Block, section: Section) -> Outcome:
    """Types, one a line: see `tests.spec.type_lines`."""
    from tests.spec.type_lines import run_lines

    found = Outcome()
    meshes = _meshes(block)
    if len(meshes) != 1:
        found.problems.append((0, "a block of types names one mesh"))
        return found
    run_lines(block, meshes[0], found.ran, found.problems)
    return found


_EXIT: Final = re.compile(r"\[exit (\d)\]")


def console(block: Block, section: Section) -> Outcome:
    """What the command prints, and how it exits. The files are the section's programs that have a `file` option."""
    found = Outcome()
    found.need(not block.said, 0, "a console block has no expectations beside what it shows")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for other in section.blocks:
            if other.language == "jaxpr" and "file" in other.options:
                Path(folder, other.options["file"]).write_text(other.text, encoding="utf-8")
        for line, command, shown in _commands(block, found):
            words = shlex.split(command)
            if words[:1] != ["shardproof"]:
                found.problems.append((line, f"only shardproof is run here, not {command!r}"))
                continue
            found.ran.add("U")
            result = CliRunner().invoke(main, words[1:], prog_name="shardproof", catch_exceptions=False)
            lines = [text.rstrip() for text in result.output.rstrip().splitlines()]
            if result.exit_code:
                lines.append(f"[exit {result.exit_code}]")
            if lines != shown:
                found.problems.append((line, "the command prints\n" + "\n".join(f"      {text}" for text in lines)))
    return found


def _commands(block: Block, found: Outcome) -> Iterator[tuple[int, str, list[str]]]:
    """Each command with the document's line and the lines that it should print, `[exit 1]` among them."""
    commands: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            commands.append((number, line[2:], []))
        elif commands:
            commands[-1][2].append(line.rstrip())
        else:
            found.problems.append((number, "output before the first command"))
    for number, command, shown in commands:
        while shown and not shown[-1]:
            shown.pop()
        end = _EXIT.fullmatch(shown[-1]) if shown else None
        if end is not None:  # blank lines before the exit status are for the eye
            while len(shown) > 1 and not shown[-2]:
                del shown[-2]
        yield number, command, shown


def run(block: Block, section: Section) -> Outcome:
    """Runs of a program of the section: see `tests.spec.runs`."""
    from tests.spec.runs import run_lines

    found = Outcome()
    name = block.options.get("file", "")
    program = next((one for one in section.blocks if one.language == "jaxpr" and one.options.get("file") == name), None)
    if program is None:
        found.need(False, 0, f"no program of the section is called {name!r}")
        return found
    found.ran.add("X")
    run_lines(block, program, found.need)
    return found


def shown(block: Block, section: Section) -> Outcome:
    """Text for the reader: a picture, a derivation, a function. Nothing runs it, so it counts for no engine."""
    return Outcome()


def python(block: Block, section: Section) -> Outcome:
    """For the reader, or, with the option `run`, assertions about the calculus: they count for the engines it names."""
    found = Outcome()
    if "run" not in block.options:
        return found
    needs = block.options.get("needs")
    if needs is not None and importlib.util.find_spec(needs) is None:
        found.lacking[block.options["run"]] = needs
        return found
    code = ast.parse(block.text)
    found.need(any(isinstance(node, ast.Assert) for node in ast.walk(code)), 0, "a block that is run asserts something")
    found.need(set(block.options["run"]) <= BUILT, 0, "run names engines that are built, by their letters")
    file = Path(__file__).with_name(section.document)  # so that a failing assertion shows its line of the document
    exec(compile(ast.increment_lineno(code, block.line), file, "exec"), {"__name__": section.document})
    found.ran |= set(block.options["run"])
    return found


# --- proofs -----------------------------------------------------------------------------------------------------------


def proofs(block: Block, section: Section) -> Outcome:
    """Obligations by name, each with the status that the prover must give it."""
    from verifier.proving import suite
    from verifier.proving.obligations import STATUSES, discharge

    found = Outcome()
    for number, text in enumerate(block.text.splitlines(), 1):
        name, line = text.strip(), block.line + number
        if not name:
            continue
        wanted = [said.text for said in block.said if said.line == number]
        found.need(
            len(wanted) == 1 and wanted[0] in STATUSES, line, f"{name} needs one status of {', '.join(STATUSES)}"
        )
        meant = [
            one for piece in suite.matching([name]) for one in suite.obligations(piece) if suite.named(one.name, name)
        ]
        found.need(bool(meant), line, f"no obligation is called {name}")
        for one in meant:
            outcome = discharge(one)
            found.need([outcome.status] == wanted, line, f"{one.name} is {outcome.status} {outcome.objection}")
        found.ran.add("Z")
    return found


LANGUAGES: Final[dict[str, Callable[[Block, Section], Outcome]]] = {
    "jaxpr": jaxpr,
    "type": types,
    "console": console,
    "run": run,
    "text": shown,
    "python": python,
    "prove": proofs,
}
OPTIONS: Final[dict[str, set[str]]] = {
    "jaxpr": {"mesh", "file", "printed", "compiled", "wrt", *DERIVED},
    "type": {"mesh"},
    "console": set(),
    "run": {"file"},
    "text": set(),
    "python": {"run", "needs"},
    "prove": set(),
}

BUILT: Final = frozenset("PTCGUXJZ")
"""The engines that a block can run. What JAX is asked about all blocks but Python is in `tests.spec.jax_engine`."""
