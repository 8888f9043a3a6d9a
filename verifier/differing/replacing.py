"""What a training step's results replace in its next call.

A tree of results replaces a tree of inputs that has the same paths, dtypes and shapes below it, and that it is made
from: a leaf of one is a leaf of the other, or comes of it element by element (`w - 0.1 * g`). Where several trees of
inputs are such, it is the one that is given back as it is; else the one that it alone can be made from; else the first
that no result before replaces. Results without paths (of a printed program) replace the inputs from the first on, as
long as shapes agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from calculus.primitives import TABLE
from calculus.primitives.elementwise import ELEMENTWISE
from calculus.programs import Atom, Equation, Literal, Program
from calculus.types import ArrayType, Type

_KEY: Final = re.compile(r"\[[^\[\]]*\]|\.\w+")
_ROOT: Final = re.compile(r"args\[\d+\]|[^\[.]*")
_CASTS: Final = frozenset({"convert_element_type", "copy", "sharding_constraint"})
_BY_ELEMENT: Final = frozenset(primitive.name for primitive in ELEMENTWISE) | _CASTS

Keys: TypeAlias = "tuple[str, ...]"


class _Leaf(NamedTuple):
    position: int
    keys: Keys
    atom: Atom
    form: object


class _Tree(NamedTuple):
    """The leaves below a path, in order, by what is left of their paths."""

    leaves: tuple[_Leaf, ...]
    depth: int

    @property
    def form(self) -> tuple[object, ...]:
        """What is below: paths, dtypes and shapes."""
        return tuple((leaf.keys[self.depth :], leaf.form) for leaf in self.leaves)


def replaced(program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of a result's place and the place of the input that it replaces. inputs, outputs: what people call them."""
    mine = _leaves(outputs, program.outputs, _types(program))
    theirs = _leaves(inputs, program.inputs, dict(zip(program.inputs, program.input_types, strict=True)))
    if not any(len(leaf.keys) > 1 for leaf in mine):
        return list(_from_the_first(mine, theirs))
    arguments: dict[Keys, list[_Leaf]] = {}
    for leaf in theirs:
        for depth in range(1, len(leaf.keys) + 1):
            arguments.setdefault(leaf.keys[:depth], []).append(leaf)
    trees = [_Tree(tuple(leaves), len(keys)) for keys, leaves in arguments.items()]
    reach = _Reach(program)
    fitting = [(tree, those) for tree, those in _groups(_Tree(tuple(mine), 1), trees, reach)]
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    while fitting:
        open_ = [(tree, [one for one in those if taken.isdisjoint(_places(one))]) for tree, those in fitting]
        fitting = [(tree, those) for tree, those in open_ if those]
        if not fitting:
            break
        tree, those = next(
            ((tree, [one]) for tree, those in fitting for one in those if _given_back(tree, one)),
            next(((tree, those) for tree, those in fitting if len({_places(one) for one in those}) == 1), fitting[0]),
        )
        fitting = [pair for pair in fitting if pair[0] is not tree]
        chosen = those[0]
        taken |= set(_places(chosen))
        found += [(leaf.position, twin.position) for leaf, twin in zip(tree.leaves, chosen.leaves, strict=True)]
    return sorted(found)


def _groups(tree: _Tree, trees: Sequence[_Tree], reach: _Reach) -> Iterator[tuple[_Tree, list[_Tree]]]:
    """The largest trees of results that some inputs fit, with those."""
    those = [one for one in trees if one.form == tree.form and reach.made_from(tree, one)]
    if those:
        yield tree, those
        return
    below: dict[str, list[_Leaf]] = {}
    for leaf in tree.leaves:
        if len(leaf.keys) > tree.depth:
            below.setdefault(leaf.keys[tree.depth], []).append(leaf)
    for leaves in below.values():
        yield from _groups(_Tree(tuple(leaves), tree.depth + 1), trees, reach)


class _Reach:
    """Which values a value of a program comes of element by element."""

    def __init__(self, program: Program) -> None:
        self._made = {binder: equation for equation in program.equations for binder in equation.binders}
        self._types = _types(program)
        self._known: dict[Atom, frozenset[Atom]] = {}

    def made_from(self, tree: _Tree, other: _Tree) -> bool:
        """Whether a leaf of one tree is made from that of another."""
        return any(twin.atom in self._of(leaf.atom) for leaf, twin in zip(tree.leaves, other.leaves, strict=True))

    def _of(self, atom: Atom) -> frozenset[Atom]:
        found = self._known.get(atom)
        if found is None:
            seen = {atom}
            waiting = [atom]
            for one in waiting:  # grows while it is read
                maker = self._made.get(one) if isinstance(one, str) else None
                for operand in () if maker is None else self._operands(maker, one):
                    if operand not in seen:
                        seen.add(operand)
                        waiting.append(operand)
            found = self._known[atom] = frozenset(seen)
        return found

    def _operands(self, equation: Equation, result: Atom) -> Iterator[Atom]:
        if equation.primitive in TABLE and equation.primitive not in _BY_ELEMENT:
            return
        wanted = _shape(self._types.get(result))
        for operand in equation.inputs:
            if not isinstance(operand, Literal) and _shape(self._types.get(operand)) == wanted:
                yield operand


def _given_back(tree: _Tree, other: _Tree) -> bool:
    return all(leaf.atom == twin.atom for leaf, twin in zip(tree.leaves, other.leaves, strict=True))


def _places(tree: _Tree) -> tuple[int, ...]:
    return tuple(leaf.position for leaf in tree.leaves)


def _from_the_first(mine: Sequence[_Leaf], theirs: Sequence[_Leaf]) -> Iterator[tuple[int, int]]:
    for leaf, twin in zip(mine, theirs, strict=False):
        if leaf.form is None or leaf.form != twin.form:
            return
        yield leaf.position, twin.position


def _leaves(names: Sequence[str], atoms: Sequence[Atom], types: dict[Atom, Type | None]) -> list[_Leaf]:
    """The leaves, whose keys begin with the name in front."""
    found = []
    for position, (name, atom) in enumerate(zip(names, atoms, strict=True)):
        root = _ROOT.match(name)
        first = root[0] if root is not None else name
        keys = _KEY.findall(name[len(first) :])
        type = atom.type if isinstance(atom, Literal) else types.get(atom)
        form = (type.dtype, type.shape) if isinstance(type, ArrayType) else None
        found.append(_Leaf(position, (first, *keys), atom, form))
    return found


def _types(program: Program) -> dict[Atom, Type | None]:
    found: dict[Atom, Type | None] = dict(zip(program.inputs, program.input_types, strict=True))
    for equation in program.equations:
        found.update(zip(equation.binders, equation.types, strict=True))
    return found


def _shape(type: Type | None) -> object:
    return type.shape if isinstance(type, ArrayType) else None
