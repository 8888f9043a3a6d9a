"""Elementwise primitives: every operand aligned with the result, element by element.

A line is a declaration: name, linearity, kernel. Seeds A20, A22, B25.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from calculus.parameters import bad, integer, required
from calculus.primitives.declaration import (
    INEXACT,
    NUMBERS,
    ROUNDING_TO_INFINITY,
    DtypesOf,
    Kernel,
    Primitive,
    Site,
    complex_dtype,
    joins_on,
    like_operands,
    named_dtype,
    real_dtype,
    same_dtype,
    truth,
)
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape, elementwise
from calculus.types import DTYPES, SHORT_NAMES, dtype_class


def aligned(site: Site) -> Scheme:
    """`([i,j], ...) -> [i,j]`."""
    return elementwise(site.shapes)


def _beside(shape: Shape, whole: Shape, index: int) -> None:
    """Refuses `shape` unless the one is a scalar's or equal to the other: what stands beside does not widen."""
    if shape not in ((), whole):
        raise refuse(
            "shape",
            f"operand {index} has shape {list(shape)}, beside {list(whole)}",
            because="it is a scalar, or has one element for each",
            help="broadcast it first",
            place=Place("operand", index),
        )


def _bounded(site: Site) -> Scheme:
    for index in (0, 2):
        _beside(site.shapes[index], site.shapes[1], index)
    return aligned(site)


def _chosen(site: Site) -> Scheme:
    """A choice by a truth value or a number between cases of one shape, for each element or for all."""
    cases = site.shapes[1:]
    for index, shape in enumerate(cases):
        if shape != cases[0]:
            raise refuse(
                "shape",
                f"the cases have shapes {list(cases[0])} and {list(shape)}",
                because="the cases of a choice have one shape",
                help="broadcast the case first",
                place=Place("operand", index + 1),
            )
    if cases:
        _beside(site.shapes[0], cases[0], 0)
    if site.dtypes[0] == "bool" and len(cases) > 2:
        raise refuse(
            "arity",
            f"select_n chooses among {len(cases)} cases by a truth value",
            because="a truth value is one of two",
            place=Place("operand", 3),
        )
    return aligned(site)


def row(
    name: str,
    operands: str,
    linearity: str,
    kernel: Kernel | None,
    accepts: str = "fiubco",
    dtypes: DtypesOf = same_dtype,
    joins: str | Callable[[Site], str] = "",
) -> Primitive:
    """The declaration of an elementwise primitive. operands: their names, between blanks."""
    return Primitive(
        name, tuple(operands.split()), linearity, aligned, dtypes, kernel=kernel, accepts=accepts, joins=joins
    )


def _division(site: Site) -> str:
    """Division of integers rounds, so it is additive in neither operand."""
    return "x / y" if dtype_class(site.dtypes[0] or "f32") in "fc" else "/ x y"


def _conversion(site: Site) -> str:
    """Additive between floating dtypes and within one dtype; an integer that widens, or a float that becomes an
    integer, does not convert sums to sums. Narrowing integers is a ring homomorphism."""
    source, target = site.dtypes[0] or "f32", SHORT_NAMES.get(str(site.parameters.get("new_dtype")), "f32")
    before, after = dtype_class(source), dtype_class(target)
    if source == target and before in "fiuc":
        return "x"
    if before in "fc" and after in "fc":
        return "x" if before == after or after == "c" else "/ x"
    if before in "iu" and after in "iu" and DTYPES[target][1] <= DTYPES[source][1]:
        return "x"
    return "/ x"


def _conversion_joins(site: Site) -> str:
    """A conversion keeps the order where the target holds what the source holds, or rounds it. It does not where an
    integer is cut down or changes its sign, a number too large becomes NaN, or a float becomes an integer, which is
    undefined out of range. Truth values are false below true; what is not zero is true, of negative numbers too."""
    source, target = site.dtypes[0] or "f32", SHORT_NAMES.get(str(site.parameters.get("new_dtype")), "f32")
    before, after = dtype_class(source), dtype_class(target)
    if source == target:
        return "x"
    if before not in "fiub" or after not in "fiub":
        return ""
    if after == "f":
        return "x" if target in ROUNDING_TO_INFINITY else ""
    if after == "b":
        return "x" if before == "u" else ""
    if before == "b":
        return "x" if DTYPES[target][1] > 1 or after == "u" else ""
    wider = DTYPES[target][1] > DTYPES[source][1]
    return "x" if wider and (before, after) in (("i", "i"), ("u", "u"), ("u", "i")) else ""


