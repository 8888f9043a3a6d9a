"""A report on a function for a notebook: the same words as the terminal's, as a table that can be read."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from verifier.report import cells, summary

if TYPE_CHECKING:
    from verifier.functions import FunctionReport


def as_html(report: FunctionReport) -> str:
    """HTML without scripts or styles of its own; every word is escaped."""
    found = [f"<p><b>{escape(summary(report))}</b></p>"]
    found += [f"<p><i>{escape(note)}</i></p>" for note in report.notes]
    if report.communication:
        headings, *rows = cells(report.communication)
        found.append(_table(headings, rows))
    for refusal in report.refusals:
        place = next((words for words in refusal.trail if words.startswith("at ")), "")
        words = [f"<b>{escape(refusal.family.value)}</b>: {escape(refusal.message)} {escape(place)}"]
        words += [
            f"{label}: {escape(text)}" for label, text in (("because", refusal.because), ("help", refusal.help)) if text
        ]
        found.append(f"<p>{'<br>'.join(words)}</p>")
    return "\n".join(found)


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
