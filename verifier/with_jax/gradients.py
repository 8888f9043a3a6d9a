"""A function's program, and the program of its derivative as JAX makes it: what `verifier.backward_agreement` compares.

Of a function to one floating number that is `jax.grad`, of any other `jax.vjp`, with respect to all floating inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec

from calculus.cotangents import cotangent
from calculus.linearization import differentiable
from calculus.meshes import Mesh
from calculus.programs import Document, Program
from calculus.types import DTYPES, ArrayType
from verifier.with_jax import meshes
from verifier.with_jax.convert import Conversion
from verifier.with_jax.names import is_array
from verifier.with_jax.objects import Objects
from verifier.with_jax.probe import of_aval, spec
from verifier.with_jax.shared import opened
from verifier.with_jax.untyped import WithoutTypes

VERSION: Final = jax.__version__


class _WithMeshes(Conversion):
    """The program as JAX prints it, and the meshes on both sides of a region, which it does not print."""

    reshard = Conversion.between_meshes


class _WithRules(_WithMeshes):
    """The rules too that JAX does not print."""

    custom = Objects.custom


@dataclass(frozen=True)
class Array:
    """What stands for an array in a sample's arguments: it has no values, and without a spec is whole everywhere."""

    shape: tuple[int, ...] = ()
    spec: Any = None
    dtype: Any = "float32"

    def placed(self, mesh: Any) -> jax.ShapeDtypeStruct:
        """On a mesh of JAX's."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype, sharding=NamedSharding(mesh, self.spec or PartitionSpec()))


@dataclass(frozen=True)
class Traced:
    """A function's program. retyped: makes it without JAX's types, but for those of its inputs and those that are asked
    for. meshes: those it lies on. scalar: whether it gives one floating number. wrt: the inputs that can change.
    derivative: makes the program of its derivative, or raises what JAX raises. lowered: likewise, for compiling where
    the mesh has devices. results: JAX's variables that are given back."""

    forward: Document
    retyped: Callable[[], Program]
    meshes: tuple[Mesh, ...]
    scalar: bool
    wrt: tuple[int, ...]
    derivative: Callable[[], Document]
    differentiated: Callable[[], tuple[Callable[..., Any], list[Any]]]
    results: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Sample:
    """A function and its arguments, a pytree of arrays as `Array` says them, on a mesh that needs no devices."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    mesh: str = "X=2, Y=2"

    def on(self, mesh: Any) -> tuple[Any, ...]:
        """The arguments on a mesh of JAX's."""
        return tuple(
            jax.tree.map(
                lambda leaf: leaf.placed(mesh) if isinstance(leaf, Array) else leaf,
                self.arguments,
                is_leaf=lambda leaf: isinstance(leaf, Array),
            )
        )

    def traced(self) -> Traced:
        """The function's program. Raises what JAX raises."""
        mesh = meshes.abstract(self.mesh)
        return traced(self.function, self.on(mesh), mesh)


