"""Programs in JAX: what it says of each equation, and what its devices hold of the results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding

from calculus.meshes import AxisMode, Mesh
from calculus.programs import Program
from calculus.types import ArrayType, Type, same
from verifier.cells import Refusal, Verdict
from verifier.devices import Array
from verifier.with_jax import meshes
from verifier.with_jax.probe import REFUSALS, evaluate_manual, of_aval, spec, struct
from verifier.with_jax.python import FORMS, Unwritten, Watched, as_python
from verifier.with_jax.script import HEAD, TOOLS
from verifier.with_jax.shared import opened

VERSION: Final = jax.__version__

Blocks = Sequence[Array]


class Says(NamedTuple):
    """What JAX says of an equation that we say otherwise."""

    where: Watched
    verdict: Verdict


class _Stop(Exception):
    pass


def _names() -> dict[str, Any]:
    """What the text of a program may use. Found once."""
    if not _TOOLS:
        _TOOLS["sys"] = sys
        imports = "\n".join(
            line for line in HEAD.splitlines() if line.startswith(("import jax", "import numpy", "from "))
        )
        exec(imports + TOOLS, _TOOLS)
    return dict(_TOOLS)


_TOOLS: Final[dict[str, Any]] = {}


def callable_of(program: Program, mesh: Mesh) -> Callable[..., Any]:
    """A program as a function of JAX's, constants first. Raises `Unwritten`."""
    names = _names()
    exec(as_python(program, mesh).text, names)
    function: Callable[..., Any] = names["program"]
    return function


def _refusal(error: Exception) -> Verdict:
    name = type(error).__name__
    said = " ".join(str(error).partition("\n---")[0].split())[:400]
    return Verdict(None, Refusal(name, said, crash=name not in REFUSALS))


def first_difference(program: Program, mesh: Mesh) -> Says | None:
    """The first equation of which JAX says something else than is printed: another type, or that it is refused. Raises
    `Unwritten`."""
    made = as_python(program, mesh, watch=True)
    for one in made.watched:
        name = one.equation.primitive
        if name not in FORMS and name not in _names()["PRIMITIVES"]:
            raise Unwritten(f"{name}, which this release does not have")
    found: list[Says] = []

    def step(number: int, evaluate: Callable[[], Any]) -> Any:
        where = made.watched[number]
        try:
            value = evaluate()
        except Exception as error:
            if not found:
                found.append(Says(where, _refusal(error)))
            raise
        values = value if isinstance(value, (tuple, list)) else (value,)
        types = tuple(of_aval(jax.typeof(one)) for one in values)
        alike = len(types) == len(where.equation.types) and all(
            ours is None or same(ours, theirs) for ours, theirs in zip(where.equation.types, types, strict=True)
        )
        if not alike:
            found.append(Says(where, Verdict(types)))
            raise _Stop
        return value

    names = _names() | {"step": step}
    exec(made.text, names)
    inputs = [type for type in program.input_types if isinstance(type, ArrayType)]

    def traced(*values: Any) -> Any:
        names["program"](*values)
        return ()

    try:
        _traced(traced, inputs, mesh)
    except _Stop:
        pass
    except Exception:
        if not found:
            raise
    return found[0] if found else None


def answer(program: Program, mesh: Mesh) -> Verdict:
    """What JAX says of a program of one equation. Raises `Unwritten`."""
    made = as_python(program, mesh)
    names = _names()
    exec(made.text, names)
    found: list[Verdict] = []

    def traced(*values: Any) -> Any:
        try:
            found.append(Verdict(tuple(of_aval(jax.typeof(one)) for one in names["program"](*values))))
        except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
            found.append(_refusal(error))
        return ()

    try:
        _traced(traced, [type for type in program.input_types if isinstance(type, ArrayType)], mesh)
    except Exception as error:  # noqa: BLE001  # it does not let such operands in
        found.append(_refusal(error))
    return found[0]


