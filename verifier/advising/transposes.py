"""Contractions that are transposes of earlier ones: a whole step holds its own backward pass.

There the type of a gradient is not a choice of its own. JAX gives it the cotangent type of what it is the gradient of,
so a product that is the transpose of another, in an operand, is unreduced where that operand is used as reduced, and
only there. Which products are transposes can be read off the program: they share an operand, and contract those of its
dims that the other one kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from calculus.cotangents import cotangent_state
from calculus.effects import EFFECTFUL
from calculus.types import ArrayType, Axes
from verifier.advising.choices import CASTS, state
from verifier.advising.network import Network, Node, Room, Step, steps
from verifier.advising.solving import Model


class Transpose(NamedTuple):
    """A contraction, and another that makes the cotangent of one of its operands."""

    forward: Step
    operand: int
    backward: Step


def bound(network: Network, transposed: Callable[[int], bool] = lambda line: False) -> None:
    """Add to a model that gradients have the cotangent types of what they are gradients of; that nothing else is asked
    to have another type than the one that follows where JAX made the equation, by transposing, and anywhere if the
    network is plain. transposed: whether it has made what stands on a line."""
    for pair in transposes(network):
        _bind(network.model, network.cells.axes, pair)
    for step in steps(network.root):
        plain = network.plain and step.equation.primitive != "reshard"
        if not step.follows and (plain or transposed(step.equation.line)):
            for cell, one in step.cells:
                if cell.changed:
                    network.model.row({one: 1.0}, 0.0, 0.0)


def _bind(model: Model, axes: Axes, pair: Transpose) -> None:
    """One row for each state of the operand: it is used so, exactly if the gradient is in the cotangent state. What the
    program that was handed in does not keep to is no transpose of JAX's, and stays out."""
    operand, result = pair.forward.operands[pair.operand], pair.backward.results[0]
    for used in CASTS:
        wanted = cotangent_state(used)
        if (state(operand and operand.type, axes) == used) != (state(result.type, axes) == wanted):
            continue
        row = {one: 1.0 for cell, one in pair.forward.cells if state(cell.operands[pair.operand], axes) == used}
        row |= {one: -1.0 for cell, one in pair.backward.cells if state(cell.results[0], axes) == wanted}
        if row:
            model.row(row, 0.0, 0.0)
    pair.backward.follows = True
    for _, one in pair.backward.cells:
        model.weights[one] = 0.0


def transposes(network: Network) -> Iterator[Transpose]:
    """Each contraction that is the transpose of an earlier one, with that. Where several are alike (queries, keys and
    values of one array), transposition went through them backwards: the last of them has the first transpose."""
    origin: dict[Node, Node] = {}
    products: list[Step] = []
    _walk(network.root, origin, products, {})
    earlier: dict[Node, list[tuple[Step, int]]] = {}
    taken: set[tuple[Step, int]] = set()
    for step in products:
        found = next((one for one in _forward(step, origin, earlier) if one[:2] not in taken), None)
        if found is not None:
            taken.add(found[:2])
            yield found
        for index, node in enumerate(step.operands):
            if node is not None:
                earlier.setdefault(_first(node, origin), []).append((step, index))


def _walk(
    room: Room, origin: dict[Node, Node], products: list[Step], known: dict[Hashable, list[Node]]
) -> None:  # fmt: skip
    """What values are: those that go into a body, come out of it, or are cast, are the ones that they were; and so are
    those that are computed again as they were, where the forward pass has not kept them. known: what was computed."""
    for step in room.steps:
        one = step.equation
        if step.inner is None and not step.branches and one.primitive not in EFFECTFUL:
            operands = [
                atom if node is None else _first(node, origin)
                for atom, node in zip(one.inputs, step.operands, strict=True)
            ]
            before = known.setdefault((one.primitive, one.parameters, *operands), step.results)
            origin.update((again, node) for again, node in zip(step.results, before, strict=True) if again is not node)
        if step.equation.primitive == "dot_general" and step.cells:
            products.append(step)
        if step.equation.primitive == "reshard" and step.operands[0] is not None:
            origin[step.results[0]] = step.operands[0]
        if step.inner is None:
            continue
        for index, (node, inside) in enumerate(zip(step.operands, step.inner.inputs, strict=True)):
            if node is not None and not step.held <= index < step.held + step.carried:
                origin[inside] = node
        _walk(step.inner, origin, products, known)
        for number, (result, output) in enumerate(zip(step.results, step.inner.outputs, strict=True)):
            if output is not None and number >= step.carried:
                origin[result] = output


def _first(node: Node, origin: Mapping[Node, Node]) -> Node:
    while node in origin:
        node = origin[node]
    return node


def _forward(
    step: Step, origin: Mapping[Node, Node], earlier: Mapping[Node, list[tuple[Step, int]]]
) -> Iterator[Transpose]:
    """The contractions that this one may be a transpose of. shared: the operand that both have."""
    for shared, node in enumerate(step.operands):
        if node is None:
            continue
        contracted, batch, kept = _dims(step, shared)
        for other, position in reversed(earlier.get(_first(node, origin), [])):
            theirs = _dims(other, position)
            if contracted != theirs[2] or batch != theirs[1] or kept != theirs[0]:
                continue
            made, cotangent = other.results[0].type, step.operands[1 - shared]
            if cotangent is not None and _shape(made) == _shape(cotangent.type):
                wanted = other.operands[1 - position]
                if wanted is not None and sorted(_shape(wanted.type)) == sorted(_shape(step.results[0].type)):
                    yield Transpose(other, 1 - position, step)


def _shape(type: object) -> tuple[str, ...]:
    return tuple(map(str, type.shape)) if isinstance(type, ArrayType) else ()


def _dims(step: Step, operand: int) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    """The contracted, the batch and the free dims of an operand of a contraction."""
    numbers: Any = step.equation.parameters["dimension_numbers"]
    contracted, batch = (frozenset(dims[operand]) for dims in numbers)
    node = step.operands[operand]
    rank = node.type.rank if node is not None and isinstance(node.type, ArrayType) else 0
    return contracted, batch, frozenset(range(rank)) - contracted - batch
