"""Declarations against the kernels they stand beside: a wrong line in the table must not survive.

Each kernel runs on arrays of random numbers. Linear operands must be additive, exactly (the numbers are small powers of
two and whole numbers, for which floating point is exact); operands declared nonlinear must not be; the shape and the
dtype that come out are those the declaration derives; and what a kernel computes is what JAX computes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Call, Parameters, Real, Word
from calculus.signatures import Signature
from calculus.types import DTYPES, array_type

SHAPE = (4, 6)

DTYPE_OF = {"f": "f64", "c": "c128", "i": "i32", "u": "u32", "b": "bool"}

_AXES = {"axes": (0,), "out_sharding": None}
_INDEX = {"axes": (1,), "index_dtype": Word("int32")}
_ALONG = {"axis": 1, "reverse": False}

#: a column of the operand at each of three places, some of them outside
_COLUMNS = Call(
    "GatherDimensionNumbers", (), (("offset_dims", (0,)), ("collapsed_slice_dims", (1,)), ("start_index_map", (1,)))
)
PLACES = (3, 1)

#: parameters, as they are read from text, of the primitives whose kernels want some
PARAMETERS: dict[str, dict[str, Any]] = {
    "integer_pow": {"y": 3},
    "round": {"rounding_method": 0},
    "reduce_precision": {"exponent_bits": 8, "mantissa_bits": 3},
    "convert_element_type": {"new_dtype": Word("int32"), "weak_type": False},
    **dict.fromkeys(
        ["reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor"], _AXES
    ),
    **dict.fromkeys(["argmax", "argmin"], _INDEX),
    **dict.fromkeys(["cumsum", "cumprod", "cummax", "cummin"], _ALONG),
    "transpose": {"permutation": (1, 0)},
    "slice": {"start_indices": (0, 1), "limit_indices": (4, 6), "strides": (1, 2)},
    "pad": {"padding_config": ((0, 0, 0), (1, 2, 1))},
    "concatenate": {"dimension": 1},
    "split": {"axis": 1, "sizes": (2, 4)},
    "rev": {"dimensions": (1,)},
    "iota": {"dtype": Word("int32"), "shape": (3, 5), "dimension": 1, "sharding": None},
    "bitcast_convert_type": {"new_dtype": Word("int64")},
    "dynamic_slice": {"slice_sizes": (2, 6)},
    "gather": {
        "dimension_numbers": _COLUMNS, "fill_value": Real("nan"), "mode": Word("GatherScatterMode.CLIP"),
        "slice_sizes": (4, 1), "indices_are_sorted": False, "unique_indices": False,
    },
    "unstack": {"axis": 1},
    "stack": {"axis": 1},
    "sort": {"dimension": 1, "is_stable": True, "num_keys": 1},
}  # fmt: skip

KERNELS = {name: primitive for name, primitive in TABLE.items() if primitive.kernel is not None}

#: classes of dtypes on which the parameters above make no sense
ELSEWHERE = {"bitcast_convert_type": "iubc", "convert_element_type": "c"}

CASES = [
    (name, kind)
    for name, one in KERNELS.items()
    for kind in one.accepts
    if kind in DTYPE_OF and kind not in ELSEWHERE.get(name, "")
]


class Case:
    """One primitive on one class of dtypes: random operands, and what comes out."""

    def __init__(self, name: str, kind: str) -> None:
        self.primitive: Primitive = TABLE[name]
        self.kind = kind
        count = 1 if name == "sort" else 2  # how many operands a variadic name stands for here
        self.names = [n for one in self.primitive.operands for n in [one] * (count if one.endswith("...") else 1)]
        self.random = np.random.default_rng(7)
        self.parameters = Parameters(tuple(PARAMETERS.get(name, {}).items()))
        self.dtypes = [
            {"which": "bool", "i...": "i32", "indices": "i32"}.get(one, DTYPE_OF[kind]) for one in self.names
        ]
        self.shapes = [{"p": (), "i...": (), "u": (2, 6), "indices": PLACES}.get(one, SHAPE) for one in self.names]
        results = SHAPE[1] if name == "unstack" else 1
        printed = (array_type(self.dtypes[0] if self.dtypes else "i32", SHAPE),) * results
        self.site = Site(self.parameters, tuple(self.shapes), tuple(self.dtypes), printed)
        signature = self.primitive.signature(self.site)
        self.signature = Signature.parse(signature, self.primitive.operands).of(len(self.names))

    def draw(self, position: int, whole: bool = False) -> Any:
        """A random operand: powers of two with signs where results should be exact, else reals around zero."""
        dtype, shape = np.dtype(DTYPES[self.dtypes[position]][0]), self.shapes[position]
        if dtype.kind in "b":
            return self.random.random(shape) < 0.5
        if dtype.kind in "iu":
            return self.random.integers(0 if dtype.kind == "u" else -5, 6, shape).astype(dtype)
        real = self.random.uniform(-3, 3, shape)
        if whole:
            real = np.sign(real) * np.exp2(np.round(real))
        elif self.primitive.name == "erf_inv":
            real /= 3
        return (real + 1j * np.flip(real) if dtype.kind == "c" else real).astype(dtype)

    def run(self, operands: list[Any]) -> list[Any]:
        kernel = self.primitive.kernel
        assert kernel is not None
        with np.errstate(all="ignore"):
            found = kernel(np, self.parameters, *operands)
        return [np.asarray(one) for one in (found if isinstance(found, (list, tuple)) else [found])]

    def sums(self, group: tuple[int, ...], whole: bool) -> tuple[list[Any], list[Any]]:
        """f of a sum, and the sum of f, when the operands of a group are added and all others stay."""
        one = [self.draw(position, whole) for position in range(len(self.names))]
        other = [self.draw(position, whole) if position in group else one[position] for position in range(len(one))]
        both = [a + b if position in group else a for position, (a, b) in enumerate(zip(one, other, strict=True))]
        return self.run(both), [a + b for a, b in zip(self.run(one), self.run(other), strict=True)]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_linear_operands_are_additive_and_others_are_not(name: str, kind: str) -> None:
    case = Case(name, kind)
    for group in case.signature.groups:
        for left, right in zip(*case.sums(group, whole=True), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-12 if kind == "c" else 0, atol=0)
    for operand in case.signature.nonlinear if kind != "b" else ():  # truth values have no sum
        pairs = list(zip(*case.sums((operand,), whole=False), strict=True))
        defined = [np.isfinite(left) & np.isfinite(right) for left, right in pairs]
        assert any(where.any() for where in defined)
        assert any(not np.allclose(a[at], b[at]) for (a, b), at in zip(pairs, defined, strict=True)), (
            "additive after all"
        )


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_shapes_and_dtypes_are_those_derived(name: str, kind: str) -> None:
    case = Case(name, kind)
    found = case.run([case.draw(position) for position in range(len(case.names))])
    scheme = case.primitive.scheme(case.site)
    assert [one.shape for one in found] == [scheme.shape(indices) for indices in scheme.results]
    if name not in ("argmax", "argmin"):  # numpy's index dtype is its own
        declared = case.primitive.dtypes(case.site)
        assert [one.dtype for one in found] == [np.dtype(DTYPES[dtype][0]) for dtype in declared]


#: how `jax.lax` says what a primitive without parameters computes, where it does not say it under the same name
SAID_BY_JAX: dict[str, Any] = {
    "and": jax.lax.bitwise_and,
    "or": jax.lax.bitwise_or,
    "xor": jax.lax.bitwise_xor,
    "dynamic_update_slice": lambda x, update, *starts: jax.lax.dynamic_update_slice(x, update, starts),
    "not": jax.lax.bitwise_not,
    "add_any": jax.lax.add,
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "stop_gradient": lambda x: x,
    "one_minus_square": lambda x: 1 - x * x,
    "select_n": jax.lax.select_n,
}


@pytest.mark.parametrize(
    ("name", "kind"), [case for case in CASES if case[0] not in PARAMETERS and case != ("add_any", "b")]
)
def test_kernels_compute_what_jax_computes(name: str, kind: str) -> None:
    case = Case(name, kind)
    operands = [case.draw(position) for position in range(len(case.names))]
    if name.startswith("shift"):
        operands[1] = operands[1] % 8
    if name in ("div", "rem") and kind in "iu":
        operands[1] = np.where(operands[1] == 0, 3, operands[1]).astype(operands[1].dtype)
    with jax.enable_x64(True):
        theirs = SAID_BY_JAX.get(name) or getattr(jax.lax, name)
        expected = np.asarray(theirs(*map(jax.numpy.asarray, operands)))
    (found,) = case.run(operands)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("erf", "x"), ("neg", "/ x"), ("mul", "x y"), ("sub", "x | y"), ("div", "x | y"), ("gather", "/ x ; indices")],
)
def test_a_wrong_declaration_is_seen(name: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws can fail: each of these lines would claim what the kernel does not do, or hide what it does."""
    monkeypatch.setitem(TABLE, name, replace(TABLE[name], linearity=wrong))
    with pytest.raises(AssertionError):
        test_linear_operands_are_additive_and_others_are_not(name, "f")
