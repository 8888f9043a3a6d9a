"""`shardproof prove`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verifier.commands.console import Misused
from verifier.commands.console import say as say_lines
from verifier.commands.options import json_option

if TYPE_CHECKING:
    from verifier.proving.ledger import Shown
    from verifier.proving.suite import Piece, Row


def say(text: str) -> None:
    """Print."""
    say_lines([text])


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "listed", is_flag=True, help="List the theorems, and prove nothing.")
@click.option(
    "--without", metavar="HYPOTHESIS",
    help="Leave one hypothesis out of the queries of NAME that have it, and show what goes wrong then.",
)  # fmt: skip
@click.option("--smtlib", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write each query as SMT-LIB 2 into a folder, for another solver.")  # fmt: skip
@click.option("--solver", type=click.Choice(["z3", "both"]), default="z3", show_default=True,
              help="both: cvc5 (an extra, shardproof[cvc5]) answers the same queries, by itself.")  # fmt: skip
@click.option("--rule", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
              help="Prove the declarations of a file of one's own, and judge what it claims.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Prove anew what was proved before and has not changed.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes. By default one for each processor.")
@click.option("--verbose", "-v", is_flag=True, help="Print every obligation.")
@json_option
@click.pass_context
def prove(
    ctx: click.Context, names: tuple[str, ...], listed: bool, without: str | None, smtlib: Path | None, solver: str,
    rule: Path | None, fresh: bool, jobs: int | None, verbose: bool, as_data: bool,
) -> None:  # fmt: skip
    """Prove the rules, the transposes and the prices, for every mesh size, rank and dim size.

    \b
    shardproof prove
    shardproof prove soundness.mul
    shardproof prove 'soundness.dot_general-f.*' -v
    shardproof prove forced
    shardproof prove forced --without 'cost is preserved'
    shardproof prove ledger
    shardproof prove --smtlib obligations/ --solver both

    Obligations are read from the declarations: one for each primitive, each call that shows what it can do and each
    combination of operand states that is accepted. What a primitive computes is unfolded, element by element; linearity
    and locality are consequences. The other theorems are listed by --list, each with its statement and its page.

    \b
    Each obligation has a status, and a domain that its numbers are of:
      proved from definition    the solver unfolded what the kernels compute
      from declared properties  of a kernel that it cannot look into, properties are assumed, and were run
      bounded                   up to a bound, which is printed
      tested                    by execution only
      open                      the solver does not know
      refuted                   wrong: the counterexample is printed

    `ledger` is what the ledger of differences claims (proofs/evidence.md): ledger.21, that what JAX refuses by that
    entry is sound; ledger.1, that what it accepts by that one is not, with what devices hold.

    --rule FILE takes declarations of one's own (PRIMITIVES, as in the files that [tool.shardproof] rules names) and,
    optionally, CLAIMS such as "gelu f32[4]{U:X} -> f32[4]{U:X}". It says which typings are proved, which claims are
    refuted, with what devices hold, and which sound typings the declaration leaves out (proofs/your-own-rule.md).

    Results are kept by the content of declarations and prover, so what has not changed is not proved twice.

    \b
    Exit status: 0  everything is shown
                 1  something is refuted or open
                 2  the command is misused
    """
    from verifier.proving import suite

    if listed:
        _list(as_data)
        return
    if rule is not None:
        ctx.exit(_rule(rule, as_data))
    chosen = suite.matching(names)
    missing = [name for name in names if not suite.matching([name])]
    if missing:
        raise Misused(f"nothing is called {missing[0]}: names are printed by `shardproof prove --list` and `prove -v`")
    if without is not None:
        if not names:
            raise Misused("--without needs the NAME of what has that hypothesis: prove forced --without ...")
        ctx.exit(_without(chosen, names, without, as_data))
    if smtlib is not None:
        _write(chosen, names, smtlib)
    jobs = jobs or os.cpu_count() or 1
    rows = _shown(chosen, names, jobs, fresh)
    second = _second(chosen, names, jobs) if solver == "both" else None
    if as_data:
        found: dict[str, Any] = {"obligations": [row._asdict() for row in rows], "summary": _counts(rows)}
        found["ledger"] = [entry.data() for entry in _entries(chosen, rows)]
        if second is not None:
            found["second_solver"] = second
        say(json.dumps(found, indent=2))
    else:
        _print(rows, verbose)
        for entry in _entries(chosen, rows) if names or verbose else ():
            say(str(entry))
        if second is not None:
            say(f"cvc5: {', '.join(f'{count} {word}' for word, count in second['counts'].items())}")
            for line in second["contradictions"]:
                say(f"contradiction: {line}")
    wrong = any(row.status in ("open", "refuted") for row in rows) or (second and second["contradictions"])
    ctx.exit(1 if wrong else 0)


def _shown(chosen: list[Piece], names: tuple[str, ...], jobs: int, fresh: bool) -> list[Row]:
    from verifier.progress import sign_of_life
    from verifier.proving import suite

    found: list[Row] = []
    with sign_of_life(f"proving {len(chosen)} pieces") as said:
        for _, rows in suite.run(chosen, jobs=jobs, fresh=fresh, said=said):
            found += [row for row in rows if not names or any(suite.named(row.name, name) for name in names)]
    order = {piece.kind: number for number, piece in enumerate(reversed(chosen))}
    return sorted(found, key=lambda row: (order.get(row.theorem, -1), row.theorem, row.name))


def _entries(chosen: list[Piece], rows: list[Row]) -> list[Shown]:
    from verifier.proving.ledger import entries

    return entries([piece.of for piece in chosen if piece.kind == "ledger"], rows)


def _counts(rows: list[Row]) -> dict[str, Any]:
    """By theorem and status: obligations; and the cells that those of `soundness` stand for."""
    theorems: dict[str, dict[str, int]] = {}
    cells: dict[str, int] = {}
    for row in rows:
        own = theorems.setdefault(row.theorem, {})
        own[row.status] = own.get(row.status, 0) + 1
        if row.theorem == "soundness":
            cells[row.status] = cells.get(row.status, 0) + row.cells
    return {"theorems": theorems, "cells": cells, "milliseconds": round(sum(row.milliseconds for row in rows))}


def _print(rows: list[Row], verbose: bool) -> None:
    for row in rows:
        wrong = row.status in ("open", "refuted")
        if verbose or wrong or row.theorem not in ("soundness", "maximality", "ledger"):
            bound = f", {row.bound}" if row.bound else ""
            say(f"{row.name}: {row.status} ({row.domain}{bound}), {row.milliseconds:.0f} ms")
        for line in (row.says, row.objection, *row.blocks) if wrong else row.shows if verbose else ():
            say(f"    {line}")
    counts = _counts(rows)
    say("")
    for theorem, statuses in counts["theorems"].items():
        say(f"{theorem}: {', '.join(f'{count} {status}' for status, count in statuses.items())}")
    total = sum(counts["cells"].values())
    if total:
        parts = [f"{100 * count / total:.1f} % {status}" for status, count in counts["cells"].items()]
        say(f"{total:,} cells (operand states, N and R told apart): {', '.join(parts)}")
    queries, seconds = sum(row.queries for row in rows), counts["milliseconds"] / 1000
    say(f"{len(rows):,} obligations, {queries:,} queries, {seconds:.1f} s of work")


def _list(as_data: bool) -> None:
    from verifier.theorems import OF_DECLARATIONS, THEOREMS

    every = (*OF_DECLARATIONS, *THEOREMS)
    if as_data:
        said = [
            {"name": one.name, "words": one.words, "symbols": one.symbols, "hypotheses": dict(one.hypotheses),
             "page": one.page} for one in every
        ]  # fmt: skip
        say(json.dumps(said, indent=2))
        return
    for one in every:
        say(f"{one.name}  ({one.page})\n    {one.words}\n    {one.symbols}")
        for name, meaning in one.hypotheses:
            say(f"    hypothesis {name!r}: {meaning}")


def _without(chosen: list[Piece], names: tuple[str, ...], hypothesis: str, as_data: bool) -> int:
    """Every query that has it, asked without it. 0 where one of them has a counterexample."""
    from verifier.proving import suite
    from verifier.proving.held import held
    from verifier.solver import decide

    meant = [
        (one, query)
        for piece in chosen
        for one in suite.obligations(piece)
        if any(suite.named(one.name, name) for name in names)
        for query in one.queries()
    ]
    found = [
        (one, query, decide(query.without(hypothesis))) for one, query in meant if hypothesis in dict(query.hypotheses)
    ]
    if not found:
        known = sorted({name for _, query in meant for name, _ in query.hypotheses})
        raise Misused(
            f"no query of {', '.join(names)} has the hypothesis {hypothesis!r}. They have: {'; '.join(known[:20])}"
        )
    if as_data:
        said = [
            {"obligation": one.name, "query": query.name, "verdict": answer.verdict, "model": dict(answer.model),
             "held": list(held(answer))}
            for one, query, answer in found
        ]  # fmt: skip
        say(json.dumps(said, indent=2))
    else:
        for one, query, answer in found:
            say(f"{one.name}: without {hypothesis!r}, {query.name!r} is {answer.verdict}")
            for line in held(answer):
                say(f"    {line}")
    return 0 if any(answer.verdict == "refuted" for _, _, answer in found) else 1


def _rule(path: Path, as_data: bool) -> int:
    """1 where something is refuted; raises `Misused` after all is said, where something cannot be judged."""
    from verifier.proving.rules import REFUTED, prove_rules
    from verifier.rules_files import BadRules

    try:
        found = prove_rules(path)
    except BadRules as error:
        raise Misused(str(error)) from None
    if as_data:
        said = [
            {
                "primitive": one.name,
                "calls": list(one.calls),
                "obligations": [
                    {"name": each.obligation.name, "status": each.status, "domain": each.obligation.domain,
                     "milliseconds": each.milliseconds, "objection": each.objection,
                     "blocks": list(each.blocks)} for each in one.outcomes
                ],
                "claims": [claim._asdict() for claim in one.claims],
                "left_out": list(one.left_out),
                "failed": one.failed,
            }
            for one in found
        ]  # fmt: skip
        say(json.dumps(said, indent=2))
    for one in [each for each in found if not each.failed] if not as_data else []:
        say(f"{one.name}: {len(one.outcomes)} typings, of {', of '.join(one.calls)}")
        for each in one.outcomes:
            typing = each.obligation.says.partition(" takes ")[2].partition(",")[0]
            say(f"  {each.status}: {typing} ({each.obligation.domain})")
            if not each.holds:
                for line in (each.objection, *each.blocks):
                    say(f"    {line}")
        for claim in one.claims:
            say(f"  claim {claim.verdict}: {claim.text}{f': {claim.because}' if claim.because else ''}")
            for line in claim.blocks:
                say(f"    {line}")
        for line in one.left_out:
            say(f"  sound, and left out: {line}")
        if not one.can_run:
            say("  without a kernel nothing is run: what is left out is not looked for")
    if failed := [one.failed for one in found if one.failed]:
        raise Misused("\n".join(failed))
    wrong = any(not each.holds for one in found for each in one.outcomes)
    return 1 if wrong or any(claim.verdict == REFUTED for one in found for claim in one.claims) else 0


def _write(chosen: list[Piece], names: tuple[str, ...], folder: Path) -> None:
    from verifier.proving import suite
    from verifier.solver import script

    folder.mkdir(parents=True, exist_ok=True)
    for piece in chosen:
        for one in suite.obligations(piece):
            if not names or any(suite.named(one.name, name) for name in names):
                for number, query in enumerate(one.queries()):
                    path = folder / f"{one.name.replace('/', '_')}.{number}.smt2"
                    path.write_text(script(query), encoding="utf-8")


def _second(chosen: list[Piece], names: tuple[str, ...], jobs: int) -> dict[str, Any]:
    from verifier.proving.second import NoSecondSolver, asked

    try:
        return asked(chosen, names, jobs)
    except NoSecondSolver as error:
        raise Misused(f"{error}: pip install 'shardproof[cvc5]'") from None
