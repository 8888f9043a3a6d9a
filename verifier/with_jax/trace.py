"""What a person has, as a program: a function and its arguments, traced by JAX, on the mesh that they mean."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import primitives
from jax.sharding import NamedSharding, PartitionSpec
from jax.tree_util import tree_flatten, tree_unflatten

from calculus.meshes import Mesh
from calculus.refusals import refuse
from verifier.with_jax import meshes
from verifier.with_jax.names import Leaf, called, is_array, leaves, paths
from verifier.with_jax.shared import PROGRAM, opened
from verifier.with_jax.shown import unspecified


class Misuse(TypeError):
    """What was handed in is not something to check. The message says what it is, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced program. program: JAX's. meshes: the one in context first, then others that its arrays lie on; none
    where no array has a mesh. inputs, outputs: what people call the program's inputs and outputs."""

    program: Any
    meshes: tuple[Mesh, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def mesh(self) -> Mesh:
        """The mesh in context; one without axes where there is none."""
        return self.meshes[0] if self.meshes else Mesh(())


def trace(f: Any, *args: Any, mesh: Any = None, **kwargs: Any) -> Trace:
    """The program of a function at these arguments, which are arrays or `jax.ShapeDtypeStruct` in any pytree.

    f: a function, one jitted by JAX or flax (static arguments are static, and its shardings stay on the call), a
    `jax.stages.Traced`, or a program (`jax.make_jaxpr(...)(...)`). Leaves of a plain function's arguments that are no
    arrays (numbers, functions, strings) keep their values. mesh: one of JAX's, ours, or text; without it, the one in
    context, else those of the arguments. No device is needed: meshes may be abstract and of any size.

    Raises `Misuse`; `Refused` (`bad-mesh`); and what JAX raises when it traces, with a note.
    """
    given = None if mesh is None else meshes.abstract(mesh)
    context = given or meshes.in_context()
    if isinstance(f, PROGRAM) or hasattr(f, "jaxpr"):
        if args or kwargs:
            raise Misuse(f"a {type(f).__name__} is traced already: leave out the arguments")
        return _traced(f, (), context, ())
    if isinstance(f, (jax.stages.Lowered, jax.stages.Compiled)):
        raise Misuse(f"a {type(f).__name__} has no program of JAX any more: give `jitted.trace(...)`, or the function")
    if not callable(f):
        raise Misuse(
            f"an object of type {type(f).__name__} is not a function: "
            "give the function and its arguments apart, f, *args"
        )
    args, kwargs = _placed((args, kwargs), leaves(f, args, kwargs), context)
    known = leaves(f, args, kwargs)
    used = list(meshes.of_arguments(leaf.value for leaf in known))
    _alike(given, used)
    if context is None and len(meshes.distinct(used)) == 1:
        given = context = meshes.abstract(getattr(used[0], "abstract_mesh", used[0]))  # specs in f mean this mesh
    with _context(given), _noted(f):
        if hasattr(f, "trace") and hasattr(f, "lower"):  # jitted, by JAX or by flax
            made = f.trace(*args, **kwargs)
            return _traced(getattr(made, "traced", made), known, context, used)
        return _plain(f, args, kwargs, known, context, used)


def _alike(given: Any, used: Sequence[Any]) -> None:
    """Refuses `bad-mesh` where a mesh is given, and arguments lie on one whose axes have other sizes."""
    said = meshes.ours(given) if given is not None else Mesh(())
    for mesh in meshes.distinct(used):
        apart = [axis for axis in said.axes if axis.name in mesh and mesh.size((axis.name,)) != axis.size]
        if apart:
            sizes = [", ".join(f"{axis.name}={one.size((axis.name,))}" for axis in apart) for one in (said, mesh)]
            raise refuse(
                "bad-mesh",
                f"the mesh that is given has {sizes[0]}, and the arguments lie on {sizes[1]}",
                because="an array says itself on which mesh it lies",
                help="leave out the mesh that is given, or make the arguments on it",
            )


def placed(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> tuple[Any, Any]:
    """A call's arguments, those whose specs are on their own put on the mesh that is given or in context."""
    given = None if mesh is None else meshes.abstract(mesh)
    return _placed((tuple(args), dict(kwargs)), leaves(f, args, kwargs), given or meshes.in_context())


def _plain(
    f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], known: list[Leaf], context: Any, used: list[Any]
) -> Trace:
    """A function that is not jitted: its arrays become inputs, everything else stays what it is."""
    values, tree = tree_flatten((args, kwargs))
    places = [index for index, value in enumerate(values) if is_array(value)]
    outputs: list[str] = []

    def on_arrays(*arrays: Any) -> list[Any]:
        filled = list(values)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        inner_args, inner_kwargs = tree_unflatten(tree, filled)
        results = [leaf for leaf in paths("result", f(*inner_args, **inner_kwargs)) if _is_result(leaf.value)]
        outputs[:] = [leaf.path for leaf in results]
        return [leaf.value for leaf in results]

    functools.update_wrapper(on_arrays, f, updated=())  # so that JAX says where f is
    program = jax.make_jaxpr(on_arrays)(*[values[place] for place in places])
    names = tuple(leaf.path for leaf in known if is_array(leaf.value))
    return Trace(program, _meshes(context, used, opened(program)), names, tuple(outputs))


def _is_result(value: Any) -> bool:
    return is_array(value) or isinstance(value, bool | int | float | complex)


def _traced(made: Any, known: Sequence[Leaf], context: Any, used: Sequence[Any]) -> Trace:
    """What has been traced already."""
    inside = made if isinstance(made, PROGRAM) else made.jaxpr
    variables = opened(inside).invars
    about = opened(inside).debug_info
    names, outputs = about.arg_names, about.result_paths
    if names is None or len(names) != len(variables) or not all(names):
        names = [f"args[{index}]" for index in range(len(variables))]
    if outputs is None or len(outputs) != len(opened(inside).outvars) or not all(outputs):
        outputs = [f"result[{index}]" for index in range(len(opened(inside).outvars))]
    inputs = called(names, [variable.aval for variable in variables], known)
    program = inside if isinstance(made, PROGRAM) else _called(made)
    return Trace(program, _meshes(context, used, opened(program)), inputs, tuple(outputs))


def _called(made: Any) -> Any:
    """The program of a jitted function: its body, or, where the jit asks for shardings, a call with those."""
    asked = getattr(made, "_params", {})
    if all(unspecified(asked.get(key, ())) for key in ("in_shardings", "out_shardings")):
        return made.jaxpr
    asked = {key: value for key, value in asked.items() if key != "jaxpr"}
    types = [_struct(variable.aval) for variable in opened(made.jaxpr).invars]
    return jax.make_jaxpr(lambda *arrays: primitives.jit_p.bind(*arrays, jaxpr=made.jaxpr, **asked))(*types)


def _struct(aval: Any) -> Any:
    sharding = None if aval.sharding.mesh.empty else aval.sharding
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)


