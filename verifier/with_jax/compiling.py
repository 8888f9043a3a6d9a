"""Compiling for a target: XLA for CPU devices, which this machine has as many of as are asked for, and XLA for TPU
topologies, which need no TPU: a function at its arguments, traced once, with the text of what is compiled.

For TPU this opens libtpu (the extra `tpu-compiler`), which compiles and runs nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from calculus.meshes import Mesh as OurMesh
from grammar.meshes import parse_meshes
from verifier.compiled.targets import CPU, PARTITIONED, RUN, NoCompiler, Target
from verifier.with_jax import meshes
from verifier.with_jax.gradients import Sample, traced
from verifier.with_jax.names import is_array

VERSION: Final = jax.__version__

_DUMP: Final = {"xla_dump_hlo_pass_re": "pipeline-start", "xla_dump_hlo_pipeline_re": "spmd-cleanup",
                "xla_dump_hlo_as_text": True}  # fmt: skip
_QUICK: Final = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_RAW: Final = "**/*.spmd-cleanup.after_pipeline-start.before_*.txt"

_FEW: Final = 8
"""At least so many CPU devices are asked for: JAX cannot be asked again."""

_MANY: Final = 2048
"""The most CPU devices of one process; those beyond are taken for another's."""

_WITHOUT_A_TPU: Final = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-8", "TPU_WORKER_ID": "0",
                         "TPU_WORKER_HOSTNAMES": "localhost", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}  # fmt: skip


@dataclass(frozen=True)
class Compiled:
    """A compiled program. texts: by stage (`verifier.compiled.targets`). problem: why there is no more, where it was
    partitioned and then not compiled. program: what `jax.stages.Compiled` says of it, where it was."""

    texts: Mapping[str, str]
    problem: str = ""
    program: Any = None


def have_libtpu() -> bool:
    """Whether the compiler for TPU is installed."""
    return importlib.util.find_spec("libtpu") is not None


def devices(target: Target, count: int) -> list[Any]:
    """So many devices of a target. Raises `NoCompiler`, with the repair."""
    found = _cpus(count) if target.name == CPU else _tpus(target.topology)
    if len(found) < count:
        raise NoCompiler(f"{target} has {len(found):,} devices, and the mesh {count:,}", "give a smaller --mesh")
    return found[:count]


def _cpus(count: int) -> list[Any]:
    if count > _MANY:
        raise NoCompiler(
            f"XLA has at most {_MANY:,} CPU devices, and the mesh has {count:,}",
            "give a smaller --mesh, or compile for a TPU topology, such as tpu:v5p:16x16x16",
        )
    try:
        if jax.config.jax_num_cpu_devices < count:
            jax.config.update("jax_num_cpu_devices", max(count, _FEW))
    except RuntimeError as error:
        have = len(jax.devices("cpu"))
        raise NoCompiler(
            f"JAX has started with {have} CPU devices, and the mesh has {count:,}", f"set JAX_NUM_CPU_DEVICES={count}"
        ) from error
    return list(jax.devices("cpu"))


def _tpus(topology: str) -> list[Any]:
    if not have_libtpu():
        raise NoCompiler(
            "the compiler for TPU is not installed (libtpu, which is proprietary; nothing else needs it)",
            "pip install 'shardproof[tpu-compiler]'",
        )
    for name, value in _WITHOUT_A_TPU.items():
        os.environ.setdefault(name, value)
    if jax.config.jax_platforms is None:
        jax.config.update("jax_platforms", "cpu")  # nothing here runs on one
    with contextlib.suppress(RuntimeError):  # where JAX has started, it has as many as it has
        if jax.config.jax_num_cpu_devices < _FEW:
            jax.config.update("jax_num_cpu_devices", _FEW)  # CPU devices may be compiled for next
    from jax.experimental import topologies

    try:
        return list(topologies.get_topology_desc(platform="tpu", topology_name=topology).devices)
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise NoCompiler(
            f"libtpu makes no topology {topology}: {said}", "name one such as v5p:2x2x2, v5p:16x16x16 or v5e:2x4"
        ) from error


