"""Which device holds what, against JAX itself on eight CPU devices."""

from __future__ import annotations

import itertools
from typing import TypeAlias

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from calculus.meshes import Axis, AxisMode, Mesh
from calculus.types import ArrayType, array_type
from verifier.picture import along, block_shape, bytes_each, devices, grid, label, picture

Spec: TypeAlias = "tuple[str | tuple[str, ...] | None, ...]"

SIZES = {"X": 4, "Y": 2}
MESH = Mesh(Axis(name, size) for name, size in SIZES.items())

MATRICES: list[Spec] = [
    ("X", "Y"), ("Y", "X"), (("X", "Y"),), (("Y", "X"),), (None, ("X", "Y")), (None, ("Y", "X")), ("X", None),
    (None, "X"), ("Y", None), (None, "Y"), (), (("X",), ("Y",)),
]  # fmt: skip
VECTORS: list[Spec] = [("X",), ("Y",), (("X", "Y"),), (("Y", "X"),), ()]
CUBES: list[Spec] = [("X", None, "Y"), (None, "Y", "X"), (("Y", "X"), None, None), ("Y",), ()]


def jax_sharding(spec: Spec) -> NamedSharding:
    mesh = jax.make_mesh(tuple(SIZES.values()), tuple(SIZES), axis_types=(AxisType.Explicit,) * 2)
    return NamedSharding(mesh, PartitionSpec(*spec))


def our_type(shape: tuple[int, ...], spec: Spec) -> ArrayType:
    axes = [(axes,) if isinstance(axes, str) else axes or () for axes in spec]
    return array_type("f32", shape, tuple(axes) + ((),) * (len(shape) - len(axes)))


def drawn(text: str) -> list[list[set[int]]]:
    """The grid that JAX prints, read back: rows of cells, each the set of device numbers in it."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line[:1] in ("┌", "├"):
            rows.append([])
        elif line.startswith("│"):
            cells = line.strip("│").split("│")
            rows[-1] = [a + b.strip() for a, b in itertools.zip_longest(rows[-1], cells, fillvalue="")]
    return [[{int(n) for n in cell.removeprefix("CPU").split(",")} for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("shape", "spec"), [((8, 16), spec) for spec in MATRICES] + [((16,), spec) for spec in VECTORS]
)
def test_the_grid_is_jaxs(shape: tuple[int, ...], spec: Spec, capsys: pytest.CaptureFixture[str]) -> None:
    array = jax.device_put(np.zeros(shape, np.float32), jax_sharding(spec))
    capsys.readouterr()
    jax.debug.visualize_array_sharding(array, use_color=False)
    theirs = drawn(capsys.readouterr().out)
    ours = grid(our_type(shape, spec), MESH)
    assert [[{device.number for device in cell} for cell in row] for row in ours] == theirs


@pytest.mark.parametrize(
    ("shape", "spec"), [((8, 16), spec) for spec in MATRICES] + [((16,), spec) for spec in VECTORS]
)
def test_the_drawing_reads_as_jaxs(shape: tuple[int, ...], spec: Spec) -> None:
    """Our drawing, read by the same reader, has the same cells with the same labels."""
    type = our_type(shape, spec)
    assert drawn("\n".join(picture(type, MESH))) == [
        [{device.number for device in cell} for cell in row] for row in grid(type, MESH)
    ]


@pytest.mark.parametrize(
    ("shape", "spec"),
    [((8, 16), spec) for spec in MATRICES] + [((16,), spec) for spec in VECTORS] + [((8, 8, 8), s) for s in CUBES],
)
def test_the_indices_are_jaxs(shape: tuple[int, ...], spec: Spec) -> None:
    type = our_type(shape, spec)
    numbers = {device: number for number, device in enumerate(jax.devices())}
    theirs = {
        numbers[device]: tuple(part.indices(size)[:2] for part, size in zip(slices, shape, strict=True))
        for device, slices in jax_sharding(spec).devices_indices_map(shape).items()
    }
    assert {device.number: device.ranges for device in devices(type, MESH)} == theirs
    assert block_shape(type, MESH) == jax_sharding(spec).shard_shape(shape)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "complex64"])
def test_bytes_are_those_of_jaxs_shards(dtype: str) -> None:
    array = jax.device_put(np.zeros((8, 4), jax.numpy.dtype(dtype)), jax_sharding(("X", None)))
    assert bytes_each(array_type(dtype, (8, 4), (("X",), ())), MESH) == array.addressable_shards[0].data.nbytes


def test_four_bit_types_share_a_byte() -> None:
    assert bytes_each(array_type("i4", (8, 4), (("X",), ())), MESH) == 4
    assert bytes_each(array_type("i4", (3,)), MESH) == 2


def test_symbolic_dims_keep_their_name() -> None:
    type = array_type("f32", ("b + 1", "2*s", 4), (("X",), (), ("Y",)))
    assert block_shape(type, MESH) == ("(b + 1)/4", "2*s", 2)
    assert bytes_each(type, MESH) is None
    assert next(devices(type, MESH)).ranges == (None, None, (0, 2))


def labels(type: ArrayType, mesh: Mesh) -> list[list[str]]:
    return [[label(cell, type, mesh) for cell in row] for row in grid(type, mesh)]


def test_the_signs_between_devices() -> None:
    cube = Mesh([Axis("X", 2), Axis("Y", 2), Axis("Z", 2, AxisMode.MANUAL)])
    assert labels(array_type("f32", (2,), unreduced=("Y",)), MESH) == [["0,2,4,6+1,3,5,7"]]
    assert labels(array_type("f32", (8,), (("X",),), unreduced=("Y",)), MESH) == [["0+1", "2+3", "4+5", "6+7"]]
    assert labels(array_type("f32", (8,), (("X",),), reduced=("Y",)), MESH) == [["0,1", "2,3", "4,5", "6,7"]]
    assert labels(array_type("f32", (4,), (("X",),), unreduced=("Y",), kind="max"), MESH) == [
        ["max(0; 1)", "max(2; 3)", "max(4; 5)", "max(6; 7)"]
    ]
    assert labels(array_type("f32", (2,), (("X",),), varying=("Z",), unreduced=("Y",)), cube) == [
        ["0+2|1+3", "4+6|5+7"]
    ]
    hidden = Mesh([Axis("X", 2), Axis("Y", 2, AxisMode.AUTO)])
    assert labels(array_type("f32", (2,), (("X",),)), hidden) == [["0?1", "2?3"]]


def test_a_label_names_each_device_once() -> None:
    type = array_type("f32", (4, 4), ((), ("Y",)), reduced=("X",))
    assert labels(type, MESH) == [["0,2,4,6", "1,3,5,7"]]


def test_every_state_has_words() -> None:
    mesh = Mesh([Axis("S", 2), Axis("T", 2), Axis("U", 2), Axis("R", 2), Axis("V", 2, AxisMode.MANUAL), Axis("N", 2),
                 Axis("A", 2, AxisMode.AUTO)])  # fmt: skip
    type = array_type("f32", (4,), (("S", "T"),), varying=("V",), unreduced=("U",), reduced=("R",))
    words = {name: text.partition(":")[0] for name, text in along(type, mesh)}
    assert words == {
        "S": "sharded", "T": "sharded", "U": "unreduced", "R": "reduced", "V": "varying", "N": "replicated",
        "A": "auto",
    }  # fmt: skip
    assert dict(along(type, mesh))["S"] == "sharded: dim 0 is cut into 4 blocks, numbered by S then T"
