"""JAX's meshes as ours, and the other way: names, sizes and modes; devices do not matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import jax
from jax.sharding import AbstractMesh, AxisType

from calculus.meshes import Axis, AxisMode, Mesh
from calculus.refusals import refuse
from grammar.meshes import parse_meshes
from verifier.with_jax.shared import PROGRAM, opened

_MODES: Final = {kind: AxisMode(kind.name.lower()) for kind in AxisType}
_KINDS: Final = {mode: kind for kind, mode in _MODES.items()}


_MESH: Final = (jax.sharding.Mesh, AbstractMesh)


def ours(mesh: Any) -> Mesh:
    """A `jax.sharding.Mesh` or `AbstractMesh` as ours."""
    axes = zip(mesh.axis_names, mesh.shape.values(), mesh.axis_types, strict=True)
    return Mesh(Axis(str(name), int(size), _MODES[kind]) for name, size, kind in axes)


def abstract(mesh: Any) -> AbstractMesh:
    """The mesh that a caller gives, without devices: one of JAX's, ours, or text such as `data=512,model=8`.

    Refuses `bad-mesh`.
    """
    if isinstance(mesh, str):
        mesh = parse_meshes(mesh)[0]
    if isinstance(mesh, Mesh):
        sizes = tuple(axis.size for axis in mesh.axes)
        if None in sizes:
            raise refuse("bad-mesh", f"the mesh ({mesh}) has an axis without a size", help="give every axis its size")
        return AbstractMesh(sizes, tuple(mesh.by_name), axis_types=tuple(_KINDS[axis.mode] for axis in mesh.axes))  # type: ignore[arg-type]
    if isinstance(mesh, AbstractMesh):
        return mesh
    if isinstance(mesh, jax.sharding.Mesh):
        made: AbstractMesh = mesh.abstract_mesh
        return made
    raise refuse(
        "bad-mesh",
        f"mesh= is of type {type(mesh).__name__}",
        help="give a jax.sharding.Mesh, a jax.sharding.AbstractMesh, or text such as 'data=512,model=8'",
    )


def in_context() -> AbstractMesh | None:
    """The mesh set by `jax.set_mesh` or `jax.sharding.use_abstract_mesh`, if one is."""
    mesh = jax.sharding.get_abstract_mesh()
    return None if mesh.empty else mesh


def of_arguments(values: Iterable[Any]) -> Iterator[Any]:
    """The meshes that arrays, or what stands for them, lie on."""
    for value in values:
        mesh = getattr(getattr(value, "sharding", None), "mesh", None)
        if mesh is not None and not mesh.empty:
            yield mesh


def of_program(program: Any) -> Iterator[Any]:
    """The meshes of a program's inputs and constants, and those in which its equations were made; where it has none,
    those that its equations, or the bodies in them, name."""
    found = False
    for mesh in of_arguments(variable.aval for variable in (*program.invars, *program.constvars)):
        found = True
        yield mesh
    for eqn in program.eqns:
        mesh = getattr(eqn.ctx, "cur_abstract_mesh", None)
        if mesh is not None and not mesh.empty:
            found = True
            yield mesh
    if not found:
        yield from _named(program)


def _named(program: Any) -> Iterator[Any]:
    seen = {id(program)}
    waiting = [program]
    while waiting:
        for eqn in waiting.pop().eqns:
            for held in eqn.params.values():
                for value in held if isinstance(held, tuple) else (held,):
                    if isinstance(value, PROGRAM):
                        inner = opened(value)
                        if id(inner) not in seen:
                            seen.add(id(inner))
                            waiting.append(inner)
                        continue
                    mesh = value if isinstance(value, _MESH) else getattr(value, "mesh", None)
                    if isinstance(mesh, _MESH) and not mesh.empty:
                        yield mesh
            yield from of_arguments(variable.aval for variable in eqn.outvars)


def distinct(meshes: Iterable[Any]) -> tuple[Mesh, ...]:
    """Ours of all these meshes, each once."""
    by_identity: dict[int, Any] = {}
    for mesh in meshes:
        by_identity.setdefault(id(mesh), mesh)
    return tuple(dict.fromkeys(ours(mesh) for mesh in by_identity.values()))
