"""Programs, what their types say of each mesh axis, and what XLA moves along it: for `agree --communication`.

A program is drawn as for `agree --programs`; what this release of JAX refuses of it, or is known to get wrong, is taken
out. Every other one is differentiated by JAX. Then it is traced once, for CPU devices: the program that JAX holds is
typed here, and compiled there, as far as XLA's partitioner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from calculus.linearization import floating
from calculus.meshes import Mesh
from calculus.programs import Program
from grammar.meshes import parse_meshes
from verifier.communication_agreement import Asked, hold
from verifier.compiled.derived import Said
from verifier.compiled.reading import Moved, read
from verifier.compiled.targets import CPU, PARTITIONED, Target
from verifier.examine import examine
from verifier.explaining.guarantees import Answer, guarantees
from verifier.factories import is_target, made_by
from verifier.findings import Compared
from verifier.generated.pruning import distinct
from verifier.with_jax import meshes
from verifier.with_jax.backward_programs.printed import function_of
from verifier.with_jax.compiling import compile_, mesh_of, mesh_on, placed, trace_on
from verifier.with_jax.deriving import derived
from verifier.with_jax.gradients import with_gradient
from verifier.with_jax.objects import ObjectChecker, Objects
from verifier.with_jax.probe import struct
from verifier.with_jax.programs import Comparing, drawn_for
from verifier.with_jax.python_values import Unwritten
from verifier.with_jax.running import VERSION, callable_of, inputs_of
from verifier.with_jax.trace import trace
from verifier.workers import DEVICES

CPUS: Target = Target(CPU)


Sides: TypeAlias = "tuple[list[Answer], list[Said], list[Moved], dict[str, int]]"


class Communicating(Comparing):
    """What a worker does. running: is told what is about to be compiled."""

    version = VERSION

    def asked(self, seed: int) -> Asked:
        """The program of a seed, held against XLA."""
        grown = drawn_for(seed)
        mesh = grown.mesh
        left = Compared(seed, mesh)
        try:
            program = self._typed_alike(distinct(grown.program), mesh, left)
            program = self._running(program, mesh, left)
            self.running(program, mesh)
            found = hold(f"seed {seed}", *self._both(program, mesh, backward=seed % 2 == 1))
            found.seed = seed
            return found
        except Unwritten as error:
            return Asked(f"seed {seed}", seed, left_out=str(error))
        except Exception as error:  # noqa: BLE001  # whatever JAX or XLA raises is its answer
            return Asked(f"seed {seed}", seed, left_out=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")

    def named(self, name: str, mesh: str) -> Asked:
        """A printed program, or a function by name, on a mesh, its own where that is empty."""
        given = parse_meshes(mesh) if mesh else []
        try:
            if is_target(name):
                function, arguments, keywords = made_by(name)
                on = given[0] if given else mesh_of((arguments, keywords))
                if on is None:
                    return Asked(name, left_out="its arguments lie on no mesh, or on several")
                on = on if given else few(on)
                return hold(name, *both_sides(function, arguments, on, keywords))
            function, arguments, on = function_of(name, given)
            return hold(name, *both_sides(function, arguments, on))
        except Exception as error:  # noqa: BLE001  # whatever JAX or XLA raises is its answer
            return Asked(name, left_out=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")

    def _both(self, program: Program, mesh: Mesh, backward: bool) -> Sides:
        function: Callable[..., Any] = callable_of(program, mesh)
        types = inputs_of(program)
        wrt = floating(types)
        arguments: Sequence[Any] = [struct(type, meshes.abstract(mesh)) for type in types]
        if backward and wrt:
            try:
                return both_sides(*with_gradient(function, arguments, wrt), mesh)
            except Exception:  # noqa: BLE001  # what JAX cannot differentiate is compared as it is
                pass
        return both_sides(function, arguments, mesh)


def few(mesh: Mesh) -> Mesh:
    """The mesh with at most as many devices as there are here: the longest axis is divided by its smallest factor, so
    that what an axis divides is divided still."""
    sizes = [axis.size or 1 for axis in mesh.axes]
    while prod(sizes) > DEVICES:
        at = sizes.index(max(sizes))
        sizes[at] //= next(factor for factor in range(2, sizes[at] + 1) if sizes[at] % factor == 0)
    return Mesh(replace(axis, size=size) for axis, size in zip(mesh.axes, sizes, strict=True))


def both_sides(
    function: Callable[..., Any], arguments: Sequence[Any], mesh: Mesh, keywords: Mapping[str, Any] | None = None
) -> Sides:
    """What the types say of each axis of a function at these arguments, the collectives that they derive, those that
    are compiled, and the sizes of the mesh. Raises what JAX and XLA raise, `Refused` and `BadModule`."""
    on = mesh_on(CPUS, mesh)
    given, named = placed((tuple(arguments), dict(keywords or {})), on)
    traced = trace_on(on, function, given, named)
    made = trace(traced)
    objects = Objects(made.program)
    examined = examine(objects.program(objects.main), ObjectChecker(made.meshes, objects))
    sizes = {axis.name: axis.size or 1 for axis in meshes.ours(on).axes}
    said = derived(traced)
    compiled = compile_(traced, CPUS, on, quick=True)
    text = compiled.texts.get(PARTITIONED, "")
    return guarantees(examined), said, [] if not text else read(text, sizes, early=True), sizes
