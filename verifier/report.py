"""What a check finds out about one file, as data; as JSON; and as the text that the command prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from calculus.refusals import Family, Refusal
from grammar.render import render

Verdict: TypeAlias = Literal["ok", "refused", "malformed"]

#: the exit status of a verdict; of several files, the largest
STATUS: dict[Verdict, int] = {"ok": 0, "refused": 1, "malformed": 2}


class Row(NamedTuple):
    """One collective that an equation performs.

    line: of the equation, from 1. kind: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all` or
    `collective-permute`. axes: the mesh axes it runs over. bytes: payload per device each time it runs; `None` where a
    size is not known. wire_bytes: what each device sends each time, on a ring. times: how often it runs, `None` where
    that depends on the data. exactness: `exact`, `at most`, `estimate` or `chosen by the compiler`. inside: the
    enclosing constructs, outermost first (`scan x5`). Of a function: where: the user's own line, with the library's
    beside it (`train.py:42 loss`); value: the argument or result that is moved (`params['w']`), where it is one.
    """

    line: int
    kind: str
    axes: tuple[str, ...]
    bytes: int | None
    wire_bytes: int | float | Fraction | None
    times: int | None
    exactness: str
    primitive: str
    inside: tuple[str, ...] = ()
    where: str = ""
    value: str = ""

    @property
    def total(self) -> int | None:
        """Payload bytes per device over all runs; `None` where it is not known."""
        return None if self.bytes is None or self.times is None else self.bytes * self.times


@dataclass(slots=True)
class Report:
    """The verdict about one file, named as it was asked for. `equations` counts those that were checked, those of
    bodies included."""

    file: str
    verdict: Verdict
    equations: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    communication: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file as text shows it."""
        return "<stdin>" if self.file == "-" else self.file

    def explained(self, text: str, most: int) -> str:
        """The first refusals as people read them. `text` is what their lines and columns point into."""
        return render(self.refusals[:most], text, self.name)

    @property
    def payload(self) -> int:
        """The payload bytes per device that are known, over all collectives and all their runs."""
        return sum(row.total or 0 for row in self.communication)

    @property
    def unpriced(self) -> int:
        """How many collectives `payload` leaves out."""
        return sum(row.total is None for row in self.communication)


def verdict_on(refusals: Iterable[Refusal]) -> Verdict:
    """What the refusals of one text amount to: a text that is not the language gets no other verdict."""
    families = {refusal.family for refusal in refusals}
    return "malformed" if Family.MALFORMED in families else "refused" if families else "ok"


def malformed(file: str, refusal: Refusal) -> Report:
    """The report about a file that could not be read."""
    return Report(file, "malformed", refusals=[refusal])


def as_json(report: Report) -> dict[str, object]:
    """The report as plain data for `--json`. Unknown numbers are `None`."""
    return {
        "file": report.file,
        "verdict": report.verdict,
        "equations": report.equations,
        "refusals": [
            {
                "code": refusal.code,
                "family": refusal.family.value,
                "line": refusal.line,
                "column": refusal.column,
                "message": refusal.message,
                "because": refusal.because,
                "help": refusal.help,
                "inside": list(reversed(refusal.trail)),
            }
            for refusal in report.refusals
        ],
        "communication": [
            {
                "line": row.line,
                "primitive": row.primitive,
                "kind": row.kind,
                "axes": list(row.axes),
                "bytes": row.bytes,
                "wire_bytes": _plain(row.wire_bytes),
                "times": row.times,
                "total_bytes": row.total,
                "exactness": row.exactness,
                "inside": list(row.inside),
                **({"where": row.where, "value": row.value} if row.where or row.value else {}),
            }
            for row in report.communication
        ],
        "total_bytes": report.payload,
        "unpriced": report.unpriced,
        "notes": report.notes,
    }


def _plain(number: float | Fraction | None) -> int | float | None:
    return None if number is None else int(number) if number == int(number) else float(number)


VERDICTS: dict[Verdict, str] = {"ok": "well typed", "refused": "refused", "malformed": "malformed"}


def count(number: int, thing: str) -> str:
    """`1 equation`, `2 equations`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def summary(report: Report) -> str:
    """One line: the verdict, how much was checked, and what communication costs in all."""
    parts = [VERDICTS[report.verdict]]
    if report.verdict != "malformed":
        parts.append(count(report.equations, "equation"))
    if report.refusals and (report.verdict == "refused" or len(report.refusals) > 1):
        parts.append(count(len(report.refusals), "refusal"))
    if report.communication:
        known = [row.times for row in report.communication if row.times is not None]
        runs = count(sum(known), "run") if known else "runs not known"
        at_least = "at least " if report.unpriced else ""
        parts.append(f"{count(len(report.communication), 'collective')}, {at_least}{runs}")
        known_bytes = f"{at_least}{count(report.payload, 'byte')} per device"
        parts.append("bytes not known" if report.unpriced == len(report.communication) else known_bytes)
    elif report.verdict == "ok":
        parts.append("no communication")
    return f"{report.name}: {' · '.join(parts)}"


_TO_THE_RIGHT = {"line", "bytes", "times", "total", "wire"}


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The communication by equation, in aligned columns. Bytes are per device: payload once, payload in all, and
    what goes over the wire in all."""
    lines = cells(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        shown = (
            cell.rjust(width) if name in _TO_THE_RIGHT else cell.ljust(width)
            for name, cell, width in zip(lines[0], line, widths, strict=True)
        )
        yield f"  {'  '.join(shown)}".rstrip()


def cells(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """The same as rows of text, headings first. A function's rows name the value and the user's line."""
    rows = list(rows)
    named = any(row.where or row.value for row in rows)
    first = ("value", "where") if named else ("line",)
    headings = (*first, "primitive", "collective", "over", "bytes", "times", "total", "wire", "exactness", "inside")
    return [headings, *(_cells(row, named) for row in rows)]


def _cells(row: Row, named: bool) -> tuple[str, ...]:
    wire = None if row.wire_bytes is None or row.times is None else row.wire_bytes * row.times
    return (
        *((row.value or "-", row.where or "-") if named else (str(row.line),)),
        row.primitive,
        row.kind,
        ",".join(row.axes),
        _number(row.bytes),
        _number(row.times),
        _number(row.total),
        _number(wire),
        row.exactness,
        ", ".join(row.inside) or "-",
    )


def _number(value: float | Fraction | None) -> str:
    plain = _plain(value)
    return "?" if plain is None else f"{plain:,}" if isinstance(plain, int) else f"{plain:,.1f}"