def _meshes(context: Any, used: Sequence[Any], program: Any) -> tuple[Mesh, ...]:
    first = () if context is None else (context,)
    return meshes.distinct((*first, *used, *meshes.of_program(program)))


def _placed(call: tuple[Any, Any], known: list[Leaf], context: Any) -> tuple[Any, Any]:
    """The arguments, specs on their own put on the mesh in context. JAX does so only where that mesh has devices."""
    bare = [leaf for leaf in known if _spec(leaf.value) is not None]
    if not bare:
        return call
    if context is None:
        raise Misuse(
            f"{bare[0].path} has the sharding {_spec(bare[0].value)}, and no mesh is given: "
            "add mesh=..., or call this under jax.set_mesh(...) or jax.sharding.use_abstract_mesh(...)"
        )

    def placed(value: Any) -> Any:
        spec = _spec(value)
        if spec is None:
            return value
        sharding = NamedSharding(context, spec)
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding, weak_type=value.weak_type)

    made: tuple[Any, Any] = jax.tree.map(placed, call)
    return made


def _spec(value: Any) -> PartitionSpec | None:
    """The sharding of a `ShapeDtypeStruct` that names no mesh; asked for in public, it raises."""
    sharding = getattr(value, "_sharding", None) if isinstance(value, jax.ShapeDtypeStruct) else None
    return sharding if isinstance(sharding, PartitionSpec) else None


@contextlib.contextmanager
def _context(mesh: Any) -> Iterator[None]:
    with contextlib.nullcontext() if mesh is None else jax.sharding.use_abstract_mesh(mesh):
        yield


@contextlib.contextmanager
def _noted(f: Any) -> Iterator[None]:
    """JAX's own errors pass through, with a line that says what it was doing."""
    try:
        yield
    except Exception as error:
        name = getattr(f, "__name__", type(f).__name__)
        note = f"shardproof: JAX raised this while it traced {name}, before anything was checked"
        if "mesh context" in str(error):
            note += "; give the mesh as mesh=..., or call this under jax.set_mesh(...)"
        if "match the mesh passed to shard_map" in str(error):
            note += "; a shard_map in it has its own mesh: leave out the mesh that is given"
        error.add_note(note)
        raise
