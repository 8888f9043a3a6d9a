"""What a check finds out about one file, as data; as JSON; and as the text that the command prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from calculus.communication import AT_MOST, EXACT
from calculus.refusals import Family, Refusal
from grammar.render import render

if TYPE_CHECKING:
    from fractions import Fraction

Verdict: TypeAlias = Literal["ok", "refused", "malformed"]

#: the exit status of a verdict; of several files, the largest
STATUS: dict[Verdict, int] = {"ok": 0, "refused": 1, "malformed": 2}


class Row(NamedTuple):
    """One collective that an equation performs.

    line: of the equation, from 1. kind: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all` or
    `collective-permute`. axes: the mesh axes it runs over. bytes: payload per device each time it runs; `None` where a
    size is not known. wire_bytes: what each device sends each time, on a ring. times: how often it runs, `None` where
    that depends on the data. exactness: `exact`, `at most`, `estimate` or `chosen by the compiler`. inside: the
    enclosing constructs, outermost first (`scan x5`). Of a function: where: the user's own line (`train.py:42`); value:
    the argument or result that is moved (`params['w']`), where it is one; library: the function, and the line of it,
    that the user's line calls and that communicates (`Linear.__call__, flax/nnx/nn/linear.py:431`). Of a backward pass:
    forward: the forward equation whose transpose this is, with its types (`reshard f32[4] -> f32[4]{R:X}`), or, where
    `, again` follows, which is computed again.
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
    library: str = ""
    forward: str = ""

    @property
    def total(self) -> int | None:
        """Payload bytes per device over all runs; `None` where it is not known."""
        return None if self.bytes is None or self.times is None else self.bytes * self.times

    @property
    def wire_total(self) -> int | float | Fraction | None:
        """What each device sends over all runs; `None` where it is not known."""
        return None if self.wire_bytes is None or self.times is None else self.wire_bytes * self.times


@dataclass(slots=True)
class Report:
    """The verdict about one file, named as it was asked for. `equations` counts those that were checked, those of
    bodies included; `assumed` what was trusted instead: kernels' types, and claims at boundaries that no type backs;
    `known` is what is well typed and goes wrong in JAX, as plain data (`verifier.known`); the notes say it too."""

    file: str
    verdict: Verdict
    equations: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    communication: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    assumed: int = 0
    known: list[dict[str, object]] = field(default_factory=list, kw_only=True)

    @property
    def known_notes(self) -> list[str]:
        """The notes on what goes wrong in JAX: the last ones."""
        return self.notes[len(self.notes) - len(self.known) :]

    def data(self) -> dict[str, object]:
        """The report as plain data."""
        return as_json(self)

    @property
    def what(self) -> str:
        """What this is about that was derived from the file's program (`gradient`); nothing where it is the file's."""
        return ""

    @property
    def name(self) -> str:
        """The file as text shows it, and what of it this is about."""
        shown = self.file if self.file.isprintable() and self.file else repr(self.file)
        return f"{'<stdin>' if self.file == '-' else shown}{f' ({self.what})' if self.what else ''}"

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


@dataclass(slots=True)
class Derived(Report):
    """The report on a program that was derived from a file's; `kind` says what that is."""

    kind: str = ""

    @property
    def what(self) -> str:
        """What this is about."""
        return self.kind


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
        **({"derived": report.what} if report.what else {}),
        "verdict": report.verdict,
        "equations": report.equations,
        "refusals": [refusal_as_json(refusal) for refusal in report.refusals],
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
                **({"where": row.where, "library": row.library, "value": row.value} if _of_function(row) else {}),
                **({"forward": row.forward} if row.forward else {}),
            }
            for row in report.communication
        ],
        "total_bytes": report.payload,
        "unpriced": report.unpriced,
        "assumed": report.assumed,
        "notes": report.notes,
        "goes_wrong_in_jax": report.known,
    }


def refusal_as_json(refusal: Refusal) -> dict[str, object]:
    """One refusal as plain data. A line and column of 0 are not known."""
    return {
        "code": refusal.code,
        "family": refusal.family.value,
        "line": refusal.line,
        "column": refusal.column,
        "message": refusal.message,
        "because": refusal.because,
        "help": refusal.help,
        "inside": list(reversed(refusal.trail)),
    }


def _plain(number: float | Fraction | None) -> int | float | None:
    return None if number is None else int(number) if number == int(number) else float(number)


VERDICTS: dict[Verdict, str] = {"ok": "well typed", "refused": "refused", "malformed": "malformed"}


def count(number: int, thing: str) -> str:
    """`1 equation`, `2 equations`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def summary(report: Report) -> str:
    """One line: the verdict and on how many assumptions, how much was checked, and what communication costs in all."""
    assuming = f" on {count(report.assumed, 'assumption')}" if report.assumed else ""
    parts = [f"{VERDICTS[report.verdict]}{assuming}"]
    if report.verdict != "malformed":
        parts.append(count(report.equations, "equation"))
    if report.refusals and (report.verdict == "refused" or len(report.refusals) > 1):
        parts.append(count(len(report.refusals), "refusal"))
    if report.communication:
        runs, size = [row.times for row in report.communication], [row.total for row in report.communication]
        at_most = any(row.exactness == AT_MOST for row in report.communication)
        parts.append(f"{count(len(report.communication), 'collective')}, {_sum(runs, 'run', at_most)}")
        parts.append(_sum(size, "byte", at_most, " per device"))
    elif report.verdict == "ok":
        parts.append("no communication")
    return f"{report.name}: {' · '.join(parts)}"


def _sum(numbers: Sequence[int | None], thing: str, at_most: bool, each: str = "") -> str:
    """The sum of those that are known: a lower bound where others are not, an upper bound where not all happens."""
    known = [number for number in numbers if number is not None]
    if not known:
        return f"{thing}s not known"
    missing = len(known) < len(numbers)
    bound = "at most " if at_most else "at least " if missing else ""
    return f"{bound}{count(sum(known), thing)}{each}{' where known' if at_most and missing else ''}"


_TO_THE_RIGHT = {"line", "bytes", "times", "total", "wire"}


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The communication by equation, in aligned columns; that of a function under the user's lines. Bytes are per
    device: payload once, payload in all, and what goes over the wire in all."""
    rows = list(rows)
    lines = cells(rows, places=False)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    grouped = any(map(_of_function, rows))

    def shown(line: tuple[str, ...]) -> str:
        padded = (
            cell.rjust(width) if name in _TO_THE_RIGHT else cell.ljust(width)
            for name, cell, width in zip(lines[0], line, widths, strict=True)
        )
        return f"  {'  ' if grouped else ''}{'  '.join(padded)}".rstrip()

    yield shown(lines[0])
    groups: dict[str, list[str]] = {}
    for row, line in zip(rows, lines[1:], strict=True):
        groups.setdefault(_place(row), []).append(shown(line))
    for place, inside in groups.items():
        if grouped:
            yield f"  {place}"
        yield from inside


def _of_function(row: Row) -> bool:
    return bool(row.where or row.value)


def _place(row: Row) -> str:
    """The user's line and the function of a library that it calls, without that function's line."""
    function = row.library.partition(", ")[0]
    return f"{row.where or '-'} in {function}" if function else row.where or "-"


def cells(rows: Iterable[Row], places: bool = True) -> list[tuple[str, ...]]:
    """The same as rows of text, headings first. A column that would say the same of every row (once, exact, inside
    nothing) is left out. Rows of a function name the value, and where `places` is set the user's line."""
    rows = list(rows)
    columns: dict[str, list[str]] = {}
    if any(map(_of_function, rows)):
        columns["value"] = [row.value or f"({row.primitive})" for row in rows]
        if places:
            columns["where"] = [f"{row.where} (in {row.library})" if row.library else row.where for row in rows]
    else:
        columns["line"] = [str(row.line) for row in rows]
        columns["primitive"] = [row.primitive for row in rows]
    columns["collective"] = [row.kind for row in rows]
    columns["over"] = [",".join(row.axes) for row in rows]
    columns["bytes"] = [number(row.bytes) for row in rows]
    if any(row.times != 1 for row in rows):
        columns["times"] = [number(row.times) for row in rows]
        columns["total"] = [number(row.total) for row in rows]
    columns["wire"] = [number(row.wire_total) for row in rows]
    if any(_of_function(row) and row.forward for row in rows):
        columns["forward equation"] = [row.forward or "-" for row in rows]
    if any(row.exactness != EXACT for row in rows):
        columns["exactness"] = [row.exactness for row in rows]
    if any(row.inside for row in rows):
        columns["inside"] = [", ".join(row.inside) or "-" for row in rows]
    return [tuple(columns), *zip(*columns.values(), strict=True)]


def number(value: float | Fraction | None) -> str:
    """A number as people read it, to a tenth where it is no whole one; `?` where it is not known."""
    plain = _plain(value)
    return "?" if plain is None else f"{plain:,}" if isinstance(plain, int) else f"{plain:,.1f}".removesuffix(".0")
