"""The door to cvc5, a second solver: it answers the same SMT-LIB files by itself. An extra, `shardproof[cvc5]`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Final

from verifier.proving.suite import Piece, named, obligations
from verifier.solver import script

PATIENCE: Final = 5_000
"""Milliseconds that one query may take."""


class NoSecondSolver(Exception):
    """cvc5 is not installed."""


def asked(chosen: Sequence[Piece], names: Sequence[str], jobs: int) -> dict[str, Any]:
    """What cvc5 says of every query: how many it agrees with, does not know, contradicts. Raises `NoSecondSolver`."""
    try:
        import cvc5  # noqa: F401
    except ImportError:
        raise NoSecondSolver("the second solver, cvc5, is not installed") from None
    counts: Counter[str] = Counter()
    contradictions: list[str] = []
    for words in _each(chosen, tuple(names), jobs):
        for name, word in words:
            counts[word] += 1
            if word == "contradicts":
                contradictions.append(name)
    return {"counts": dict(counts), "contradictions": contradictions}


def _each(chosen: Sequence[Piece], names: tuple[str, ...], jobs: int) -> Iterator[list[tuple[str, str]]]:
    if jobs == 1 or len(chosen) == 1:
        yield from (_piece(piece, names) for piece in chosen)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_piece, chosen, [names] * len(chosen))


def _piece(piece: Piece, names: tuple[str, ...]) -> list[tuple[str, str]]:
    said: dict[str, str] = {}
    found = []
    for one in obligations(piece):
        if names and not any(named(one.name, name) for name in names):
            continue
        for query in one.queries():
            text = script(query)
            text = text[text.index("(set-logic") :]
            if text not in said:
                answer = _answer(text)
                expected = "sat" if query.possible else "unsat"
                said[text] = (
                    "agrees" if answer == expected else "contradicts" if answer in ("sat", "unsat") else "unknown"
                )
            found.append((f"{one.name}: {query.name}", said[text]))
    return found


def _answer(text: str) -> str:
    """`sat`, `unsat`, or anything else."""
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(PATIENCE))
    solver.setOption("verbosity", "-1")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "query")
    symbols = parser.getSymbolManager()
    answer = ""
    try:
        while not (command := parser.nextCommand()).isNull():
            answer = str(command.invoke(solver, symbols)).strip() or answer
    except RuntimeError as error:  # what it does not take, it does not know
        return str(error)
    return answer
