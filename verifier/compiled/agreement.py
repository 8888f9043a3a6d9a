"""What the types say is moved, beside what a compiler for a target moves: of functions by name, or of a fixed set of
programs. The door to JAX and its compilers is `verifier.with_jax.compiling`."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from calculus.meshes import Axis, Mesh
from calculus.refusals import Refused
from verifier.compiled.matching import matched
from verifier.compiled.module import BadModule
from verifier.compiled.pairs import Matching
from verifier.compiled.reading import read
from verifier.compiled.targets import CPU, PARTITIONED, NoCompiler, Target
from verifier.factories import BadFactory, is_target, made_by

LLAMAS: Final = ("examples.llama:gather_each_time", "examples.llama:gather_once")
SMALL_LLAMAS: Final = ("examples.llama:two_layers_gather_each_time", "examples.llama:two_layers_gather_once")
"""At full width, for eight devices, which have no memory for all layers: of those only what is partitioned is seen."""
STEPS: Final = ("examples.microbatches:accumulated", "examples.microbatches:summed_each_time")
ROOMS: Final = ("documented", "manual", "transformer", "family")
"""What is compared where nothing is named: the examples, where this is a checkout, and these rooms of derivatives."""


@dataclass
class Compared:
    """One program. stages: what agrees at each stage that the compiler shows. problem: why it was not compiled to the
    end. chosen_mesh: the mesh that it was compiled for."""

    name: str
    mesh: Mesh
    stages: dict[str, Matching] = field(default_factory=dict)
    problem: str = ""

    @property
    def unexplained(self) -> int:
        """How many collectives no class explains."""
        return sum(one.unexplained for one in self.stages.values())


@dataclass
class Agreement:
    """What a run for one target finds. left_out: the programs that JAX, the compiler or our checker refuses, with what
    it says. failed: those of them that were asked for by name, and are not of the fixed ones. interrupted: whether
    somebody ended it."""

    target: Target
    version: str
    compared: list[Compared] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False
    failed: list[str] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Compared]:
        """The programs with something that no class explains."""
        return [one for one in self.compared if one.unexplained]

    @property
    def stages(self) -> list[str]:
        """The stages that some program was seen at, the earliest first."""
        found = {stage for one in self.compared for stage in one.stages}
        return sorted(found, key=lambda stage: stage != PARTITIONED)

    def at(self, stage: str) -> list[Matching]:
        """Of every program that was seen at a stage."""
        return [one.stages[stage] for one in self.compared if stage in one.stages]


def compare(
    target: Target, names: Sequence[str] = (), meshes: Sequence[Mesh] = (),
    progress: Callable[[str], None] = lambda what: None,
) -> Agreement:  # fmt: skip
    """Compare. names: `package.module:factory` or `PATH.py:factory`; `FILE.jaxpr`, a printed program; or a program
    of `verifier.with_jax.backward_programs`, or a room of them, for their derivatives; without any, the fixed set.
    meshes: to compile for, instead of those that arguments lie on: the same axes, in other sizes.

    Raises `NoCompiler`, with the repair; `BadFactory` and `UnknownProgram` for a name that leads nowhere; and, for what
    is named, `NotCompiled` and `Refused`: where several are named, and one can be compared, they are in what is found.
    Where somebody interrupts, what was compared until then is what is found.
    """
    from verifier.with_jax.compiling import VERSION

    started = time.monotonic()
    found = Agreement(target, VERSION)
    waiting = [one for name in names for one in _named(found, name, meshes)] if names else [*_fixed_set(found, meshes)]
    try:
        for at, one in enumerate(waiting, 1):
            progress(f"{one.name} for {target}, {at} of {len(waiting)}")
            _compare(found, one, last=at == len(waiting))
    except KeyboardInterrupt:
        found.interrupted = True
        if not found.compared:
            raise
    found.seconds = time.monotonic() - started
    return found


class NotCompiled(Exception):
    """What JAX or a compiler of its says of a program that it does not take, or XLA's text that is not understood."""


class _Program(NamedTuple):
    """What is to be compared. ours: whether it is one of the fixed ones, whose refusal is an answer."""

    name: str
    compare: Callable[[], Compared]
    ours: bool = True


def _compare(found: Agreement, one: _Program, last: bool) -> None:
    try:
        found.compared.append(one.compare())
    except (NotCompiled, Refused, NoCompiler, BadFactory) as error:
        if one.ours and isinstance(error, (NoCompiler, BadFactory)):
            raise
        if not one.ours:
            if last and not found.compared:
                raise
            found.failed.append(one.name)
        found.left_out[one.name] = str(error)


