"""Index schemes: which dims of a primitive's operands and results travel together.

A scheme is an einsum with more roles. Each dim is a list of *factors*, major first (several where a reshape groups
them, none where a dim of size 1 is broadcast). A factor is

* passed through, if operands and results have it;
* broadcast, if only results have it;
* reduced, if only operands have it, with the monoid in `roles` (`sum`, `max`, `min`, `prod`, `or`, `and`);
* needed whole, if its role says `whole`: the primitive looks along it (a slice, a sort, a cumulative sum), so that no
  device can do its part with a block of it.

A reduction may start from an operand, its *accumulator* (a scatter adds updates to an array): that has none of the
reduced factors, and is combined once with what is reduced, by the same monoid.

Shape, sharding, linearity, transpose and communication of a primitive are derived from its scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import Final, TypeAlias

from calculus.refusals import Place, refuse
from calculus.types import Dim

Factor: TypeAlias = int
Shape: TypeAlias = "tuple[Dim, ...]"
Indices: TypeAlias = "tuple[tuple[Factor, ...], ...]"
"""One array's index list: per dim, its factors."""


class Scheme:
    """An index scheme. operands, results: one index list per array. sizes: each factor's size. roles: of the factors
    that are reduced or needed whole; all others are passed through or broadcast. along: of an operand's factor that is
    needed whole, the dim of the results that windows on it go along; `None` where that is the dim of its own number.
    accumulator: the operand that a reduction starts from."""

    __slots__ = ("_elementwise", "accumulator", "along", "operands", "results", "roles", "sizes")

    def __init__(
        self,
        operands: tuple[Indices, ...],
        results: tuple[Indices, ...],
        sizes: Sequence[Dim],
        roles: Mapping[Factor, str] | None = None,
        along: Mapping[Factor, int] | None = None,
        accumulator: int | None = None,
    ) -> None:
        self.along = along
        self.operands = operands
        self.results = results
        self.sizes = sizes
        self.roles: Mapping[Factor, str] = roles or {}
        self.accumulator = accumulator
        self._elementwise: bool | None = None

    def shape(self, indices: Indices) -> Shape:
        """The shape of an array with this index list."""
        sizes = self.sizes
        if indices is _in_order(len(indices)):
            return tuple(sizes[: len(indices)])
        return tuple([sizes[dim[0]] if len(dim) == 1 else _product(sizes[factor] for factor in dim) for dim in indices])

    @property
    def elementwise(self) -> bool:
        """Whether each element of the one result is met by one element of each operand."""
        if self._elementwise is None:
            self._elementwise = not self.roles and len(self.results) == 1 and self._aligned(self.results[0])
        return self._elementwise

    def _aligned(self, result: Indices) -> bool:
        return result == _in_order(len(self.sizes)) and all(
            not indices
            or indices == result
            or (len(indices) == len(result) and all(dim in ((), one) for dim, one in zip(indices, result, strict=True)))
            for indices in self.operands
        )

    @property
    def grouped(self) -> bool:
        """Whether some dim is made of several factors."""
        return any(max(map(len, indices), default=0) > 1 for indices in (*self.operands, *self.results))

    def __str__(self) -> str:
        def show(indices: Indices) -> str:
            dims = ("1" if not dim else _LETTERS[dim[0]] if len(dim) == 1 else _group(dim) for dim in indices)
            return f"[{','.join(dims)}]"

        roles = ", ".join(f"{_LETTERS[factor]} {role}" for factor, role in self.roles.items())
        arrow = f"({', '.join(map(show, self.operands))}) -> {', '.join(map(show, self.results))}"
        return f"{arrow}{f', {roles}' if roles else ''}"


_LETTERS = [*"ijklmnopqrstuvwxyzabcdefgh", *(f"i{n}" for n in range(26, 400))]


def _group(dim: tuple[Factor, ...]) -> str:
    return f"({' '.join(_LETTERS[factor] for factor in dim)})"


def _product(sizes: Iterable[Dim]) -> Dim:
    found: Dim = 1
    for size in sizes:
        if isinstance(found, str) or isinstance(size, str):
            found = str(size) if found == 1 else f"{found}*{size}" if size != 1 else found
        else:
            found *= size
    return found


