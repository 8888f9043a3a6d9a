"""Rows of what acts element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calculus.parameters import integer, required
from calculus.primitives.declaration import Site, real_dtype
from calculus.types import DTYPES, ArrayType, dtype_class


def bounded(site: Site) -> str:
    """Of a clamp: of the bound that is met, or of what lies between. A bound that is one number is broadcast."""
    if is_complex(site):
        return ""

    def met(position: int, where: str) -> str:
        if site.shapes[position] == site.shapes[1]:
            return f"select_n({where}, full(0, result), g)"
        return f"g * select_n({where}, full(0, result), full(1, result))"

    low, between, high = (
        met(position, where)
        for position, where in enumerate(("(low > x) & (low < high)", "(x > low) & (x < high)", "high < x"))
    )
    return f"low: {low}; x: {between}; high: {high}"


def higher(above: str) -> str:
    """Of two numbers the one above has the derivative, and each half of it where they are equal."""
    equal = above.replace(">", "==")
    return f"g * select_n({above}, select_n({equal}, full(0, result), full(0.5, result)), full(1, result))"


def is_complex(site: Site) -> bool:
    """Whether the first operand is complex."""
    return dtype_class(site.dtypes[0] or "f32") == "c"


def power(site: Site) -> str:
    """Of the base, which may be zero to a power of zero; and of an exponent that is no integer."""
    if dtype_class(site.dtypes[1] or "f32") not in "iu":
        at_zero = "select_n(x == 0, x, full(1, x))"
        return f"x: g * (y * pow(x, y - 1)); y: g * (log({at_zero}) * result)"
    long = DTYPES[site.dtypes[0] or "f32"][0]
    factor = f"convert_element_type(y, new_dtype={long}, weak_type=False) * pow(x, y - 1)"
    return f"x: g * select_n(y == 0, {factor}, full(0, result))"


def whole_power(site: Site) -> str:
    """Of a power that is written in the equation."""
    y = integer(required(site.parameters, "y"), "y")
    if y == 0:
        return "0"
    return "g * (2 * x)" if y == 2 else f"g * ({y} * integer_pow(x, y={y - 1}))"


def polynomial(site: Site) -> str:
    """Of the variable, and of each coefficient."""
    powers = range(len(site.shapes) - 1)
    slope = ", ".join(f"{power} * c{power}" for power in powers if power)
    rows = [f"c{power}: g{' * x' * power}" for power in powers]
    return "; ".join([f"x: g * polynomial(x, {slope})" if slope else "x: 0", *rows])


def real_only(row: str) -> Callable[[Site], str]:
    """A row that holds on the reals only."""
    return lambda site: "" if is_complex(site) else row


def complex_sign(site: Site) -> str:
    """Of a complex number z/|z|, which moves along the circle only: i z/|z| ∂arg z."""
    if not is_complex(site):
        return "0"
    size = "abs(x)"
    turn = f"imag(conj(result) * g) / select_n({size} == 0, {size}, full(1, {size}))"
    return f"t = {turn}; result * complex(full(0, t), t)"


def complex_size(site: Site) -> str:
    """Of an absolute value: as the sign says, of a complex number the part along it."""
    if not is_complex(site):
        return "select_n(x >= 0, -g, g)"
    long = DTYPES[site.dtypes[0] or "c64"][0]
    return (
        f"s = convert_element_type(result, new_dtype={long}, weak_type=False); "
        "real(g * (conj(x) / select_n(s == 0, s, full(1, s))))"
    )


def inverse_hyperbolic_sine(site: Site) -> str:
    """Of arsinh 1/√(x² + 1); with max(|x|, 1) taken out of the root no real number is too large for its square."""
    if is_complex(site):
        return "g * rsqrt(square(x) + 1)"
    one = "full(1, x)"
    return f"s = max(abs(x), {one}); r = min(abs(x), {one}) / s; g * (rsqrt(square(r) + 1) / s)"


def conjugated(site: Site, position: int) -> str:
    """Of a conjugate: itself, or the real part where it was given reals."""
    return f"conj(g, input_dtype={site.parameters['input_dtype']})" if is_complex(site) else "real(g)"


def converted_back(site: Site, position: int) -> str:
    """To the dtype of what was converted; of real numbers that became complex ones, the real part."""
    (result,) = site.printed
    embedded = isinstance(result, ArrayType) and result.dtype_class == "c" and not is_complex(site)
    ct = "real(g)" if embedded else "g"
    if embedded and isinstance(result, ArrayType) and real_dtype(result.dtype) == site.dtypes[0]:
        return ct
    return f"convert_element_type({ct}, new_dtype={DTYPES[site.dtypes[0] or 'f32'][0]}, weak_type=False)"


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    # linear beside each other: what one of them gives alone
    "add": "x: g; y: g",
    "add_any": "x: g; y: g",
    "sub": "x: g; y: -g",
    # nothing flows
    **dict.fromkeys(("stop_gradient", "floor", "ceil", "round"), "0"),
    "sign": complex_sign,
    # elementwise
    "div": "y: -g * x * integer_pow(y, y=-2)",
    "rem": "x: g; y: -g * (sign(x / y) * floor(abs(x / y)))",
    "pow": power,
    "integer_pow": whole_power,
    "polynomial": polynomial,
    # complex numbers have no order that a derivative could follow
    "max": real_only(f"x: {higher('x > y')}; y: {higher('y > x')}"),
    "min": real_only(f"x: {higher('y > x')}; y: {higher('x > y')}"),
    "clamp": bounded,
    "atan2": "x: g * (y / (square(x) + square(y))); y: g * (-x / (square(x) + square(y)))",
    "abs": complex_size,
    "nextafter": "x: g",
    "square": "g * (2 * x)",
    "one_minus_square": "g * (-2 * x)",
    "sqrt": "g * (0.5 / result)",
    "rsqrt": "g * (-0.5 * (result / x))",
    "cbrt": "g * (0.3333333333333333 * integer_pow(result, y=-2))",
    "exp": "g * result",
    "exp2": "0.6931471805599453 * (g * result)",
    "expm1": "g * exp(x)",
    "log": "g / x",
    "log2": "g / (x * 0.6931471805599453)",
    "log1p": "g / (x + 1)",
    "logistic": "g * (result * (1 - result))",
    "sin": "g * cos(x)",
    "cos": "-(g * sin(x))",
    "tan": "g * (1 + square(result))",
    "asin": "g * rsqrt(one_minus_square(x))",
    "acos": "g * -rsqrt(one_minus_square(x))",
    "atan": "g / (1 + square(x))",
    "sinh": "g * cosh(x)",
    "cosh": "g * sinh(x)",
    "tanh": "g * one_minus_square(result)",
    "asinh": inverse_hyperbolic_sine,
    "acosh": "g * (rsqrt(x - 1) * rsqrt(x + 1))",
    "atanh": "g / one_minus_square(x)",
    "erf": "1.1283791670955126 * (g * exp(-square(x)))",
    "erfc": "-1.1283791670955126 * (g * exp(-square(x)))",
    "erf_inv": "0.8862269254527579 * (g * exp(square(result)))",
    "lgamma": "g * digamma(x)",
    # rounding is passed through
    "reduce_precision": "g",
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    # the parts of complex numbers, without conjugation
    "real": "complex(g, full(0, g))",
    "imag": "complex(full(0, g), -g)",
    "complex": "x: real(g); y: imag(-g)",
    "conj": conjugated,
    "convert_element_type": converted_back,
}
