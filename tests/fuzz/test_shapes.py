"""Texts of one shape each, small and large: linear time, whatever they are."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.fuzz.promise import MESH, SECONDS, answer, seconds
from tests.fuzz.shapes import SHAPES

pytestmark = pytest.mark.fuzz

#: how much longer a text of four times the size may take; linear is 4, quadratic 16
GROWTH = 9.0
#: characters of the smaller text
SIZE = max(12_000, int(150 * SECONDS))
#: CPU seconds below which nothing is said about growth
NOISE = 0.05


@pytest.fixture(autouse=True, scope="module")
def only_what_is_new() -> Iterator[None]:
    """What other tests left in memory, a compiler and its caches, is not walked before each measurement."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", SHAPES)
def test_small(name: str) -> None:
    for n in (0, 1, 2, 3, 7):
        text = SHAPES[name](n)
        answer(text)
        answer(text, *MESH)


@pytest.mark.parametrize("name", SHAPES)
def test_linear_time(name: str) -> None:
    """From a text of some kilobytes to one four times as large, CPU time grows less than GROWTH-fold, in one of three
    trials, since other processes disturb."""
    n = max(50, 400 * SIZE // len(SHAPES[name](400)))
    small, large = SHAPES[name](n), SHAPES[name](4 * n)
    answer(small)
    for _ in range(3):
        gc.collect()
        less, more = seconds(small), seconds(large)
        if more < max(NOISE, GROWTH * less):
            return
    raise AssertionError(f"{name}: {len(small)} characters take {less:.3f} s, {len(large)} take {more:.3f} s")