def _power_dtype(site: Site) -> tuple[str, ...]:
    """Of a base and an exponent, which may be an integer."""
    exponent = site.dtypes[1]
    if exponent is None or dtype_class(exponent) not in "iu":
        return same_dtype(site)
    return like_operands(0, 1)(site)


def _whole_power_dtype(site: Site) -> tuple[str, ...]:
    (found,) = same_dtype(site)
    y = integer(required(site.parameters, "y"), "y")
    if y < 0 and dtype_class(found) in "iu":
        raise bad("y", str(y), "0 or more, as integers have no inverse")
    return (found,)


def _reduced_precision_dtype(site: Site) -> tuple[str, ...]:
    for name, least in (("exponent_bits", 1), ("mantissa_bits", 0)):
        bits = integer(required(site.parameters, name), name)
        if bits < least:
            raise bad(name, str(bits), f"{least} or more")
    return same_dtype(site)


def _power(site: Site) -> str:
    return "x" if integer(required(site.parameters, "y"), "y") == 1 else "/ x"


def _power_joins(site: Site) -> str:
    """An odd power keeps the order; an even one turns it below zero, and a negative one breaks it at zero. The first
    power is the number itself."""
    exponent = integer(required(site.parameters, "y"), "y")
    if exponent == 1:
        return "x"
    return _IN_ORDER(site) if exponent > 0 and exponent % 2 else ""


_IN_ORDER: Final = joins_on(r="x")


def _part(site: Site) -> tuple[str, ...]:
    return (real_dtype(site.dtypes[0] or "f32"),)


def _pair(site: Site) -> tuple[str, ...]:
    return (complex_dtype(*same_dtype(site)),)


def _conjugate_dtype(site: Site) -> tuple[str, ...]:
    """Complex, of a complex operand or of a real one, which `input_dtype` names: the transpose depends on it."""
    (found,) = same_dtype(site)
    said = named_dtype("input_dtype")(site)
    if said != (found,):
        raise bad("input_dtype", str(site.parameters["input_dtype"]), f"the operand's, {DTYPES[found][0]}")
    if real_dtype(found) not in ("f32", "f64"):
        raise refuse(
            "dtype",
            f"conj does not compute on {found}",
            because="a complex number is a pair of numbers of 32 or of 64 bits",
            help="insert a convert_element_type",
            place=Place("operand", 0),
        )
    return (complex_dtype(found),)


def _conjugate(np: Any, p: Any, x: Any) -> Any:
    """The conjugate of a sum is the sum of conjugates. Of a complex multiple it is not the multiple: so conj is linear
    over the real numbers, which is what sums of devices' pieces ask. JAX pairs cotangents and tangents without
    conjugating, ⟨c, x⟩ = Re Σ cx, under which conj is its own transpose: Re c·conj(x) = Re conj(c)·x. Of a real operand
    the transpose is the real part, as the conjugate is the embedding."""
    return np.conj(x).astype(np.result_type(x, np.complex64))


def _divide(np: Any, p: Any, x: Any, y: Any) -> Any:
    return x / y if x.dtype.kind in "fc" else np.trunc(x / y).astype(x.dtype)


def _integer_power(np: Any, p: Any, x: Any) -> Any:
    return x ** int(p["y"])


def _round(np: Any, p: Any, x: Any) -> Any:
    return np.round(x) if p["rounding_method"] == 1 else np.trunc(x + np.copysign(0.5, x))


def _polynomial(np: Any, p: Any, x: Any, *coefficients: Any) -> Any:
    found = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        found = found * x + coefficient
    return found


def _convert(np: Any, p: Any, x: Any) -> Any:
    return x.astype(str(p["new_dtype"]))


def _logistic(np: Any, p: Any, x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _erf(np: Any, p: Any, x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[x.dtype])(x)


def _erf_inv(np: Any, p: Any, x: Any) -> Any:
    from statistics import NormalDist

    quantile = NormalDist().inv_cdf

    def one(value: Any) -> float:
        if abs(value) < 1:
            return quantile((float(value) + 1) / 2) / 2**0.5
        return float(value) * float("inf") if abs(value) == 1 else float("nan")

    return np.vectorize(one, otypes=[x.dtype])(x)


def _atan2(np: Any, p: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind != "c":
        return np.arctan2(x, y)
    return -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))


def _select(np: Any, p: Any, which: Any, *cases: Any) -> Any:
    return np.choose(np.broadcast_to(which, cases[0].shape).astype(int), cases, mode="clip")