def at_most(target: Target) -> int:
    """How many devices a target has; CPU devices are as many as are asked for, and few are. Raises `NoCompiler`."""
    return _FEW if target.name == CPU else len(_tpus(target.topology))


def derivative_on(target: Target, sample: Sample) -> tuple[Mesh, Any]:
    """The mesh of a sample on a target, and the derivative that JAX makes of it, traced there."""
    mesh = mesh_on(target, parse_meshes(sample.mesh)[0])
    function, arguments = traced(sample.function, sample.on(mesh), mesh).differentiated()
    return mesh, trace_on(mesh, function, arguments, {})


def placed(arguments: Any, mesh: Any) -> Any:
    """Arguments as what stands for them on a mesh with devices: where each was put on a mesh with the same axes, it is
    put there; what was put nowhere is whole everywhere."""

    def one(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        spec = getattr(getattr(leaf, "sharding", None), "spec", None)
        sharding = NamedSharding(mesh, PartitionSpec() if spec is None else spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(one, arguments)


def mesh_on(target: Target, mesh: OurMesh) -> Mesh:
    """A mesh of ours on devices of a target, in their order. Raises `NoCompiler`."""
    abstract = meshes.abstract(mesh)
    count = math.prod(abstract.axis_sizes)
    shape = tuple(abstract.axis_sizes)
    return Mesh(np.array(devices(target, count)).reshape(shape), abstract.axis_names, axis_types=abstract.axis_types)


def mesh_of(arguments: Any) -> OurMesh | None:
    """The mesh that arguments lie on; `None` where they lie on none, or on several."""
    found = meshes.distinct(meshes.of_arguments(jax.tree.leaves(arguments)))
    return found[0] if len(found) == 1 else None


def trace_on(mesh: Mesh, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A function traced on a mesh with devices, at arguments that lie there: a `jax.stages.Traced`. What JAX raises
    goes through."""
    if hasattr(function, "trace") and hasattr(function, "lower"):
        with jax.set_mesh(mesh):
            made = function.trace(*arguments, **keywords)
            return getattr(made, "traced", made)
    values, tree = jax.tree.flatten((tuple(arguments), dict(keywords)))
    places = [place for place, value in enumerate(values) if is_array(value)]

    def on_arrays(*arrays: Any) -> Any:
        filled = [*values]
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        args, kwargs = jax.tree.unflatten(tree, filled)
        return [leaf for leaf in jax.tree.leaves(function(*args, **kwargs)) if is_array(leaf)]

    on_arrays.__name__ = getattr(function, "__name__", "function")
    with jax.set_mesh(mesh):
        return jax.jit(on_arrays).trace(*[values[place] for place in places])


def compile_(made: Any, target: Target, mesh: Mesh, quick: bool = False) -> Compiled:
    """Compile a `jax.stages.Traced`. quick: only to partition it, as far as that can be had alone. What JAX raises
    before anything is partitioned goes through."""
    with tempfile.TemporaryDirectory() as folder, jax.set_mesh(mesh):
        lowered = made.lower()
        options: dict[str, Any] = {"xla_dump_to": folder, **_DUMP}
        if quick and target.name == CPU:
            options |= _QUICK
        program, problem = None, ""
        try:
            program = lowered.compile(compiler_options=options)
        except Exception as error:
            problem = " ".join(str(error).split())[:300]
            if not list(Path(folder).glob(_RAW)):
                raise
        raw = _raw(folder)
        texts = {PARTITIONED: raw} if raw else {}
        if program is not None and (target.name != CPU or not texts):
            texts[RUN] = program.as_text()
        return Compiled(texts, problem, program)


def _raw(folder: str) -> str:
    """What the partitioner made, before anything is combined, hoisted or folded; for one device it makes nothing."""
    files = sorted(Path(folder).glob(_RAW))
    return files[0].read_text(encoding="utf-8") if len(files) == 1 else ""
