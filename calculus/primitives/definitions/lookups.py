"""Elements at places that other operands say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from calculus.elements import Arithmetic, Call, Condition, Digit, Element, Fold, NotDefined, Term
from calculus.parameters import dims, integers
from calculus.primitives.gathering import NAMES as GATHERED
from calculus.primitives.gathering import filled
from calculus.primitives.scattering import NAMES as SCATTERED
from calculus.primitives.scattering import at_most_once, combines
from calculus.primitives.windows import Numbers, mode, numbers
from calculus.schemes import Factor


def _clipped(e: Arithmetic, start: Digit, size: Digit, window: Digit) -> Digit:
    """The nearest place where the window lies inside."""
    last = size - window
    below = e.where(start < 0, 0, start)
    return e.where(below > last, last, below)


def _dynamic_slice(e: Arithmetic, call: Call) -> Term:
    index = []
    sizes = dims(call.parameters, "slice_sizes")
    for dim in range(len(call.scheme.operands[0])):
        if call.site.shapes[0][dim] == sizes[dim]:  # a window that is entire begins at 0
            index.append(call.digit(dim))
            continue
        start = _clipped(e, call.read(1 + dim), call.arrays[0].size(dim), _of_result(call, dim))
        index.append(start + call.digit(dim))
    return call.read(0, *index)


def _of_result(call: Call, dim: int) -> Digit:
    (factor,) = call.scheme.results[0][dim]
    return call.sizes[factor]


def _dynamic_update_slice(e: Arithmetic, call: Call) -> Term:
    index, inside = [], []
    for dim in range(len(call.scheme.operands[0])):
        if call.site.shapes[0][dim] == call.site.shapes[1][dim]:
            index.append(call.digit(dim))
            continue
        window = call.arrays[1].size(dim)
        along = call.digit(dim) - _clipped(e, call.read(2 + dim), call.arrays[0].size(dim), window)
        inside += [along >= 0, along < window]
        index.append(along)
    own = call.read(0, *(call.digit(dim) for dim in range(len(index))))
    return e.where(e.all(inside), call.read(1, *index), own) if inside else call.read(1, *index)


class _Places:
    """Windows at places: which dims of the array begin where, at a place."""

    def __init__(self, e: Arithmetic, call: Call, said: Numbers, window: Mapping[int, Digit], drops: bool) -> None:
        self.e, self.call, self.said, self.window, self.drops = e, call, said, window, drops

    def begin(self, place: Mapping[int, Digit]) -> tuple[dict[int, Digit], list[Condition]]:
        """Where the window begins in each dim of the array that the index vector or a batch says, and under which
        conditions it counts. place: by dim of the index array."""
        e, call, said = self.e, self.call, self.said
        first: dict[int, Digit] = {dim: place[meets] for dim, meets in said.batching.items()}
        inside: list[Condition] = []
        vector = len(call.scheme.operands[1]) - 1
        for number, dim in enumerate(said.starts):
            start = call.read(1, *(place[one] for one in range(vector)), number)
            size, window = call.arrays[0].size(dim), self.window[dim]
            if self.drops:
                inside += [start >= 0, start <= size - window]
                first[dim] = start
            else:
                first[dim] = _clipped(e, start, size, window)
        return first, inside


def _gather(e: Arithmetic, call: Call) -> Term:
    rank, vector = len(call.scheme.operands[0]), len(call.scheme.operands[1]) - 1
    said = numbers(call.parameters, GATHERED, rank, vector)
    result = call.scheme.results[0]
    placed = [dim for dim in range(len(result)) if dim not in said.windowed]
    place = {number: call.digit(dim) for number, dim in enumerate(placed)}
    inner = dict(zip(said.kept(rank), said.windowed, strict=True))
    window = {dim: _size(call, result[inner[dim]]) if dim in inner else 1 for dim in range(rank)}
    fill = filled(call.parameters)
    first, inside = _Places(e, call, said, window, fill is not None).begin(place)
    index = [_moved(call, dim, first, call.digit(inner[dim]) if dim in inner else 0) for dim in range(rank)]
    found = call.read(0, *index)
    return found if fill is None or not inside else e.where(e.all(inside), found, e.constant(fill, call.result))


def _size(call: Call, factors: tuple[int, ...]) -> Digit:
    return call.sizes[factors[0]] if factors else 1


def _moved(call: Call, dim: int, first: Mapping[int, Digit], digit: Digit) -> Digit:
    """A dim that a window has entire begins at 0, wherever it is said to begin: it lies inside nowhere else."""
    entire = dims(call.parameters, "slice_sizes")[dim] == call.site.shapes[0][dim]
    if dim not in first or (entire and dim not in _batched(call, first)):
        return digit
    return first[dim] if isinstance(digit, int) and digit == 0 else first[dim] + digit


def _batched(call: Call, first: Mapping[int, Digit]) -> frozenset[int]:
    places = {factor for dim in call.scheme.operands[1] for factor in dim}
    return frozenset(dim for dim in first if set(call.scheme.operands[0][dim]) & places)


def _scattered(combiner: str) -> Element:
    def element(e: Arithmetic, call: Call) -> Term | Fold:
        """What is there, and the updates of all places whose windows cover it."""
        once = at_most_once(call.site)
        if not combines(call.parameters, combiner) or (combiner == "set" and not once):
            raise NotDefined("which of the updates of one element stays")
        rank, vector = len(call.scheme.operands[0]), len(call.scheme.operands[1]) - 1
        said = numbers(call.parameters, SCATTERED, rank, vector)
        update = call.scheme.operands[2]
        inner = dict(zip(said.kept(rank), said.windowed, strict=True))
        window = {dim: _size(call, update[inner[dim]]) if dim in inner else 1 for dim in range(rank)}
        reader = _Places(e, call, said, window, mode(call.parameters) != "CLIP")
        batched = set(said.batching.values())
        free = [number for number in range(vector) if number not in batched]
        meets = {meets: call.digit(dim) for dim, meets in said.batching.items()}

        def hit(*digits: Digit) -> tuple[Condition, Callable[[], Term]]:
            place = {**meets, **dict(zip(free, digits, strict=True))}
            first, covers = reader.begin(place)
            index: list[Any] = [None] * len(update)
            for dim in range(rank):
                if dim in said.batching:
                    continue
                along = call.digit(dim)
                covered = call.site.shapes[2][inner[dim]] if dim in inner else 1
                if dim in first and covered != call.site.shapes[0][dim]:
                    along = along - first[dim]
                    covers += [along >= 0, along < window[dim]]
                if dim in inner:
                    index[inner[dim]] = along
            for number, dim in enumerate(one for one in range(len(update)) if one not in said.windowed):
                index[dim] = place[number]
            return e.all(covers), lambda: call.read(2, *index)

        own = call.arrays[0](call.digits)
        factors = tuple(call.scheme.operands[1][number][0] for number in free)
        if once:
            there, digits = e.find("place", [call.sizes[one] for one in factors], lambda *digits: hit(*digits)[0])
            new = hit(*digits)[1]()
            return e.where(there, new if combiner == "set" else _step(e, combiner, own, new), own)
        monoid = {"add": "sum", "sub": "sum", "mul": "prod"}.get(combiner, combiner)

        def term(*digits: Digit) -> Term:
            covers, read = hit(*digits)
            one = e.negative(read()) if combiner == "sub" else read()
            return e.where(covers, one, e.identity(monoid, call.result))

        return Fold(monoid, factors, term, own)

    return element


def _step(e: Arithmetic, combiner: str, own: Term, new: Term) -> Term:
    if combiner == "sub":
        return e.combine("sum", own, e.negative(new))
    return e.combine({"add": "sum", "mul": "prod"}.get(combiner, combiner), own, new)


def _sort(e: Arithmetic, call: Call) -> Term:
    """What comes to this place when the keys are put in order. What follows keys that are equal has an order of its own
    only where it is said to keep it."""
    keys = int(str(call.parameters["num_keys"]))
    if call.number >= keys and not call.parameters["is_stable"]:
        raise NotDefined("which of equal keys comes first")
    along = int(str(call.parameters["dimension"]))
    return call.arrays[call.number](_ranked(e, call, along, range(keys), least=True))


def _ranked(e: Arithmetic, call: Call, along: int, keys: Iterable[int], least: bool) -> dict[Factor, Digit]:
    (factor,) = call.scheme.operands[0][along]
    others = {one: digit for one, digit in call.digits.items() if one != factor}
    read = [lambda digit, key=key: call.arrays[key]({**others, factor: digit}) for key in keys]
    place = e.ranked("order", call.digit(along), call.sizes[factor], read, least)
    return {**others, factor: place}


def _top(e: Arithmetic, call: Call) -> Term:
    """The greatest in their order, and where they stood."""
    along = int(str(call.parameters["axis"]))
    found = _ranked(e, call, along, [0], least=False)
    (factor,) = call.scheme.operands[0][along]
    return e.counted(found[factor], call.result) if call.number else call.arrays[0](found)


def _place_of(greatest: bool) -> Element:
    def element(e: Arithmetic, call: Call) -> Term:
        """Where the first of the greatest or least stands along a dim."""
        (along,) = integers(call.parameters, "axes")
        (factor,) = call.scheme.operands[0][along]

        def seen(digit: Digit) -> tuple[Condition, Term]:
            return True, call.arrays[0]({**call.digits, factor: digit})

        _, (place,) = e.extreme("place", [call.sizes[factor]], greatest, seen)
        return e.counted(place, call.result)

    return element


ELEMENTS: Final[Mapping[str, Element]] = {
    "sort": _sort,
    "top_k": _top,
    "argmax": _place_of(greatest=True),
    "argmin": _place_of(greatest=False),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scattered("set"),
    **{f"scatter-{combiner}": _scattered(combiner) for combiner in ("add", "sub", "mul", "max", "min")},
}
