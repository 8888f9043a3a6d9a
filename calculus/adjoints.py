"""Adjoints of the table: the transpose of one equation in one operand, derived from the scheme where it can be.

Of a contraction, swap the operand's index list with the result's. What is read off is an equation again, or a few: a
sum over the factors that only the cotangent has, a broadcast over those that only the operand has, dims put in order;
between two operands, a `dot_general`. An elementwise function that is linear is its own transpose, element by element.
A primitive that looks along dims names its adjoint in its declaration.

The result has the type of the operand's cotangent, R and U swapped (statements A2, A5, A24): where the derived
placement is another, the target asks for it, or a reshard does, and that is what it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from calculus.building import Builder
from calculus.cotangents import cotangent
from calculus.evaluation import Evaluation, Use, sliced
from calculus.parameters import whole_numbers
from calculus.programs import Atom, Parameters, Value, Word
from calculus.refusals import Place, Refused, refuse
from calculus.schemes import Factor, Indices, Scheme
from calculus.types import DTYPES, ArrayType, Axes, array_type


def adjoint(
    builder: Builder,
    use: Use,
    parameters: Parameters,
    operands: Sequence[Atom],
    position: int,
    flowing: Sequence[Atom | None],
    evaluation: Evaluation,
) -> Atom:
    """The cotangent of the operand at a position, given those of the results (`None` where one has none). Operands that
    are linear beside it are not read: they are zero. Refuses `unmodelled-construct` where no transpose is written."""
    primitive, scheme, name = use.primitive, use.scheme, use.names[position]
    primal = builder.type_of(operands[position])
    target = cotangent(primal)
    assert isinstance(primal, ArrayType)
    assert isinstance(target, ArrayType)
    written = use.primitive.adjoints_at(use.site, position).get(name)
    if written is not None:
        return builder.at(evaluation.value(written, target), target)
    linear = dict(use.signature.linear_operands())
    if len(flowing) != 1 or position not in linear:
        raise unwritten(primitive.name, "transpose")
    (ct,) = flowing
    assert ct is not None
    if use.elementwise:
        beside = [other for other in use.signature.groups[linear[position]] if other != position]
        formula = use.primitive.derivatives_at(use.site).get(name) if beside else None
        if formula is not None:
            found = evaluation.value(formula, target)
        else:
            inputs = [
                ct if other == position else _zeros(builder, atom) if other in beside else atom
                for other, atom in enumerate(operands)
            ]
            (found,) = builder.rather(primitive.name, inputs, parameters, (target,))
        return rearranged(builder, found, scheme, scheme.results[0], scheme.operands[position], target, stepwise=True)
    if primitive.target == "sharding":  # a reshape: elements keep their order, dims are grouped otherwise
        return _reshaped(builder, ct, target, parameters)
    if set(scheme.roles.values()) <= {"sum"} and not scheme.grouped:
        if len(operands) == 1:
            return rearranged(builder, ct, scheme, scheme.results[0], scheme.operands[position], target)
        if len(operands) == 2 and primitive.kernel is None:
            other = 1 - position
            indices = scheme.results[0], scheme.operands[other], scheme.operands[position]
            return _contracted(builder, (ct, operands[other]), indices, parameters, target)
    raise unwritten(primitive.name, "transpose")


def unwritten(primitive: str, what: str) -> Exception:
    """The refusal of a primitive whose derivative or transpose nobody has written."""
    return refuse(
        "unmodelled-construct",
        f"the {what} of {primitive} is not written",
        because="differentiation needs the rule of every primitive on the way",
        help="stop the gradient before it, or write its row in the table",
        place=Place("primitive"),
    )


def rearranged(
    builder: Builder, atom: Atom, scheme: Scheme, before: Indices, after: Indices, target: ArrayType,
    stepwise: bool = False,
) -> Atom:  # fmt: skip
    """A value with one index list taken to another, at a type: summed over the factors that leave, broadcast over those
    that come, its dims put in order. stepwise: sum as derived and move the result, rather than ask for the target."""
    atom = _summed(builder, atom, before, after, target, stepwise)
    kept = _factors(after)
    rest = [dim for dim in before if dim and dim[0] in kept]
    wanted = [dim for dim in after if dim in rest]
    if len(rest) == len(after):  # nothing comes
        if rest != wanted:
            order = tuple(rest.index(dim) for dim in wanted)
            lists: list[Axes] = [()] * len(rest)
            for place, dim in enumerate(order):
                lists[dim] = target.axes[place]
            atom = builder.at(atom, _placed(builder, atom, lists, target))
            atom = builder.one("transpose", (atom,), {"permutation": order})
        return builder.at(atom, target)
    if rest != wanted:
        atom = builder.one("transpose", (atom,), {"permutation": tuple(rest.index(dim) for dim in wanted)})
    placed = tuple(place for place, dim in enumerate(after) if dim in rest)
    shape: dict[str, Value] = {"broadcast_dimensions": placed} if placed else {}
    return builder.at(builder.one("broadcast_in_dim", (atom,), shape, target), target)


def _summed(builder: Builder, atom: Atom, before: Indices, after: Indices, target: ArrayType, stepwise: bool) -> Atom:
    """The sum over the dims whose factors leave. What the target leaves pending stays so."""
    kept = _factors(after)
    gone = tuple(place for place, dim in enumerate(before) if not dim or dim[0] not in kept)
    if not gone:
        return atom
    have = _array(builder, atom)
    rest = [dim for place, dim in enumerate(before) if place not in gone]
    leaving = {axis for place in gone for axis in have.axes[place]}
    lists: list[Axes] = [have.axes[place] for place in range(have.rank) if place not in gone]
    pending = tuple(axis for axis in target.unreduced if axis in leaving or axis in have.unreduced)
    if not stepwise:
        lists = [target.axes[after.index(dim)] for dim in rest]
    shape = tuple(have.shape[place] for place in range(have.rank) if place not in gone)
    asked = array_type(have.dtype, shape, tuple(lists), have.varying, pending, have.reduced, memory=have.memory)
    parameters: dict[str, Value] = {"axes": gone, "out_sharding": None}
    if pending or not stepwise:
        derived = [have.axes[place] for place in range(have.rank) if place not in gone]
        if pending or list(lists) != derived:
            parameters["out_sharding"] = builder.sharding(asked)
    return builder.one("reduce_sum", (atom,), parameters)


def _contracted(
    builder: Builder, atoms: tuple[Atom, Atom], indices: tuple[Indices, Indices, Indices], parameters: Parameters,
    target: ArrayType,
) -> Atom:  # fmt: skip
    """Two values contracted to an index list, at a type: one `dot_general`, its target that type, then its dims in
    order."""
    left, right, after = indices
    both, goal = _factors(left) & _factors(right), _factors(after)
    batched, summed = both & goal, both - goal
    batch = [dim for dim in left if dim[0] in batched]
    contracted = [dim for dim in right if dim[0] in summed]
    numbers = tuple(
        tuple(tuple(side.index(dim) for dim in dims) for side in (left, right)) for dims in (contracted, batch)
    )
    natural = [*batch, *(dim for side in (left, right) for dim in side if dim[0] not in both)]
    order = tuple(natural.index(dim) for dim in after)
    lists: list[Axes] = [()] * len(order)
    for place, dim in enumerate(order):
        lists[dim] = target.axes[place]
    shape = tuple(target.shape[order.index(dim)] for dim in range(len(order)))
    rows = {name: value for name, value in parameters.items_in_order if name != "out_sharding"}
    rows["dimension_numbers"] = tuple(tuple(map(list, pair)) for pair in numbers)
    products = str(rows.get("preferred_element_type") or "")
    dtype = products or DTYPES[target.dtype][0]
    wanted = array_type(dtype, shape, tuple(lists), target.varying, target.unreduced, target.reduced)
    found: Atom = _product_at(builder, atoms, (left, right, tuple(natural)), rows, wanted)
    if order != tuple(range(len(order))):
        found = builder.one("transpose", (found,), {"permutation": order})
    if wanted.dtype != target.dtype:
        long = Word(DTYPES[target.dtype][0])
        found = builder.one("convert_element_type", (found,), {"new_dtype": long, "weak_type": False}, target)
    return builder.at(found, target)


def _product_at(
    builder: Builder, atoms: tuple[Atom, Atom], indices: tuple[Indices, Indices, Indices], rows: Mapping[str, Value],
    wanted: ArrayType,
) -> Atom:  # fmt: skip
    """A contraction at the type that is wanted. Where that is no target of it, its dims stay cut as those that they
    come from, and the result is moved. What the forward judgment cut by itself, to meet a dim that is cut, is cut."""
    left, right, natural = indices
    types = [_array(builder, atom) for atom in atoms]
    parameters = Parameters(tuple(rows.items()))
    with suppress(Refused):
        return builder.one("dot_general", atoms, parameters, wanted)
    own = dict(zip((*right, *left), (*types[1].axes, *types[0].axes), strict=True))
    lists = tuple(own[dim] for dim in natural)
    pending = tuple(axis for axis in wanted.unreduced if not any(axis in axes for axes in lists))
    derived = array_type(wanted.dtype, wanted.shape, lists, wanted.varying, pending, wanted.reduced)
    with suppress(Refused):
        return builder.one("dot_general", atoms, parameters, derived)
    cuts = dict(zip(natural, wanted.axes, strict=True))
    meeting = tuple(have or cuts.get(dim, ()) for dim, have in zip(right, types[1].axes, strict=True))
    other = builder.at(atoms[1], sliced(types[1], meeting))
    return builder.one("dot_general", (atoms[0], other), parameters, wanted)


def _reshaped(builder: Builder, atom: Atom, target: ArrayType, parameters: Parameters) -> Atom:
    """The same elements in the target's shape, at its type; the dims turned back, where they were turned before."""
    order = parameters.get("dimensions")
    turned = tuple(range(target.rank)) if order is None else whole_numbers(order, "dimensions")
    shape, lists = tuple(target.shape[dim] for dim in turned), tuple(target.axes[dim] for dim in turned)
    goal = array_type(
        target.dtype, shape, lists, target.varying, target.unreduced, target.reduced, memory=target.memory
    )
    sizes: tuple[Value, ...] = tuple(Word(size) if isinstance(size, str) else size for size in goal.shape)
    rows: dict[str, Value] = {"dimensions": None, "new_sizes": sizes, "sharding": None}
    if any(goal.axes) or any(_array(builder, atom).axes):
        rows["sharding"] = builder.sharding(goal)
    found = builder.one("reshape", (atom,), rows)
    if order is not None:
        back = tuple(turned.index(dim) for dim in range(target.rank))
        found = builder.one("transpose", (found,), {"permutation": back})
    return builder.at(found, target)


def _zeros(builder: Builder, atom: Atom) -> Atom:
    type = cotangent(builder.type_of(atom))
    assert isinstance(type, ArrayType)
    return builder.full(0, type)


def _array(builder: Builder, atom: Atom) -> ArrayType:
    found = builder.type_of(atom)
    assert isinstance(found, ArrayType)
    return found


def _placed(builder: Builder, atom: Atom, lists: Sequence[Axes], target: ArrayType) -> ArrayType:
    have = _array(builder, atom)
    return array_type(
        have.dtype, have.shape, tuple(lists), have.varying, target.unreduced, target.reduced, memory=have.memory
    )


def _factors(indices: Indices) -> set[Factor]:
    return {factor for dim in indices for factor in dim}
