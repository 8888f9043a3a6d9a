"""Formulas of the table evaluated: about one equation, into equations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

from calculus.building import Builder, Workbench
from calculus.cotangents import cotangent
from calculus.fitting import fitted
from calculus.formulas import PLACED, RESULT, TANGENT, Apply, Formula, Full, Name, Number, Places, Star, Zeros
from calculus.meshes import AxisMode
from calculus.parameters import integer, sequence
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site, operand_names
from calculus.primitives.elementwise import aligned
from calculus.programs import Atom, Call, Literal, Parameters, Value, Word
from calculus.refusals import Refused
from calculus.schemes import Scheme
from calculus.signatures import Signature
from calculus.types import DTYPES, ArrayType, Axes, Type, array_type, dtype_class
from calculus.uses import Operand


class Use(NamedTuple):
    """One equation of a declared primitive, with what its declaration says of it."""

    primitive: Primitive
    site: Site
    scheme: Scheme
    signature: Signature
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, primitive: Primitive, parameters: Parameters, operands: Sequence[Operand], results: Sequence[ArrayType]
    ) -> Use:
        """The use of a primitive on operands (types, or literals) with results of these types; the signature is the
        first result's."""
        types = [operand.type if isinstance(operand, Literal) else operand for operand in operands]
        site = Site(
            parameters,
            tuple(type.shape if isinstance(type, ArrayType) else () for type in types),
            tuple(type.dtype if isinstance(type, ArrayType) else None for type in types),
            tuple(results),
        )
        names = operand_names(primitive, len(operands))
        return cls(primitive, site, primitive.scheme(site), primitive.read(site), names)

    @classmethod
    def kept(
        cls, bench: Workbench, primitive: Primitive, parameters: Parameters, operands: Sequence[Operand],
        results: Sequence[ArrayType],
    ) -> Use:  # fmt: skip
        """The same, asked once in a derivation: what is linear is looked at where it is made and where it is
        transposed."""
        key = ("use", primitive.name, parameters, tuple(operands), tuple(results))
        return bench.kept(key, lambda: cls.of(primitive, parameters, operands, results))

    def of_result(self, number: int) -> Use:
        """The same use, as the result of this number sees it."""
        site = self.site._replace(number=number)
        return self._replace(site=site, signature=self.primitive.read(site)) if number else self

    @property
    def elementwise(self) -> bool:
        """Whether each element of the result is a function of one element of each operand."""
        return self.primitive.kernel is not None and self.scheme.elementwise


def met(
    use: Use, operands: Sequence[Operand], results: Sequence[ArrayType], beside: bool = False
) -> list[ArrayType | None]:
    """Where an operand is reduced: of the operands that meet a dim of the results that is cut (beside: or of another
    operand), the type of the slice that the judgment takes, free; `None` for the others. What flows in and out of such
    an operand flows in and out of its slice, so that nothing in a row or a transpose meets two states along one
    axis."""
    arrays = [operand if isinstance(operand, ArrayType) else None for operand in operands]
    reduced: set[str] = set()
    for type in arrays:
        if type is not None and type.reduced:
            reduced.update(type.reduced)
    if not reduced:
        return [None] * len(operands)
    cut = list(zip(results, use.scheme.results, strict=True))
    if beside:
        cut += [(type, places) for type, places in zip(arrays, use.scheme.operands, strict=True) if type is not None]
    found: list[ArrayType | None] = []
    for type, indices in zip(arrays, use.scheme.operands, strict=True):
        lists = () if type is None else type.axes
        for other, places in cut:
            cuts = {dim: axes for dim, axes in zip(places, other.axes, strict=True) if dim}
            lists = tuple(
                _cut(type, axes, cuts.get(dim, ()), reduced) for dim, axes in zip(indices, lists, strict=False)
            )
        found.append(sliced(type, lists) if type is not None and lists != type.axes else None)
    return found


def _cut(type: ArrayType | None, axes: Axes, wanted: Axes, reduced: Collection[str]) -> Axes:
    """A dim's axes where it is cut as it is wanted, if that is a slice of copies, along an axis on which some operand
    is reduced: along others a copy is sliced by what follows."""
    more = wanted[len(axes) :]
    if type is None or wanted[: len(axes)] != axes or not any(axis in reduced for axis in more):
        return axes
    copies = not any(axis in type.mentioned and axis not in type.reduced for axis in more)
    return wanted if copies else axes


