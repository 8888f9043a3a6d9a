"""Types: what JAX prints after a colon. Interned, so that equality is identity.

    f32[8@X,4]{U:Y}      an array: dtype, dims, each dim's ordered list of mesh axes, and its state along the others
    Ref{f32[4]}          a mutable cell
    AbstractFuture{f32[4]}  a value on its way
    Tok                  anything else, kept verbatim

For each mesh axis an array is in one state (`ArrayType.state`): sharded on a dim, replicated (N), reduced (R),
unreduced (U, of kind sum, max or min) or, in manual mode, varying (V). Seeds A1, A26, A42, B19.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

Dim: TypeAlias = "int | str"
"""A dim's size; a string for a symbolic one, as printed (`b + 1`)."""

Axes: TypeAlias = "tuple[str, ...]"
"""An ordered list of mesh axes, major first."""

#: short name -> (long name, bits, class). The class is f(loat), i(nt), u(int), b(ool), c(omplex) or o(ther).
DTYPES: Final[dict[str, tuple[str, int, str]]] = {
    "bool": ("bool", 8, "b"),
    **{f"i{n}": (f"int{n}", n, "i") for n in (2, 4, 8, 16, 32, 64)},
    **{f"u{n}": (f"uint{n}", n, "u") for n in (2, 4, 8, 16, 32, 64)},
    "i1": ("int1", 1, "i"),
    "u1": ("uint1", 1, "u"),
    "f4_e2m1fn": ("float4_e2m1fn", 4, "f"),
    "f8_e3m4": ("float8_e3m4", 8, "f"),
    "f8_e4m3": ("float8_e4m3", 8, "f"),
    "f8_e8m0fnu": ("float8_e8m0fnu", 8, "f"),
    "f8_e4m3b11fnuz": ("float8_e4m3b11fnuz", 8, "f"),
    "f8_e4m3fn": ("float8_e4m3fn", 8, "f"),
    "f8_e4m3fnuz": ("float8_e4m3fnuz", 8, "f"),
    "f8_e5m2": ("float8_e5m2", 8, "f"),
    "f8_e5m2fnuz": ("float8_e5m2fnuz", 8, "f"),
    "bf16": ("bfloat16", 16, "f"),
    "f16": ("float16", 16, "f"),
    "f32": ("float32", 32, "f"),
    "f64": ("float64", 64, "f"),
    "c64": ("complex64", 64, "c"),
    "c128": ("complex128", 128, "c"),
    "float0": ("float0", 0, "o"),
    "key<fry>": ("key<fry>", 64, "o"),
    "key<rbg>": ("key<rbg>", 128, "o"),
    "key<urbg>": ("key<urbg>", 128, "o"),
    # what kernels signal with
    "sem": ("sem", 0, "o"),
    "dma_sem": ("dma_sem", 0, "o"),
    "barrier_sem": ("barrier_sem", 0, "o"),
}
SHORT_NAMES: Final[dict[str, str]] = {long: short for short, (long, _, _) in DTYPES.items()}


def dtype_class(dtype: str) -> str:
    """f, i, u, b, c or o(ther: keys, float0, unknown extended dtypes)."""
    return DTYPES[dtype][2] if dtype in DTYPES else "o"


class ArrayType:
    """An array's type. Build it with `array_type`, which interns; never with the constructor.

    dtype: short name. shape: one size per dim. axes: per dim, the ordered list of mesh axes that shard it.
    varying, unreduced, reduced: the axes in those states, in the order printed. kind: of the unreduced axes, `sum`,
    `max` or `min`. memory: `""` for device memory, else a memory space (`host`). weak: printed with `~`.
    canonical: the same type with its axis sets sorted and not weak; two types are equal when these are identical.
    marked: mentions R or U.
    """

    __slots__ = (
        "_cotangent",
        "_text",
        "axes",
        "canonical",
        "dtype",
        "kind",
        "marked",
        "memory",
        "plain",
        "rank",
        "reduced",
        "shape",
        "unreduced",
        "varying",
        "weak",
    )

    dtype: str
    shape: tuple[Dim, ...]
    axes: tuple[Axes, ...]
    varying: Axes
    unreduced: Axes
    reduced: Axes
    kind: str
    memory: str
    weak: bool
    rank: int
    marked: bool
    plain: bool
    canonical: ArrayType
    _text: str | None
    _cotangent: ArrayType | None

    def __reduce__(self) -> tuple[object, ...]:
        return array_type, (
            self.dtype,
            self.shape,
            self.axes,
            self.varying,
            self.unreduced,
            self.reduced,
            self.kind,
            self.memory,
            self.weak,
        )

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = self._text = _show(self, self.dtype)
        return text

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def long(self) -> str:
        """This type with its long dtype name, as `jax.typeof` prints it: `float32[8@X,4]`. Seed A1."""
        return _show(self, DTYPES.get(self.dtype, (self.dtype,))[0])

    @property
    def dtype_class(self) -> str:
        """The class of the dtype: see `dtype_class`."""
        return dtype_class(self.dtype)

    @property
    def sharded(self) -> Axes:
        """The axes that shard some dim, dim by dim."""
        return tuple(axis for axes in self.axes for axis in axes)

    @property
    def mentioned(self) -> Axes:
        """Every axis this type mentions, in the order printed."""
        return self.sharded + self.varying + self.unreduced + self.reduced

    def without(self, names: Collection[str]) -> ArrayType:
        """The same type with some axes left out."""
        states = (
            (axis for axis in axes if axis not in names)
            for axes in (*self.axes, self.varying, self.unreduced, self.reduced)
        )
        *lists, varying, unreduced, reduced = map(tuple, states)
        return array_type(
            self.dtype, self.shape, tuple(lists), varying, unreduced, reduced, self.kind, self.memory, self.weak
        )

    def state(self, axis: str) -> str:
        """The state along a mesh axis: `S` (sharded), `V`, `U`, `R` or `N`."""
        if any(axis in axes for axes in self.axes):
            return "S"
        if axis in self.varying:
            return "V"
        if axis in self.unreduced:
            return "U"
        return "R" if axis in self.reduced else "N"


