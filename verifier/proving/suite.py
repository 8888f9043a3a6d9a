"""The whole of what is to be shown, in pieces that can be shown side by side, and kept.

A piece is one primitive's soundness, one primitive's refusals, one theorem, or one entry of the ledger. What came of it
is kept by the content of everything that it depends on: the calculus, the prover, the solver's version. So nothing is
proved twice, and nothing is taken from before a change.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from verifier.proving.obligations import Obligation, Outcome, discharge

ROOT: Final = Path(__file__).resolve().parents[2]


class Row(NamedTuple):
    """What came of one obligation, as it is printed and kept. queries: how many the solver answered. model: of what
    was asked to be possible, or of what is refuted. blocks: of what is refuted, what devices hold.
    shows: what was found on the way."""

    name: str
    theorem: str
    says: str
    status: str
    domain: str
    bound: str
    milliseconds: float
    cells: int
    queries: int
    uses: tuple[str, ...]
    objection: str
    model: tuple[tuple[str, str], ...] = ()
    blocks: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()


class Piece(NamedTuple):
    """A piece of the whole: `soundness`, `maximality`, `ledger` or `theorem`, of what."""

    kind: str
    of: str

    @property
    def name(self) -> str:
        """What it is called where names are chosen: `soundness.mul`, `cotangents`."""
        return self.of if self.kind == "theorem" else f"{self.kind}.{self.of}"


def pieces() -> list[Piece]:
    """All of them, those that take long first."""
    from calculus.primitives import TABLE
    from verifier.ledger import ledger
    from verifier.samples import samples
    from verifier.theorems import THEOREMS

    found = [Piece("theorem", theorem.name) for theorem in THEOREMS]
    found += [Piece("theorem", "lemma"), Piece("theorem", "sums")]
    found += [Piece("ledger", str(entry.number)) for entry in ledger()]
    longest = sorted(TABLE, key=lambda name: -len(samples(name)))
    return found + [Piece(kind, name) for name in longest for kind in ("soundness", "maximality")]


def obligations(piece: Piece) -> list[Obligation]:
    """The obligations of a piece."""
    if piece.kind == "theorem":
        from verifier.proving.lemmas import LEMMAS
        from verifier.theorems import THEOREMS, sums

        if piece.of == "lemma":
            return list(LEMMAS)
        if piece.of == "sums":
            return list(sums.obligations())
        return list(next(theorem for theorem in THEOREMS if theorem.name == piece.of).obligations())
    if piece.kind == "ledger":
        from verifier.proving import ledger

        return ledger.obligations(piece.of)
    from verifier.proving import soundness
    from verifier.proving.tried import refusals
    from verifier.samples import samples

    if piece.kind == "maximality":
        return refusals(piece.of)
    return [one for sample in samples(piece.of) for one in soundness.obligations(sample)]


def shown(piece: Piece) -> list[Row]:
    """Show a piece."""
    return [_row(discharge(one)) for one in obligations(piece)]


def _row(outcome: Outcome) -> Row:
    one = outcome.obligation
    last = outcome.answers[-1][1] if outcome.answers else None
    return Row(
        one.name, one.theorem, one.says, outcome.status, one.domain, one.bound, outcome.milliseconds, one.cells,
        len(outcome.answers), one.uses, outcome.objection, last.model if last else (), outcome.blocks,
        one.shows() if outcome.holds else (),
    )  # fmt: skip


def run(
    chosen: Sequence[Piece], *, jobs: int, fresh: bool, said: Callable[[str], None] = lambda message: None
) -> Iterator[tuple[Piece, list[Row]]]:
    """Show pieces, in as many processes, from what is kept where nothing has changed (unless `fresh`). said: is told
    how far it is."""
    kept = _Kept(fresh)
    left = []
    for piece in chosen:
        rows = kept.get(piece)
        if rows is None:
            left.append(piece)
        else:
            yield piece, rows
    done = len(chosen) - len(left)
    if jobs <= 1 or len(left) <= 1:
        for piece in left:
            rows = shown(piece)
            kept.put(piece, rows)
            done += 1
            said(f"{done} of {len(chosen)}: {piece.name}")
            yield piece, rows
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(shown, piece): piece for piece in left}
        try:
            for future in as_completed(waiting):
                rows = future.result()
                kept.put(waiting[future], rows)
                done += 1
                said(f"{done} of {len(chosen)}: {waiting[future].name}")
                yield waiting[future], rows
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def matching(patterns: Sequence[str]) -> list[Piece]:
    """The pieces that may hold an obligation with such a name (`soundness.mul`, `soundness.mul-f.*`, `cotangents`);
    all of them without patterns."""
    everything = pieces()
    if not patterns:
        return everything
    return [piece for piece in everything if any(_touches(piece, pattern) for pattern in patterns)]


def _touches(piece: Piece, pattern: str) -> bool:
    if piece.kind == "theorem":
        return fnmatch.fnmatch(piece.name, pattern.split(".", 1)[0]) or named(piece.name, pattern)
    kind, _, rest = pattern.partition(".")
    if not fnmatch.fnmatch(piece.kind, kind):
        return False
    of = rest.split(".", 1)[0]
    return not of or fnmatch.fnmatch(piece.of, of) or of.rpartition("-")[0] == piece.of


def named(name: str, pattern: str) -> bool:
    """Whether an obligation of this name is meant: the name, what begins with it, or a pattern."""
    return name == pattern or name.startswith((f"{pattern}.", f"{pattern}-")) or fnmatch.fnmatch(name, pattern)


class _Kept:
    """What was shown before, by content: a file for each piece in the user's cache."""

    def __init__(self, fresh: bool) -> None:
        self.fresh = fresh
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.folder = Path(base) / "shardproof" / "proofs" / content()

    def get(self, piece: Piece) -> list[Row] | None:
        if self.fresh:
            return None
        try:
            said: Any = json.loads((self.folder / f"{_file(piece)}.json").read_text())
            return [
                Row._make([*row[:9], tuple(row[9]), row[10], tuple(map(tuple, row[11])), *map(tuple, row[12:])])
                for row in said
            ]
        except (OSError, ValueError, TypeError, IndexError):
            return None

    def put(self, piece: Piece, rows: list[Row]) -> None:
        """Whole or not at all; a cache that cannot be written is none."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = self.folder / f"{_file(piece)}.{os.getpid()}"
            draft.write_text(json.dumps(rows))
            draft.replace(self.folder / f"{_file(piece)}.json")
        except OSError:
            return


def _file(piece: Piece) -> str:
    name = piece.name.replace("/", "_").replace(":", "_")
    return f"{name}.{_written()}" if piece.kind == "ledger" else name


@cache
def _written() -> str:
    """A digest of what entries say."""
    from verifier.ledger import PATH

    return hashlib.sha256(PATH.read_bytes()).hexdigest()[:16]


@cache
def content() -> str:
    """A digest of all that a proof depends on."""
    from verifier.solver import VERSION

    said = hashlib.sha256(VERSION.encode())
    folders = (
        "calculus", "grammar", "verifier/proving", "verifier/theorems", "verifier/trials", "verifier/execution",
    )  # fmt: skip
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    alone = (
        "solver.py", "samples.py", "calls.py", "kernels.py", "devices.py", "ledger.py", "texts.py", "examine.py",
        "backward.py",
    )  # fmt: skip
    for path in [*files, *(ROOT / "verifier" / name for name in alone)]:
        said.update(path.relative_to(ROOT).as_posix().encode())
        said.update(path.read_bytes())
    return said.hexdigest()[:16]