def _in_order(rank: int) -> Indices:
    """An array whose dims are the first factors, in order; one object for each of the usual ranks."""
    return _ORDERED[rank] if rank < len(_ORDERED) else _each(range(rank))


def _each(factors: Iterable[Factor]) -> Indices:
    """An array that has one dim for each of these factors."""
    return tuple(zip(factors, strict=False))


_ORDERED: Final = [_each(range(rank)) for rank in range(16)]


@lru_cache(maxsize=4096)
def elementwise(shapes: tuple[Shape, ...]) -> Scheme:
    """All operands aligned: `([i,j], [i,j]) -> [i,j]`. A dim of size 1 meets any size, and a scalar any shape, as JAX
    0.12 prints them. Refuses `shape` where two sizes differ."""
    first = shapes[0] if shapes else ()
    if all(shape == first for shape in shapes):
        indices = _in_order(len(first))
        return Scheme((indices,) * len(shapes), (indices,), first)
    rank = max(map(len, shapes))
    sizes: list[Dim] = [1] * rank
    for index, shape in enumerate(shapes):
        if len(shape) not in (0, rank):
            raise refuse(
                "shape",
                f"operand {index} has rank {len(shape)} among operands of rank {rank}",
                because="elementwise operands have one rank, scalars aside",
                help="broadcast the operand first",
                place=Place("operand", index),
            )
        for dim, size in enumerate(shape):
            if size == 1 or sizes[dim] == size:
                continue
            if sizes[dim] != 1:
                raise refuse(
                    "shape",
                    f"dim {dim} of operand {index} has size {size}, of another operand {sizes[dim]}",
                    because="elements are paired one to one",
                    help="slice or broadcast one of them",
                    place=Place("operand", index),
                )
            sizes[dim] = size
    operands = [tuple([(dim,) if size == sizes[dim] else () for dim, size in enumerate(shape)]) for shape in shapes]
    return Scheme(tuple(operands), (_in_order(rank),), sizes)


@lru_cache(maxsize=4096)
def contraction(
    left: Shape,
    right: Shape,
    contracting: tuple[tuple[int, ...], tuple[int, ...]],
    batch: tuple[tuple[int, ...], tuple[int, ...]],
) -> Scheme:
    """`dot_general`: batch dims first, then the free dims of the left and of the right: `([b,i,k], [b,k,j]) ->
    [b,i,j]`, k reduced by sum. Refuses `shape` where paired dims differ, `bad-parameter` where the numbers are
    impossible."""
    paired: list[dict[int, Factor]] = []  # for each operand, the factor of every dim that has a partner
    for side, shape in enumerate((left, right)):
        named = (*batch[side], *contracting[side])
        paired.append({dim: factor for factor, dim in enumerate(named)})
        if len(paired[side]) != len(named) or not all(0 <= dim < len(shape) for dim in named):
            raise refuse(
                "bad-parameter",
                f"dimension_numbers name {named} of the {len(shape)} dims of operand {side}",
                because="a dim is batched, contracted or free",
                place=Place("parameter", name="dimension_numbers"),
            )
    if len(batch[0]) != len(batch[1]) or len(contracting[0]) != len(contracting[1]):
        raise refuse(
            "bad-parameter",
            "dimension_numbers pair unequally many dims",
            place=Place("parameter", name="dimension_numbers"),
        )
    for left_dim, right_dim in zip(*paired, strict=True):
        if left[left_dim] != right[right_dim]:
            raise refuse(
                "shape",
                f"dim {left_dim} of the left operand has size {left[left_dim]}, its partner, dim {right_dim} of "
                f"the right operand, {right[right_dim]}",
                because="contracted and batched dims are paired one to one",
                help="pair dims of one size",
                place=Place("operand", 1),
            )
    sizes = [left[dim] for dim in paired[0]]
    reduced = range(len(batch[0]), len(sizes))
    operands: list[Indices] = []
    for factors, shape in zip(paired, (left, right), strict=True):
        for dim, size in enumerate(shape):
            if dim not in factors:
                factors[dim] = len(sizes)
                sizes.append(size)
        operands.append(_each(map(factors.__getitem__, range(len(shape)))))
    result = _each((*range(reduced.start), *range(reduced.stop, len(sizes))))
    return Scheme(tuple(operands), (result,), sizes, dict.fromkeys(reduced, "sum"))


