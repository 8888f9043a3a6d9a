"""Repeats: the runs of equations that a program goes through again and again, as the layers of a network written out.

Two runs are alike where their equations agree in primitives, parameters and types, and read each other's values in the
same places: they differ in names and in lines only. What is derived of an equation is a function of it and of the types
around it (theorem `local`), so what is derived of a run is that too, and is derived once.

Runs are looked for where a stretch of equations follows upon one like it; what is alike elsewhere stays apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import eq, itemgetter
from typing import Any, Final

from calculus.copied import Copied, items_of
from calculus.programs import Atom, Equation, Literal, Program, Variable
from calculus.types import Type

SHORTEST: Final = 8
"""How many equations a run has at the least: shorter ones are not worth the search."""
FEWEST: Final = 3
"""How many runs follow upon each other at the least."""
_TRIED: Final = 4
"""How many lengths are tried, those that most equations speak for."""


class Shape:
    """What runs that are alike have in common. types: those of the names that a run binds. results: the places, among
    those names, of the ones that are read after some run."""

    __slots__ = ("results", "types")

    def __init__(self, types: tuple[Type | None, ...]) -> None:
        self.types = types
        self.results: tuple[int, ...] = ()


class _Read(Shape):
    """That of equations: which of their values they read where."""

    __slots__ = ("_first", "_literals", "_read")

    def __init__(self, equations: Sequence[Equation]) -> None:
        super().__init__(tuple([type for one in equations for type in one.types]))
        read, binders = _read(equations), _bound(equations)
        inside = {*binders}
        externals = [atom for atom in dict.fromkeys(read) if atom not in inside and not isinstance(atom, Literal)]
        self._literals = tuple(dict.fromkeys(atom for atom in read if isinstance(atom, Literal)))
        places = {atom: place for place, atom in enumerate((*externals, *binders, *self._literals))}
        self._first = _taken([read.index(atom) for atom in externals])
        self._read = _taken([places[atom] for atom in read])

    def run(self, equations: Sequence[Equation]) -> Run | None:
        """A run of this shape; `None` where these, alike in primitives, parameters and types, read otherwise."""
        read, binders = _read(equations), _bound(equations)
        externals = self._first(read)
        if self._read((*externals, *binders, *self._literals)) != read or "_" in read:
            return None
        return Run(self, equations, externals, binders) if _each_once(externals, binders) else None


def _each_once(externals: Sequence[Variable], binders: Sequence[Variable]) -> bool:
    names = {*externals}
    return len(names) == len(externals) and names.isdisjoint(binders)


class Run:
    """A run. those: its equations, or the copy of them. externals: the values from outside that it reads, each once.
    binders: the names that it binds."""

    __slots__ = ("_those", "binders", "externals", "shape")

    def __init__(
        self, shape: Shape, those: Sequence[Equation] | Copied, externals: tuple[Variable, ...],
        binders: tuple[Variable, ...],
    ) -> None:  # fmt: skip
        self.shape = shape
        self._those = those
        self.externals = externals
        self.binders = binders

    @property
    def equations(self) -> Sequence[Equation]:
        """Its equations."""
        return self._those.equations if isinstance(self._those, Copied) else self._those

    def line(self, place: int) -> int:
        """The line of the equation at a place."""
        return self._those.line_of(place) if isinstance(self._those, Copied) else self._those[place].line

    def line_from_the_end(self, place: int) -> int:
        """The same, counted from the last."""
        return self.line(len(self._those) - 1 - place)


def stretches(program: Program) -> list[Run | Sequence[Equation]]:
    """The equations of a program in their order: runs, and what stands between them. Copies of one piece are runs."""
    found: list[Run | Sequence[Equation]] = []
    shapes: dict[tuple[object, ...], Shape] = {}
    for copied, items in groupby(items_of(program), lambda item: isinstance(item, Copied)):
        if not copied:
            found += _stretches([*items])  # type: ignore[list-item]  # none is a copy
            continue
        for one in items:
            assert isinstance(one, Copied)
            read = one.reads
            externals = tuple([atom for atom in read if isinstance(atom, str)])
            if _each_once(externals, one.names) and "_" not in externals:
                key: tuple[object, ...] = (one.steps,)
                if len(externals) < len(read):
                    key = (*key, *[None if isinstance(atom, str) else atom for atom in read])
                shape = shapes.get(key)
                if shape is None:
                    shape = shapes[key] = Shape(one.steps.types)
                found.append(Run(shape, one, externals, one.names))
            else:
                found.append(one.equations)
    _see_results(found, program.outputs)
    return found


def _stretches(equations: Sequence[Equation]) -> Iterator[Run | Sequence[Equation]]:
    """The same of equations that are not known to be copies."""
    done = 0
    for first, length, count in _repeated(_heads(equations), 0) if len(equations) >= SHORTEST * FEWEST else ():
        if first > done:
            yield equations[done:first]
        done = first + length * count
        shape: _Read | None = None
        for start in range(first, done, length):
            those = equations[start : start + length]
            run = None if shape is None else shape.run(those)
            if run is None:
                shape = _Read(those)
                run = shape.run(those)
            yield those if run is None else run
    if len(equations) > done:
        yield equations[done:]


def _see_results(found: Sequence[Run | Sequence[Equation]], outputs: Sequence[Atom]) -> None:
    """Say of each shape which of its values are read after its runs."""
    read: set[Atom] = {*outputs}
    for one in reversed(found):
        if isinstance(one, Run):
            after = read.intersection(one.binders)
            shape = one.shape
            places = [place for place, name in enumerate(one.binders) if name in after]
            if not {*places}.issubset(shape.results):
                shape.results = tuple(sorted({*shape.results, *places}))
            read.update(one.externals)
        else:
            read.update(_read(one))


def _heads(equations: Sequence[Equation]) -> list[int]:
    """A number for each equation; those that agree in primitive, parameters and types have the same."""
    numbers: dict[tuple[object, ...], int] = {}
    number = numbers.setdefault
    return [number((one.primitive, one.parameters, one.types), len(numbers)) for one in equations]


def _repeated(heads: Sequence[int], offset: int) -> Iterator[tuple[int, int, int]]:
    """Where runs follow upon each other: the place of the first, how long they are, and how many. The longest stretch
    first, then what stands before it and behind; given in their order."""
    best = (0, 0, 0)
    for length in _lengths(heads):
        first, size = _longest(bytes(map(eq, heads, heads[length:])))
        if size >= length * (FEWEST - 1) and size + length > best[0]:
            best = size + length, first, length
    size, first, length = best
    if not size:
        return
    count = size // length
    end = first + length * count
    yield from _repeated(heads[:first], offset)
    yield offset + first, length, count
    yield from _repeated(heads[end:], offset + end)


def _lengths(heads: Sequence[int]) -> list[int]:
    """How far apart equations stand that are alike: the distances that most of them speak for, the shortest first."""
    places = sorted(range(len(heads)), key=heads.__getitem__)  # of those that are alike in their order
    gaps = Counter([second - first for first, second in pairwise(places)])
    most = len(heads) // FEWEST
    return sorted([gap for gap, _ in gaps.most_common() if SHORTEST <= gap <= most][:_TRIED])


def _longest(same: bytes) -> tuple[int, int]:
    """The first place and the length of the longest stretch of ones."""
    ones = max(same.split(b"\0"), key=len)
    return same.find(ones), len(ones)


def _read(equations: Sequence[Equation]) -> tuple[Atom, ...]:
    return tuple(chain.from_iterable([one.inputs for one in equations]))


def _bound(equations: Sequence[Equation]) -> tuple[Variable, ...]:
    return tuple(chain.from_iterable([one.binders for one in equations]))


def _taken(places: Sequence[int]) -> Any:
    """Gives the items at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: tuple([items[place] for place in places])
