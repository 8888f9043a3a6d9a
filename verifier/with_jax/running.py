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
from verifier.with_jax.probe import REFUSALS, evaluate_manual, of_aval, sharding_of, struct
from verifier.with_jax.python import FORMS, Watched, as_python, may_mention
from verifier.with_jax.python_values import Unwritten
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


def callable_of(program: Program, mesh: Mesh, others: Sequence[Mesh] = ()) -> Callable[..., Any]:
    """A program as a function of JAX's, constants first. others: meshes that it moves to. Raises `Unwritten`, and what
    this release does not have."""
    names = _names()
    made = as_python(program, mesh, watch=True, others=others)
    _known(made.watched)
    exec(as_python(program, mesh, others=others).text, names)
    function: Callable[..., Any] = names["program"]
    return function


def inputs_of(program: Program) -> list[ArrayType]:
    """The types of what the function of a program takes, constants first. Raises `Unwritten` for what is no array."""
    found = []
    for type in (*program.constant_types, *program.input_types):
        if not isinstance(type, ArrayType):
            raise Unwritten(f"an input of type {type}")
        found.append(type)
    return found


def _refusal(error: Exception) -> Verdict:
    name = type(error).__name__
    said = " ".join(str(error).partition("\n---")[0].split())[:400]
    return Verdict(None, Refusal(name, said, crash=name not in REFUSALS))


def _known(watched: Sequence[Watched]) -> None:
    """Raises `Unwritten` for a primitive that this release does not have."""
    for one in watched:
        name = one.equation.primitive.removesuffix("_p")
        if name not in FORMS and name not in _names()["PRIMITIVES"]:
            raise Unwritten(f"{name}, which this release does not have")


def first_difference(program: Program, mesh: Mesh, others: Sequence[Mesh] = ()) -> Says | None:
    """The first equation of which JAX says something else than is printed: another type, or that it is refused. Raises
    `Unwritten`, and what JAX raises where it does not let the inputs in."""
    made = as_python(program, mesh, watch=True, others=others)
    _known(made.watched)
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
    inputs = inputs_of(program)

    def traced(*values: Any) -> Any:
        names["program"](*values)
        return ()

    try:
        _traced(traced, inputs, mesh, others)
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


def _traced(function: Callable[..., Any], inputs: Sequence[ArrayType], mesh: Mesh, others: Sequence[Mesh] = ()) -> None:
    if any(axis.mode is AxisMode.MANUAL for axis in mesh.axes):
        evaluate_manual(function, inputs, mesh)
        return
    where = meshes.abstract(mesh)
    with jax.sharding.use_abstract_mesh(where):
        structs = [struct(type, meshes.abstract(_lying(type, (mesh, *others)))) for type in inputs]
        jax.jit(function).trace(*structs)


def _lying(type: ArrayType, among: Sequence[Mesh]) -> Mesh:
    """The first mesh on which a type may be."""
    return next((one for one in among if may_mention(one, type.mentioned)), among[0])


class Ran(NamedTuple):
    """What JAX computed. types: of the results; and what every device holds of each."""

    types: tuple[Type, ...]
    blocks: list[list[Array]]


