"""Objects and texts of one program are one term. The reference is the reader, on what JAX prints."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType

from bench.programs import Llama
from calculus.programs import Document, Literal, bodies
from grammar.read import read
from tests.golden import printed_features, printed_layouts, printing
from verifier.with_jax.convert import convert, convert_with_origins

X = np.ones((4, 6), np.float32)

#: options of JAX's printer under which its text says more, or less, than `str(program)`
OTHER_TEXTS = {"print_effects", "source_info", "name_stack", "print_shapes", "custom_pp_eqn_rules"}


def traced(function: Any, *arguments: Any) -> Any:
    return jax.make_jaxpr(function)(*arguments)


def same(program: Any) -> Document:
    """The document of a program, which is that of its text."""
    made = convert(program)
    assert made == read(str(program))
    return made


@pytest.mark.parametrize("maker", printing.MAKERS, ids=[maker.__name__ for maker, _ in printing.MAKERS])
def test_the_golden_programs(maker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program of tests/golden/printed, by this release of JAX."""
    compared = 0

    def printed(function: Any, *arguments: Any, **options: Any) -> str:
        nonlocal compared
        program = traced(function, *arguments)
        if not OTHER_TEXTS & options.keys():
            same(program)
            compared += 1
        return ""

    monkeypatch.setattr(printed_features, "printed", printed)
    monkeypatch.setattr(printed_layouts, "printed", printed)
    make, mesh = maker
    with on(mesh):
        make()
    assert (compared == 0) == (make.__name__ in ONLY_OTHER_TEXTS)


#: makers that print nothing with the printer's usual options
ONLY_OTHER_TEXTS = {"source"}


def on(mesh: dict[str, int] | None) -> Any:
    if mesh is None:
        return contextlib.nullcontext()
    grid = jax.make_mesh(tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Explicit,) * len(mesh))
    return jax.set_mesh(grid)


@pytest.mark.parametrize(
    "name",
    [
        "llama_dp_grad_unroll2",
        "llama_dpr_grad_scan2",
        "llama_fsdp_fwd_unroll2",
        "llama_fsdp_grad_unroll8",
        "llama_tp_grad_scan8",
        "llama_tp_fwd_scan8",
    ],
)
def test_the_measured_programs(name: str) -> None:
    same(Llama.named(name).trace())


def test_equal_numbers_that_print_differently() -> None:
    """`(np.int64(4), 6)` and `(4, 6)` are equal in Python, and are not the same text."""

    def function(x: Any) -> Any:
        shapes = [(np.int64(4), 6), (4, 6), (4, np.int32(6))]
        casts = [lax.reduce_precision_p.bind(x, exponent_bits=bits, mantissa_bits=7) for bits in (8, np.int64(8), 8)]
        return [lax.reshape_p.bind(x, new_sizes=s, dimensions=None, sharding=None) for s in shapes], casts

    made = same(traced(function, X))
    assert len({repr(equation.parameters) for equation in made.program.equations}) == 4  # np.int64(8) alone prints 8


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        -0.0,
        1e-38,
        float("inf"),
        float("nan"),
        True,
        3,
        -(2**31),
        1 + 2j,
        np.float32(0.1),
        np.float16(0.1),
        np.int8(-4),
    ],
    ids=repr,
)
def test_literals(value: Any) -> None:
    made = same(traced(lambda x: x * value, np.ones((), np.result_type(value))))
    (equation,) = made.program.equations
    assert any(isinstance(atom, Literal) for atom in equation.inputs)


def test_zeros_keep_their_sign() -> None:
    same(traced(lambda x: [x * value for value in (0.0, -0.0, 0.0, 1.0, True)], 1.0))


def test_names_go_on_past_the_keywords() -> None:
    """The 222nd variable is called `in`; a hoisted definition's name is nobody else's."""

    def ba(x: Any) -> Any:
        return jnp.sin(x) * 2

    def function(x: Any) -> Any:
        for _ in range(250):
            x = jnp.cos(x)
        inner = jax.jit(ba)
        return inner(x) + inner(x)

    made = same(traced(function, 1.0))
    assert [name for name, _ in made.definitions] == ["ba"]
    assert {"in", "bb"} <= {name for equation in made.program.equations for name in equation.binders}
    assert not any("ba" in equation.binders for equation in made.program.equations)


def test_unused_results_are_dropped() -> None:
    inner = jax.jit(lambda x: (jnp.sin(x), x + 1, x))
    made = same(traced(lambda x: inner(x)[1], 1.0))
    (call,) = made.program.equations
    assert call.binders.count("_") == 1 or "_" in call.binders


def test_equations_that_print_the_same_share_their_parameters() -> None:
    weights = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    made = same(traced(lambda w, v: (w @ v) @ w, weights, weights))
    first, second = made.program.equations
    assert first.parameters is second.parameters


def test_origins() -> None:
    """Every equation and program has the object that it came from at its line."""
    inner = jax.jit(lambda x: jnp.sin(x) * 2)

    def function(x: Any) -> Any:
        return lax.cond(x > 0, inner, lambda x: inner(x) + inner(x + 1), x)

    program = traced(function, 1.0)
    found = convert_with_origins(program)
    waiting = [found.document.program]
    places: set[int] = set()
    while waiting:
        made = waiting.pop()
        places.add(made.line)
        origin = found.origins[made.line - 1]
        assert len(origin.eqns) == len(made.equations)
        for equation, eqn in zip(made.equations, origin.eqns, strict=True):
            places.add(equation.line)
            assert found.origins[equation.line - 1] is eqn
            assert equation.primitive == eqn.primitive.name
            waiting += [inner for _, inner in bodies(equation.parameters)]
    assert places == set(range(1, len(found.origins) + 1))


def test_a_closed_program_and_its_inside_are_one() -> None:
    program = traced(jnp.sin, 1.0)
    assert convert(program) == convert(program.jaxpr)


def test_long_sharing_is_not_exponential() -> None:
    """Bodies that call the one before twice: 2^40 calls, 40 definitions."""

    def doubled(inner: Any) -> Any:
        return jax.jit(lambda x: inner(x) + inner(x * 2))

    function = jnp.sin
    for _ in range(40):
        function = doubled(function)
    made = convert(traced(function, 1.0))  # JAX itself would not print it in a lifetime
    assert len(made.definitions) == 39
