"""Programs that stand in texts: JAX runs them as Python, and differentiates that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calculus.checking import Checker
from calculus.meshes import Mesh
from calculus.refusals import Refused
from calculus.typed import typed
from grammar.read import read
from verifier.execution.instances import instance
from verifier.texts import meshes_of
from verifier.with_jax import meshes as jax_meshes
from verifier.with_jax.gradients import Traced, traced
from verifier.with_jax.probe import struct
from verifier.with_jax.running import callable_of, inputs_of


def of_file(file: str, meshes: Sequence[Mesh] = ()) -> Traced:
    """The program of a file, on the meshes that the caller gives, or the text says. Raises what `function_of` does, and
    what JAX raises."""
    function, arguments, mesh = function_of(file, meshes)
    return traced(function, arguments, jax_meshes.abstract(mesh))


def function_of(file: str, meshes: Sequence[Mesh] = ()) -> tuple[Callable[..., Any], list[Any], Mesh]:
    """The program of a file as a function of JAX's, with its arguments on an abstract mesh. Raises `Refused` where it
    is not well typed, and `Unwritten` where a construct is not written as Python."""
    document = read(Path(file).read_text(encoding="utf-8"))
    given = list(meshes) or meshes_of(document)
    checker = Checker(given)
    checked = checker.check(instance(document.program)[0])
    if checker.refusals:
        raise Refused(min((refusal for refusal, _ in checker.refusals), key=lambda one: one.line))
    program = typed(checked)
    mesh = given[0] if given else Mesh(())
    where = jax_meshes.abstract(mesh)
    inputs = [struct(type, where) for type in inputs_of(program)]
    return callable_of(program, mesh, given[1:]), inputs, mesh