class RefType:
    """A mutable cell: `Ref{f32[4]}`, `Ref<default>{f32[4]}`. `space` is `""` where none is printed."""

    __slots__ = ("inner", "space")

    def __init__(self, inner: Type, space: str = "") -> None:
        self.inner = inner
        self.space = space

    @property
    def canonical(self) -> RefType:
        """The same cell of the canonical type."""
        inner = self.inner.canonical
        return self if inner is self.inner else RefType(inner, self.space)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RefType) and self.inner == other.inner and self.space == other.space

    def __hash__(self) -> int:
        return hash((RefType, self.inner, self.space))

    def __str__(self) -> str:
        return f"Ref{f'<{self.space}>' if self.space else ''}{{{self.inner}}}"

    def __repr__(self) -> str:
        return f"<{self}>"


class FutureType:
    """A value that a collective has been started for, and that is still on its way: `AbstractFuture{f32[4]}`."""

    __slots__ = ("inner",)

    def __init__(self, inner: Type) -> None:
        self.inner = inner

    @property
    def canonical(self) -> FutureType:
        """The same for the canonical type."""
        inner = self.inner.canonical
        return self if inner is self.inner else FutureType(inner)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FutureType) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((FutureType, self.inner))

    def __str__(self) -> str:
        return f"AbstractFuture{{{self.inner}}}"

    def __repr__(self) -> str:
        return f"<{self}>"


class OpaqueType:
    """A type the language does not describe, kept verbatim: `Tok`, `AbstractOperator()`."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def canonical(self) -> OpaqueType:
        """The type itself."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueType) and self.text == other.text

    def __hash__(self) -> int:
        return hash((OpaqueType, self.text))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self}>"


Type: TypeAlias = "ArrayType | RefType | FutureType | OpaqueType"


TOKEN: Final = OpaqueType("Tok")
"""The type of what orders effects and holds nothing."""


def held(type: Type | None) -> Type | None:
    """What a cell holds or a future will be; of any other type, itself."""
    return type.inner if isinstance(type, (RefType, FutureType)) else type


_INTERNED: dict[tuple[object, ...], ArrayType] = {}


def clear_interned() -> None:
    """Forget every interned type. For measurements only: types made before and after do not compare equal."""
    _INTERNED.clear()


def array_type(
    dtype: str,
    shape: tuple[Dim, ...] = (),
    axes: tuple[Axes, ...] | None = None,
    varying: Axes = (),
    unreduced: Axes = (),
    reduced: Axes = (),
    kind: str = "sum",
    memory: str = "",
    weak: bool = False,
) -> ArrayType:
    """The one array type with these parts (see `ArrayType`). Well-formedness is `well_formed`'s business, not ours.

    `dtype` may be a short or a long name.
    """
    if axes is None:
        axes = ((),) * len(shape)
    key = (dtype, shape, axes, varying, unreduced, reduced, kind, memory, weak)
    found = _INTERNED.get(key)
    if found is not None:
        return found
    short = SHORT_NAMES.get(dtype, dtype)
    if not unreduced:
        kind = "sum"
    if short != dtype or (kind == "sum" and key[6] != "sum"):
        made = array_type(short, shape, axes, varying, unreduced, reduced, kind, memory, weak)
        _INTERNED[key] = made
        return made
    made = ArrayType()
    made.dtype, made.shape, made.axes = dtype, shape, axes
    made.varying, made.unreduced, made.reduced = varying, unreduced, reduced
    made.kind, made.memory, made.weak = kind, memory, weak
    made.rank = len(shape)
    made.marked = bool(unreduced or reduced)
    made.plain = not (made.marked or varying or any(axes))
    made._text = made._cotangent = None
    _INTERNED[key] = made
    if weak or len(varying) > 1 or len(unreduced) > 1 or len(reduced) > 1:
        sets = (tuple(sorted(varying)), tuple(sorted(unreduced)), tuple(sorted(reduced)))
        ordered = sets == (varying, unreduced, reduced) and not weak
        made.canonical = made if ordered else array_type(dtype, shape, axes, *sets, kind, memory)
    else:
        made.canonical = made
    return made


def same(left: Type, right: Type) -> bool:
    """Whether two types are equal: order within a state's set of axes and weakness aside."""
    return left is right or left.canonical is right.canonical or left.canonical == right.canonical


def _show(type: ArrayType, dtype: str) -> str:
    def axis_list(axes: Axes) -> str:
        return axes[0] if len(axes) == 1 else f"({','.join(axes)})"

    dims = ",".join(
        f"{size}@{axis_list(axes)}" if axes else str(size) for size, axes in zip(type.shape, type.axes, strict=True)
    )
    kind = "U" if type.kind == "sum" else f"U_{type.kind}"
    states = ((type.varying, "V"), (type.unreduced, kind), (type.reduced, "R"))
    suffix = ", ".join(f"{letter}:{axis_list(axes)}" for axes, letter in states if axes)
    memory = f"<{type.memory}>" if type.memory else ""
    return f"{'~' if type.weak else ''}{dtype}{memory}[{dims}]{f'{{{suffix}}}' if suffix else ''}"
