"""Wrong rows of per-device code, and wrong maps of the states, put to the theorems that speak of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from calculus import cotangents
from calculus.collectives import COLLECTIVES, Row
from calculus.refusals import Refused
from tests.laws.test_collectives_against_jax import unexplained
from tests.mutate_prover.seen import LAW, NOBODY, RUN, SOLVER, Seen, seen
from tests.spec.document import read_document
from tests.spec.engines import run_section
from verifier.proving.obligations import discharge
from verifier.theorems import THEOREMS

_SPEC: Final = Path(__file__).parents[1] / "spec"


def _rows() -> Iterator[tuple[str, Row]]:
    """Every row of per-device code that adds or moves, wrong in every way."""
    other = {"N": "R", "R": "N"}
    kinds = sorted({row.kind for row in COLLECTIVES.values()})
    for name, row in COLLECTIVES.items():
        if not row.before or row.future:
            continue
        if row.before in other:
            yield f"{name}: before {row.before} -> {other[row.before]}", row._replace(before=other[row.before])
        if row.after in other:
            yield f"{name}: after {row.after} -> {other[row.after]}", row._replace(after=other[row.after])
        if row.joined == "sum":
            for kind in kinds:
                if kind != row.kind:
                    yield f"{name}: {row.kind or 'free'} -> {kind or 'free'}", row._replace(kind=kind)
            for transpose in dict.fromkeys(each.transpose for each in COLLECTIVES.values()):
                if row.transpose and transpose and _differ(transpose, row.transpose):
                    yield f"{name}: transpose {row.transpose} -> {transpose}", row._replace(transpose=transpose)


def _differ(one: str, other: str) -> bool:
    """Whether two rows do something else: some are one row by two names."""
    return COLLECTIVES[one]._replace(transpose="") != COLLECTIVES[other]._replace(transpose="")


_MAPS: Final = {
    f"cotangents: {', '.join(f'{a} -> {b}' for a, b in swapped.items()) or 'nothing is exchanged'}": swapped
    for swapped in (
        {},
        {"N": "U", "U": "N"},
        {"N": "R", "R": "N"},
        {"R": "U"},
        {"U": "R"},
        {"R": "U", "U": "R", "N": "R"},
        {"R": "U", "U": "N", "N": "R"},
    )
}
"""Other maps of the states, that leave what is sharded where it is."""

_OF_RULES: Final = ("adjointness", "modes", "cotangents", "communication", "reshards", "fan_out", "relation")
"""The theorems that speak of rows and of the map."""


def rules() -> list[str]:
    """The names of all wrong rows and maps."""
    return [what for what, _ in _rows()] + list(_MAPS)


def rule(what: str) -> Seen:
    """Who sees a wrong row, or a wrong map. To be run in a process of its own: what was found out before stays."""
    name = what.partition(":")[0]
    return seen(what, partial(_seen, what, name))


def _seen(what: str, name: str) -> Seen:
    if what in _MAPS:
        cotangents._SWAPPED.clear()
        cotangents._SWAPPED.update(_MAPS[what])
    else:
        COLLECTIVES[name] = dict(_rows())[what]
    for theorem in sorted(THEOREMS, key=lambda one: _OF_RULES.index(one.name) if one.name in _OF_RULES else -1):
        if theorem.name not in _OF_RULES:
            continue
        try:
            for one in theorem.obligations():
                if one.name.startswith(("adjointness.of.", "adjointness.programs", "relation.iterated")):
                    continue
                outcome = discharge(one)
                if not outcome.holds:
                    by = SOLVER if any(not answer.proved for _, answer in outcome.answers) else RUN
                    return Seen(what, by, f"{one.name}: {outcome.objection}")
        except (ValueError, KeyError, Refused, AssertionError) as error:
            return Seen(what, RUN, f"{theorem.name}: {error!r}")
    return Seen(what, LAW if what not in _MAPS and (unexplained(name) or _misdocumented(name)) else NOBODY)


def _misdocumented(name: str) -> bool:
    """Whether what tests/spec says of programs that use a row, what they send for one, is not so."""
    sections = [section for path in sorted(_SPEC.glob("*.md")) for section in read_document(path)]
    about = [one for one in sections if any(name in block.text for block in one.blocks)]
    return any(run_section(one).problems for one in about)