@contextlib.contextmanager
def _theirs() -> Iterator[None]:
    """What JAX raises is an answer; what goes wrong elsewhere is our mistake, and goes through."""
    try:
        yield
    except (ImportError, NoCompiler, Refused, KeyboardInterrupt):
        raise
    except Exception as error:
        raise NotCompiled(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error


def _named(found: Agreement, name: str, meshes: Sequence[Mesh]) -> Iterator[_Program]:
    """The programs of a name."""
    from verifier.with_jax.backward_programs import samples

    if name.endswith(".jaxpr"):
        yield _Program(name, functools.partial(_text, name, found.target, meshes), ours=False)
    elif is_target(name):
        yield _Program(name, functools.partial(_factory, name, found.target, meshes), ours=False)
    else:
        for each, make in samples(name).items():
            yield _Program(each, functools.partial(_derivative, found.target, each, make))


def _factory(name: str, target: Target, meshes: Sequence[Mesh]) -> Compared:
    """Called when its turn has come: the mesh that it sets is the one in context then."""
    return of_function(name, target, *made_by(name), meshes[0] if meshes else None)


def _text(name: str, target: Target, meshes: Sequence[Mesh]) -> Compared:
    from verifier.with_jax.backward_programs.printed import function_of

    with _theirs():
        function, arguments, mesh = function_of(name, meshes)
    return of_function(name, target, function, arguments, {}, mesh)


def of_function(
    name: str, target: Target, function: Any, arguments: Any, keywords: Any, mesh: Mesh | None
) -> Compared:  # fmt: skip
    """Compare a function, on a mesh, or that of its arguments. Raises `NoCompiler`, `NotCompiled` and `Refused`."""
    from verifier.with_jax import compiling

    mesh = mesh or compiling.mesh_of((arguments, keywords))
    if mesh is None:
        raise NoCompiler(f"the arguments of {name} lie on no mesh, or on several", "say which: --mesh X=4,Y=2")
    on = compiling.mesh_on(target, mesh)
    with _theirs():
        arguments, keywords = compiling.placed((tuple(arguments), dict(keywords)), on)
        traced = compiling.trace_on(on, function, arguments, keywords)
    return compared(name, target, on, traced)


def compared(name: str, target: Target, mesh: Any, traced: Any) -> Compared:
    """Compare what was traced on a mesh with devices. Raises `NotCompiled` and `Refused`."""
    from verifier.with_jax import meshes
    from verifier.with_jax.compiling import compile_
    from verifier.with_jax.deriving import derived

    ours = meshes.ours(mesh)
    sizes = {axis.name: axis.size or 1 for axis in ours.axes}
    said = derived(traced)
    with _theirs():
        compiled = compile_(traced, target, mesh, quick=True)
    try:
        moved = {stage: read(text, sizes, early=stage == PARTITIONED) for stage, text in compiled.texts.items()}
    except BadModule as error:
        raise NotCompiled(f"what XLA wrote is not understood: {error}") from error
    stages = {stage: matched(said, those, sizes, stage) for stage, those in moved.items()}
    return Compared(name, ours, stages, compiled.problem)


def _fixed_set(found: Agreement, meshes: Sequence[Mesh]) -> Iterator[_Program]:
    """The examples, where this is a checkout, and derivatives of programs of every kind."""
    from verifier.with_jax.backward_programs import samples

    for name in (*STEPS, *LLAMAS, *(SMALL_LLAMAS if _is_small(found.target) else ())):
        if not os.path.isfile(f"{name.partition(':')[0].replace('.', os.sep)}.py"):
            found.left_out[name] = "this is no checkout"
        else:
            yield _Program(name, functools.partial(_example, found, name, meshes[0] if meshes else None))
    for room in ROOMS:
        for name, make in samples(room).items():
            yield _Program(name, functools.partial(_derivative, found.target, name, make))


def _is_small(target: Target) -> bool:
    """Whether a target compiles to the end, and has no memory for the whole Llama."""
    from verifier.with_jax.compiling import at_most

    return target.name != CPU and at_most(target) < 4096


def _example(found: Agreement, name: str, mesh: Mesh | None) -> Compared:
    return of_function(name, found.target, *made_by(name), mesh or _size(found, name))


def _derivative(target: Target, name: str, make: Callable[[], Any]) -> Compared:
    from verifier.with_jax.compiling import derivative_on

    with _theirs():
        mesh, traced = derivative_on(target, make())
    return compared(name, target, mesh, traced)


def _size(found: Agreement, name: str) -> Mesh | None:
    """The mesh for an example, where its own needs more devices than a target has."""
    from verifier.with_jax.compiling import at_most

    most = at_most(found.target)
    if name in STEPS:
        return Mesh((Axis("X", min(most, 8)),)) if most < 4096 or found.target.name == CPU else None
    return None if most >= 4096 or name in SMALL_LLAMAS else Mesh((Axis("data", most // 2), Axis("model", 2)))
