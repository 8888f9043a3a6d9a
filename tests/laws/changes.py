"""One change to a program: the type of one binder, or one operand, equation or parameter; made in place and undone.

Which changes are tried is a function of the program alone. Nothing here knows the rules of the calculus.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from calculus.checking import Checker, Site
from calculus.meshes import Axis, Mesh
from calculus.programs import Document, Equation, Program, bodies
from calculus.refusals import Refusal, Refused
from calculus.types import ArrayType, RefType, Type, array_type, same
from grammar.read import read

CORPUS = Path(__file__).resolve().parents[1] / "golden" / "corpus"
#: where the index names no mesh, the program was traced on this one
USUAL = {"X": 4, "Y": 2}


@dataclass(frozen=True, slots=True)
class Source:
    """A program of the corpus: its name (with its dialect's folder), its text, its document, the meshes it runs on."""

    name: str
    text: str
    document: Document
    meshes: tuple[Mesh, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that changes use: those of the meshes, and one that no mesh has."""
        return (*dict.fromkeys(axis.name for mesh in self.meshes for axis in mesh.axes), "Unknown")


def sources(*prefixes: str) -> list[Path]:
    """The corpus files of both dialects whose names begin so."""
    return sorted(path for path in CORPUS.rglob("*.jaxpr") if path.name.startswith(prefixes))


def load(path: Path) -> Source:
    row = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))[path.stem]
    printed = [row["mesh"] or USUAL, *([row["inner_mesh"]] if "inner_mesh" in row else [])]
    meshes = tuple(Mesh(Axis(name, size) for name, size in sizes.items()) for sizes in printed)
    text = path.read_text(encoding="utf-8")
    return Source(name_of(path), text, read(text), meshes)


def name_of(path: Path) -> str:
    return path.relative_to(CORPUS).as_posix().removesuffix(".jaxpr")


@contextmanager
def replaced(term: Equation | Program, field: str, value: object) -> Iterator[None]:
    """A term with one field replaced, for as long as the context lasts."""
    before = getattr(term, field)
    setattr(term, field, value)
    try:
        yield
    finally:
        setattr(term, field, before)


@dataclass(frozen=True, slots=True)
class Binder:
    """A place that carries a type. holder: the equation, or the program for its inputs and constants. scope: the body
    in which the variable is seen. callers: the equations that run that body; none for the main program."""

    holder: Equation | Program
    field: str
    index: int
    name: str
    scope: Program
    callers: tuple[Equation, ...]

    @property
    def type(self) -> Type | None:
        return getattr(self.holder, self.field)[self.index]  # type: ignore[no-any-return]

    @property
    def label(self) -> str:
        return f"line {self.holder.line} {self.name}:{self.type}"

    def retyped(self, type: Type) -> AbstractContextManager[None]:
        """The program with this binder at another type, for as long as the context lasts."""
        before = getattr(self.holder, self.field)
        return replaced(self.holder, self.field, (*before[: self.index], type, *before[self.index + 1 :]))

    def users(self) -> list[Equation]:
        """The equations that read the variable, in order; a `_` is read by none."""
        return [] if self.name == "_" else [found for found in self.scope.equations if self.name in found.inputs]

    @property
    def primitive(self) -> str:
        """What makes the value; `""` for an input."""
        return self.holder.primitive if isinstance(self.holder, Equation) else ""

    def returned(self) -> bool:
        return self.name in self.scope.outputs


def programs(document: Document) -> list[tuple[Program, tuple[Equation, ...]]]:
    """Every body once, the main program first, with the equations that run it."""
    found: dict[int, tuple[Program, list[Equation]]] = {id(document.program): (document.program, [])}
    waiting = [document.program]
    while waiting:
        program = waiting.pop(0)
        for equation in program.equations:
            for _, inner in bodies(equation.parameters):
                if id(inner) not in found:
                    found[id(inner)] = (inner, [])
                    waiting.append(inner)
                found[id(inner)][1].append(equation)
    return [(program, tuple(callers)) for program, callers in found.values()]


def binders(document: Document) -> list[Binder]:
    found: list[Binder] = []
    for program, callers in programs(document):
        for field, names in (("constant_types", program.constants), ("input_types", program.inputs)):
            found += (Binder(program, field, at, name, program, callers) for at, name in enumerate(names))
        for equation in program.equations:
            found += (Binder(equation, "types", at, name, program, callers) for at, name in enumerate(equation.binders))
    return found


def verdict(source: Source) -> list[tuple[Refusal, Site]]:
    """The refusals of the program as it stands, in the order found. Any other exception is a fault of the checker."""
    checker = Checker(source.meshes)
    try:
        checker.check(source.document.program)
    except Refused as refused:
        checker.refuse(refused.refusal, source.document.program)
    return checker.refusals


def changes_of(type: Type | None, axes: tuple[str, ...]) -> list[Type]:
    """Other types, each one step away from this one, in a fixed order. `axes`: those of the program's meshes."""
    if not isinstance(type, ArrayType):
        return [array_type("f32", (4,))]
    found: dict[Type, None] = {}
    for changed in _steps(type, axes):
        if not same(changed, type):
            found.setdefault(changed)
    return list(found)


def _steps(type: ArrayType, axes: tuple[str, ...]) -> Iterator[Type]:
    def with_(**parts: object) -> ArrayType:
        names = ("dtype", "shape", "axes", "varying", "unreduced", "reduced", "kind", "memory")
        now = {name: getattr(type, name) for name in names}
        return array_type(**{**now, **parts})

    shape, lists, rank = type.shape, type.axes, type.rank
    for dtype in ("f32", "bf16", "f64", "i32", "u32", "bool", "c64", "float0", "key<fry>", "i4"):
        yield with_(dtype=dtype)
    for dim, size in enumerate(shape):
        for other in (size * 2, size // 2, size + 1, 1, 0) if isinstance(size, int) else (8,):
            yield with_(shape=(*shape[:dim], other, *shape[dim + 1 :]))
        yield with_(shape=shape[:dim] + shape[dim + 1 :], axes=lists[:dim] + lists[dim + 1 :])
    for at in range(rank + 1):
        for size in (1, 2):
            yield with_(shape=(*shape[:at], size, *shape[at:]), axes=(*lists[:at], (), *lists[at:]))
    for left in range(rank):
        for right in range(left):
            order = list(range(rank))
            order[left], order[right] = right, left
            moved_shape, moved_lists = tuple(shape[at] for at in order), tuple(lists[at] for at in order)
            yield with_(shape=moved_shape, axes=moved_lists)
            yield with_(shape=moved_shape)
            yield with_(axes=moved_lists)
    yield from _placements(type, with_, axes)
    yield from _states(type, with_, axes)
    for memory in ("", "host"):
        yield with_(memory=memory)
    yield RefType(type)
    yield RefType(type, "default")


def _placements(type: ArrayType, with_, axes: tuple[str, ...]) -> Iterator[Type]:  # type: ignore[no-untyped-def]
    """Axes added to dims, dropped, moved, replaced; lists turned round."""
    lists = type.axes
    yield with_(axes=((),) * type.rank)
    for dim, names in enumerate(lists):

        def at(new: tuple[str, ...], dim: int = dim) -> tuple[tuple[str, ...], ...]:
            return (*lists[:dim], new, *lists[dim + 1 :])

        for axis in axes:
            yield with_(axes=at((*names, axis)))
            yield with_(axes=at((axis, *names)))
            bare = tuple(tuple(name for name in other if name != axis) for other in lists)
            yield with_(axes=(*bare[:dim], (*bare[dim], axis), *bare[dim + 1 :]))
            for name in names:
                yield with_(axes=at(tuple(axis if old == name else old for old in names)))
        for name in names:
            rest = at(tuple(old for old in names if old != name))
            yield with_(axes=rest)
            for state in ("unreduced", "reduced", "varying"):
                yield with_(axes=rest, **{state: (*getattr(type, state), name)})
        yield with_(axes=at(names[::-1]))


def _states(type: ArrayType, with_, axes: tuple[str, ...]) -> Iterator[Type]:  # type: ignore[no-untyped-def]
    """Each axis in each state; each set dropped; two axes at once; kinds."""
    sets = ("varying", "unreduced", "reduced")
    for axis in axes:
        bare = {name: tuple(old for old in getattr(type, name) if old != axis) for name in sets}
        yield with_(**bare)
        for state in sets:
            yield with_(**{**bare, state: (*bare[state], axis)})
            yield with_(**{state: (*getattr(type, state), axis)})
        yield with_(**{**bare, "unreduced": (*bare["unreduced"], axis), "kind": "max"})
    for state in sets:
        yield with_(**{state: ()})
        yield with_(**{state: axes})
    yield with_(varying=type.unreduced, unreduced=type.reduced, reduced=type.varying)
    yield with_(varying=type.reduced, unreduced=type.varying, reduced=type.unreduced)
    for kind in ("max", "min"):
        yield with_(kind=kind)