def flattened(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A function of the arrays in its arguments, to the arrays in its results; and what it is called with."""
    leaves, tree = jax.tree.flatten(tuple(arguments))
    places = [place for place, leaf in enumerate(leaves) if is_array(leaf)]
    structs = [leaves[place] for place in places]

    def flat(*arrays: Any) -> list[Any]:
        filled = [*leaves]
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        return [leaf for leaf in jax.tree.leaves(function(*jax.tree.unflatten(tree, filled))) if is_array(leaf)]

    return flat, structs


def of_constants(flat: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function of so many arrays that it has captured, and of its arguments after them."""

    def function(*given: Any) -> list[Any]:
        program = jax.make_jaxpr(flat)(*given[count:])
        if len(program.consts) != count:
            raise ValueError(f"the function captures {len(program.consts)} arrays now, and {count} before")
        return list(jaxpr_as_fun(program.replace(consts=list(given[:count])))(*given[count:]))

    return function


def traced(function: Callable[..., Any], arguments: Sequence[Any], mesh: Any = None) -> Traced:
    """The program of a function at these arguments, pytrees of arrays. Raises what JAX raises."""
    flat, structs = flattened(function, arguments)
    mesh = mesh or _mesh_of(structs)
    with _context(mesh):
        program = jax.make_jaxpr(flat)(*structs)
    inside = opened(program)
    wrt = tuple(place for place, variable in enumerate(inside.invars) if _moves(variable.aval))
    types = [of_aval(variable.aval) for variable in inside.outvars]
    scalar = len(types) == 1 and isinstance(types[0], ArrayType) and not types[0].shape and differentiable(types[0])
    lies = meshes.distinct((*(() if mesh is None else (mesh,)), *meshes.of_program(inside)))

    def differentiated() -> tuple[Callable[..., Any], list[Any]]:
        """The derivative as a function, and its arguments."""
        if scalar:
            return jax.grad(lambda *arrays: flat(*arrays)[0], argnums=wrt), structs
        seeds = [_struct(cotangent(type), _lying(type, mesh, lies)) for type in types if differentiable(type)]
        return _pulled_back(flat, wrt, len(structs)), [*structs, *seeds]

    def derivative() -> Document:
        with _context(mesh):
            function, arguments = differentiated()
            return _WithMeshes(opened(jax.make_jaxpr(function)(*arguments))).converted().document

    def retyped() -> Program:
        conversion = WithoutTypes(program)
        made = conversion.program(conversion.main)
        made.input_types = tuple(conversion.type(variable) for variable in inside.invars)
        return made

    document = _WithRules(inside).converted().document
    return Traced(document, retyped, lies, scalar, wrt, derivative, differentiated, tuple(inside.outvars))


def with_gradient(function: Callable[..., Any], arguments: Sequence[Any], wrt: Sequence[int]) -> tuple[Any, list[Any]]:
    """A function with its gradient, or its vjp where the result is not one floating number, with respect to some of the
    arrays in its arguments, counted from 0; and what that is called with."""
    made = traced(function, arguments)
    flat, structs = flattened(function, arguments)
    if made.scalar:
        return jax.value_and_grad(lambda *arrays: flat(*arrays)[0], argnums=tuple(wrt)), structs
    mesh = _mesh_of(structs)
    types = [of_aval(variable.aval) for variable in made.results]
    seeds = [_struct(cotangent(type), _lying(type, mesh, made.meshes)) for type in types if differentiable(type)]
    return _pulled_back(flat, wrt, len(structs)), [*structs, *seeds]


def _pulled_back(flat: Callable[..., list[Any]], wrt: Sequence[int], count: int) -> Callable[..., list[Any]]:
    """From inputs and cotangents of the floating results, the results and the cotangents of some of the inputs."""

    def both(*given: Any) -> list[Any]:
        arrays, seeds = list(given[:count]), iter(given[count:])

        def of(*moving: Any) -> list[Any]:
            for place, value in zip(wrt, moving, strict=True):
                arrays[place] = value
            return flat(*arrays)

        results, back = jax.vjp(of, *(arrays[place] for place in wrt))
        cts = [next(seeds) if _moves(result) else np.zeros(result.shape, jax.dtypes.float0) for result in results]
        return [*results, *back(cts)]

    return both


def _moves(value: Any) -> bool:
    """Whether a value changes continuously."""
    return bool(jax.numpy.issubdtype(value.dtype, jax.numpy.inexact))


def _lying(type: Any, mesh: Any, lies: Sequence[Mesh]) -> Any:
    """The mesh that an array is on: the usual one, or another whose axes it mentions."""
    if mesh is None or set(type.mentioned) <= set(mesh.axis_names):
        return mesh
    return next((meshes.abstract(one) for one in lies if all(axis in one for axis in type.mentioned)), mesh)


def _struct(type: Any, mesh: Any) -> jax.ShapeDtypeStruct:
    sharding = None if mesh is None else NamedSharding(mesh, spec(type))
    return jax.ShapeDtypeStruct(type.shape, DTYPES[type.dtype][0], sharding=sharding)


def _mesh_of(structs: Sequence[Any]) -> Any:
    """The mesh that arrays lie on, as theirs says it, the kind of its devices too; `None` where it is not one."""
    used = [*meshes.of_arguments(structs)]
    return getattr(used[0], "abstract_mesh", used[0]) if len(meshes.distinct(used)) == 1 else None


@contextlib.contextmanager
def _context(mesh: Any) -> Iterator[None]:
    with contextlib.nullcontext() if mesh is None else jax.sharding.use_abstract_mesh(meshes.abstract(mesh)):
        yield
