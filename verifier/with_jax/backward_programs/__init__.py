"""The programs whose derivatives `shardproof agree --backward` compares: rooms of them, each a subject."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from calculus.meshes import Mesh
from verifier.backward_agreement import UnknownProgram
from verifier.factories import is_target, made_by
from verifier.with_jax.backward_programs.documented import documented
from verifier.with_jax.backward_programs.families import families
from verifier.with_jax.backward_programs.manual import manual
from verifier.with_jax.backward_programs.matrices import matrices
from verifier.with_jax.backward_programs.operations import operations
from verifier.with_jax.backward_programs.printed import of_file
from verifier.with_jax.backward_programs.transformer import transformers
from verifier.with_jax.gradients import Sample, Traced, traced

Make = Callable[[], Traced]

ROOMS: Final[Mapping[str, Callable[[], Iterator[tuple[str, Callable[[], Sample]]]]]] = {
    "documented": documented,
    "transformer": transformers,
    "manual": manual,
    "family": families,
    "operation": operations,
    "mathematics": matrices,
}


@functools.cache
def programs() -> Mapping[str, Callable[[], Sample]]:
    """Every program, by its name: that of its room, a slash, its own."""
    return {f"{room}/{name}": make for room, those in ROOMS.items() for name, make in those()}


def chosen(names: Sequence[str], meshes: Sequence[Mesh] = ()) -> Iterator[tuple[str, Make]]:
    """The programs of these names: whole ones, rooms, or what a name begins with up to a space or parenthesis; texts
    (`FILE.jaxpr`, on these meshes, or those that they say); or targets. Without any, all. Raises `UnknownProgram`, and
    `BadFactory` for a target that leads nowhere."""
    every = programs()
    for name in names:
        if name.endswith(".jaxpr"):
            yield name, functools.partial(of_file, name, meshes)
        elif is_target(name):
            yield name, functools.partial(_of_factory, made_by(name))
        elif not any(_begins(one, name) for one in every):
            raise UnknownProgram(name, [*every, *(one.partition("/")[2] for one in every)])
    for one, make in every.items():
        if not names or any(_begins(one, name) for name in names):
            yield one, functools.partial(_of_sample, make)


def samples(name: str) -> Mapping[str, Callable[[], Sample]]:
    """The programs that a name means: of a room, or one. Raises `UnknownProgram`."""
    found = {one: make for one, make in programs().items() if _begins(one, name)}
    if not found:
        raise UnknownProgram(name, [*programs(), *(one.partition("/")[2] for one in programs())])
    return found


def _of_sample(make: Callable[[], Sample]) -> Traced:
    return make().traced()


def _of_factory(made: tuple[Any, Any, Any]) -> Traced:
    function, args, kwargs = made
    return traced(lambda args, kwargs: function(*args, **kwargs), (args, kwargs))


def _begins(whole: str, name: str) -> bool:
    """Whether a name means this program."""
    return any(re.match(rf"{re.escape(name)}(?![\w])", one) for one in (whole, whole.partition("/")[2]))
