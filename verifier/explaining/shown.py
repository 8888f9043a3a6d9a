"""An explanation as people read it: under each of their lines what it communicates, forward and backward, and why."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from calculus.communication import EXACT
from grammar.render import render
from verifier.explaining.entries import Entry
from verifier.explaining.explanation import NOT_MODELLED, Explanation, known
from verifier.explaining.hardware import FORMULA
from verifier.explaining.warnings import COPIES, in_groups
from verifier.report import VERDICTS, count, number

_COPIES: Final = "adds up equal copies"
"""In the note of a check that a warning says as well."""


def lines(found: Explanation) -> Iterator[str]:
    """The lines of text."""
    yield _summary(found)
    for place, those in _by_line(found).items():
        yield ""
        source = found.lines.get(place, "")
        yield f"{place or 'no line of yours'}{f'  {source}' if source else ''}"
        columns = [column for column in zip(*[_cells(found, one) for one in those], strict=True) if any(column)]
        widths = [max(map(len, column)) for column in columns]
        for one, cells in zip(those, zip(*columns, strict=True), strict=True):
            yield f"  {'  '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))}".rstrip()
            if one.fact is not None:
                yield f"    because {one.fact.says}"
    if found.entries:
        yield ""
        yield from _totals(found)
    if found.none:
        yield f"  no backward pass: {found.none}"
    for warned, others in in_groups(found.warnings):
        yield f"  warning: {warned}"
        if others:
            yield f"    likewise {count(len(others), 'other value')}: {', '.join(others)}"
    for note in found.notes:
        if not any(_COPIES in note and warned.code == COPIES for warned in found.warnings):
            yield f"  note: {note}"
    if found.hardware is not None:
        yield f"  {FORMULA}"
    if found.entries or not found.refusals:
        yield f"  not modelled: {', '.join(NOT_MODELLED)}"
    if found.refusals:
        yield ""
        yield _refused(found)


def _refused(found: Explanation) -> str:
    """The refusals, each at its place."""
    if found.refused:
        return found.refused
    if found.text:
        return render(found.refusals, found.text, found.name)
    from verifier.functions import FunctionReport

    return FunctionReport(found.name, found.verdict, refusals=found.refusals).explained("", len(found.refusals))


def _summary(found: Explanation) -> str:
    parts = [
        VERDICTS[found.verdict],
        *(f"mesh {mesh}" for mesh in found.meshes[:1]),
        count(found.equations, "equation"),
    ]
    if found.assumed:
        parts[0] += f" on {count(found.assumed, 'assumption')}"
    if found.what:
        parts.append(
            f"backward: the {found.what}" if not found.what.startswith("a ") else f"backward: that of {found.what}"
        )
    if not found.entries and found.verdict == "ok":
        parts.append("no communication")
    return f"{found.name}: {' · '.join(parts)}"


def _by_line(found: Explanation) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for one in found.entries:
        groups.setdefault(one.row.where, []).append(one)
    return groups


def _cells(found: Explanation, one: Entry) -> list[str]:
    """A row: direction, collective, what is moved, bytes each time, how often, bytes in all."""
    row = one.row
    each = f"{number(row.bytes)} bytes" if row.bytes is not None else "? bytes"
    formula = one.formula
    if formula not in ("?", number(row.bytes)):
        each = f"{each} = {formula}" if row.bytes is not None else f"{formula} bytes"
    often = "" if row.times == 1 else f"x{'?' if row.times is None else f'{row.times:,}'} ({', '.join(row.inside)})"
    total = "" if row.times == 1 else f"{number(row.total)} bytes in all"
    exactness = "" if row.exactness == EXACT else row.exactness
    value = row.value or f"({row.primitive})"
    seconds = "" if found.hardware is None else _time(found.seconds([one]))
    what = f"{row.kind} over {', '.join(row.axes)}"
    return [one.direction, what, value, each, often, total, seconds, exactness, one.confirmed]


def _time(seconds: float | None) -> str:
    """Seconds with three digits, in a unit that fits."""
    if seconds is None:
        return "? s"
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-6:.3g} us"


def _totals(found: Explanation) -> Iterator[str]:
    """The sums by mesh axes, in aligned columns."""
    timed = found.hardware is not None
    rows: list[tuple[str, ...]] = [
        ("over", "pass", "collectives", "runs", "bytes", "wire bytes", *(("seconds",) if timed else ()))
    ]
    for total in found.totals:
        for direction, those in total.passes.items():
            if those:
                runs = number(known(one.row.times for one in those))
                size = known(one.row.total for one in those)
                wire = known(one.row.wire_total for one in those)
                time = (_time(found.seconds(those)),) if timed else ()
                numbers = (runs, number(size) if size is not None else _sum(those), number(wire), *time)
                rows.append((", ".join(total.axes), direction, str(len(those)), *numbers))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _sum(those: list[Entry]) -> str:
    """The bytes in all, in the sizes of mesh axes; `?` where one is not known."""
    if any(one.volume is None or one.row.times is None for one in those):
        return "?"
    often: dict[str, int] = {}
    for one in those:
        often[one.formula] = often.get(one.formula, 0) + (one.row.times or 0)
    return " + ".join(formula if times == 1 else f"{times}·{formula}" for formula, times in often.items())


def as_html(found: Explanation) -> str:
    """HTML for a notebook, without scripts or styles of its own; every word is escaped."""
    said = [f"<p><b>{escape(_summary(found))}</b></p>"]
    for place, those in _by_line(found).items():
        said.append(f"<p>{escape(place or 'no line of yours')} <code>{escape(found.lines.get(place, ''))}</code></p>")
        body = ""
        for one in those:
            because = "" if one.fact is None else one.fact.says
            body += f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in (*_cells(found, one), because))}</tr>"
        said.append(f"<table><tbody>{body}</tbody></table>")
    if found.entries:
        said.append(f"<pre>{escape(chr(10).join(_totals(found)))}</pre>")
    said += [f"<p>no backward pass: {escape(found.none)}</p>"] if found.none else []
    said += [f"<p><b>warning</b>: {escape(str(one))}</p>" for one in found.warnings]
    said += [f"<p><i>{escape(note)}</i></p>" for note in found.notes]
    said += [f"<p><b>{escape(one.family.value)}</b>: {escape(one.message)}</p>" for one in found.refusals]
    return "\n".join(said)