class Function:
    """A function of JAX's, on devices; with `wrt`, together with its vjp: its inputs are then followed by a cotangent
    for each result that can have one, its results by the cotangents of these inputs."""

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: Mesh,
        inputs: Sequence[ArrayType],
        wrt: Sequence[int] | None,
        own: int,
        others: Sequence[Mesh] = (),
    ) -> None:
        """Trace it. inputs: the types of all of them. own: how many are the function's. others: meshes that inputs may
        be on. Raises what JAX raises."""
        self.function = function if wrt is None else _with_vjp(function, wrt, own)
        self.meshes = {one: _made(one) for one in (mesh, *others)}
        self.mesh = self.meshes[mesh]
        self.inputs = inputs
        with jax.set_mesh(self.mesh):
            self.traced = jax.jit(self.function).trace(*(struct(type, self._mesh_of(type)) for type in inputs))
        self.types = tuple(of_aval(one.aval) for one in opened(self.traced.jaxpr).outvars)
        self.compiled: Any = None
        if any(
            axis.mode is AxisMode.AUTO for axis in mesh.axes
        ):  # where results lie is not to be the compiler's choice
            self._laid_out()

    def _mesh_of(self, type: ArrayType) -> Any:
        """The mesh that an input is on."""
        return self.meshes[_lying(type, tuple(self.meshes))]

    def _laid_out(self) -> None:
        wanted = [sharding_of(type, self.mesh) if isinstance(type, ArrayType) else None for type in self.types]
        function = self.function
        with jax.set_mesh(self.mesh):
            flat = jax.jit(lambda *given: jax.tree.leaves(function(*given)), out_shardings=wanted)
            self.traced = flat.trace(*(struct(type, self.mesh) for type in self.inputs))

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
            key = str(result.dtype).startswith("key")
            words = jax.random.key_data(result) if key else result
            if not isinstance(words, jax.Array):  # what has no tangent lies nowhere
                found.append([np.asarray(words)] * len(by_number))
                continue
            shards = sorted(words.addressable_shards, key=lambda shard: by_number[shard.device.id])
            found.append([_joined(shard.data) if key else np.asarray(shard.data) for shard in shards])
        return Ran(self.types, found)

    def _placed(self, type: ArrayType, blocks: Blocks) -> Any:
        key = type.dtype.startswith("key")
        mesh = self._mesh_of(type)
        shape, sharding = tuple(map(int, type.shape)), sharding_of(type, mesh)
        if key:
            blocks, shape = [_words(block) for block in blocks], (*shape, 2)
            sharding = NamedSharding(mesh, jax.sharding.PartitionSpec(*_partitions(sharding.spec, shape)))
        if type.dtype == "float0":
            return np.zeros(shape, jax.dtypes.float0)
        arrays = [jax.device_put(block, device) for block, device in zip(blocks, mesh.devices.flat, strict=True)]
        found = jax.make_array_from_single_device_arrays(shape, sharding, arrays)
        return jax.random.wrap_key_data(found) if key else found


def devices_of(platform: str) -> int | str:
    """How many devices of a platform JAX has; or what it says of it."""
    try:
        return len(jax.devices(platform))
    except RuntimeError as error:
        return " ".join(str(error).split())


def _made(mesh: Mesh) -> Any:
    count = mesh.size(mesh.by_name)
    kinds = meshes.abstract(mesh).axis_types
    sizes = tuple(int(axis.size or 1) for axis in mesh.axes)
    found = jax.devices()
    if len(found) < (count or 1):
        raise Unwritten(f"a mesh of {count} devices, where JAX has {len(found)}")
    return jax.make_mesh(sizes, tuple(mesh.by_name), axis_types=kinds, devices=found[:count])


def of_program(
    program: Program, mesh: Mesh, inputs: Sequence[ArrayType], wrt: Sequence[int] | None, others: Sequence[Mesh] = ()
) -> Function:
    """A program as a function on devices, constants first. Raises `Unwritten`, and what JAX raises."""
    own = len(program.constants) + len(program.inputs)
    return Function(callable_of(program, mesh, others), mesh, inputs, wrt, own, others)


def _words(keys: Array) -> Array:
    """The two words of each key, the high one first."""
    return np.stack([(keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32)], -1)


def _joined(words: Any) -> Array:
    found = np.asarray(words).astype(np.uint64)
    return np.asarray(found[..., 0] << np.uint64(32) | found[..., 1])


def _partitions(spec: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    return (*spec, *(None,) * (len(shape) - len(tuple(spec))))


def _with_vjp(function: Callable[..., Any], wrt: Sequence[int], count: int) -> Callable[..., Any]:
    def both(*given: Any) -> Any:
        arrays, seeds = list(given[:count]), iter(given[count:])

        def of(*moving: Any) -> Any:
            for place, value in zip(wrt, moving, strict=True):
                arrays[place] = value
            return tuple(function(*arrays))

        results, back = jax.vjp(of, *(arrays[place] for place in wrt))
        moves = [jax.numpy.issubdtype(result.dtype, jax.numpy.inexact) for result in results]
        cotangents = [
            next(seeds) if each else np.zeros(result.shape, jax.dtypes.float0)
            for each, result in zip(moves, results, strict=True)
        ]
        return (*results, *back(tuple(cotangents)))

    return both
