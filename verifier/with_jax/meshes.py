"""JAX's meshes as ours, and the other way: names, sizes and modes; devices do not matter."""

from __future__ import annotations

import itertools
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
    """The meshes of a program's inputs and constants, and those in which its equations were made, the bodies in them
    included; where it has none, those that its equations name. What a shard_map makes manual has the mode it has
    around it."""
    around: dict[str, AxisType] = {}
    arguments = of_arguments(variable.aval for variable in (*program.invars, *program.constvars))
    for mesh in itertools.chain(arguments, _made_in(program)):
        found = _as_around(mesh, around)
        if found is not None:
            yield found
    if not around:
        yield from _named(program)


def _made_in(program: Any) -> Iterator[Any]:
    """The meshes in which equations were made, each once."""
    seen = {id(program)}
    known: dict[int, Any] = {}
    waiting = [program]
    inert = {*_PLAIN}  # the types of values that are no programs
    before: Any = None
    while waiting:
        for eqn in waiting.pop().eqns:
            mesh = getattr(eqn.ctx, "cur_abstract_mesh", None)
            if mesh is not before and mesh is not None and id(mesh) not in known:
                known[id(mesh)] = mesh
                if not mesh.empty:
                    yield mesh
            before = mesh
            for held in eqn.params.values():
                kind = type(held)
                if kind in inert or (kind is tuple and inert.issuperset(map(type, held))):
                    continue
                for value in held if kind is tuple else (held,):
                    if not isinstance(value, PROGRAM):
                        inert.update({type(value)} - {tuple})
                    elif id(opened(value)) not in seen:
                        seen.add(id(opened(value)))
                        waiting.append(opened(value))


_PLAIN: Final = frozenset({bool, int, float, str, type(None)})


def _as_around(mesh: Any, around: dict[str, Any]) -> Any:
    """A mesh whose manual axes have the modes that they had before, which `around` remembers; `None` where it does not
    know them."""
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    manual = [name for name, kind in kinds.items() if kind is AxisType.Manual]
    if any(name not in around for name in manual):
        return None
    before = {name: around[name] for name in manual}
    for name, kind in {**kinds, **before}.items():
        around.setdefault(name, kind)
    return mesh.abstract_mesh.update_axis_types(before) if before else mesh


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
