"""Convolutions and pooling against the collectives of XLA, forward and backward.

The expected values are read off XLA's own output (JAX 0.12.0.1, four CPU devices): kind and bytes per device, of the
result for an all-gather and of the operand otherwise. The CPU's partitioner makes an all-reduce of a reduce-scatter, at
the same bytes; here it is the reduce-scatter that the types speak of. The programs are those that JAX traces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from grammar.meshes import parse_meshes
from verifier.texts import check_text

AG, AR, RS, CP = "all-gather", "all-reduce", "reduce-scatter", "collective-permute"
MESH = AbstractMesh((4,), ("X",), axis_types=(AxisType.Explicit,))
REPLICATED, BATCH, ROWS = P(), P("X"), P(None, "X")
WITHIN, FEATURES = P(None, None, "X"), P(None, None, None, "X")
IMAGES, PATCHES = (8, 16, 16, 8), (8, 16, 16, 4)


def rows(f: Callable[..., Any], *arrays: tuple[tuple[int, ...], P]) -> list[tuple[str, int | None, str]]:
    """What the program that JAX traces at these shapes and shardings communicates."""
    operands = [jax.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(MESH, spec)) for shape, spec in arrays]
    with jax.sharding.use_abstract_mesh(MESH):
        text = str(jax.jit(f).trace(*operands).jaxpr)
    report = check_text(text, parse_meshes("X=4"), "test")
    assert [refusal.message for refusal in report.refusals] == []
    return sorted((row.kind, row.bytes, row.exactness) for row in report.communication for _ in range(row.times or 1))


def convolution(
    target: P | None, stride: int = 1, groups: int = 1, batch_groups: int = 1, padding: str = "SAME"
) -> Callable[[Any, Any], Any]:
    def convolve(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
            batch_group_count=batch_groups,
            out_sharding=target,
        )

    return convolve


def gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda *arrays: (f(*arrays) ** 2).sum(), (0, 1))


@pytest.mark.parametrize(
    ("x", "kernel", "target", "forward", "backward"),
    [
        (BATCH, REPLICATED, None, [], [(AR, 3456)]),
        (REPLICATED, FEATURES, FEATURES, [], [(AR, 65536)]),
        (REPLICATED, FEATURES, REPLICATED, [(AG, 3456)], [(AG, 3456), (AG, 3456)]),
        (FEATURES, WITHIN, REPLICATED, [(AR, 98304)], [(AR, 98304)]),
        (FEATURES, WITHIN, BATCH, [(RS, 98304)], None),
        (FEATURES, REPLICATED, REPLICATED, [(AG, 65536)], [(AG, 65536)]),
        (REPLICATED, WITHIN, REPLICATED, [(AG, 3456)], [(AG, 3456), (AG, 3456)]),
        (BATCH, WITHIN, BATCH, [(AG, 3456)], [(AG, 3456), (AG, 3456), (RS, 3456)]),
        (BATCH, FEATURES, BATCH, [(AG, 3456)], [(AG, 3456), (AG, 3456), (RS, 3456)]),
        (BATCH, REPLICATED, REPLICATED, [(AG, 65536)], None),
        (REPLICATED, REPLICATED, BATCH, [], None),
    ],
)
def test_features_and_batch(
    x: P, kernel: P, target: P | None, forward: list[tuple[str, int]], backward: list[tuple[str, int]] | None
) -> None:
    """Where the types determine what moves, it is what XLA moves."""
    f, arrays = convolution(target), ((IMAGES, x), ((3, 3, 8, 12), kernel))
    assert rows(f, *arrays) == sorted((*row, "exact") for row in forward)
    if backward is not None:
        assert rows(gradients(f), *arrays) == sorted((*row, "exact") for row in backward)


@pytest.mark.parametrize(
    ("window", "stride", "backward"),
    [((4, 4), 4, [(AR, 2048)]), ((1, 1), 2, [(AR, 128)]), ((2, 2), 4, [(AR, 512)]), ((1, 1), 1, [(AR, 128)])],
)
def test_stretches_of_a_dim_that_is_cut(window: tuple[int, int], stride: int, backward: list[tuple[str, int]]) -> None:
    """Where each window lies in a stretch of its own, XLA exchanges nothing, forward or backward."""
    f, arrays = convolution(None, stride, padding="VALID"), ((PATCHES, ROWS), ((*window, 4, 8), REPLICATED))
    assert rows(f, *arrays) == []
    assert rows(gradients(f), *arrays) == sorted((*row, "exact") for row in backward)


def test_a_window_that_is_cut_with_the_dim() -> None:
    f = convolution(REPLICATED, padding="VALID")
    assert rows(f, ((8, 16, 1, 4), ROWS), ((16, 1, 4, 8), P("X"))) == [(AR, 256, "exact")]
    f = convolution(REPLICATED, stride=4, padding="VALID")
    assert rows(f, (PATCHES, REPLICATED), ((4, 4, 4, 8), P("X"))) == [(AG, 2048, "exact")]


@pytest.mark.parametrize(
    ("x", "kernel", "shape", "groups", "target", "forward", "backward"),
    [
        (BATCH, REPLICATED, (3, 3, 1, 8), (8, 1), None, [], [(AR, 288)]),
        (FEATURES, FEATURES, (3, 3, 1, 8), (8, 1), FEATURES, [], []),
        (BATCH, REPLICATED, (3, 3, 1, 16), (8, 1), None, [], None),
        (FEATURES, FEATURES, (3, 3, 1, 16), (8, 1), FEATURES, [], None),
        (BATCH, FEATURES, (3, 3, 8, 12), (1, 4), FEATURES, [], None),
        (FEATURES, WITHIN, (3, 3, 8, 12), (1, 4), REPLICATED, [(AR, 24576)], None),
        (BATCH, REPLICATED, (1, 1, 2, 12), (4, 1), None, [], [(AR, 96)]),
    ],
)
def test_groups(
    x: P,
    kernel: P,
    shape: tuple[int, ...],
    groups: tuple[int, int],
    target: P | None,
    forward: list[tuple[str, int]],
    backward: list[tuple[str, int]] | None,
) -> None:
    f, arrays = convolution(target, 1, *groups), ((IMAGES, x), (shape, kernel))
    assert rows(f, *arrays) == sorted((*row, "exact") for row in forward)
    if backward is not None:
        assert rows(gradients(f), *arrays) == sorted((*row, "exact") for row in backward)


@pytest.mark.parametrize(
    ("x", "target", "measured", "measured_backward"),
    [
        (ROWS, None, 2 * 4096, 3456 + 4 * 4096 + 2 * 6144),
        (BATCH, ROWS, 16384 + 2 * 4096, 3456 + 16384 + 24576 + 4 * 4096),
        (ROWS, REPLICATED, 65536, 65536 + 2 * 6144),
        (REPLICATED, ROWS, 2 * 4096, 98304 + 2 * 4096),
    ],
)
def test_windows_over_edges_are_bounded(x: P, target: P | None, measured: int, measured_backward: int) -> None:
    """Where windows reach over the edges of blocks, XLA exchanges parts of blocks. The estimate is a bound."""
    f, arrays = convolution(target), ((IMAGES, x), ((3, 3, 8, 12), REPLICATED))
    for program, moved in ((f, measured), (gradients(f), measured_backward)):
        found = rows(program, *arrays)
        assert {exactness for *_, exactness in found} == {"estimate"}
        assert sum(payload or 0 for _, payload, _ in found) >= moved


def test_contractions_in_groups_that_a_target_moves_are_estimates() -> None:
    """XLA contracts no group of several features in part: it gathers both operands."""
    f = convolution(REPLICATED, groups=4)
    measured = [(AG, 864, "estimate"), (AG, 65536, "estimate")]
    assert rows(f, (IMAGES, FEATURES), ((3, 3, 2, 12), FEATURES)) == measured


def pooled(how: Any, window: tuple[int, ...], stride: tuple[int, ...], padding: str) -> Callable[[Any], Any]:
    start, combine = how
    return lambda x: lax.reduce_window(x, start, combine, window, stride, padding)


MAX, SUM, PRODUCT = (-jnp.inf, lax.max), (0.0, lax.add), (1.0, lax.mul)
SIDE, REACHING = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID"), ((1, 3, 3, 1), (1, 1, 1, 1), "SAME")
APART = ((1, 2, 2, 1), (1, 4, 4, 1), "VALID")


@pytest.mark.parametrize("how", [MAX, SUM, PRODUCT], ids=["max", "sum", "product"])
@pytest.mark.parametrize(
    ("windows", "spec"),
    [(SIDE, BATCH), (SIDE, ROWS), (SIDE, FEATURES), (APART, ROWS), (REACHING, BATCH), (REACHING, FEATURES)],
)
def test_windows_that_stay_in_their_blocks_move_nothing(how: Any, windows: Any, spec: P) -> None:
    """Nor do tangents, and what comes back to the chosen. The gradient of a sum over windows JAX does not trace where
    rows are cut: it pads them."""
    f = pooled(how, *windows)
    assert rows(f, (IMAGES, spec)) == []
    if how is MAX:
        assert rows(lambda x: jax.jvp(f, (x,), (x,)), (IMAGES, spec)) == []
        assert rows(jax.grad(lambda x: (f(x) ** 2).sum()), (IMAGES, spec)) == []


@pytest.mark.parametrize(("how", "measured"), [(MAX, 2 * 4096), (SUM, 2 * 4096), (PRODUCT, 2 * 4096)])
def test_pooling_over_edges_is_bounded(how: Any, measured: int) -> None:
    ((kind, payload, exactness),) = rows(pooled(how, *REACHING), (IMAGES, ROWS))
    assert (kind, exactness) == (AG, "estimate")
    assert (payload or 0) >= measured


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="the older release does not trace it")
def test_one_window_over_a_whole_dim_is_gathered() -> None:
    """XLA reduces no window in part."""
    f = pooled(SUM, (1, 16, 1, 1), (1, 1, 1, 1), "VALID")
    assert rows(f, ((1, 16, 1, 1), ROWS)) == [(AG, 64, "estimate")]
