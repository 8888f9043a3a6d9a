"""The type of any one binder, at any depth, cannot be changed unnoticed: every program of the seeds, every shard_map
program, in both dialects, every binder, every change one step away.

A refusal stands at the changed equation, or at the first that uses the variable. The changes that are well typed all
the same are frozen in `well_typed_changes.toml`, each under a reason that is checked.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import calculus.rules
from calculus.programs import Equation, Program
from calculus.types import ArrayType, Type
from grammar.print import print_document
from tests.laws.changes import Binder, Source, binders, changes_of, load, name_of, sources, verdict
from tests.laws.well_typed_reasons import REASONS, frozen, holds
from verifier.texts import check_text

FILES = sources("seed_", "shmap_")
FROZEN = frozen()

Row = tuple[Binder, str, list[Type]]


class Swept(NamedTuple):
    """What became of every change to one program. accepted: no refusal. later: the changed equation and the first that
    uses the variable are well typed, a later one refuses. misplaced: refused elsewhere. tried: how many changes."""

    accepted: list[Row]
    later: list[Row]
    misplaced: list[str]
    tried: int


def swept(source: Source) -> Swept:
    found = Swept([], [], [], 0)
    tried = 0
    for binder in binders(source.document):
        label, accepted, later = binder.label, list[Type](), list[Type]()
        first, all_places = places(binder)
        for changed in changes_of(binder.type, source.axes):
            tried += 1
            with binder.retyped(changed):
                refusals = verdict(source)
            stands = [id(site) for _, site in refusals]
            if not refusals:
                accepted.append(changed)
            elif not all_places.issuperset(stands):
                found.misplaced.append(f"{label} := {changed}: {refusals}")
            elif first.isdisjoint(stands):
                later.append(changed)
        if accepted:
            found.accepted.append((binder, label, accepted))
        if later:
            found.later.append((binder, label, later))
    return found._replace(tried=tried)


def places(binder: Binder) -> tuple[set[int], set[int]]:
    """Where a refusal of a changed type should stand, and where it may stand. An input of a body is bound by the
    equation that runs the body; a result of a body is used by it."""
    users: list[Equation | Program] = [*binder.users()]
    callers = list(binder.callers)
    bound = binder.holder is binder.scope
    first = [binder.holder, *(callers if bound else ()), *(users[:1] or (callers if binder.returned() else []))]
    others = callers if bound or binder.returned() else []
    return set(map(id, first)), set(map(id, [*first, *users, *others]))


def listed(kind: str, file: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for reason in FROZEN.values():
        for label, types in reason.get(kind, {}).get(file, {}).items():
            found.setdefault(label, set()).update(types)
    return found


def shown(rows: list[Row]) -> dict[str, set[str]]:
    return {label: set(map(str, types)) for _, label, types in rows}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_change_goes_unnoticed(path: Path) -> None:
    source = load(path)
    assert verdict(source) == []
    found = swept(source)
    assert found.tried > 25 * len(binders(source.document))
    assert found.misplaced == []
    assert shown(found.accepted) == listed("accepted", source.name)
    assert shown(found.later) == listed("later", source.name)
    assert verdict(source) == []


def test_every_listed_change_has_its_one_reason() -> None:
    by_name = {name_of(path): load(path) for path in FILES}
    tried: Counter[str] = Counter()
    for name, reason in FROZEN.items():
        assert reason["because"]
        for kind in ("accepted", "later"):
            for file, rows in reason.get(kind, {}).items():
                found = {binder.label: binder for binder in binders(by_name[file].document)}
                for label, types in rows.items():
                    changes = {str(type): type for type in changes_of(found[label].type, by_name[file].axes)}
                    for type in types:
                        reasons = [one for one in REASONS if holds(one, found[label], changes[type])]
                        assert reasons == [name], f"{file}: {label} := {type}"
                        tried[name] += 1
    assert set(tried) == set(REASONS)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_printed_type_is_a_binder_that_is_changed(path: Path) -> None:
    """Counted in the text, where a type follows a name and a colon."""
    source = load(path)
    printed = re.findall(r"(?<![\w.'])(?:[a-z]+|_):(?=[a-z]\w*(?:<\w+>)?\[)", source.text)
    assert len(binders(source.document)) == len(printed)


@pytest.mark.parametrize("path", FILES[::3], ids=name_of)
def test_the_text_of_a_changed_program_is_refused_alike(path: Path) -> None:
    source = load(path)
    for number, binder in enumerate(binders(source.document)):
        changes = changes_of(binder.type, source.axes)
        changed = changes[7 * number % len(changes)]
        with binder.retyped(changed):
            text, refusals = print_document(source.document), verdict(source)
        report = check_text(text, source.meshes, source.name)
        assert (report.verdict == "ok") == (not refusals)
        assert Counter(one.code for one in report.refusals) == Counter(one.code for one, _ in refusals)
        lines = text.split("\n")
        for refusal in report.refusals:
            assert 1 <= refusal.column <= len(lines[refusal.line - 1])


def test_the_law_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type rule that believes what is printed accepts more than the list."""

    def believing(result: ArrayType, printed: Type | None, number: int) -> ArrayType:
        return result

    source = load(next(path for path in FILES if path.stem == "seed_microbatch"))
    monkeypatch.setattr(calculus.rules, "agreeing", believing)
    found = swept(source)
    assert shown(found.accepted) != listed("accepted", source.name)
