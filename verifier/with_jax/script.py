"""Files that run a program with JAX alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from calculus.checking import Checker
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Program
from calculus.types import DTYPES, ArrayType
from verifier.with_jax.probe import entering, outside
from verifier.with_jax.python import as_python
from verifier.with_jax.python_values import spec_of

HEAD: Final = """\
import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "{devices}")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.compute_on import compute_on
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import Primitive
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
"""

TOOLS: Final = """
PRIMITIVES = {
    one.name.removesuffix("_p"): one
    for name, module in list(sys.modules.items()) if name.startswith("jax._src")
    for one in list(vars(module).values()) if isinstance(one, Primitive)
}


def bind(name, *operands, **parameters):
    found = PRIMITIVES[name].bind(*operands, **parameters)
    return found[0] if isinstance(found, (list, tuple)) and len(found) == 1 else found


def on(spec):
    return NamedSharding(jax.sharding.get_abstract_mesh(), spec)


def under(mesh, evaluate):
    device = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    if device is not None:
        mesh = mesh.update(abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        return evaluate()


def scan(body, held, carries, scanned, **how):
    def each(carry, slices):
        found = body(*held, *carry, *slices)
        return tuple(found[: len(carries)]), tuple(found[len(carries) :])

    ends, stacks = lax.scan(each, tuple(carries), tuple(scanned), **how)
    return *ends, *stacks


def scatter(name, operand, indices, updates, **rows):
    by = {"": "scatter", "add": "scatter_add", "sub": "scatter_sub", "mul": "scatter_mul", "min": "scatter_min",
          "max": "scatter_max"}[name.partition("-")[2]]
    how = {key: rows[key] for key in ("indices_are_sorted", "unique_indices", "mode")}
    return getattr(lax, by)(operand, indices, updates, rows["dimension_numbers"], **how)


def full(number, shape, spec, varying, unreduced, reduced):
    number = getattr(jnp, str(number.dtype).replace("bool", "bool_"))(number)
    sharding = on(P()) if spec is None and not shape else None if spec is None else on(spec)
    found = bind("broadcast_in_dim", number, shape=shape, broadcast_dimensions=(), sharding=sharding)
    if varying or unreduced:
        found = bind("pvary", found, axes=varying + unreduced)
    if unreduced:
        found = bind("vary_unreduced_cast", found, axes=unreduced)
    return bind("preduced", found, axes=reduced) if reduced else found


def ruled(function):
    made = jax.custom_jvp(function)
    made.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
    return made


def while_loop(until, known, body, held, carries):
    found = lax.while_loop(lambda c: until(*known, *c)[0], lambda c: tuple(body(*held, *c)), tuple(carries))
    return tuple(found)
"""

HELD: Final = """

def held(spec, shape, *blocks):
    arrays = [jax.device_put(block, device) for block, device in zip(blocks, MESH.devices.flat, strict=True)]
    return jax.make_array_from_single_device_arrays(shape, NamedSharding(MESH, spec), arrays)

"""


def mesh_text(mesh: Mesh) -> str:
    """A mesh on the first devices."""
    sizes = tuple(axis.size for axis in mesh.axes)
    modes = ", ".join(f"AxisType.{axis.mode.value.capitalize()}" for axis in mesh.axes)
    count = mesh.size(mesh.by_name)
    return f"jax.make_mesh({sizes}, {tuple(mesh.by_name)}, axis_types=({modes},), devices=jax.devices()[:{count}])"


def file(program: Program, mesh: Mesh, seed: int = 0) -> Iterator[str]:
    """A file that runs a program with JAX alone, on inputs that are drawn with the seed, and prints what every device
    holds of the results; or, of a program on a mesh with manual axes, and of one that we do not type, the types that
    JAX gives them."""
    checker = Checker([mesh])
    checker.check(program)
    manual = frozenset(axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL)
    around = mesh.with_modes(dict.fromkeys(mesh.by_name, AxisMode.EXPLICIT))
    yield HEAD.format(devices=mesh.size(mesh.by_name)).replace("import os\n", "import os\nimport sys\n", 1)
    yield f"{TOOLS}\n\nMESH = {mesh_text(around)}\n\n\n{as_python(program, mesh).text}\n"
    if manual or checker.refusals:
        yield from _typing([type for type in program.input_types if isinstance(type, ArrayType)], mesh, manual)
    else:
        yield from _running(program, mesh, seed)


def _typing(types: Sequence[ArrayType], mesh: Mesh, manual: frozenset[str]) -> Iterator[str]:
    yield "\ndef typed(*values):"
    if any(type.varying and not type.shape for type in types):
        axes = [type.varying if not type.shape else () for type in types]
        yield f"    values = [bind('pvary', one, axes=axes) if axes else one for one, axes in zip(values, {axes})]"
    yield "    print(*map(jax.typeof, program(*values)))"
    yield "    return ()\n\n"
    yield "with jax.set_mesh(MESH):"
    structs = []
    for type in types:
        outer = outside(type, mesh)
        sharding = f"NamedSharding(MESH, {spec_of(outer)})"
        structs.append(f"jax.ShapeDtypeStruct({tuple(outer.shape)}, jnp.{DTYPES[type.dtype][0]}, sharding={sharding})")
    function = "typed"
    if manual:
        specs = "".join(f"{spec_of(entering(outside(type, mesh), manual))}, " for type in types)
        function = f"jax.shard_map(typed, in_specs=({specs}), out_specs=(), axis_names={set(manual)!r})"
    yield f"    jax.jit({function}).trace({', '.join(structs)})"


def _running(program: Program, mesh: Mesh, seed: int) -> Iterator[str]:
    from verifier.execution.run import run

    yield HELD
    yield "with jax.set_mesh(MESH):"
    yield "    inputs = ["
    for shown in run(program, [mesh], seed).inputs:
        assert isinstance(shown.type, ArrayType)
        dtype = DTYPES[shown.type.dtype][0]
        arrays = ", ".join(f"np.array({block.tolist()}, jnp.{dtype})" for block in shown.blocks)
        yield f"        held({spec_of(shown.type)}, {tuple(shown.type.shape)}, {arrays}),"
    yield "    ]"
    yield "    for number, result in enumerate(jax.jit(program)(*inputs)):"
    yield '        print(f"result {number}:", jax.typeof(result))'
    yield "        for shard in result.addressable_shards:"
    yield "            print(shard.device, np.asarray(shard.data).tolist())"
