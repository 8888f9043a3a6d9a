"""Loops told apart by what they compute: a carry is known by where it starts and how it goes on, whatever order carries
stand in; a result by the iteration that ends as it, and by all that this depends on. For `calculus.equivalence`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from calculus.loops import scan_parts
from calculus.parameters import integer
from calculus.programs import Atom, Equation, Program, body
from calculus.types import ArrayType

if TYPE_CHECKING:
    from calculus.equivalence import Numbering


def scan(numbers: Numbering, equation: Equation, operands: Sequence[int], types: Sequence[Hashable]) -> list[int]:
    """The numbers of a scan's results: what it does not change is itself inside, or copies outside."""
    inner = body(equation.parameters["jaxpr"])
    assert inner is not None
    held, count = scan_parts(equation.parameters, len(operands), len(equation.binders))
    how = str(equation.parameters["length"]), str(equation.parameters.get("reverse"))
    bound = [
        type.canonical if isinstance(type, ArrayType) else type for type in (*inner.constant_types, *inner.input_types)
    ]
    slices = [
        key.operands[0]
        if (key := numbers.keys[operand]).what == "copies"
        else numbers.value("slice", type, how, operand)
        for operand, type in zip(operands[held + count :], bound[held + count :], strict=True)
    ]
    starts = list(zip(operands[held : held + count], bound[held : held + count], strict=True))
    live = _live(inner, held, count, [index for index, name in enumerate(equation.binders) if name != "_"])
    carries, ends = _iterated(
        numbers, how, starts, live, lambda carries: numbers.results(inner, [*operands[:held], *carries, *slices])
    )
    goes = dict(zip(carries, ends, strict=False)) | {carries[index]: ends[index] for index in live}
    found = []
    for index, (end, type) in enumerate(zip(ends, types, strict=True)):
        steps = _steps(numbers, goes, [end], {carries[index]} if index < count else set())
        if index >= count and numbers.free[end].isdisjoint([*carries, *slices]):
            found.append(numbers.value("copies", type, (), end))
            continue
        kind = "last" if index < count else "stacked"
        found.append(numbers.value(kind, type, (how, steps), end, beside=operands))
    return found


def while_loop(numbers: Numbering, equation: Equation, operands: Sequence[int], types: Sequence[Hashable]) -> list[int]:
    """The numbers of a while loop's results: what decides its end is part of what each carry ends as."""
    inner, test = (body(equation.parameters[name]) for name in ("body_jaxpr", "cond_jaxpr"))
    assert inner is not None
    assert test is not None
    asked, held = (integer(equation.parameters[name], name) for name in ("cond_nconsts", "body_nconsts"))
    start = asked + held
    starts = list(zip(operands[start:], types, strict=True))
    carries, ends = _iterated(
        numbers, "while", starts, range(len(starts)),
        lambda carries: numbers.results(inner, [*operands[asked:start], *carries]),
    )  # fmt: skip
    (decides,) = numbers.results(test, [*operands[:asked], *carries])
    goes = dict(zip(carries, ends, strict=True))
    found = []
    for carry, end, type in zip(carries, ends, types, strict=True):
        steps = _steps(numbers, goes, [end, decides], {carry})
        found.append(numbers.value("last", type, ("while", steps), end, decides, beside=operands))
    return found


def _iterated(
    numbers: Numbering, how: Hashable, starts: Sequence[tuple[int, Hashable]], live: Iterable[int],
    once: Callable[[list[int]], list[int]],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """The numbers of a loop's carries in an iteration, and those of what the iteration makes. Carries that start alike
    are one, until those of them that are used are seen to go on otherwise; each is labelled by how it goes on at first,
    so that its number does not depend on what starts beside it."""
    labels: list[tuple[int, ...]] = [()] * len(starts)
    while True:
        carries = [
            numbers.value("carry", type, (how, label), start)
            for (start, type), label in zip(starts, labels, strict=True)
        ]
        ends = once(carries)
        goes_on: dict[int, set[int]] = {}
        for index in live:
            goes_on.setdefault(carries[index], set()).add(ends[index])
        if (any(labels) and all(len(ways) == 1 for ways in goes_on.values())) or not starts:
            return carries, ends
        labels = [
            (*label, end) if not label or len(goes_on.get(carry, ())) > 1 else label
            for label, carry, end in zip(labels, carries, ends, strict=False)
        ]


def _steps(
    numbers: Numbering, goes: Mapping[int, int], wanted: Sequence[int], needed: set[int]
) -> tuple[tuple[int, int], ...]:
    """The carries on which results of an iteration depend, at once or later, with what an iteration makes of them
    (`goes`)."""
    needed = {*needed}
    waiting = [*wanted, *(goes[carry] for carry in needed)]
    while waiting:
        for carry in numbers.free[waiting.pop()].intersection(goes) - needed:
            needed.add(carry)
            waiting.append(goes[carry])
    return tuple(sorted((carry, goes[carry]) for carry in needed))


def _live(inner: Program, held: int, count: int, results: Sequence[int]) -> set[int]:
    """Which carries of a loop the results that are used depend on."""
    carries = {name: index for index, name in enumerate((*inner.constants, *inner.inputs)[held : held + count])}
    reached: set[Atom] = set()
    wanted, live = list(results), set[int]()
    while wanted:
        reached.update(inner.outputs[index] for index in wanted)
        for equation in reversed(inner.equations):
            if not reached.isdisjoint(equation.binders):
                reached.update(equation.inputs)
        fresh = {carries[atom] for atom in reached if atom in carries} | {index for index in wanted if index < count}
        wanted = sorted(fresh - live)
        live |= fresh
    return live
