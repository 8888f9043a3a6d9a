"""What the command says of the files and functions it is given: a report on each, whatever is in it, and its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from calculus.meshes import Mesh
from calculus.refusals import Refused, refuse
from verifier.factories import is_target
from verifier.report import VERDICTS, Derived, Report, count, malformed, summary, table

if TYPE_CHECKING:
    from verifier.backward import Derive
    from verifier.explaining.explanation import Explanation

MOST_SHOWN: Final = 50
"""The most refusals that are shown in full for one file; `--json` lists all."""


def function_report(target: str, meshes: list[Mesh], moved: bool = False) -> tuple[Report, str]:
    """The report on a function by name, whatever it leads to; its text is what went wrong. moved: to the mesh that is
    given, wherever its arguments lie."""
    from verifier.factories import BadFactory, report_on
    from verifier.progress import sign_of_life

    try:
        with sign_of_life(f"checking {target}"):
            return report_on(target, str(meshes[0]) if meshes else None, moved), ""
    except BadFactory as error:
        message, _, help = str(error).partition("\n  help: ")
        refusal = refuse("no-function", message, help=help).refusal
        return NoFunction(target, "malformed", refusals=[refusal]), str(error)


class NoFunction(Report):
    """The report on a name that leads to nothing to check. What went wrong is told as it is, in their words."""

    def explained(self, text: str, most: int) -> str:
        """What went wrong, with the rule that was broken."""
        message, help, repair = text.partition("\n  help: ")
        (refusal,) = self.refusals
        because = f"\n  because: {refusal.because}" if refusal.because else ""
        rule = f"  rule: {refusal.rule} [{refusal.code}]{because}"
        return f"{self.name}: {refusal.family.value}: {message}\n{rule}{help}{repair}"


def file_report(file: str, meshes: list[Mesh]) -> tuple[Report, str]:
    """The report on one file, whatever is in it, and its text."""
    from verifier.progress import sign_of_life
    from verifier.sources import text_of
    from verifier.texts import check_text

    text = ""
    try:
        text = text_of(file)
        with sign_of_life(f"checking {file}"):
            report = check_text(text, meshes, file)
    except Refused as refused:
        report = malformed(file, refused.refusal)
    except RecursionError:
        report = _too_deep(file)
    if text and file.endswith(".py") and report.verdict == "malformed":
        report.refusals[0].help = "this is a module: name a function in it that returns (f, args), as module:factory"
    return report, text


def _too_deep(file: str) -> Report:
    from calculus.checking import DEEPEST
    from grammar.layout import NESTING

    levels = f"the reader follows {NESTING} levels, the checker {DEEPEST}"
    return malformed(file, refuse("too-deep", f"the program nests too deep: {levels}").refusal)


class Answer(NamedTuple):
    """reports: on what was handed in, then on what was derived from it, if anything was. text: what the lines of the
    reports point into. program: the derived program, empty where there is none."""

    reports: tuple[Report, ...]
    text: str
    program: str = ""


def derived(name: str, meshes: list[Mesh], make: Derive, wrt: str | None) -> Answer:
    """A program derived from that of a file, or of a function by name. wrt: the inputs that are named, with commas
    between. Raises `UnknownInput` where one is none."""
    from verifier.backward import derive
    from verifier.function_backward import derive_function
    from verifier.functions import FunctionReport
    from verifier.progress import sign_of_life

    report, text = function_report(name, meshes) if is_target(name) else file_report(name, meshes)
    if report.verdict != "ok":
        return Answer((report,), text)
    names = None if wrt is None else list(_names(wrt))
    try:
        with sign_of_life(f"differentiating {name}"):
            if isinstance(report, FunctionReport):
                asked = None if names is None else [int(one) if _NUMBER.fullmatch(one) else one for one in names]
                found = derive_function(report, make, asked)
                return Answer((report, found), text, found.text)
            made = derive(text, meshes, name, make, names)
    except RecursionError:
        return Answer((report, _too_deep(name)), text)
    return Answer((made.forward,) if made.backward is None else (made.forward, made.backward), text, made.text)


def explanation(name: str, meshes: list[Mesh], wrt: str | None, step: bool) -> Explanation:
    """What a program communicates and why: of a file, or of a function by name. Raises `UnknownInput`."""
    from verifier.explaining.explanation import explain_function, explain_refused, explain_text
    from verifier.functions import FunctionReport
    from verifier.progress import sign_of_life

    names = None if wrt is None else list(_names(wrt))
    report, text = function_report(name, meshes, moved=True) if is_target(name) else file_report(name, meshes)
    try:
        with sign_of_life(f"explaining {name}"):
            if isinstance(report, FunctionReport):
                asked = None if names is None else [int(one) if _NUMBER.fullmatch(one) else one for one in names]
                return explain_function(report, asked)
            if report.verdict != "ok":
                return explain_refused(report, text)
            return explain_text(text, meshes, name, names, step)
    except RecursionError:
        return explain_refused(_too_deep(name), text)


def backward_report(report: Report, text: str, meshes: list[Mesh]) -> Report:
    """The report on the forward and backward pass of what a well-typed report is about; `text` is the program's."""
    from calculus.gradients import vjp
    from verifier.backward import UnknownInput, derive
    from verifier.functions import FunctionReport

    if isinstance(report, FunctionReport):
        from verifier.function_backward import derive_function

        try:
            found = derive_function(report, vjp)
        except UnknownInput as error:
            refusal = refuse("no-cotangent", str(error), help="give a function of floating arguments").refusal
            return Derived(report.file, "refused", refusals=[refusal], kind=_BOTH)
        found.kind = _BOTH
        return found
    try:
        made = derive(text, meshes, report.file, vjp).backward
    except RecursionError:
        return _too_deep(report.file)
    assert made is not None
    made.kind = _BOTH
    return made


_BOTH: Final = "forward and backward"
_NUMBER: Final = re.compile(r"-?\d+")


def _names(text: str) -> Iterator[str]:
    """The names between commas; a comma inside the brackets or quotes of a path is part of it."""
    name, quote, depth = "", "", 0
    for letter in text:
        if letter == "," and not quote and not depth:
            yield name.strip()
            name = ""
            continue
        name += letter
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth = max(0, depth + (letter in "[(") - (letter in ")]"))
    yield name.strip()


def detailed(report: Report) -> bool:
    """Whether a report has more to say than its verdict."""
    return bool(report.communication or report.refusals or report.notes)


def paragraphs(report: Report, text: str, spaced: bool) -> Iterator[str]:
    """A report as people read it; `text` is what its lines and columns point into."""
    if spaced:
        yield ""
    yield summary(report)
    if report.communication:
        yield from table(report.communication)
    for note in report.notes:
        yield f"  note: {note}"
    if report.refusals:
        yield ""
        yield report.explained(text, MOST_SHOWN)
        if len(report.refusals) > MOST_SHOWN:
            yield f"\n{count(len(report.refusals) - MOST_SHOWN, 'more refusal')}: --json lists all"


def totals(reports: list[Report], what: str) -> str:
    """One line about several reports."""
    verdicts = [report.verdict for report in reports]
    parts = [f"{verdicts.count(verdict)} {word}" for verdict, word in VERDICTS.items() if verdict in verdicts]
    assuming = sum(report.assumed > 0 for report in reports)
    parts += [f"{assuming} on assumptions"] if assuming else []
    return f"{count(len(reports), what)}: {', '.join(parts)}"
