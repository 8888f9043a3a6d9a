"""What one declaration says. From it the rules derive everything else; nothing about a primitive stands elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from calculus.formulas import Formula, read_row
from calculus.parameters import bad
from calculus.programs import Parameters
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape
from calculus.signatures import Signature
from calculus.types import DTYPES, SHORT_NAMES, ArrayType, Type, dtype_class

if TYPE_CHECKING:
    from calculus.elements import Element
    from calculus.unfolding import Dual, Unfolding


class Site(NamedTuple):
    """One use of a primitive, as its declaration sees it. dtypes: `None` for a literal printed without a type. printed:
    the result types as printed, where they are. number: the result that a signature or joins are about."""

    parameters: Parameters
    shapes: tuple[Shape, ...]
    dtypes: tuple[str | None, ...]
    printed: tuple[Type | None, ...]
    number: int = 0

    def printed_shape(self) -> Shape:
        """The printed shape of the only result, for primitives that print theirs nowhere else. Refuses `choose-type`
        where none is printed."""
        type = self.printed[0] if self.printed else None
        if not isinstance(type, ArrayType):
            raise refuse(
                "choose-type",
                "the shape of the result is printed nowhere",
                because="this primitive takes its shape from a parameter that JAX does not print",
                help="write the result's type after its name",
                place=Place("binder", 0),
            )
        return type.shape


SchemeOf: TypeAlias = Callable[[Site], Scheme]
DtypesOf: TypeAlias = Callable[[Site], "tuple[str, ...]"]
OnBlocks: TypeAlias = "Callable[[Parameters, tuple[Shape, ...], tuple[Shape, ...]], Parameters]"
Kernel: TypeAlias = Callable[..., Any]
"""`kernel(np, parameters, *blocks)`: the function the primitive computes, given numpy (loaded by whoever runs it)."""


Unfold: TypeAlias = "Callable[[Unfolding], Sequence[Dual] | None]"

EVERYTHING: Final = "fiubco"
"""All classes of dtypes."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """One row of the table.

    operands: their names, in order; a last name ending in `...` stands for any number.
    linearity: the signature in the notation of `calculus.linearity` (or the signature at one site): `x | y` separately
        linear, `x y` jointly, `/ x` nonlinear and differentiable, `; x` without a derivative, `~ x` not looked at.
    scheme: the index scheme at a site.
    dtypes: the result dtypes at a site.
    target: how a caller asks for a sharding other than the derived one: "" not at all, "printed" in a parameter that
        JAX does not print (so the printed type says it), else the name of the parameter that says it. Of several
        results it is the last one's.
    kernel: what it computes; `None` where the scheme says it (a contraction, a broadcast).
    accepts: the classes of dtypes it computes on (`f`, `i`, `u`, `b`, `c`, `o`), of its first operand.
    joins: where it commutes with a pending maximum or minimum, in the notation of `calculus.signatures` (or that at one
        site). What such a maximum is, NaN included, stands there.
    window: how a dim that it looks along may stay cut all the same, where the printed type says so, and what moves
        then: "" not at all, `gather` (each operand is gathered), `permute` (blocks change places), `halo` (parts of
        blocks do; how many a partitioner decides, and gathering the operand is the bound) or `own` (nothing: each
        device does what falls into its own block; so also where no type is printed).
    sized: the parameter that lists a size for each dim of an array, and whose: `slice_sizes x`, `new_sizes result`;
        or `reps result each`, how often the first operand's dims go into those of the result. On
        blocks it lists the blocks' sizes. Or the parameters on blocks, from those of the whole, the operands' shapes
        and the blocks' shapes.
    derivative: of the operands in which it is not linear, and of those that are linear beside others, in the notation
        of `calculus.formulas`; where none is written for an operand, it is not differentiated.
    adjoint: the transpose in a linear operand, in the same notation, where the scheme does not say it: of a primitive
        that looks along dims. The operand's position tells rows of a variadic operand apart.
    unfold: how it is computed by equations whose derivatives are known, where no formula of one operand says its own;
        `None` where it is not, at this site.
    element: what it computes, element by element, for proofs (`calculus.elements`); `None` where its kernel computes
        element by element, or proofs need not look into it.
    trusted: whether that devices compute the same is assumed, and counted: nothing says what they compute.
    """

    name: str
    operands: tuple[str, ...]
    linearity: str | Callable[[Site], str]
    scheme: SchemeOf
    dtypes: DtypesOf
    target: str = ""
    kernel: Kernel | None = None
    accepts: str = EVERYTHING
    joins: str | Callable[[Site], str] = ""
    window: str = ""
    sized: str | OnBlocks = ""
    derivative: str | Callable[[Site], str] = ""
    adjoint: str | Callable[[Site, int], str] = ""
    unfold: Unfold | None = None
    element: Element | None = None
    trusted: bool = False

    def signature(self, site: Site) -> str:
        """The linearity signature at a site."""
        return self.linearity if isinstance(self.linearity, str) else self.linearity(site)

    def derivatives_at(self, site: Site) -> Mapping[str, Formula]:
        """The derivatives that are written, by operand."""
        row = self.derivative
        return self._formulas(site, (lambda: row(site)) if callable(row) else row)

    def adjoints_at(self, site: Site, position: int) -> Mapping[str, Formula]:
        """The transposes that are written, by operand; `position` is that of the one that is wanted."""
        row = self.adjoint
        return self._formulas(site, (lambda: row(site, position)) if callable(row) else row)

    def _formulas(self, site: Site, row: str | Callable[[], str]) -> Mapping[str, Formula]:
        if not row:
            return {}
        try:
            text = row() if callable(row) else row
            return read_row(text, operand_names(self, len(site.shapes))) if text else {}
        except ValueError:
            raise refuse(
                "unmodelled-construct",
                f"the derivative of {self.name} with a parameter of an unknown kind",
                because="the derivative has the parameters of what it is of, and formulas have no such value",
                help="write the parameters as JAX prints them",
                place=Place("primitive"),
            ) from None

    def joins_at(self, site: Site) -> str:
        """The joins at a site."""
        return self.joins if isinstance(self.joins, str) else self.joins(site)

    def read(self, site: Site) -> Signature:
        """Both, read, for the operands of the site. Raises `ValueError` where they do not read; refuses `arity`."""
        return _signature(self.signature(site), self.operands, self.joins_at(site), len(site.shapes))


@cache
def _signature(linearity: str, operands: tuple[str, ...], joins: str, count: int) -> Signature:
    """Where operands are not alike, a variadic name stands for `x0`, `x1` and so on."""
    last = operands[-1] if operands else ""
    if last.endswith("...") and "..." not in linearity:
        several = range(count - len(operands) + 1)
        operands = (*operands[:-1], *(f"{last.removesuffix('...')}{number}" for number in several))
    return Signature.parse(linearity, operands, joins).of(count)


def operand_names(primitive: Primitive, count: int) -> tuple[str, ...]:
    """The operands' names in one use, a variadic one spread out: `x0`, `x1`."""
    return _spread_out(primitive.operands, count)


