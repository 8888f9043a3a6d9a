"""The door to cvc5, a second solver: it answers the same SMT-LIB files by itself. An extra, `shardproof[cvc5]`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
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
    with ProcessPoolExecutor(jobs) as pool:
        for words in pool.map(_piece, chosen, [tuple(names)] * len(chosen)):
            for name, word in words:
                counts[word] += 1
                if word == "contradicts":
                    contradictions.append(name)
    return {"counts": dict(counts), "contradictions": contradictions}


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
    solver.setOption("nl-cov", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "query")
    symbols = parser.getSymbolManager()
    answer = ""
    while True:
        command = parser.nextCommand()
        if command.isNull():
            return answer
        said = str(command.invoke(solver, symbols)).strip()
        answer = said or answer