def sliced(type: ArrayType, lists: tuple[Axes, ...]) -> ArrayType:
    """A type whose dims are cut by these lists: along their axes, nothing else is said."""
    cut = {axis for axes in lists for axis in axes}
    unreduced, reduced = (tuple(axis for axis in axes if axis not in cut) for axes in (type.unreduced, type.reduced))
    return array_type(type.dtype, type.shape, lists, type.varying, unreduced, reduced, memory=type.memory)


class Evaluation:
    """Formulas about one equation, evaluated: what depends on `g` becomes equations of `linear`, all else of `known`.
    A formula that stands in several rows is evaluated once. targets: the types that are wanted of an application with
    one result for each operand. names: asked for when there is a formula."""

    def __init__(
        self,
        names: Callable[[], Mapping[str, Atom | tuple[Atom, ...]]],
        known: Builder,
        linear: Builder,
        targets: Sequence[Type | None] = (),
    ) -> None:
        self._named = names
        self.targets = targets
        self.known = known
        self.linear = linear
        self.done: dict[Apply, tuple[Atom, ...]] = {}

    @cached_property
    def names(self) -> Mapping[str, Atom | tuple[Atom, ...]]:
        """The names that a formula may use (`named`)."""
        return self._named()

    def value(self, formula: Formula, type: ArrayType | None = None) -> Atom:
        """The value of a formula; `type` is that of an application that takes a target."""
        if isinstance(formula, Name):
            found = self.names[formula.name]
            return found if not isinstance(found, tuple) else found[0]
        if isinstance(formula, Full):
            return self.known.full(formula.number.value, self.type_of(self.value(formula.like)))
        if isinstance(formula, Places):
            return self.known.places(formula.dim, self.type_of(self.value(formula.like)))
        if isinstance(formula, Zeros):
            return self.known.full(0, self.zeros(formula))
        if isinstance(formula, Apply):
            return self.applied(formula, type)[formula.item]
        raise ValueError(f"{formula} has no value by itself")

    def applied(self, formula: Apply, type: ArrayType | None) -> tuple[Atom, ...]:
        """All results of an application."""
        whole = Apply(formula.primitive, formula.arguments, formula.parameters) if formula.item else formula
        if whole not in self.done:
            inputs: list[Atom | Number] = []
            for argument in formula.arguments:
                if isinstance(argument, Star):
                    found = self.names[argument.name]
                    inputs += found if isinstance(found, tuple) else (found,)
                else:
                    inputs.append(argument if isinstance(argument, Number) else self.value(argument))
            dtype = next((self.type_of(one).dtype for one in inputs if not isinstance(one, Number)), "f32")
            atoms = [self.known.literal(one.value, dtype) if isinstance(one, Number) else one for one in inputs]
            if formula.primitive == "conjugate" and dtype_class(dtype) != "c":
                self.done[whole] = (atoms[0],)
                return self.done[whole]
            primitive, parameters = self.spelled(formula, [self.type_of(atom) for atom in atoms])
            flows = any(isinstance(atom, str) and atom in self.linear.types for atom in atoms)
            builder = self.linear if flows else self.known
            product = _product(formula.primitive, atoms)
            if product is not None:
                self.done[whole] = (self.known.literal(product, dtype),)
                return self.done[whole]
            count = self.several(primitive, parameters, atoms)
            wanted = (type,) if count == 1 else self.targets if count == len(self.targets) else (None,) * count
            if any(isinstance(argument, Zeros) and argument.along for argument in formula.arguments):
                wanted = (self.type_of(atoms[0]),)  # what is added to pending zeros stays pending
            try:
                self.done[whole] = fitted(builder, primitive, atoms, parameters, wanted)
            except Refused:
                asked = [name for name, value in formula.parameters if isinstance(value, Call) and value.name == PLACED]
                if not asked:
                    raise
                # it cannot be placed so by itself: what follows is moved
                rest = {name: None if name in asked else value for name, value in parameters.items_in_order}
                self.done[whole] = fitted(builder, primitive, atoms, Parameters(tuple(rest.items())), [None] * count)
        return self.done[whole]

    def spelled(self, formula: Apply, types: Sequence[ArrayType]) -> tuple[str, Parameters]:
        """The primitive of an application, and its parameters; those of matrices follow from their ranks."""
        rank = types[0].rank if types else 0
        batch = tuple(range(rank - 2))
        rows: dict[str, Value] = {name: self.placed(value) for name, value in formula.parameters}
        if formula.primitive == "@":
            rows["dimension_numbers"] = ([rank - 1], [rank - 2]), (list(batch), list(batch))
            rows |= {"precision": None, "preferred_element_type": Word(DTYPES[types[0].dtype][0])}
            return "dot_general", Parameters(tuple(rows.items()))
        if formula.primitive == "T":
            return "transpose", Parameters((("permutation", (*batch, rank - 1, rank - 2)),))
        if formula.primitive == "conjugate":
            return "conj", Parameters((("input_dtype", Word(DTYPES[types[0].dtype][0])),))
        return formula.primitive, Parameters(tuple(rows.items()))

    def zeros(self, formula: Zeros) -> ArrayType:
        """The type of the zeros that something is added to."""
        type = cotangent(self.type_of(self.names[formula.like]))
        assert isinstance(type, ArrayType)
        if not formula.along:
            return type
        beside = self.type_of(self.names[formula.along])
        lists = list(type.axes)
        for mine, other in formula.shared:
            if not lists[mine] and not any(axis in type.mentioned for axis in beside.axes[other]):
                lists[mine] = beside.axes[other]
        cut = {axis for axes in lists for axis in axes}
        pending = (
            *type.unreduced,
            *(axis for axis in beside.sharded if axis not in cut and axis not in type.mentioned),
        )
        return array_type(type.dtype, type.shape, tuple(lists), type.varying, pending, type.reduced, memory=type.memory)

    def placed(self, value: Value) -> Value:
        """A parameter, a placement put in where it is one: none where no axis of the mesh is explicit."""
        if not isinstance(value, Call) or value.name != PLACED:
            return value
        if not any(axis.mode is AxisMode.EXPLICIT for axis in self.known.mesh.axes):
            return None
        like, *order = value.arguments
        type = cotangent(self.type_of(self.names[str(like)]))
        assert isinstance(type, ArrayType)
        dims = sequence(order[0], PLACED) if order else range(type.rank)
        lists = [() if dim is None else type.axes[integer(dim, PLACED)] for dim in dims]
        return self.known.sharding(
            array_type(type.dtype, (1,) * len(lists), tuple(lists), (), type.unreduced, type.reduced)
        )

    def several(self, primitive: str, parameters: Parameters, atoms: Sequence[Atom]) -> int:
        """How many results an application has."""
        declared = TABLE.get(primitive)
        if declared is None or declared.scheme is aligned:
            return 1
        types = [self.type_of(atom) for atom in atoms]
        if primitive == "unstack":  # as many as are printed
            size = types[0].shape[integer(parameters["axis"], "axis")]
            return size if isinstance(size, int) else 1
        site = Site(parameters, tuple(type.shape for type in types), tuple(type.dtype for type in types), ())
        try:
            return len(declared.scheme(site).results)
        except Refused:  # its shape is printed with its result, of which there is one
            return 1

    def type_of(self, atom: Atom | tuple[Atom, ...]) -> ArrayType:
        """The type of a value."""
        found = self.linear.type_of(atom[0] if isinstance(atom, tuple) else atom)
        assert isinstance(found, ArrayType)
        return found


