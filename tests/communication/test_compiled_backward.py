"""Derivatives, as both sides read them and as XLA partitions them: a fault that our checker and the types that JAX
prints had in common would show in what is compiled. Fifty programs, on CPU devices."""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

import jax
import pytest

from grammar.meshes import parse_meshes
from tests.communication.compiled import ONCE, SCATTERED, Moved, collectives, explained
from verifier.backward_agreement import Comparison, Move, compared
from verifier.compiled.targets import CPU, Target
from verifier.with_jax.backward_programs import programs
from verifier.with_jax.compiling import derivative_on

if jax.__version_info__ < (0, 12):
    pytest.skip("the compiler is that of the newer release", allow_module_level=True)

SAMPLE = (
    "documented/loss", "documented/microbatches, reduced", "documented/constants", "documented/pieces scattered",
    "documented/pieces and a reduced bias", "documented/gathered layers, reduced", "documented/an axis of one device",
    "documented/a reduced parameter: scale by einsum of rows", "documented/a reduced parameter: tied of rows",
    "documented/a masked mean", "documented/looked up",
    "manual/psum over both", "manual/all_gather of columns", "manual/a ring", "manual/all_to_all",
    "manual/psum_scatter", "manual/a weight, implicitly varying", "manual/rows and columns", "manual/psum in a loop",
    "manual/a batch norm", "manual/experts",
    "family/product (pieces, implicit)", "family/two products (pieces, reduced)",
    "family/biases (data and tensor, reduced)", "family/root mean square norm (data, reduced)",
    "family/layer norm (tensor)", "family/attention (pieces, reduced)", "family/gated (data and tensor)",
    "family/cross entropy (data)", "family/looked up words (data, reduced)", "family/experts by weight (pieces)",
    "family/low rank (data and tensor, reduced)", "family/decay (data, reduced)", "family/half precision (tensor)",
    "family/rotary embeddings (pieces and tensor, reduced)", "family/dropout (pieces)",
    "family/a rule of ones own (data and tensor)", "family/one layer many times (pieces)", "family/microbatches (data)",
    "family/computed again (pieces and tensor, reduced)", "family/a call used twice (pieces)",
    "family/a choice of layers (data and tensor)", "family/mapped over samples (data)",
    "family/mapped over members (pieces, implicit)", "family/several results (pieces, reduced)",
    "operation/sum of rows (first dim)", "operation/maximum (both dims)", "operation/placed otherwise (first dim)",
    "operation/gathered in a loop (first dim)", "operation/choice between two (cut and whole)",
)  # fmt: skip


class Difference(NamedTuple):
    """What neither class explains. typed, found: the bytes in all that each moves besides."""

    because: str
    typed: int
    found: int


CHOSEN = {"documented/looked up", "family/looked up words (data, reduced)"}
"""What has regions of automatic axes: what moves where they begin and end is the compiler's choice."""

_AUTO = "its axes are automatic between the reshards, and what moves there is its choice"
_IDLE = "it spreads the product over the axis that nothing is cut along, and puts the parts together again"

DIFFERENCES = {
    "documented/looked up": Difference(_AUTO, 0, 256),
    "family/product (pieces, implicit)": Difference(_IDLE, 512, 640),
    "family/mapped over members (pieces, implicit)": Difference(_IDLE, 1536, 1920),
}

NOT_LOWERED = {
    "manual/reduced layers in a loop": "dynamic_update_slice operand and update must be unreduced along the same axes",
    "manual/one axis of two, gathered": "must be equal to aval's ndim",
}
"""What JAX types and differentiates, and then cannot lower."""


@functools.cache
def derived(name: str) -> Comparison:
    return compared(name, programs()[name]().traced())


@functools.cache
def measured(name: str) -> Counter[Moved]:
    return collectives(*derivative_on(Target(CPU), programs()[name]()))


def typed(moves: Counter[Move], name: str) -> Counter[Moved]:
    """What the types say is moved; along axes of one device nothing is, and what is the compiler's choice they do not
    say."""
    sizes = {axis.name: axis.size for axis in parse_meshes(programs()[name]().mesh)[0].axes}
    found: Counter[Moved] = Counter()
    for (kind, axes, size, _, unknown), count in moves.items():
        if size is None:
            assert name in CHOSEN
            continue
        assert not unknown
        if any(sizes[axis] != 1 for axis in axes):
            found[kind, axes, size] += count
    return found


def size(moves: Counter[Moved]) -> int:
    return sum(bytes * count for (_, _, bytes), count in moves.items())


def test_there_are_fifty() -> None:
    assert len(SAMPLE) == len(set(SAMPLE)) == 50
    assert {*SAMPLE, *NOT_LOWERED} <= {*programs()}


@pytest.mark.parametrize("name", SAMPLE)
def test_both_readings_are_what_is_compiled(name: str) -> None:
    both, found = derived(name), measured(name)
    for side in (both.ours, both.theirs):
        assert side.refusal is None, side.refusal
        _, more, less = explained(typed(side.moves, name), found)
        if name in DIFFERENCES:
            assert (size(more), size(less)) == DIFFERENCES[name][1:], (more, less)
        else:
            assert (more, less) == (Counter(), Counter())


def test_most_agree_without_a_class() -> None:
    """And both classes occur: neither is there for nothing."""
    classes = {name: explained(typed(derived(name).ours.moves, name), measured(name))[0] for name in SAMPLE}
    assert sum(not found and name not in DIFFERENCES for name, found in classes.items()) >= 35
    assert set().union(*classes.values()) == {SCATTERED, ONCE}
    assert sum(bool(measured(name)) for name in SAMPLE) >= 40


@pytest.mark.parametrize("name", NOT_LOWERED)
def test_what_is_not_lowered(name: str) -> None:
    """Both readings agree on it all the same."""
    assert derived(name).agree
    with pytest.raises(Exception, match=NOT_LOWERED[name]):
        collectives(*derivative_on(Target(CPU), programs()[name]()))


def test_classes_explain_no_more_than_they_say() -> None:
    scatter, reduce, gather = ("reduce-scatter", ("X",), 8), ("all-reduce", ("X",), 8), ("all-gather", ("X",), 8)
    nothing: Counter[Moved] = Counter()
    assert explained(Counter([scatter]), Counter([reduce])) == ({SCATTERED}, nothing, nothing)
    assert explained(Counter([reduce]), Counter([scatter])) == (set(), Counter([reduce]), Counter([scatter]))
    assert explained(Counter([gather] * 3), Counter([gather])) == ({ONCE}, nothing, nothing)
    assert explained(Counter([gather]), Counter([gather] * 3))[2] == Counter([gather] * 2)
    assert explained(Counter([gather]), nothing)[1] == Counter([gather])