def _reduce_precision(np: Any, p: Any, x: Any) -> Any:
    mantissa, exponent = np.frexp(x)
    scale = 2.0 ** (int(p["mantissa_bits"]) + 1)
    return np.ldexp(np.round(mantissa * scale) / scale, exponent).astype(x.dtype)


_CLAMP_JOINS: Final = joins_on(fiub="max(low x) | min(x high) | min(low high) | low | x | high")
"""min(max(x, low), high): the outer minimum is jointly one of x and high, or of low and high; the inner maximum is
jointly one of low and x, and beside the same high on every device the outer minimum keeps it."""

_HIGHER: Final = joins_on(f="min(x) | -max(y)", iub="x | -y")
"""x > y. A comparison with NaN is false: so it is the minimum of truth values that a NaN keeps, never the maximum."""

_LOWER: Final = joins_on(f="-max(x) | min(y)", iub="-x | y")
"""x < y, likewise."""

_FROM_A_POINT_ON: Final = joins_on(r="min(x)")
"""Monotone, and NaN below a point. If the least piece is below it, then the result is NaN, and so is that of its
device; a greatest piece may be above it while others are not."""


# fmt: off
ELEMENTWISE = (
    # linear
    row("add", "x y", "x y", lambda np, p, x, y: x + y, NUMBERS, joins=joins_on(r="x | y")),
    row("add_any", "x y", "x y", lambda np, p, x, y: x + y, joins=joins_on(r="x | y", b="max(x y) | x | y")),
    row("sub", "x y", "x y", lambda np, p, x, y: x - y, NUMBERS, joins=joins_on(r="x | -y")),
    row("neg", "x", "x", lambda np, p, x: -x, NUMBERS, joins=joins_on(r="-x")),
    row("real", "x", "x", lambda np, p, x: np.real(x), "c", dtypes=_part),
    row("imag", "x", "x", lambda np, p, x: np.imag(x), "c", dtypes=_part),
    row("complex", "x y", "x y", lambda np, p, x, y: x + 1j * y, "f", dtypes=_pair),
    row("conj", "x", "x", _conjugate, "fc", dtypes=_conjugate_dtype),
    row("copy", "x", "x", lambda np, p, x: x.copy(), joins="x"),
    row("copy_p", "x", "x", lambda np, p, x: x.copy(), joins="x"),
    row("stop_gradient", "x", "x", lambda np, p, x: x, joins="x"),
    # bilinear, and linear in the numerator
    row("mul", "x y", "x | y", lambda np, p, x, y: x * y, NUMBERS),
    Primitive("div", ("x", "y"), _division, aligned, same_dtype, kernel=_divide, accepts=NUMBERS),
    # nonlinear, differentiable
    row("rem", "x y", "/ x y", lambda np, p, x, y: np.fmod(x, y), "fiu"),
    row("pow", "x y", "/ x y", lambda np, p, x, y: x**y, INEXACT, dtypes=_power_dtype),
    Primitive("integer_pow", ("x",), _power, aligned, _whole_power_dtype, kernel=_integer_power, accepts=NUMBERS,
              joins=_power_joins),
    row("max", "x y", "/ x y", lambda np, p, x, y: np.maximum(x, y), "fiubc", joins=joins_on(fiub="max(x y) | x | y")),
    row("min", "x y", "/ x y", lambda np, p, x, y: np.minimum(x, y), "fiubc", joins=joins_on(fiub="min(x y) | x | y")),
    Primitive("clamp", ("low", "x", "high"), "/ low x high", _bounded, same_dtype,
              kernel=lambda np, p, low, x, high: np.clip(x, low, high), accepts="fiubc", joins=_CLAMP_JOINS),
    row("atan2", "x y", "/ x y", _atan2, INEXACT),
    row("abs", "x", "/ x", lambda np, p, x: np.abs(x), "fic", dtypes=_part),
    row("sign", "x", "/ x", lambda np, p, x: np.sign(x), NUMBERS, joins=joins_on(riu="x")),
    row("floor", "x", "; x", lambda np, p, x: np.floor(x), "f", joins=joins_on(r="x")),
    row("ceil", "x", "; x", lambda np, p, x: np.ceil(x), "f", joins=joins_on(r="x")),
    row("round", "x", "; x", _round, "f", joins=joins_on(r="x")),
    row("square", "x", "/ x", lambda np, p, x: x * x, NUMBERS),
    row("one_minus_square", "x", "/ x", lambda np, p, x: 1 - x * x, NUMBERS),
    row("sqrt", "x", "/ x", lambda np, p, x: np.sqrt(x), INEXACT, joins=_FROM_A_POINT_ON),
    row("rsqrt", "x", "/ x", lambda np, p, x: 1 / np.sqrt(x), INEXACT),
    row("cbrt", "x", "/ x", lambda np, p, x: np.cbrt(x), "f", joins=joins_on(r="x")),
    row("exp", "x", "/ x", lambda np, p, x: np.exp(x), INEXACT, joins=joins_on(r="x")),
    row("exp2", "x", "/ x", lambda np, p, x: np.exp2(x), INEXACT, joins=joins_on(r="x")),
    row("expm1", "x", "/ x", lambda np, p, x: np.expm1(x), INEXACT, joins=joins_on(r="x")),
    row("log", "x", "/ x", lambda np, p, x: np.log(x), INEXACT, joins=_FROM_A_POINT_ON),
    row("log2", "x", "/ x", lambda np, p, x: np.log2(x), INEXACT, joins=_FROM_A_POINT_ON),
    row("log1p", "x", "/ x", lambda np, p, x: np.log1p(x), INEXACT, joins=_FROM_A_POINT_ON),
    row("logistic", "x", "/ x", _logistic, INEXACT, joins=joins_on(r="x")),
    row("sin", "x", "/ x", lambda np, p, x: np.sin(x), INEXACT),
    row("cos", "x", "/ x", lambda np, p, x: np.cos(x), INEXACT),
    row("tan", "x", "/ x", lambda np, p, x: np.tan(x), INEXACT),
    row("asin", "x", "/ x", lambda np, p, x: np.arcsin(x), INEXACT),
    row("acos", "x", "/ x", lambda np, p, x: np.arccos(x), INEXACT),
    row("atan", "x", "/ x", lambda np, p, x: np.arctan(x), INEXACT, joins=joins_on(r="x")),
    row("sinh", "x", "/ x", lambda np, p, x: np.sinh(x), INEXACT, joins=joins_on(r="x")),
    row("cosh", "x", "/ x", lambda np, p, x: np.cosh(x), INEXACT),
    row("tanh", "x", "/ x", lambda np, p, x: np.tanh(x), INEXACT, joins=joins_on(r="x")),
    row("asinh", "x", "/ x", lambda np, p, x: np.arcsinh(x), INEXACT, joins=joins_on(r="x")),
    row("acosh", "x", "/ x", lambda np, p, x: np.arccosh(x), INEXACT, joins=_FROM_A_POINT_ON),
    row("atanh", "x", "/ x", lambda np, p, x: np.arctanh(x), INEXACT),
    row("erf", "x", "/ x", _erf, "f", joins=joins_on(r="x")),
    row("erf_inv", "x", "/ x", _erf_inv, "f"),
    Primitive("reduce_precision", ("x",), "/ x", aligned, _reduced_precision_dtype, kernel=_reduce_precision,
              accepts="f", joins=joins_on(r="x")),
    # linear in the coefficients, c₀ + c₁x + … , and not in x
    row("polynomial", "x c...", "c... / x", _polynomial, NUMBERS),
    # choices and conversions
    Primitive("select_n", ("which", "x..."), "x... ; which", _chosen, like_operands(1), kernel=_select,
              accepts="iub", joins="x"),
    Primitive("convert_element_type", ("x",), _conversion, aligned, named_dtype("new_dtype"), "printed", _convert,
              joins=_conversion_joins),
    # without a derivative
    row("eq", "x y", "; x y", lambda np, p, x, y: x == y, dtypes=truth),
    row("ne", "x y", "; x y", lambda np, p, x, y: x != y, dtypes=truth),
    row("ge", "x y", "; x y", lambda np, p, x, y: x >= y, "fiub", dtypes=truth, joins=_HIGHER),
    row("gt", "x y", "; x y", lambda np, p, x, y: x > y, "fiub", dtypes=truth, joins=_HIGHER),
    row("le", "x y", "; x y", lambda np, p, x, y: x <= y, "fiub", dtypes=truth, joins=_LOWER),
    row("lt", "x y", "; x y", lambda np, p, x, y: x < y, "fiub", dtypes=truth, joins=_LOWER),
    row("is_finite", "x", "; x", lambda np, p, x: np.isfinite(x), "f", dtypes=truth),
)
# fmt: on
