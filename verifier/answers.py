"""What the command says of the files and functions it is given: a report on each, whatever is in it, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from calculus.meshes import Mesh
from calculus.refusals import Refused, refuse
from verifier.report import VERDICTS, Report, count, malformed, summary, table

MOST_SHOWN: Final = 50
"""The most refusals that are shown in full for one file; `--json` lists all."""


def function_report(target: str, meshes: list[Mesh]) -> tuple[Report, str]:
    """The report on a function by name, whatever it leads to; its text is what went wrong."""
    from verifier.factories import BadFactory, report_on
    from verifier.progress import sign_of_life

    try:
        with sign_of_life(f"checking {target}"):
            return report_on(target, str(meshes[0]) if meshes else None), ""
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
        return f"{self.name}: malformed: {message}\n  rule: {refusal.rule} [{refusal.code}]{help}{repair}"


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
        from calculus.checking import DEEPEST
        from grammar.layout import NESTING

        levels = f"the reader follows {NESTING} levels, the checker {DEEPEST}"
        report = malformed(file, refuse("too-deep", f"the program nests too deep: {levels}").refusal)
    if text and file.endswith(".py") and report.verdict == "malformed":
        report.refusals[0].help = "this is a module: name a function in it that returns (f, args), as module:factory"
    return report, text


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
    parts += [f"{assuming} of them on assumptions"] if assuming else []
    return f"{count(len(reports), what)}: {', '.join(parts)}"