def _product(primitive: str, atoms: Sequence[Atom]) -> float | None:
    """The product of two numbers: it is a number, so that zero times anything is zero, which is in every state."""
    if primitive != "mul" or not all(isinstance(atom, Literal) for atom in atoms):
        return None
    try:
        return prod(float(str(getattr(atom, "text", ""))) for atom in atoms)
    except ValueError:
        return None


def named(
    use: Use, operands: Sequence[Atom], flowing: Sequence[Atom | None], results: Sequence[Atom] = ()
) -> dict[str, Atom | tuple[Atom, ...]]:
    """The names that a formula about this equation may use. A variadic operand goes by its name as a whole too, and so
    do several results, and what flows to them; what is `None` has no name."""
    found: dict[str, Atom | tuple[Atom, ...]] = dict(zip(use.names, operands, strict=True))
    variadic = use.primitive.operands[-1:]
    if variadic and variadic[0].endswith("..."):
        plain = variadic[0].removesuffix("...")
        found[plain] = tuple(
            atom
            for one, atom in zip(use.names, operands, strict=True)
            if one.removeprefix(plain).isdecimal() and one.startswith(plain)
        )
    for name, several in ((TANGENT, flowing), (RESULT, results)):
        found[name] = tuple(atom for atom in several if atom is not None)
        found.update((f"{name}{number}", atom) for number, atom in enumerate(several) if atom is not None)
    return found