def reduction(shape: Shape, axes: Sequence[int], monoid: str, arrays: int = 1) -> Scheme:
    """The named dims are reduced: `[i,j] -> [j]`, i by the monoid. `arrays` operands and results alike."""
    for axis in axes:
        _dim_in_range(axis, shape, "axes")
    if len(set(axes)) != len(axes):
        raise refuse("bad-parameter", f"axes {tuple(axes)} name a dim twice", place=Place("parameter", name="axes"))
    operand = _in_order(len(shape))
    gone = frozenset(axes)
    result = _each(dim for dim in range(len(shape)) if dim not in gone)
    return Scheme((operand,) * arrays, (result,) * arrays, shape, dict.fromkeys(axes, monoid))


def permutation(shape: Shape, order: Sequence[int], name: str = "permutation") -> Scheme:
    """`transpose`: `[i,j] -> [j,i]`. name: the parameter that says the order."""
    if sorted(order) != list(range(len(shape))):
        raise refuse(
            "bad-parameter",
            f"{name} {tuple(order)} is not one of the {len(shape)} dims of the operand",
            place=Place("parameter", name=name),
        )
    return Scheme((_in_order(len(shape)),), (_each(order),), shape)


def broadcast(shape: Shape, result: Shape, placed: Sequence[int]) -> Scheme:
    """`broadcast_in_dim`: dim k of the operand becomes dim `placed[k]` of the result; the rest is new. A dim of size
    1 may widen. Refuses `shape` where a placed dim has another size."""
    if len(placed) != len(shape):
        raise refuse(
            "shape",
            f"the operand's {len(shape)} dims go to dims {tuple(placed)} of a result of rank {len(result)}",
            because="every operand dim becomes one result dim",
            place=Place("parameter", name="broadcast_dimensions"),
        )
    operand: list[tuple[Factor, ...]] = []
    for dim, (size, target) in enumerate(zip(shape, placed, strict=True)):
        if size != result[target] and size != 1:
            raise refuse(
                "shape",
                f"dim {dim} of the operand has size {size}, dim {target} of the result {result[target]}",
                because="a dim keeps its size or widens from 1",
                place=Place("operand", 0),
            )
        operand.append((target,) if size == result[target] else ())
    return Scheme((tuple(operand),), (_in_order(len(result)),), result)


def regrouping(shape: Shape, result: Shape) -> Scheme:
    """`reshape`: `[(i j)] -> [i,j]`. Both shapes are cut at their common boundaries, major first; where sizes do not
    nest, what is left of the stretch after their common divisor is needed whole; so is a stretch whose products are not
    known to agree, or that holds a dim of size 0. Refuses
    `shape` where numbers are all there is and the totals differ."""
    if not any(isinstance(size, str) for size in (*shape, *result)) and _product(shape) != _product(result):
        raise refuse(
            "shape",
            f"{shape} has another number of elements than {result}",
            because="a reshape keeps every element",
            place=Place("parameter", name="new_sizes"),
        )
    sizes: list[Dim] = []
    roles: dict[Factor, str] = {}
    operand: list[tuple[Factor, ...]] = [() for _ in shape]
    target: list[tuple[Factor, ...]] = [() for _ in result]

    def add(size: Dim) -> Factor:
        sizes.append(size)
        return len(sizes) - 1

    for rows, columns in _stretches(shape, result):
        if len(rows) == 1 and len(columns) == 1 and shape[rows[0]] == result[columns[0]]:
            operand[rows[0]] = target[columns[0]] = (add(shape[rows[0]]),)
            continue
        cut = _common_cut([shape[row] for row in rows], [result[column] for column in columns])
        factors = [add(size) for size in cut]
        for dims, whole, indices in ((rows, shape, operand), (columns, result, target)):
            position = 0
            for dim in dims:
                taken: list[Factor] = []
                left = whole[dim]
                while isinstance(left, int) and left != 1 and position < len(cut) and left % cut[position] == 0:
                    taken.append(factors[position])
                    left //= cut[position]
                    position += 1
                if left != 1:
                    position = len(cut)
                    taken.append(add(left))
                    roles[taken[-1]] = "whole"
                indices[dim] = tuple(taken)
    return Scheme((tuple(operand),), (tuple(target),), sizes, roles)


