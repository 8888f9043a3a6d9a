"""Calls on devices: what JAX accepts, run on data that cannot come out right by chance, and read back.

Each operand is placed as its type says (what is pending in unequal pieces of mixed sign), the call is compiled and run,
and its results are read back at the types that JAX gave them: they must be what the call gives of the whole arrays, on
one device and without a mesh. What names mesh axes gives nothing there: of a collective, they must be what our own
executor leaves on every device.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp
from jax.extend.core import Literal
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from calculus.meshes import AxisMode, Mesh
from calculus.programs import Equation, Program
from calculus.types import ArrayType, Axes, Type
from verifier.cells import Cell, Verdict
from verifier.devices import Device, NotAFamily, devices, numpy_dtype, place, read_back
from verifier.execution.run import run as executed
from verifier.with_jax.own_primitive import differentiable
from verifier.with_jax.own_primitive import pulled as pulled_back
from verifier.with_jax.probe import Traced, equations, ours, spec


class Ran(NamedTuple):
    """How a cell ran. right: whether what was read back is the value. says: why it is not, or why it did not run."""

    cell: Cell
    verdict: Verdict
    right: bool
    says: str = ""
    crashed: bool = False


def enough(mesh: Mesh) -> bool:
    """Whether there are devices for a mesh."""
    return bool(len(jax.devices()) >= np.prod([axis.size or 1 for axis in mesh.axes]))


def run(
    call: Traced,
    cells: Sequence[Cell],
    verdicts: Sequence[Verdict],
    mesh: Mesh,
    pulled: bool = False,
    running: Callable[[list[Cell]], None] = lambda cells: None,
) -> list[Ran]:
    """Run the cells that JAX accepts; or, `pulled`, their gradients, on an explicit mesh. Those that cannot be placed
    (keys, arrays in parts that no number fills) are left out, and so are those whose value is not known. `running` is
    told the cells that are given to the compiler, which may end the process.
    """
    if call.call.handed or (pulled and call.call.axes) or len({axis.mode for axis in mesh.axes}) > 1:
        return []
    random = np.random.default_rng(zlib.crc32(f"{call.call.name} on {mesh}".encode()))
    ready = []
    try:
        room = (_Pulled if pulled else _Room)(call, mesh, random)
    except _NoValue:
        return []
    room.running = running
    for cell, verdict in zip(cells, verdicts, strict=True):
        if verdict.types is not None:
            with contextlib.suppress(_NoValue):
                ready.append((cell, verdict, *room.placed(cell, verdict)))
    return list(room.ran(ready))


def why_not(call: Traced, mesh: Mesh) -> str:
    """Why a call has no value to compare with; empty where it has one."""
    if call.call.handed or call.call.axes:
        return ""
    try:
        room = _Room(call, mesh, np.random.default_rng(0))
        room.call_whole()
    except _NoValue:
        return "there are no numbers for its operands"
    except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
        return f"without a mesh it gives nothing: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


class _NoValue(Exception):
    """There is no value to compare with."""


class _Room:
    """One call on one mesh of devices."""

    def __init__(self, call: Traced, mesh: Mesh, random: np.random.Generator) -> None:
        self.call, self.mesh, self.random = call, mesh, random
        sizes = [axis.size or 1 for axis in mesh.axes]
        chosen = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
        self.devices = jax.sharding.Mesh(chosen, tuple(mesh.by_name), axis_types=(AxisType.Explicit,) * len(sizes))
        self.manual = any(axis.mode is AxisMode.MANUAL for axis in mesh.axes)
        self.at = dict(zip(devices(mesh), chosen.ravel(), strict=True))
        self.values = [self._value(type) for type in call.call.operands]
        self.wholes: dict[Any, list[Any] | None] = {}
        self.running: Callable[[list[Cell]], None] = lambda cells: None

    def _value(self, type: Type) -> Any:
        """Small numbers that every function has a value at; a stack of two, for what varies."""
        if not isinstance(type, ArrayType):
            raise _NoValue
        try:
            dtype = numpy_dtype(type.dtype)
        except ValueError:
            raise _NoValue from None
        shape = (*(axis.size or 1 for axis in self.mesh.axes), *(int(size) for size in type.shape))
        if type.dtype.startswith("key"):
            raise _NoValue
        if dtype.kind in "iub":
            return self.random.integers(0, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
        found = self.random.integers(1, 8, shape) / 8
        return (found + 1j * self.random.integers(1, 8, shape) / 8 if dtype.kind == "c" else found).astype(dtype)

    def _own(self, value: Any, type: ArrayType) -> Any:
        """The value of an operand of this type: of what varies, one for each device along the axes."""
        index = tuple(slice(None) if name in type.varying else 0 for name in self.mesh.by_name)
        return value[index]

    def placed(self, cell: Cell, verdict: Verdict) -> tuple[list[Any], list[Any]]:
        """The operands of a cell on the devices, and what the call gives of the whole ones."""
        if any(type.varying and type.kind != "sum" for type in (*cell.operands, *_arrays(verdict))):
            raise _NoValue  # what varies comes in with one more dim, and of a pending maximum JAX takes none away
        whole = self._whole(cell, verdict)
        arrays = []
        for value, type in zip(self.values, cell.operands, strict=True):
            blocks = place(self._own(value, type), type, self.mesh, self.random)
            outside = self._outside(type)
            parts = [jax.device_put(blocks[one][(None,) * len(type.varying)], where) for one, where in self.at.items()]
            lead = [self.mesh.size((name,)) or 1 for name in self.mesh.in_order(type.varying)]
            shape = (*lead, *(int(size) for size in type.shape))
            sharding = NamedSharding(self.devices, outside)
            arrays.append(jax.make_array_from_single_device_arrays(shape, sharding, parts))
        return arrays, whole

    def _outside(self, type: ArrayType) -> PartitionSpec:
        found = spec(type)
        lead = self.mesh.in_order(type.varying)
        if not lead:
            return found
        said = {"unreduced": found.unreduced, "reduced": found.reduced}
        kind = {"unreduced_kind": found.unreduced_kind} if type.unreduced and type.kind != "sum" else {}
        return PartitionSpec(*lead, *found.partitions, **said, **kind)

    def _whole(self, cell: Cell, verdict: Verdict) -> list[Any]:
        """What the call gives of the values; where something varies, for each device apart."""
        varying = tuple(type.varying for type in cell.operands)
        key: Any = (cell, verdict) if self.call.call.axes else varying
        if key not in self.wholes:
            self.wholes[key] = None
            with contextlib.suppress(Exception):  # whatever JAX raises, there is no value
                named = bool(self.call.call.axes)
                self.wholes[key] = self._executed(cell, verdict) if named else self._evaluated(cell, any(varying))
        found = self.wholes[key]
        if found is None:
            raise _NoValue
        return found

    def _executed(self, cell: Cell, verdict: Verdict) -> list[Any] | None:
        """What our executor leaves on the devices; `None` where it does not run this."""
        (equation,) = equations(self.call, [cell], self.mesh)
        types: Any = verdict.types
        names = tuple(atom for atom in equation.inputs if isinstance(atom, str))
        made = Equation(equation.primitive, equation.parameters, equation.inputs, equation.binders, types)
        program = Program((), (), names, cell.operands, (made,), equation.binders)
        owned = (self._own(value, type) for value, type in zip(self.values, cell.operands, strict=True))
        outcome = executed(program, [self.mesh], given=dict(zip(names, owned, strict=True)))
        return None if outcome.problems else [shown.value for shown in outcome.results]

    def call_whole(self) -> list[Any]:
        """What the call gives on one device. Raises what JAX raises."""
        function = jax.jit(lambda *values: self._bind(values, None))
        return [np.asarray(one) for one in function(*(value[(0,) * len(self.mesh.axes)] for value in self.values))]

    def _evaluated(self, cell: Cell, apart: bool) -> list[Any]:
        if not apart:
            return self.call_whole()
        function = jax.jit(lambda *values: self._bind(values, None))
        rows = []
        for device in devices(self.mesh):
            at = dict(zip(self.mesh.by_name, device, strict=True))
            own = [
                value[tuple(at[name] if name in type.varying else 0 for name in self.mesh.by_name)]
                for value, type in zip(self.values, cell.operands, strict=True)
            ]
            rows.append([np.asarray(one) for one in function(*own)])
        sizes = [axis.size or 1 for axis in self.mesh.axes]
        return [np.stack(column).reshape(*sizes, *column[0].shape) for column in zip(*rows, strict=True)]

    def _bind(self, values: Sequence[Any], target: ArrayType | None) -> list[Any]:
        given = iter(values)
        operands = [atom.val if type(atom) is Literal else next(given) for atom in self.call.eqn.invars]
        if self.call.function is not None:
            found = self.call.function(*values)
        else:
            held = dict(self.call.eqn.params)
            if target is not None:
                asked = NamedSharding(self.devices.abstract_mesh, spec(target))
                name = self.call.call.target
                held[name] = (asked,) if isinstance(held[name], tuple) else asked
            found = self.call.eqn.primitive.bind(*operands, **held)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def _results(self, cell: Cell, verdict: Verdict, values: Sequence[Any]) -> list[Any]:
        if not self.manual:
            return self._bind(values, cell.target)
        inside, outside = [], []
        for type in cell.operands:
            inside.append(len(self.mesh.in_order(type.varying)))
            outside.append(self._outside(type))

        def body(*given: Any) -> tuple[Any, ...]:
            found = self._bind(
                [
                    jnp.squeeze(one, tuple(range(lead))) if lead else one
                    for one, lead in zip(given, inside, strict=True)
                ],
                None,
            )
            return tuple(
                jnp.expand_dims(one, tuple(range(len(type.varying)))) if type.varying else one
                for one, type in zip(found, _arrays(verdict), strict=True)
            )

        specs = tuple(self._outside(type) for type in _arrays(verdict))
        return list(jax.shard_map(body, in_specs=tuple(outside), out_specs=specs)(*values))

    def ran(self, ready: Sequence[tuple[Cell, Verdict, list[Any], list[Any]]]) -> Iterator[Ran]:
        """Run cells in one program; where it does not run, in halves."""
        if not ready:
            return
        self.running([cell for cell, *_ in ready])
        try:
            with jax.set_mesh(self.devices):
                found = jax.jit(
                    lambda given: [
                        self._results(cell, verdict, values)
                        for values, (cell, verdict, *_) in zip(given, ready, strict=True)
                    ]
                )([values for _, _, values, _ in ready])
                jax.block_until_ready(found)
        except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
            if len(ready) > 1:
                middle = len(ready) // 2
                yield from self.ran(ready[:middle])
                yield from self.ran(ready[middle:])
                return
            cell, verdict, *_ = ready[0]
            says = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            yield Ran(cell, verdict, False, says, crashed=True)
            return
        for results, (cell, verdict, _, whole) in zip(found, ready, strict=True):
            says = next(filter(None, map(self._differs, results, self._types(verdict, results), whole)), "")
            yield Ran(cell, verdict, not says, says)

    def _types(self, verdict: Verdict, results: Sequence[Any]) -> list[ArrayType]:
        """The types at which results are read back."""
        return _arrays(verdict)

    def _differs(self, result: Any, type: ArrayType, whole: Any) -> str:
        back = {device: one for one, device in self.at.items()}
        blocks: dict[Device, Any] = {
            back[shard.device]: np.asarray(shard.data)[(0,) * len(type.varying)] for shard in result.addressable_shards
        }
        try:
            value = read_back(blocks, type, self.mesh)
        except NotAFamily as error:
            return str(error)
        if whole.ndim == len(type.shape) + len(self.mesh.axes):  # of each device apart
            alike = self._alike(whole, type.varying)
            if alike is None:
                return "it is another on each device"
            whole = alike
        elif type.varying and whole.ndim == len(type.shape):
            whole = np.broadcast_to(whole, value.shape)
        if _near(value, whole):
            return ""
        at = np.unravel_index(int(np.argmax(~np.isclose(value, whole, 1e-3, 1e-3, equal_nan=True))), value.shape)
        return f"{value[at]} for {whole[at]} at {[int(one) for one in at]}"

    def _alike(self, whole: Any, varying: Axes) -> Any:
        """What there is of each device, along the axes along which it varies; `None` where it does along others too."""
        for index in reversed(range(len(self.mesh.axes))):
            if self.mesh.axes[index].name not in varying:
                first = whole.take([0], index)
                if not _near(whole, np.broadcast_to(first, whole.shape)):
                    return None
                whole = first.squeeze(index)
        return whole


class _Pulled(_Room):
    """The gradients of one call on one explicit mesh."""

    def __init__(self, call: Traced, mesh: Mesh, random: np.random.Generator) -> None:
        super().__init__(call, mesh, random)
        self.floating = differentiable(call)
        if not self.floating:
            raise _NoValue

    def _evaluated(self, cell: Cell, apart: bool) -> list[Any]:
        values = [value[(0,) * len(self.mesh.axes)] for value in self.values]
        found = jax.jit(lambda *given: pulled_back(self.call, given, self.floating, None, None))(*values)
        return [np.asarray(one) for one in found]

    def _results(self, cell: Cell, verdict: Verdict, values: Sequence[Any]) -> list[Any]:
        return list(pulled_back(self.call, values, self.floating, cell, self.mesh))

    def _types(self, verdict: Verdict, results: Sequence[Any]) -> list[ArrayType]:
        return [type for type in map(ours, results) if isinstance(type, ArrayType)]


def _near(value: Any, whole: Any) -> bool:
    return bool(value.shape == whole.shape and np.allclose(value, whole, 1e-3, 1e-3, equal_nan=True))


def _arrays(verdict: Verdict) -> list[ArrayType]:
    return [type for type in verdict.types or () if isinstance(type, ArrayType)]
