"""Every primitive that JAX differentiates has a derivative and a transpose here, or stands in a list with a reason."""

from __future__ import annotations

import importlib

import pytest
from jax.interpreters import ad

from calculus.linearization import differentiable
from calculus.primitives import TABLE
from calculus.refusals import Refused
from tests.laws.test_derivative_rows import Derived
from verifier.samples import Sample, samples

for module in ("jax.lax.linalg", "jax.random", "jax.scipy.special", "jax.numpy.linalg"):
    importlib.import_module(module)

THEIRS = {one.name.removesuffix("_p") for one in ad.primitive_jvps} & set(TABLE)

WITHOUT: dict[str, str] = {
    "eigh": "of some of the eigenvalues there is no derivative in JAX either",
    "svd": "of full matrices, and of some of the singular values, there is no derivative in JAX either",
    "regularized_incomplete_beta": "in its parameters, a and b, there is no derivative in JAX either",
    "scatter-mul": "where updates meet, an update has the product of the others; JAX has none there either",
    **dict.fromkeys(
        ("max-c", "min-c", "clamp-c", "cummax-c", "cummin-c"),
        "JAX has no order of complex numbers to choose the derivative by",
    ),
}
"""What JAX has a rule for, and we have none: primitives, or what they are of one class of dtypes, and why."""


def refused(sample: Sample) -> str:
    """Why the derivative of a sample call, or its transpose, is refused; empty where it is not."""
    if not any(map(differentiable, sample.operands)):
        return ""
    derived = Derived(sample)
    derived.flows = [*map(differentiable, sample.operands)]
    try:
        if any(derived.linearized().nonzero):
            derived.transposed()
    except Refused as found:
        return found.refusal.message
    return ""


def test_there_is_something_to_compare() -> None:
    assert len(THEIRS) > 100


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_what_jax_differentiates_is_differentiated(name: str) -> None:
    why = {found: (str(found), reason) for found in samples(name) if (reason := refused(found))}
    kinds = {f"{name}-{found.kind}" for found in why}
    assert all(name in WITHOUT or kind in WITHOUT for kind in kinds), [*why.values()][:1]
    assert name not in WITHOUT or kinds
    assert {kind for kind in WITHOUT if kind[:-1] == f"{name}-"} <= kinds


def test_the_list_names_what_jax_differentiates() -> None:
    assert {name for name in WITHOUT if name not in THEIRS and name[:-2] not in THEIRS} == set()
