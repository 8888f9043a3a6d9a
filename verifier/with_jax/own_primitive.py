"""One primitive of any importable JAX, by its author's name for it: its sample calls, and its transposes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp
from jax.extend.core import Literal
from jax.sharding import PartitionSpec

from calculus.meshes import Mesh
from calculus.types import DTYPES, ArrayType
from verifier import factories
from verifier.cells import Cell, Verdict
from verifier.with_jax import probe
from verifier.with_jax.calls import Sample, samples
from verifier.with_jax.meshes import abstract


class NotFound(ValueError):
    """A name that leads to no primitive. The message says where it ends."""


def resolve(name: str) -> Any:
    """The primitive that `module:name` or `FILE.py:name` names. Raises `NotFound`."""
    found = _named(name, "primitive")
    if not (callable(getattr(found, "bind", None)) and isinstance(getattr(found, "name", None), str)):
        what = f"a {type(found).__name__}, and no primitive"
        raise NotFound(f"{name} is {what}: name what is bound, as jax.extend.core.primitives:sin_p")
    return found


def function(name: str) -> Callable[..., Any]:
    """The function that `module:name` or `FILE.py:name` names. Raises `NotFound`."""
    found = _named(name, "function")
    if not callable(found):
        raise NotFound(f"{name} is a {type(found).__name__}, and no function")
    return found  # type: ignore[no-any-return]


def _named(name: str, what: str) -> Any:
    """What is named. The module is somebody else's: whatever it raises is said."""
    module, colon, attribute = name.rpartition(":")
    if not (colon and module and all(map(str.isidentifier, attribute.split(".")))):
        raise NotFound(f"{name!r} names no {what}: write MODULE:NAME, as jax.extend.core.primitives:sin_p")
    try:
        found: Any = factories.module(module)
    except ImportError as error:
        raise NotFound(f"{module} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise NotFound(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), 1)
            raise NotFound(f"{module} has no {attribute}" + (f"; did you mean {near[0]}?" if near else ""))
        found = getattr(found, part)
    return found


def folder() -> str:
    """Where the JAX that is asked lies."""
    return str(jax.__path__[0])


def where() -> str:
    """The JAX that is asked, for reports."""
    return f"JAX {jax.__version__} of {folder()}"


def calls(primitive: Any, operands: Sequence[ArrayType], parameters: dict[str, Any]) -> list[probe.Traced]:
    """Sample calls: the table's, or, where operands or parameters are given or it has none, one of one's own. Raises
    `NotFound` where JAX does not trace it."""
    if not operands and not parameters:
        known = [probe.traced(sample) for sample in samples() if sample.primitive == primitive.name]
        found = [one for one in known if one is not None]
        if found:
            return found
    taken = [(DTYPES[type.dtype][0], tuple(int(size) for size in type.shape)) for type in operands]

    def bound(*values: Any) -> Any:
        return primitive.bind(*values, **parameters)

    try:
        own = probe.traced(Sample(primitive.name, bound, tuple(taken)))
    except Exception as error:
        says = " ".join(str(error).split())[:300]
        if isinstance(error, AssertionError):
            says = "JAX asserts something of its operands or parameters that does not hold"
        elif isinstance(error, TypeError) and "keyword-only argument" in says:
            says += "; give it with --parameter NAME=VALUE"
        raise NotFound(
            f"{primitive.name} of {_listed(operands)} does not trace: {type(error).__name__}: {says}"
        ) from error
    if own is None:
        raise NotFound(f"{primitive.name} of {_listed(operands)} traces to no {primitive.name}")
    return [own]


def _listed(operands: Sequence[ArrayType]) -> str:
    return ", ".join(map(str, operands)) or "nothing"


class Untransposed(NamedTuple):
    """A cell whose forward is typed and whose transpose is not."""

    cell: Cell
    says: str


def untransposed(
    call: probe.Traced, cells: Sequence[Cell], verdicts: Sequence[Verdict], mesh: Mesh
) -> list[Untransposed]:
    """The cells that JAX types and does not differentiate, on an explicit mesh. What does not differentiate without a
    mesh either is left out."""
    if call.call.axes or call.call.handed or call.function is not None:
        return []
    floating = differentiable(call)
    if not floating:
        return []
    found = []
    inside = abstract(mesh)
    with jax.sharding.use_abstract_mesh(inside):
        for cell, verdict in zip(cells, verdicts, strict=True):
            if verdict.types is None:
                continue
            structs = [probe.struct(one, inside) for one in cell.operands]
            try:
                jax.jit(lambda *values, cell=cell: pulled(call, values, floating, cell, mesh)).trace(*structs)
            except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
                found.append(Untransposed(cell, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"))
    return found


def differentiable(call: probe.Traced) -> list[int]:
    """The operands that a call is differentiated in: the floating ones, if it has a derivative without a mesh."""
    types = [one for one in call.call.operands if isinstance(one, ArrayType)]
    floating = [index for index, one in enumerate(types) if one.dtype_class in "fc"]
    if not floating or len(types) < len(call.call.operands) or call.function is not None:
        return []
    structs = [
        jax.ShapeDtypeStruct(tuple(int(size) for size in one.shape), np.dtype(DTYPES[one.dtype][0])) for one in types
    ]
    try:
        jax.eval_shape(lambda *values: pulled(call, values, floating, None, None), *structs)
    except Exception:  # noqa: BLE001  # whatever JAX raises, it has no derivative
        return []
    return floating


def pulled(
    call: probe.Traced, values: Sequence[Any], floating: Sequence[int], cell: Cell | None, mesh: Mesh | None
) -> Any:
    """The cotangents of the floating operands, of seeds that no constant of a program is equal to."""

    def forward(*chosen: Any) -> list[Any]:
        given = list(values)
        for index, value in zip(floating, chosen, strict=True):
            given[index] = value
        rest = iter(given)
        operands = [atom.val if type(atom) is Literal else next(rest) for atom in call.eqn.invars]
        held = call.asked(cell.target, mesh) if cell is not None and mesh is not None else dict(call.eqn.params)
        found = call.eqn.primitive.bind(*operands, **held)
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        return [one for one in results if jnp.issubdtype(one.dtype, jnp.inexact)]

    results, pull = jax.vjp(forward, *(values[index] for index in floating))
    return pull([_seed(one, mesh) for one in results])


def _seed(result: Any, mesh: Mesh | None) -> Any:
    """Numbers at the type of a result's cotangent: what is reduced has one that is pending, and the other way."""
    numbers = (np.arange(result.size) * 7 % 11 + 2).reshape(result.shape) / 8
    seed = jnp.asarray(numbers, result.dtype)
    if mesh is None:
        return seed
    spec = jax.typeof(result).sharding.spec
    said = {"unreduced": spec.reduced, "reduced": spec.unreduced} if spec.reduced or spec.unreduced else {}
    return jax.sharding.reshard(seed, PartitionSpec(*spec.partitions, **said))