@cache
def _spread_out(operands: tuple[str, ...], count: int) -> tuple[str, ...]:
    extra = count - len(operands)
    found: list[str] = []
    for name in operands:
        plain = name.removesuffix("...")
        found += [plain] if plain == name else [f"{plain}{number}" for number in range(extra + 1)]
    return tuple(found)


def joins_on(**said: str) -> Callable[[Site], str]:
    """Joins by the class of the operands' dtype, several classes in one word: `joins_on(r="x | y", ub="-x")`. `r` is
    for the floating dtypes that round to infinity, `f` for all. None on the classes that are not named."""
    by_class = {letter: joins for letters, joins in said.items() for letter in letters}

    def joins(site: Site) -> str:
        dtype = next((dtype for dtype in site.dtypes if dtype is not None), "")
        found = by_class.get("r", "") if dtype in ROUNDING_TO_INFINITY else ""
        return found or by_class.get(dtype_class(dtype), "")

    return joins


ROUNDING_TO_INFINITY: Final = frozenset({"f8_e3m4", "f8_e4m3", "f8_e5m2", "bf16", "f16", "f32", "f64"})
"""The floating dtypes that have infinities, so that what is too large keeps its place in the order. In the others it
becomes NaN, which is above everything, however far below it was."""

NUMBERS: Final = "fiuc"
INEXACT: Final = "fc"


def real_dtype(dtype: str) -> str:
    """The dtype of a complex number's parts; a real dtype itself."""
    return {"c64": "f32", "c128": "f64"}.get(dtype, dtype)


def complex_dtype(dtype: str) -> str:
    """The dtype of complex numbers with such parts, or itself: there are two."""
    return "c128" if dtype in ("f64", "c128") else "c64"


def same_dtype(site: Site) -> tuple[str, ...]:
    """All operands have one dtype, and the result has it. Refuses `dtype` otherwise."""
    return (_one_dtype(site.dtypes, range(len(site.dtypes))),)


def truth(site: Site) -> tuple[str, ...]:
    """All operands have one dtype; the result is a truth value."""
    _one_dtype(site.dtypes, range(len(site.dtypes)))
    return ("bool",)


def _one_dtype(dtypes: tuple[str | None, ...], positions: range) -> str:
    found: str | None = None
    for index in positions:
        dtype = dtypes[index]
        if dtype is None or dtype == found:
            continue
        if found is not None:
            raise refuse(
                "dtype",
                f"operand {index} is {dtype} among operands of {found}",
                because="the operation is defined within one dtype",
                help="insert a convert_element_type",
                place=Place("operand", index),
            )
        found = dtype
    if found is None:
        raise refuse("choose-type", "no operand says which dtype this is", place=Place("operand", 0))
    return found


def like_operands(first: int, last: int | None = None) -> DtypesOf:
    """The operands from `first` up to `last` (excluded) have one dtype, and the result has it."""

    def dtypes(site: Site) -> tuple[str, ...]:
        return (_one_dtype(site.dtypes, range(len(site.dtypes))[first:last]),)

    return dtypes


def named_dtype(parameter: str) -> DtypesOf:
    """The dtype that a parameter names, by its long name."""

    def dtypes(site: Site) -> tuple[str, ...]:
        name = str(site.parameters.get(parameter, ""))
        if not name:
            raise refuse("bad-parameter", f"parameter {parameter} is missing")
        found = SHORT_NAMES.get(name, name)
        if found not in DTYPES and "<" not in found:
            raise bad(parameter, name, "the name of a dtype")
        return (found,)

    return dtypes
