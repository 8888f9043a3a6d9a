"""Layouts: what they mean, against numpy's strides, and what becomes of an array that has another one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calculus.layouts import AUTO, Format, Handover, format_of, hand_over, read_layout, strides
from calculus.programs import Word
from calculus.refusals import Refused


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_strides_are_those_of_the_memory(order: tuple[int, ...]) -> None:
    """An array whose memory holds the dims in this order, written in numpy: contiguous, then permuted back."""
    shape = (2, 3, 5)
    memory = np.zeros([shape[dim] for dim in order], np.int8)
    array = memory.transpose(np.argsort(order))
    assert array.shape == shape
    assert strides(shape, order) == array.strides


@pytest.mark.parametrize("order", [(), (0,), (0, 0), (0, 2)])
def test_a_layout_orders_every_dim(order: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not order"):
        strides((2, 3), order)


def test_an_explicit_layout_needs_a_sharding() -> None:
    with pytest.raises(Refused) as caught:
        format_of((0, 1))
    assert caught.value.refusal.code == "bad-parameter"
    assert format_of((0, 1), "P('X')") == Format((0, 1), "P('X')")
    assert format_of(AUTO) == Format(AUTO)
    assert format_of() == Format()


@pytest.mark.parametrize(
    ("given", "committed", "outcome"),
    [
        ((0, 1), False, Handover.RELAID),
        ((1, 0), False, Handover.AS_IT_IS),
        ((1, 0), True, Handover.AS_IT_IS),
        ((0, 1), True, Handover.REFUSED),
    ],
)
def test_the_four_outcomes_of_the_page(given: tuple[int, ...], committed: bool, outcome: Handover) -> None:
    """Seed B43, for a program compiled for column-major; where the compiler was free, everything is taken."""
    assert hand_over((1, 0), given, committed) is outcome
    assert hand_over(AUTO, given, committed) is hand_over(None, given, committed) is Handover.AS_IT_IS


def test_words() -> None:
    assert read_layout(Word("AutoLayout"), "in_layouts") == AUTO
    assert read_layout(None, "in_layouts") is None
    with pytest.raises(Refused):
        read_layout(Word("row-major"), "in_layouts")
