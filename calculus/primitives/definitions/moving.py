"""Elements that are moved: each of the result is one of an operand, or a constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculus.elements import Arithmetic, Call, Digit, Element, Term
from calculus.parameters import dims, integer, integers, sequence, sizes
from calculus.schemes import Factor


def by_scheme(e: Arithmetic, call: Call) -> Term:
    """What a scheme says by itself: the element at the same digits."""
    return call.arrays[0](call.digits)


def regrouped(e: Arithmetic, call: Call) -> Term:
    """A reshape: along common factors an element stays at its index; what is left of a dim is counted anew."""
    own = [factor for dim in call.scheme.operands[0] for factor in dim if factor not in call.digits]
    made = [factor for dim in call.scheme.results[0] for factor in dim if call.scheme.roles.get(factor) == "whole"]

    def counted(*digits: int) -> Sequence[int]:
        flat = 0
        for factor, digit in zip(made, digits, strict=True):
            flat = flat * int(call.sizes[factor]) + digit
        found: list[int] = []
        for factor in reversed(own):
            flat, digit = divmod(flat, int(call.sizes[factor]))
            found.insert(0, digit)
        return found

    at: dict[Factor, Digit] = dict(call.digits)
    if own:
        at |= zip(own, e.mapped("recount", len(own), [call.digits[factor] for factor in made], counted), strict=True)
    return call.arrays[0](at)


def _slice(e: Arithmetic, call: Call) -> Term:
    starts, printed = dims(call.parameters, "start_indices"), call.parameters["strides"]
    limits = dims(call.parameters, "limit_indices")
    strides = dims(call.parameters, "strides") if printed is not None else (1,) * len(starts)
    return call.read(
        0,
        *(
            call.digit(dim)
            if (start, limit, stride) == (0, size, 1)
            else e.some(f"start{dim}", int(start), 0) + call.digit(dim) * e.some(f"stride{dim}", int(stride), 1)
            for dim, (start, limit, stride, size) in enumerate(
                zip(starts, limits, strides, call.site.shapes[0], strict=True)
            )
        ),
    )


def _pad(e: Arithmetic, call: Call) -> Term:
    """An element of the operand where one lies, and between and around them the padding."""
    rows: Any = sequence(call.parameters["padding_config"], "padding_config")
    index: list[Digit] = []
    inside = []
    for dim, row in enumerate(rows):
        low, high, interior = (integer(item, "padding_config") for item in row)
        if not (low or high or interior):
            index.append(call.digit(dim))
            continue
        along = call.digit(dim) - e.some(f"low{dim}", low)
        if interior:
            along, rest = e.divided(along, e.some(f"interior{dim}", interior, 0) + 1)
            inside.append(rest == 0)
        inside += [along >= 0, along < call.arrays[0].size(dim)]
        index.append(along)
    if not inside:
        return call.read(0, *index)
    return e.where(e.all(inside), call.read(0, *index), call.read(1))


def _rev(e: Arithmetic, call: Call) -> Term:
    turned = integers(call.parameters, "dimensions")
    rank = len(call.scheme.operands[0])
    return call.read(
        0,
        *(call.arrays[0].size(dim) - 1 - call.digit(dim) if dim in turned else call.digit(dim) for dim in range(rank)),
    )


def _concatenate(e: Arithmetic, call: Call) -> Term:
    along = integer(call.parameters["dimension"], "dimension")
    rank = len(call.scheme.results[0])
    index = [call.digit(dim) for dim in range(rank)]

    def part(position: int) -> Term:
        own = call.read(position, *index)
        if position == len(call.arrays) - 1:
            return own
        size = call.arrays[position].size(along)
        inside = index[along] < size
        index[along] = index[along] - size
        return e.where(inside, own, part(position + 1))

    return part(0)


def _split(e: Arithmetic, call: Call) -> Term:
    along = integer(call.parameters["axis"], "axis")
    before = sum(int(str(size)) for size in sizes(call.parameters, "sizes")[: call.number])
    rank = len(call.scheme.operands[0])
    index = [call.digit(dim) for dim in range(rank)]
    index[along] = index[along] + e.some("before", before, 0)
    return call.read(0, *index)


def _unstack(e: Arithmetic, call: Call) -> Term:
    along = integer(call.parameters["axis"], "axis")
    rank = len(call.scheme.operands[0])
    index = [call.digit(dim) for dim in range(rank - 1)]
    return call.read(0, *index[:along], e.some("number", call.number, 0), *index[along:])


def _stack(e: Arithmetic, call: Call) -> Term:
    along = integer(call.parameters["axis"], "axis")
    rank = len(call.scheme.results[0])
    index = [call.digit(dim) for dim in range(rank) if dim != along]
    found = call.read(len(call.arrays) - 1, *index)
    for position in reversed(range(len(call.arrays) - 1)):
        found = e.where(call.digit(along) == position, call.read(position, *index), found)
    return found


def _iota(e: Arithmetic, call: Call) -> Term:
    """The index along one dim, as an element: some function of it."""
    return e.counted(call.digit(integer(call.parameters["dimension"], "dimension")), call.result)


ELEMENTS: Final[Mapping[str, Element]] = {
    **dict.fromkeys(["broadcast_in_dim", "broadcast_to", "transpose", "squeeze", "expand_dims", "tile"], by_scheme),
    "reshape": regrouped,
    "slice": _slice,
    "pad": _pad,
    "rev": _rev,
    "concatenate": _concatenate,
    "split": _split,
    "unstack": _unstack,
    "stack": _stack,
    "iota": _iota,
}
