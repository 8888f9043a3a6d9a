"""Rows of the special functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calculus.parameters import flag
from calculus.primitives.declaration import Site

_GAMMA: Final = "exp(-{x} + (a - 1) * log({x}) - lgamma(a))"
"""The density of the gamma distribution."""

_BETA: Final = "exp((b - 1) * log1p(-x) + (a - 1) * log(x) - (lgamma(a) + lgamma(b) - lgamma(a + b)))"
"""The density of the beta distribution."""


def sampled(site: Site) -> str:
    """Of a sample: with all else that is random held, it moves along P(a, x) = const."""
    x = "exp(result)" if flag(site.parameters, "log_space") else "result"
    slope = f"x = {x}; s = -(igamma_grad_a(a, x) / {_GAMMA.format(x='x')}); "
    return slope + ("g * (s / x)" if flag(site.parameters, "log_space") else "g * s")


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    "digamma": "g * polygamma(full(1, x), x)",
    "polygamma": "x: g * polygamma(n + 1, x)",
    "zeta": "q: -(g * (x * zeta(x + 1, q)))",
    "igamma": f"a: g * igamma_grad_a(a, x); x: g * {_GAMMA.format(x='x')}",
    "igammac": f"a: -(g * igamma_grad_a(a, x)); x: -(g * {_GAMMA.format(x='x')})",
    "igamma_grad_a": f"x: g * ({_GAMMA.format(x='x')} * (log(x) - digamma(a)))",
    "regularized_incomplete_beta": f"x: g * {_BETA}",
    "bessel_i0e": "g * (bessel_i1e(x) - sign(x) * result)",
    "bessel_i1e": (
        "y = select_n(x == 0, x, full(1, x)); "
        "g * select_n(x == 0, bessel_i0e(y) - result * (sign(y) + 1 / y), full(0.5, x))"
    ),
    "random_gamma": sampled,
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {}
