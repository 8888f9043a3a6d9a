"""The device model: by hand, and against what JAX puts on eight devices."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from calculus.meshes import Axis, AxisMode, Mesh
from calculus.types import ArrayType
from grammar.read import read_type
from verifier.devices import Device, NotAFamily, devices, numpy_dtype, pieces, place, read_back

MESH = Mesh([Axis("X", 2), Axis("Y", 3)])
MANUAL = Mesh([Axis("X", 2, AxisMode.MANUAL), Axis("Y", 3, AxisMode.MANUAL)])


def random() -> np.random.Generator:
    return np.random.default_rng(5)


def array(text: str) -> ArrayType:
    type = read_type(text)
    assert isinstance(type, ArrayType)
    return type


def test_the_last_axis_is_the_minor_one() -> None:
    assert devices(MESH) == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))


@pytest.mark.parametrize(
    ("text", "device", "expected"),
    [
        ("i32[6@X]", (1, 2), [3, 4, 5]),
        ("i32[6@Y]", (1, 2), [4, 5]),
        ("i32[6@(X,Y)]", (1, 2), [5]),
        ("i32[6@(X,Y)]", (1, 0), [3]),
        ("i32[6@(Y,X)]", (1, 0), [1]),
        ("i32[6]", (1, 1), [0, 1, 2, 3, 4, 5]),
        ("i32[6]{R:X}", (1, 1), [0, 1, 2, 3, 4, 5]),
        ("i32[6@Y]{R:X}", (1, 0), [0, 1]),
    ],
)
def test_blocks_by_hand(text: str, device: Device, expected: list[int]) -> None:
    """Consecutive blocks, the first axis of a list the major one."""
    family = place(np.arange(6, dtype=np.int32), array(text), MESH, random())
    assert family[device].tolist() == expected
    assert read_back(family, array(text), MESH).tolist() == [0, 1, 2, 3, 4, 5]


def _family(*blocks: Any) -> dict[Device, Any]:
    return dict(zip(devices(MESH), map(np.array, blocks), strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i64[1]{U:(X,Y)}", [1 - 2 + 3 - 40 + 5 + 60]),
        ("i64[1]{U_max:(X,Y)}", [60]),
        ("i64[1]{U_min:(X,Y)}", [-40]),
        ("i64[6@(X,Y)]", [1, -2, 3, -40, 5, 60]),
        ("i64[6@(Y,X)]", [1, -40, -2, 5, 3, 60]),
        ("i64[2@X]{U:Y}", [2, 25]),
        ("i64[3@Y]{U:X}", [-39, 3, 63]),
        ("i64[3@Y]{U_max:X}", [1, 5, 60]),
    ],
)
def test_readings_by_hand(text: str, expected: list[int]) -> None:
    """One number on each device, read at different types."""
    family = _family([1], [-2], [3], [-40], [5], [60])
    assert read_back(family, array(text), MESH).tolist() == expected


def test_varying_arrays_are_stacked() -> None:
    family = _family([1], [-2], [3], [-40], [5], [60])
    both, one = array("i64[1]{V:(X,Y)}"), array("i64[1]{V:Y}")
    assert read_back(family, both, MANUAL).tolist() == [[[1], [-2], [3]], [[-40], [5], [60]]]
    stack = np.array([[7], [8], [9]])
    placed = place(stack, one, MANUAL, random())
    assert [placed[device].tolist() for device in devices(MANUAL)] == [[7], [8], [9], [7], [8], [9]]
    assert read_back(placed, one, MANUAL).tolist() == stack.tolist()
    with pytest.raises(NotAFamily, match="different copies"):
        read_back(family, one, MANUAL)


@pytest.mark.parametrize(
    "text", ["i64[1]", "i64[1]{R:(X,Y)}", "i64[1]{R:X}", "i64[2@X]", "i64[1]{U:X}", "i64[2@X]{R:Y}"]
)
def test_copies_that_disagree_are_an_error(text: str) -> None:
    family = _family([1], [1], [1], [1], [1], [2])
    with pytest.raises(NotAFamily, match="different copies"):
        read_back(family, array(text), MESH)


def test_nan_is_a_copy_of_itself_and_zero_has_no_sign() -> None:
    family = _family([np.nan, 0.0], [np.nan, -0.0], *[[np.nan, 0.0]] * 4)
    assert np.isnan(read_back(family, array("f64[2]"), MESH)).tolist() == [True, False]


def test_blocks_of_another_shape_are_an_error() -> None:
    with pytest.raises(NotAFamily, match="of shape"):
        read_back(_family(*[[1, 2]] * 6), array("i64[4]"), MESH)
    with pytest.raises(ValueError, match="evenly"):
        read_back(_family(*[[1, 2]] * 6), array("i64[4@Y]"), MESH)
    with pytest.raises(ValueError, match="no value of"):
        place(np.zeros(3), array("f64[4]"), MESH, random())
    with pytest.raises(ValueError, match="no value of"):
        place(np.zeros(4, np.float32), array("f64[4]"), MESH, random())


@pytest.mark.parametrize("dtype", ["f64", "f32", "c128", "i8", "i32", "u8", "u32", "bool"])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_pieces_are_not_the_value_and_read_back_as_it(dtype: str, kind: str) -> None:
    """Unequal pieces: of a sum both signs, of a maximum all of it somewhere and less elsewhere."""
    long = numpy_dtype(dtype)
    value = np.arange(-100, 100).reshape(20, 10)
    value = value % 2 == 0 if dtype == "bool" else value.astype(long)
    for count in (2, 3):
        found = pieces(value, count, kind, random())
        total = found[0]
        for piece in found[1:]:
            total = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind](total, piece)
        assert np.array_equal(total, value)
        assert all((piece != value).any() for piece in found)
        assert all((one != other).any() for one, other in itertools.pairwise(found))
        if kind == "sum" and dtype not in ("c128", "bool", "u8", "u32"):
            assert all((piece < 0).any() and (piece > 0).any() for piece in found)


def test_dtypes_that_numpy_does_not_know() -> None:
    with pytest.raises(ValueError, match="key<rbg>"):
        numpy_dtype("key<rbg>")


@pytest.mark.parametrize("kind", ["max", "min"])
def test_pieces_of_special_numbers(kind: str) -> None:
    value = np.array([np.nan, np.inf, -np.inf, 0.0] * 50)
    found = pieces(value, 3, kind, random())
    merge = np.maximum if kind == "max" else np.minimum
    assert np.array_equal(merge(merge(found[0], found[1]), found[2]), value, equal_nan=True)
    of_nan = np.stack(found)[:, ::4]
    assert np.isnan(of_nan).any()
    assert not np.isnan(of_nan).all()


#: on eight devices, JAX's blocks of some arrays; a sum is made pending by a reshard of what a contraction leaves
_JAX = """
import jax, numpy as np, pickle, sys
jax.config.update("jax_num_cpu_devices", 8)
mesh = jax.make_mesh((2, 4), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
found = {}
with jax.set_mesh(mesh):
    for text, spec in CASES.items():
        shape = SHAPES[text]
        value = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        array = jax.device_put(value, jax.NamedSharding(mesh, eval(spec, {"P": jax.P})))
        if str(jax.typeof(array)) != text:
            raise SystemExit(f"{jax.typeof(array)} is not {text}")
        where = {device.id: index for index, device in np.ndenumerate(mesh.devices)}
        found[text] = {where[shard.device.id]: np.asarray(shard.data) for shard in array.addressable_shards}
    x = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    w = np.arange(16.0, dtype=np.float32).reshape(8, 2) - 7
    product = jax.jit(lambda x, w: jax.numpy.einsum("ik,kj->ij", x, w, out_sharding=jax.P(unreduced={"Y"})))(
        jax.device_put(x, jax.P(None, "Y")), jax.device_put(w, jax.P("Y", None)))
    found["pending"] = (str(jax.typeof(product)), x @ w,
        {where[shard.device.id]: np.asarray(shard.data) for shard in product.addressable_shards})
sys.stdout.buffer.write(pickle.dumps(found))
"""

_SPECS = {
    "int32[8@X,4]": 'P("X", None)',
    "int32[8@Y,2@X]": 'P("Y", "X")',
    "int32[8@(X,Y),3]": 'P(("X", "Y"), None)',
    "int32[8@(Y,X),3]": 'P(("Y", "X"), None)',
    "int32[3,4]": "P(None, None)",
    "int32[3,4@Y]": 'P(None, "Y")',
}


def test_blocks_are_those_that_jax_puts_on_devices() -> None:
    shapes = {text: array(text).shape for text in _SPECS}
    script = f"CASES = {_SPECS!r}\nSHAPES = {shapes!r}\n{_JAX}"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    found = pickle.loads(run.stdout)
    mesh = Mesh([Axis("X", 2), Axis("Y", 4)])
    text, product, theirs = found.pop("pending")
    assert np.array_equal(read_back(theirs, array(text), mesh), product)
    assert not np.array_equal(theirs[0, 0], product)
    for text, theirs in found.items():
        value = np.arange(np.prod(shapes[text]), dtype=np.int32).reshape(shapes[text])  # type: ignore[arg-type]
        ours = place(value, array(text), mesh, random())
        assert ours.keys() == theirs.keys()
        for device, block in ours.items():
            assert np.array_equal(block, theirs[device]), (text, device)
        assert np.array_equal(read_back(theirs, array(text), mesh), value)