def _stretches(shape: Shape, result: Shape) -> list[tuple[list[int], list[int]]]:
    """Runs of dims of both shapes with equal products, as short as possible. Products in the last run may differ where
    some size is 0 or symbolic."""
    found: list[tuple[list[int], list[int]]] = []
    row = column = 0
    while row < len(shape) or column < len(result):
        rows: list[int] = []
        columns: list[int] = []
        left: Dim = 1
        right: Dim = 1
        if row < len(shape) and column < len(result) and shape[row] == result[column]:
            rows, columns, row, column = [row], [column], row + 1, column + 1
        else:
            while (not rows and not columns) or left != right:
                symbolic = isinstance(left, str) or isinstance(right, str)
                grow_left = column >= len(result) or (
                    row < len(shape)
                    and (symbolic or not isinstance(left, int) or not isinstance(right, int) or left <= right)
                )
                if grow_left and row < len(shape):
                    left = _product((left, shape[row]))
                    rows.append(row)
                    row += 1
                elif column < len(result):
                    right = _product((right, result[column]))
                    columns.append(column)
                    column += 1
                else:
                    break
        found.append((rows, columns))
    return found


def _common_cut(left: Sequence[Dim], right: Sequence[Dim]) -> list[int]:
    """The factors, major first, that both lists of sizes begin with, as far as there are such. Where sizes do not nest,
    they still have their greatest common divisor: `[6,5]` and `[10,3]` are both two blocks of 15."""
    if _product(left) != _product(right) or any(isinstance(size, str) or size == 0 for size in (*left, *right)):
        return []
    lefts = [size for size in left if isinstance(size, int) and size != 1]
    rights = [size for size in right if isinstance(size, int) and size != 1]
    cut: list[int] = []
    while lefts and rights:
        part = gcd(lefts[0], rights[0])
        if part == 1:
            return cut
        cut.append(part)
        lefts[0] //= part
        rights[0] //= part
        if lefts[0] != 1 and rights[0] != 1:
            return cut
        lefts = [size for position, size in enumerate(lefts) if position or size != 1]
        rights = [size for position, size in enumerate(rights) if position or size != 1]
    return cut


def windowed(shapes: Sequence[Shape], result: Shape, whole: Iterable[int]) -> Scheme:
    """Operands and result of one rank and the named dims needed whole, the others passed through: slice, pad,
    concatenate, cumsum, sort. Refuses `shape` where a passed dim differs."""
    looked = set(whole)
    sizes: list[Dim] = list(result)
    roles: dict[Factor, str] = dict.fromkeys(looked, "whole")
    operands: list[Indices] = []
    for index, shape in enumerate(shapes):
        if len(shape) != len(result):
            raise refuse("shape", "operands of different ranks", place=Place("operand", index))
        indices: list[tuple[Factor, ...]] = []
        for dim, size in enumerate(shape):
            if dim in looked:
                sizes.append(size)
                roles[len(sizes) - 1] = "whole"
                indices.append((len(sizes) - 1,))
                continue
            if size != result[dim]:
                raise refuse(
                    "shape",
                    f"dim {dim} of operand {index} has size {size}, of the result {result[dim]}",
                    because="along this dim nothing is cut or added",
                    place=Place("operand", index),
                )
            indices.append((dim,))
        operands.append(tuple(indices))
    return Scheme(tuple(operands), (_in_order(len(result)),), sizes, roles)


def creation(shape: Shape) -> Scheme:
    """No operands: `() -> [i,j]`."""
    return Scheme((), (_in_order(len(shape)),), shape)


def _dim_in_range(dim: int, shape: Shape, name: str) -> None:
    if not 0 <= dim < len(shape):
        raise refuse(
            "bad-parameter",
            f"{name} names dim {dim} of an operand of rank {len(shape)}",
            place=Place("parameter", name=name),
        )
