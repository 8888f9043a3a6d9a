"""Arithmetic as JAX's, held against JAX: literals, rounding, overflow, conversions, keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from grammar.read import read
from verifier.execution.arithmetic import CannotRun, merged, number
from verifier.execution.texts import run_text


def results(function: Callable[..., Any], *operands: Any) -> list[tuple[Any, Any]]:
    """What JAX computes, and what we do of the program that it prints, on the same numbers."""
    text = str(jax.make_jaxpr(function)(*operands))
    inputs = read(text).program.inputs
    given = {name: np.asarray(value) for name, value in zip(inputs, operands, strict=True)}
    ran = run_text(text, [], "printed", given=given)
    assert ran.outcome is not None, ran.report.refusals
    assert ran.outcome.equal, ran.outcome.problems
    expected = jax.tree.leaves(jax.jit(function)(*operands))
    return [(np.asarray(want), one.value) for want, one in zip(expected, ran.outcome.results, strict=True)]


#: no subnormal numbers: XLA on CPU takes them for zero
SPECIAL = np.array([0.0, -0.0, 1.0, 1.0078125, 3.1415927, 1e38, -1e38, np.inf, -np.inf, np.nan, 65504.0], np.float32)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    "function",
    [lambda x: x + x, lambda x: x * x, lambda x: -x],
    ids=["sum", "square", "neg"],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_narrow_floats_round_as_jax_does(function: Callable[..., Any], dtype: str) -> None:
    for expected, found in results(function, SPECIAL.astype(dtype)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_integers_wrap() -> None:
    x = np.array([2**31 - 1, -(2**31), 5], np.int32)
    for expected, found in results(lambda x: (x + 1, x * 3, -x, jnp.abs(x)), x):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8", "uint8", "bool"])
def test_floats_become_integers_as_xla_converts_them(dtype: str) -> None:
    x = np.array([1.9, -1.9, 3e9, -3e9, np.inf, -np.inf, np.nan, 200.5, -0.5], np.float32)
    for expected, found in results(lambda x: x.astype(dtype), x):
        np.testing.assert_array_equal(found, expected)


def test_nan_and_infinity() -> None:
    functions = (jnp.sqrt, jnp.log, jnp.exp, lambda x: x / 0.0, lambda x: jnp.maximum(x, 1), jnp.sign, jnp.floor)
    for expected, found in results(lambda x: [one(x) for one in functions], SPECIAL):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_keys() -> None:
    def draws(seed: Any) -> Any:
        key = jax.random.key(seed)
        first, second = jax.random.split(key)
        other = jax.random.fold_in(second, 7)
        return (
            jax.random.bits(first, (3, 4)), jax.random.uniform(other, (5,)), jax.random.key_data(key),
            jax.random.bits(key, (7,), "uint8"), jax.random.randint(second, (6,), 0, 100),
        )  # fmt: skip

    for expected, found in results(draws, np.int32(42)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5:f32[]", 1.5), ("-inf:f32[]", -np.inf), ("True:bool[]", True), ("False:bool[]", False), ("7:i32[]", 7),
        ("4294967295:u32[]", 2**32 - 1), ("(1+2j):c64[]", 1 + 2j), ("1e-05:bf16[]", float(ml_dtypes.bfloat16(1e-5))),
        ("-1:i8[]", -1), ("nan:f32[]", np.nan),
    ],
)  # fmt: skip
def test_literals(text: str, expected: Any) -> None:
    program = read(f"{{ lambda ; . let  in ({text},) }}").program
    np.testing.assert_equal(number(program.outputs[0]).astype(type(expected)).item(), expected)  # type: ignore[arg-type]


def test_an_array_that_is_printed_as_a_literal_is_not_read() -> None:
    (literal,) = read("{ lambda ; . let  in ([1 2]:i32[2],) }").program.outputs
    with pytest.raises(CannotRun):
        number(literal)  # type: ignore[arg-type]


def test_sums_of_narrow_floats_are_rounded_once() -> None:
    """1 + 2⁻⁹ + 2⁻⁹ is 1.00390625, which rounds up in bfloat16; rounding after each step would lose both."""
    parts = [np.asarray(value).astype("bfloat16") for value in (1.0, 2**-8, 2**-8)]
    assert float(merged("sum", parts)) == 1.0078125
