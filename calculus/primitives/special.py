"""Special functions: elementwise, nonlinear in every operand, and differentiable in theory wherever they are defined,
whether JAX has the derivative or not. Their kernels are the textbook series, one element at a time.

Those that fall or rise all the way commute with a pending maximum and minimum; the incomplete gamma and beta functions
are NaN below zero, so they do with one kind in the operands in which they rise or fall (`calculus.signatures`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from calculus.primitives.declaration import Kernel, Primitive, Site, joins_on
from calculus.primitives.elementwise import row

_Function: TypeAlias = Callable[..., float]

_NAN: Final = math.nan
_MANY: Final = 1e6
"""From here on the incomplete functions are taken for their limits: the series would need as many steps."""

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""The Bernoulli numbers B₂, B₄, …"""


def _each(function: _Function) -> Kernel:
    """The kernel that takes a function of numbers element by element."""

    def kernel(np: Any, p: Any, *operands: Any) -> Any:
        return np.vectorize(function, otypes=[operands[0].dtype])(*operands)

    return kernel


def _lgamma(x: float) -> float:
    """ln |Γ(x)|, infinite at the poles."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def _digamma(x: float) -> float:
    """The derivative of ln Γ: reflected from the left, stepped up to where the asymptotic series holds."""
    if x == 0:
        return -math.inf
    if x < 0:
        if math.isinf(x) or x.is_integer():
            return _NAN
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    found = 0.0
    while x < 10:
        found -= 1 / x
        x += 1
    series = sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1)) if x < _MANY else 0.0
    return found + math.log(x) - 0.5 / x - series


def _zeta(x: float, q: float) -> float:
    """Hurwitz' Σ (q + n)⁻ˣ over n ≥ 0, by Euler and Maclaurin. At q = 0, -1, … an even power is infinite, and another
    undefined."""
    if x == 1:
        return math.inf
    if q <= 0:
        if math.isinf(q) or q.is_integer():
            return math.inf if math.isfinite(x) and x % 2 == 0 else _NAN
        if not x.is_integer():
            return _NAN
    if not (1 < x < math.inf) or not q < math.inf:
        return _NAN
    found = 0.0
    while q < 10:
        found += _power(q, -x)
        q += 1
    term = _power(q, -x)
    found += term * q / (x - 1) + term / 2
    for k, bernoulli in enumerate(_BERNOULLI if term else (), 1):
        term *= x / q if k == 1 else (x + 2 * k - 3) * (x + 2 * k - 2) / (q * q)
        found += bernoulli / math.factorial(2 * k) * term
    return found


def _power(x: float, y: float) -> float:
    try:
        return float(x**y)
    except OverflowError:
        return math.copysign(math.inf, x) if y % 2 else math.inf
    except ZeroDivisionError:
        return math.inf


def _polygamma(n: float, x: float) -> float:
    """The derivative of order n of the digamma function."""
    if n == 0:
        return _digamma(x)
    if not (0 < n < math.inf) or not n.is_integer():
        return _NAN
    return (1 if n % 2 else -1) * (math.gamma(n + 1) if n < 170 else math.inf) * _zeta(n + 1, x)


def _outside(a: float, x: float) -> bool:
    """Where the incomplete gamma functions are undefined."""
    return not (a >= 0 and x >= 0) or (a == 0 and x == 0) or (math.isinf(a) and math.isinf(x))


def _lower(a: float, x: float) -> tuple[float, bool]:
    """The one of the regularized incomplete gamma functions that is computed without cancelling, P(a, x) or
    Q(a, x) = 1 - P(a, x), and whether it is P."""
    if a == 0 or math.isinf(x):
        return 0.0, False
    if x == 0 or math.isinf(a):
        return 0.0, True
    if a > _MANY:  # Temme's uniform expansion, its first term
        part = (x - a) / a
        eta = math.copysign(math.sqrt(max(0.0, 2 * (part - (math.log(x) - math.log(a))))), part)
        return math.erfc(abs(eta) * math.sqrt(a / 2)) / 2, part < 0
    scale = math.exp(a * math.log(x) - x - _lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while abs(term) > abs(total) * 1e-17:
            n += 1
            term *= x / n
            total += term
        return min(total * scale, 1.0), True
    # Lentz: the continued fraction of Q
    b, tiny = x + 1 - a, 1e-300
    c, d = 1 / tiny, 1 / b
    found = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b or tiny)
        c = b + step / c or tiny
        found *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return min(found * scale, 1.0), False


def _igamma(a: float, x: float) -> float:
    """P(a, x), from 0 at x = 0 to 1."""
    if _outside(a, x):
        return _NAN
    found, lower = _lower(a, x)
    return found if lower else 1 - found


def _igammac(a: float, x: float) -> float:
    """Q(a, x) = 1 - P(a, x)."""
    if _outside(a, x):
        return _NAN
    found, lower = _lower(a, x)
    return 1 - found if lower else found


def _igamma_grad_a(a: float, x: float) -> float:
    """∂P/∂a, term by term: P = xᵃ e⁻ˣ Σ xⁿ / Γ(a + n + 1)."""
    if not (a > 0 and x >= 0) or math.isinf(x):
        return _NAN
    if x == 0:
        return 0.0
    if math.isinf(a):
        return _NAN
    if a > _MANY:
        return -math.exp(-((x / a - 1) ** 2) * a / 2) / math.sqrt(2 * math.pi * a) if x < 2 * a else 0.0
    if x > a + 60 * math.sqrt(a) + 1000:
        return 0.0
    logarithm, digamma = math.log(x), _digamma(a + 1)
    term = math.exp(a * logarithm - x - _lgamma(a + 1))
    found, n = 0.0, a + 1
    while True:
        part = term * (logarithm - digamma)
        found += part
        if n > x and abs(part) <= abs(found) * 1e-17:
            return found
        term *= x / n
        digamma += 1 / n
        n += 1


def _betainc(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, from 0 at x = 0 to 1 at x = 1: it falls in a and rises in b."""
    if not (a >= 0 and b >= 0 and 0 <= x <= 1) or a == b == 0 or (math.isinf(a) and math.isinf(b)):
        return _NAN
    if x in (0, 1):
        return float(x)
    if 0 in (a, b) or math.inf in (a, b):
        return float(a == 0 or b == math.inf)
    if max(a, b) > _MANY:  # of two gamma variables with large parameters the quotient is nearly certain
        if min(a, b) > _MANY:
            mean = 1 / (1 + b / a)
            return 0.5 if x == mean else float(x > mean)
        return _igamma(a, min(b * x, 1e300)) if b > a else _igammac(b, min(a * (1 - x), 1e300))
    if x > (a + 1) / (a + b + 2):
        return 1 - _betainc(b, a, 1 - x)
    scale = math.exp(a * math.log(x) + b * math.log1p(-x) + _lgamma(a + b) - _lgamma(a + 1) - _lgamma(b))
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    found = d
    for m in range(1, 10_000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            found *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return min(scale * found, 1.0)


def _bessel(order: int) -> _Function:
    """e^(-|x|) times the modified Bessel function of the first kind, of order 0 or 1: its power series, or where x is
    large the asymptotic one."""

    def function(x: float) -> float:
        if math.isnan(x):
            return x
        size = abs(x)
        if size < 30:
            term = total = (size / 2) ** order
            k = 0
            while term > total * 1e-18:
                k += 1
                term *= size * size / (4 * k * (k + order))
                total += term
            total *= math.exp(-size)
        else:
            term = total = 1.0
            for k in range(1, 20):
                term *= ((2 * k - 1) ** 2 - 4 * order) / (8 * k * size)
                total += term
            total /= math.sqrt(2 * math.pi) * math.sqrt(size)
        return math.copysign(total, x) if order else total

    return function


def _row(name: str, operands: str, function: _Function, joins: str | Callable[[Site], str] = "") -> Primitive:
    return row(name, operands, f"/ {operands}", _each(function), "f", joins=joins)


SPECIAL = (
    _row("erfc", "x", math.erfc, joins_on(r="-x")),
    _row("lgamma", "x", _lgamma),
    _row("digamma", "x", _digamma),
    # defined for whole n alone, so without a derivative in it
    row("polygamma", "n x", "/ x ; n", _each(_polygamma), "f"),
    _row("zeta", "x q", _zeta),
    _row("igamma", "a x", _igamma, joins_on(r="-min(a) | min(x)")),
    _row("igammac", "a x", _igammac, joins_on(r="min(a) | -min(x)")),
    _row("igamma_grad_a", "a x", _igamma_grad_a),
    _row("regularized_incomplete_beta", "a b x", _betainc, joins_on(r="-min(a) | min(b)")),
    _row("bessel_i0e", "x", _bessel(0)),
    _row("bessel_i1e", "x", _bessel(1)),
)
