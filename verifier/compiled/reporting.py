"""A run against compilers as people and programs read it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from calculus.communication import ESTIMATE
from verifier.compiled.agreement import Agreement
from verifier.compiled.classes import CLASSES
from verifier.compiled.derived import Said
from verifier.compiled.pairs import Matching, Pair
from verifier.compiled.reading import Moved
from verifier.report import count

MOST_SHOWN: Final = 20
"""The most programs with something unexplained that text shows of one target; `--json` lists all."""


def lines(runs: Sequence[Agreement], beside: bool = False) -> Iterator[str]:
    """The report as text: one table of all targets, then programs. beside: with both sides of every program."""
    for found in runs:
        yield (
            f"XLA for {found.target}, JAX {found.version}: {count(len(found.compared), 'program')} "
            f"in {found.seconds:.0f} seconds{', when it was interrupted' if found.interrupted else ''}"
        )
    yield from _table(runs)
    for found in runs:
        for stage in found.stages:
            forms = Counter(form for matching in found.at(stage) for one in _moved(matching) for form in one.forms)
            if forms:
                said = ", ".join(f"{form} ({number:,})" for form, number in sorted(forms.items()))
                yield f"  {found.target}, {stage}, written as: {said}"
        for one in found.compared:
            if one.problem:
                yield f"  note: {one.name} was partitioned for {found.target}, and not compiled: {one.problem}"
        for name in found.failed:
            yield f"  {name} is refused by JAX, XLA or us: {found.left_out[name]}"
    for found in runs:
        for one in found.compared if beside else found.unexplained[:MOST_SHOWN]:
            for stage, matching in one.stages.items():
                if beside or matching.unexplained:
                    yield ""
                    yield f"{one.name} on {one.mesh}, {found.target}, {stage}"
                    yield from _beside(matching, everything=beside)


def _table(runs: Sequence[Agreement]) -> Iterator[str]:
    """How many collectives are of which class, a column for each stage of each target."""
    columns = [(found, stage, found.at(stage)) for found in runs for stage in found.stages]
    rows: dict[str, list[int]] = {}

    def row(name: str, number: Callable[[Sequence[Matching]], int], always: bool = False) -> None:
        numbers = [number(those) for _, _, those in columns]
        if always or any(numbers):
            rows[name] = numbers

    row("programs", len, always=True)
    row("collectives of the types", lambda those: sum(len(_said(one)) for one in those), always=True)
    row("equal", lambda those: sum(len(one.equal) for one in those), always=True)
    row("  by the equation's line", lambda those: sum(pair.placed for one in those for pair in one.equal))
    for class_ in CLASSES:
        row(class_.name, lambda those, name=class_.name: sum(one.classes[name] for one in those))  # type: ignore[misc]
    row("unexplained", lambda those: sum(one.unexplained for one in those), always=True)
    row("priced by an estimate", _estimates)
    if any(found.left_out for found in runs):
        rows["refused by JAX, XLA or us"] = [len(found.left_out) for found, _, _ in columns]
    widths = [max(len(str(found.target)), len(stage)) for found, stage, _ in columns]
    first = max(map(len, rows))
    for heads in ([str(found.target) for found, _, _ in columns], [stage for _, stage, _ in columns]):
        yield _line("", heads, first, widths)
    for name, numbers in rows.items():
        yield _line(name, [f"{number:,}" for number in numbers], first, widths)


def _line(name: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    return f"  {name:<{first}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _estimates(those: Sequence[Matching]) -> int:
    return sum(one.exactness == ESTIMATE for matching in those for one in _said(matching))


def _said(matching: Matching) -> list[Said]:
    return [one for pair in matching.pairs for one in pair.said] + matching.said


def _moved(matching: Matching) -> list[Moved]:
    return [one for pair in matching.pairs for one in pair.moved] + matching.moved


def _beside(matching: Matching, everything: bool) -> Iterator[str]:
    """Both sides, one row for each collective that the types say, the compiled ones beside it."""
    rows: list[tuple[str, str, str]] = []
    if everything:
        for pair in sorted(matching.pairs, key=lambda pair: pair.class_ is not None):
            rows += _row(pair)
    rows += [(shown(one), "-", "unexplained") for one in matching.said]
    rows += [("-", shown(one), "unexplained") for one in matching.moved]
    heads = ("the types", "compiled", "")
    left, right = (max(len(row[side]) for row in (heads, *rows)) for side in (0, 1))
    for row in (heads, *rows):
        yield f"  {row[0]:<{left}}  {row[1]:<{right}}  {row[2]}".rstrip()


def _row(pair: Pair) -> Iterator[tuple[str, str, str]]:
    name = "" if pair.class_ is None else pair.class_.name
    most = max(len(pair.said), len(pair.moved))
    for index in range(most):
        said = shown(pair.said[index]) if index < len(pair.said) else "-"
        moved = shown(pair.moved[index]) if index < len(pair.moved) else "-"
        yield said, moved, name


def shown(one: Said | Moved) -> str:
    """A collective in one line."""
    size = "?" if one.payload is None else f"{one.payload:,}"
    loops = "".join(f" x{'?' if trips is None else trips}" for trips in one.loops)
    file, line = one.frames[0] if one.frames else ("", 0)
    place = one.where if isinstance(one, Said) and one.where else f"{os.path.basename(file)}:{line}" if file else ""
    return f"{one.kind} {','.join(one.axes)} {size}{loops}{f'  {place}' if place else ''}"


def as_data(runs: Sequence[Agreement]) -> dict[str, Any]:
    """The report as plain data; of several targets a list of them."""
    return _run(runs[0]) if len(runs) == 1 else {"targets": [_run(found) for found in runs]}


def _run(found: Agreement) -> dict[str, Any]:
    return {
        "target": str(found.target),
        "jax": found.version,
        "stages": {
            stage: {
                "programs": len(those := found.at(stage)),
                "equal": sum(len(one.equal) for one in those),
                "same_line": sum(pair.placed for one in those for pair in one.equal),
                "classes": dict(sum((one.classes for one in those), Counter[str]())),
                "estimates": _estimates(those),
                "unexplained": sum(one.unexplained for one in those),
                "forms": dict(Counter(form for matching in those for one in _moved(matching) for form in one.forms)),
            }
            for stage in found.stages
        },
        "programs": [
            {
                "name": one.name,
                "mesh": str(one.mesh),
                **({"problem": one.problem} if one.problem else {}),
                "stages": {stage: _as_data(matching) for stage, matching in one.stages.items()},
            }
            for one in found.compared
        ],
        "left_out": found.left_out,
        "failed": found.failed,
        "interrupted": found.interrupted,
        "seconds": round(found.seconds, 1),
    }


def _as_data(matching: Matching) -> dict[str, Any]:
    return {
        "pairs": [
            {
                "class": None if pair.class_ is None else pair.class_.name,
                "types": [collective_as_data(one) for one in pair.said],
                "compiled": [collective_as_data(one) for one in pair.moved],
                "same_line": pair.placed,
            }
            for pair in matching.pairs
        ],
        "unexplained": {
            "types": [collective_as_data(one) for one in matching.said],
            "compiled": [collective_as_data(one) for one in matching.moved],
        },
    }


def collective_as_data(one: Said | Moved) -> dict[str, Any]:
    """A collective as plain data."""
    return {
        "kind": one.kind,
        "axes": list(one.axes),
        "bytes": one.payload,
        "times": one.times,
        "loops": list(one.loops),
        "lines": [f"{file}:{line}" for file, line in one.frames[:3]],
        **(
            {"exactness": one.exactness, "where": one.where, "value": one.value}
            if isinstance(one, Said)
            else {"forms": sorted(one.forms), "place": one.place}
        ),
    }
