"""The algebraic relation against executions and against a plain fixed-point iteration; neither shares code with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pytest

from calculus.cotangents import State
from calculus.linearity import axis_scheme, relation
from calculus.meshes import Axis, Mesh
from calculus.signatures import Signature
from calculus.types import SHORT_NAMES, ArrayType, array_type
from tests.laws.operations import OPERATIONS, Operation
from verifier.devices import Array, devices, place, read_back

Judgment: TypeAlias = "tuple[tuple[State, ...], State]"
PLAIN: tuple[State, ...] = ("N", "R", "U", "Umax", "Umin")


def states_of(indices: str, plain: tuple[State, ...] = PLAIN) -> list[State]:
    return [*plain, *(("S", letter) for letter in indices)]


def judgments(operation: Operation, plain: tuple[State, ...] = PLAIN) -> Iterator[Judgment]:
    for states in itertools.product(*(states_of(indices, plain) for indices in operation.indices)):
        for result in states_of(operation.result, plain):
            yield states, result


class Trial:
    """Random operands of one operation, and what it computes."""

    def __init__(self, operation: Operation, mesh: tuple[int, ...], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.operation = operation
        self.mesh = Mesh([Axis(name, size) for name, size in zip(AXES, mesh, strict=False)])
        letters = sorted(set("".join((*operation.indices, operation.result))))
        unit = int(np.prod(mesh))
        self.sizes = {letter: unit * (2 + at) for at, letter in enumerate(letters)}
        dtypes = operation.dtypes or "i" * len(operation.indices)
        self.operands = [self._random(i, d) for i, d in zip(operation.indices, dtypes, strict=True)]
        self.value = self._run(self.operands, self.sizes)

    def _random(self, indices: str, dtype: str) -> Array:
        shape = [self.sizes[letter] for letter in indices]
        if dtype == "b":
            return self.rng.integers(0, 2, shape) > 0
        if dtype == "n":
            return self.rng.integers(1, 10, shape) * self.rng.choice([-1, 1], shape)
        if dtype == "f":
            return self.rng.integers(-9, 10, shape).astype(float)
        return self.rng.integers(*{"i": (-9, 10), "x": (0, 4)}[dtype], shape)

    def _run(self, blocks: list[Array], sizes: dict[str, int]) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.operation.kernel(*blocks, *(sizes[letter] for letter in self.operation.grows)))

    def sound(self, states: Sequence[tuple[State, ...]], result: tuple[State, ...], order: list[list[int]]) -> bool:
        """Whether running the kernel on each device's blocks reads back the value. `states`: per operand, per mesh
        axis. `order`: per operand and then for the result, the mesh axes in the order in which dims list them."""
        families = [
            place(value, _type(value, indices, each, axes), self.mesh, self.rng)
            for value, indices, each, axes in zip(
                self.operands, self.operation.indices, states, order[:-1], strict=True
            )
        ]
        wanted = _type(self.value, self.operation.result, result, order[-1])
        local = dict(self.sizes)
        for letter, axes in zip(self.operation.result, wanted.axes, strict=True):
            local[letter] //= self.mesh.size(axes) or 1
        computed = {}
        for device in devices(self.mesh):
            blocks = [family[device] for family in families]
            seen: dict[str, int] = {}
            for indices, block in zip(self.operation.indices, blocks, strict=True):
                if any(
                    seen.setdefault(letter, size) != size for letter, size in zip(indices, block.shape, strict=True)
                ):
                    return False
            computed[device] = self._run(blocks, local)
        try:
            return np.allclose(read_back(computed, wanted, self.mesh), self.value)
        except ValueError:
            return False


AXES = ("X", "Y")
KINDS = {"U": "sum", "Umax": "max", "Umin": "min"}


def _type(value: Array, indices: str, states: tuple[State, ...], order: list[int]) -> ArrayType:
    """The type of an array in these states, one for each mesh axis; `order` is that in which dims list the axes."""
    lists = tuple(tuple(AXES[axis] for axis in order if states[axis] == ("S", letter)) for letter in indices)
    unreduced = {AXES[axis]: KINDS[str(state)] for axis, state in enumerate(states) if state in KINDS}
    reduced = tuple(AXES[axis] for axis, state in enumerate(states) if state == "R")
    kind = next(iter(unreduced.values()), "sum")
    return array_type(SHORT_NAMES[value.dtype.name], value.shape, lists, (), tuple(unreduced), reduced, kind)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_local_is_what_executions_show(operation: Operation, count: int) -> None:
    """The algebraic Local against every judgment on 2 and on 3 devices. One difference, which is by convention: a
    result that is the same on every device is also a legal family of Umax and of Umin, and Local leaves that to casts.
    A claim must hold in every trial; without a claim, one of many trials must refute."""
    trials = [Trial(operation, (count,), seed) for seed in range(40)]
    orders = [[0]] * (len(operation.indices) + 1)
    wrong = []
    for states, result in judgments(operation):
        if operation.truth and result == "U":
            continue
        local = operation.relation.local_results(states)
        claimed = result in local or (result in ("Umax", "Umin") and "N" in local)
        tried = trials[:5] if claimed else trials
        if claimed != all(trial.sound([(state,) for state in states], (result,), orders) for trial in tried):
            wrong.append((states, result, claimed))
    assert not wrong


# Two axes: a judgment on each, and the lists in which dims name both.

SUM: tuple[State, ...] = ("N", "R", "U")
TWO_AXES = ["add", "mul", "mul by a scalar", "reduce_sum", "broadcast_in_dim", "inner product", "outer product"]


def named(name: str) -> Operation:
    return next(operation for operation in OPERATIONS if operation.name == name)


@pytest.mark.parametrize("name", TWO_AXES)
def test_judgments_on_two_axes_are_sound_together(name: str) -> None:
    """Local on X and Local on Y are sound at once, if all dims list the two axes in one order. Theorem `product`."""
    operation = named(name)
    trials = [Trial(operation, (2, 3), seed) for seed in range(2)]
    local = [(states, result) for states, result in judgments(operation, SUM)
             if result in operation.relation.local_results(states)]  # fmt: skip
    assert len(local) > 3
    for order in ([0, 1], [1, 0]):
        orders = [order] * (len(operation.indices) + 1)
        for (on_x, result_x), (on_y, result_y) in itertools.product(local, repeat=2):
            states = list(zip(on_x, on_y, strict=True))
            for trial in trials:
                assert trial.sound(states, (result_x, result_y), orders), (states, result_x, result_y)


def test_orders_of_axes_must_agree() -> None:
    """k@(X,Y) against k@(Y,X): each axis is Local alone, together the blocks do not match. On a square mesh, so that
    they do at least have one shape."""
    trial = Trial(named("inner product"), (2, 2), 0)
    cut: State = ("S", "k")
    states = [(cut, cut), (cut, cut)]
    assert trial.sound(states, ("U", "U"), [[0, 1], [0, 1], []])
    assert not trial.sound(states, ("U", "U"), [[0, 1], [1, 0], []])
    trial = Trial(named("neg"), (2, 2), 0)
    both: list[tuple[State, ...]] = [(("S", "i"), ("S", "i"))]
    assert trial.sound(both, both[0], [[1, 0], [1, 0]])
    assert not trial.sound(both, both[0], [[0, 1], [1, 0]])


# The fixed point, iterated as the design writes it: start from Local and throw out until nothing changes.

EINSUMS: list[tuple[tuple[str, ...], str]] = [
    (("i", "i"), "i"), (("bk", "kj"), "bj"), (("", "i"), "i"), (("ij",), "j"), (("j",), "ij"), (("i",), "i"),
    (("bk", "bk"), "b"), (("i", "j"), "ij"), (("ij", "j"), ""),
]  # fmt: skip
SWAP: dict[State, State] = {"R": "U", "U": "R"}


def swapped(operands: tuple[str, ...], result: str, at: int) -> tuple[tuple[str, ...], str]:
    return tuple(result if i == at else operand for i, operand in enumerate(operands)), operands[at]


def as_operation(operands: tuple[str, ...], result: str) -> Operation:
    """An einsum; a letter that only the result has is repeated along."""
    grows = "".join(letter for letter in result if letter not in "".join(operands))

    def kernel(*arguments: Array) -> Array:
        arrays, sizes = arguments[: len(operands)], arguments[len(operands) :]
        ones = [np.ones(sizes, int)] if grows else []
        return np.asarray(np.einsum(f"{','.join([*operands, *([grows] if grows else [])])}->{result}", *arrays, *ones))

    return Operation("einsum", operands, result, "unused", kernel, grows=grows)


@pytest.fixture(scope="module")
def iterated() -> dict[tuple[tuple[str, ...], str], set[Judgment]]:
    family, todo = set(), list(EINSUMS)
    while todo:
        einsum = todo.pop()
        if einsum not in family:
            family.add(einsum)
            todo += [swapped(*einsum, at) for at in range(len(einsum[0]))]
    q: dict[tuple[tuple[str, ...], str], set[Judgment]] = {}
    for einsum in family:
        operation = as_operation(*einsum)
        trials = [Trial(operation, (2,), seed) for seed in range(3)]
        orders = [[0]] * (len(einsum[0]) + 1)
        q[einsum] = {
            (states, result)
            for states, result in judgments(operation, SUM)
            if all(trial.sound([(state,) for state in states], (result,), orders) for trial in trials)
        }
    changed = True
    while changed:
        changed = False
        for einsum, members in q.items():
            for states, result in list(members):
                if not {"R", "U"} & {*states, result}:
                    continue
                for at, state in enumerate(states):
                    inputs = tuple(SWAP.get(result, result) if i == at else s for i, s in enumerate(states))
                    if (inputs, SWAP.get(state, state)) not in q[swapped(*einsum, at)]:
                        members.discard((states, result))
                        changed = True
                        break
    return q


def test_the_relation_is_the_iterated_fixed_point(iterated: dict[tuple[tuple[str, ...], str], set[Judgment]]) -> None:
    """Multilinear operations, sharding included. The iteration starts from executions, not from the algebra."""
    assert len(iterated) > len(EINSUMS)
    for (operands, result), members in iterated.items():
        signature = Signature.parse(" | ".join("xyz"[: len(operands)]))
        roles = dict.fromkeys(set("".join(operands)) - set(result), "sum")
        found = relation(axis_scheme(operands, result, roles), signature)
        claimed = {
            (states, state)
            for states, state in judgments(as_operation(operands, result), SUM)
            if found.contains(states, state)
        }
        assert claimed == members, (operands, result)