def _traced(function: Callable[..., Any], inputs: Sequence[ArrayType], mesh: Mesh) -> None:
    if any(axis.mode is AxisMode.MANUAL for axis in mesh.axes):
        evaluate_manual(function, inputs, mesh)
        return
    where = meshes.abstract(mesh)
    with jax.sharding.use_abstract_mesh(where):
        jax.jit(function).trace(*(struct(type, where) for type in inputs))


class Ran(NamedTuple):
    """What JAX computed. types: of the results; and what every device holds of each."""

    types: tuple[Type, ...]
    blocks: list[list[Array]]


class Function:
    """A program as a function of JAX's, on devices; with `wrt`, together with its vjp: its inputs are then followed by
    a cotangent for each result that can have one, its results by the cotangents of these inputs."""

    def __init__(self, program: Program, mesh: Mesh, inputs: Sequence[ArrayType], wrt: Sequence[int] | None) -> None:
        """Trace it. inputs: the types of all of them. Raises what JAX raises."""
        names = _names()
        exec(as_python(program, mesh).text, names)
        self.function: Callable[..., Any] = names["program"]
        count = mesh.size(mesh.by_name)
        kinds = meshes.abstract(mesh).axis_types
        sizes = tuple(int(axis.size or 1) for axis in mesh.axes)
        self.mesh = jax.make_mesh(sizes, tuple(mesh.by_name), axis_types=kinds, devices=jax.devices()[:count])
        self.inputs = inputs
        if wrt is not None:
            self.function = _with_vjp(self.function, wrt, len(program.inputs))
        with jax.set_mesh(self.mesh):
            structs = [
                jax.ShapeDtypeStruct(type.shape, _dtype(type), sharding=NamedSharding(self.mesh, spec(type)))
                for type in inputs
            ]
            self.traced = jax.jit(self.function).trace(*structs)
        self.types = tuple(of_aval(one.aval) for one in opened(self.traced.jaxpr).outvars)
        self.compiled: Any = None

    def run(self, inputs: Sequence[Blocks]) -> Ran:
        """Run it on what every device holds of each input. Raises what JAX raises."""
        with jax.set_mesh(self.mesh):
            if self.compiled is None:
                self.compiled = self.traced.lower().compile()
            placed = [self._placed(type, blocks) for type, blocks in zip(self.inputs, inputs, strict=True)]
            results = jax.block_until_ready(self.compiled(*placed))
        by_number = {device.id: number for number, device in enumerate(self.mesh.devices.flat)}
        found = []
        for result in results:
            shards = sorted(result.addressable_shards, key=lambda shard: by_number[shard.device.id])
            found.append([np.asarray(shard.data) for shard in shards])
        return Ran(self.types, found)

    def _placed(self, type: ArrayType, blocks: Blocks) -> Any:
        arrays = [jax.device_put(block, device) for block, device in zip(blocks, self.mesh.devices.flat, strict=True)]
        sharding = NamedSharding(self.mesh, spec(type))
        return jax.make_array_from_single_device_arrays(tuple(map(int, type.shape)), sharding, arrays)


def _dtype(type: ArrayType) -> Any:
    from verifier.execution.arithmetic import dtype_of

    return dtype_of(type.dtype)


def _with_vjp(function: Callable[..., Any], wrt: Sequence[int], count: int) -> Callable[..., Any]:
    def both(*given: Any) -> Any:
        arrays, seeds = list(given[:count]), iter(given[count:])

        def of(*moving: Any) -> Any:
            for place, value in zip(wrt, moving, strict=True):
                arrays[place] = value
            return function(*arrays)

        results, back = jax.vjp(of, *(arrays[place] for place in wrt))
        moves = [jax.numpy.issubdtype(result.dtype, jax.numpy.inexact) for result in results]
        cotangents = [
            next(seeds) if each else np.zeros(result.shape, jax.dtypes.float0)
            for each, result in zip(moves, results, strict=True)
        ]
        return (*results, *back(tuple(cotangents)))

    return both
