"""What a run of the matrix says, as text, as data, and the ledger as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from verifier.ledger import DEVICES, KINDS, SEARCH, SOLVER, Entry
from verifier.matrix import Matrix
from verifier.patterns import Difference
from verifier.report import count

MOST_SHOWN: Final = 20
"""The most unexplained cells that text shows; `--json` lists all."""


def lines(matrix: Matrix) -> Iterator[str]:
    """The report as text."""
    leaks = sum(matrix.crashes.values())
    explained = len(matrix.differences) - len(matrix.unexplained)
    yield (
        f"JAX {matrix.version}: {matrix.cells:,} cells of {count(len(matrix.calls), 'primitive')} "
        f"in {matrix.seconds:.0f} seconds"
    )
    yield f"  agree        {matrix.agreed:>8,}  ({matrix.accepted:,} accepted by both, at one type)"
    yield f"  in the ledger{explained:>8,}"
    yield f"  unexplained  {len(matrix.unexplained):>8,}"
    if matrix.unmodelled:
        yield f"  unmodelled   {matrix.unmodelled:>8,}  (we have no rule for the construct, hence no verdict)"
    if leaks:
        yield f"  Of JAX's refusals {leaks:,} are not meant for the user: {', '.join(sorted(matrix.crashes))}."
    if not matrix.named:
        yield f"  note: no entry names JAX {matrix.version}; all of them are tried"
    rows = [(entry, len(matrix.covered[entry.number])) for entry in matrix.entries]
    shown = [(entry, cells) for entry, cells in rows if cells]
    if shown:
        yield ""
        yield "  entry    cells  kind                  difference"
    for entry, cells in shown:
        yield f"  {entry.number:>5}  {cells:>7,}  {KINDS[entry.kind]:<20}  {entry.title}"
    for entry in matrix.idle:
        yield ""
        yield f"  entry {entry.number} covers no cell of JAX {matrix.version}: {entry.title}"
    for difference in matrix.unexplained[:MOST_SHOWN]:
        yield ""
        yield from _shown(difference)
    if len(matrix.unexplained) > MOST_SHOWN:
        yield f"\n  {count(len(matrix.unexplained) - MOST_SHOWN, 'more unexplained cell')}: --json lists all"


def _shown(difference: Difference) -> Iterator[str]:
    yield f"  unexplained: {difference.call.name} {difference.cell} on {difference.mesh}"
    yield f"    we say   {difference.ours}"
    yield f"    JAX says {difference.theirs}"


def as_data(matrix: Matrix) -> dict[str, Any]:
    """The report as plain data for `--json`."""
    return {
        "jax": matrix.version,
        "cells": matrix.cells,
        "primitives": sorted(matrix.calls),
        "agree": matrix.agreed,
        "accepted": matrix.accepted,
        "unmodelled": matrix.unmodelled,
        "leaks": matrix.crashes,
        "seconds": round(matrix.seconds, 1),
        "entries": [
            {
                "number": entry.number,
                "title": entry.title,
                "kind": entry.kind,
                "cause": entry.cause,
                "evidence": entry.evidence,
                "cells": len(matrix.covered[entry.number]),
            }
            for entry in matrix.entries
        ],
        "idle": [entry.number for entry in matrix.idle],
        "unexplained": [
            {
                "call": difference.call.name,
                "mesh": str(difference.mesh),
                "operands": [str(type) for type in difference.cell.operands],
                "target": None if difference.cell.target is None else str(difference.cell.target),
                "ours": str(difference.ours),
                "jax": str(difference.theirs),
            }
            for difference in matrix.unexplained
        ],
    }


_HEAD: Final = """\
# Differences

Generated from `verifier/differences.toml` by `make differences`. How JAX's explicit sharding types differ from what is
sound: each difference once, with the smallest program that shows it. `shardproof agree --matrix` compares every
primitive at every combination of operand states with the installed JAX, and fails if a cell differs that no entry
covers, or if an entry covers none: then JAX has repaired it. What is no convention is a defect, and a program of at
most 25 lines reproduces it, alone, on CPU devices: it says what JAX does and what is right, and exits with 0 as long as
the defect is there. `shardproof audit --run` runs them all. What is refused and sound is proved, and what is accepted
and unsound refuted, by the solver or by a search; but what is typed right and compiled wrong only devices show:
`shardproof prove ledger`, proofs/evidence.md.
"""


def _code(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def page(entries: Sequence[Entry]) -> str:
    """The ledger as markdown: a table of all entries, then one section for each."""
    found = [_HEAD, "| # | difference | kind | cause | releases |", "|---|---|---|---|---|"]
    for entry in entries:
        link = f"[{entry.number}](#{entry.number})"
        found.append(f"| {link} | {entry.title} | {KINDS[entry.kind]} | {entry.cause} | {', '.join(entry.versions)} |")
    kinds = [f"{sum(entry.kind == kind for entry in entries)} {word}" for kind, word in KINDS.items()]
    found += ["", f"{len(entries)} entries: {', '.join(kinds)}.", ""]
    for entry in entries:
        found += [
            f"## {entry.number}",
            "",
            f"**{entry.title}.** {KINDS[entry.kind]} · {entry.cause} · {', '.join(entry.versions)}",
            "",
            textwrap.indent(entry.program, "    "),
            "",
            entry.because,
            "",
            f"*Evidence.* {entry.evidence}",
            "",
        ]
        shown = []
        if entry.proof is not None:
            with_it = ", with its backward pass" if entry.proof.backward else ""
            shown.append(f"*Proved* by `shardproof prove ledger.{entry.number}`{with_it}.")
        if entry.counterexample is not None:
            command = f"`shardproof prove ledger.{entry.number}`"
            shown.append(
                {
                    SOLVER: f"*Refuted* by {command}, by the solver, in blocks of two devices.",
                    SEARCH: f"*Refuted* by {command}, by a search, in blocks of devices.",
                    DEVICES: "The typing is right: the counterexample is what devices hold.",
                }[entry.counterexample.by]
            )
        if shown:
            found += [" ".join(shown), ""]
        if entry.file:
            found += [f"*{entry.defect.capitalize()}*, by [`{entry.file}`](differences/{entry.file}).", ""]
            found += [f"At fault: `{entry.function}`; reached by {_code(entry.reaches)}.", ""]
    return "\n".join(found)
