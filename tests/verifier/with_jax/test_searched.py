"""The programs of the ledger that a search refutes are typed so by JAX: each equation of them stands, with its types,
in what JAX traces of the entry's own program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from grammar.read import read
from verifier.ledger import SEARCH, ledger
from verifier.texts import programs_of

RELEASE = "0.12.0.1"
pytestmark = pytest.mark.skipif(jax.__version__ != RELEASE, reason=f"the programs are as JAX {RELEASE} types them")

COPY, CUT, PENDING = P(), P("X"), P(unreduced={"X"})


def region(f: Callable[..., Any], spec: Any = CUT, out: Any = COPY) -> Callable[..., Any]:
    """Per-device code; the mesh is set later."""
    return partial(_mapped, f, spec, out)


def _mapped(f: Callable[..., Any], spec: Any, out: Any, *given: Any) -> Any:
    return jax.shard_map(f, in_specs=spec, out_specs=out)(*given)


def cell(x: Any) -> Any:
    made = jax.new_ref(jnp.ones(2))
    made[...] = x
    return jax.freeze(made)


def doubled(x: Any) -> Any:
    return jax.jit(lambda v: v * 2, out_shardings=P())(x)


def bound(name: str, **parameters: Any) -> Callable[..., Any]:
    primitives = {**vars(jax.extend.core.primitives), **vars(jax._src.lax.parallel)}
    return lambda *given: primitives[name].bind(*given, **parameters)


def callback(v: Any) -> Any:
    return jax.pure_callback(lambda x: x, v, v)


def effectful(v: Any) -> Any:
    return jax.experimental.io_callback(lambda x: x, v, v)


def untracked(x: Any) -> Any:
    return jax.shard_map(lambda x: x.sum(), in_specs=CUT, out_specs=PENDING, check_vma=False)(x)


def chosen(w: Any, x: Any) -> Any:
    branches = (lambda w, x: (x * w).sum(), lambda w, x: x.sum())
    return lax.psum(lax.cond(lax.axis_index("X") == 0, *branches, w, x), "X")


def whole(c: Any) -> Any:
    return c[0] + 1, jnp.float32(1), c[2] + c[1]


def einsum(v: Any) -> Any:
    return jnp.einsum("i,i->", v, v, out_sharding=PENDING)


F32 = np.float32
PROGRAMS: dict[int, tuple[Callable[..., Any], list[tuple[Any, tuple[int, ...], Any]]]] = {
    12: (
        region(bound("vary_unreduced_cast_p", axes=("X", "Y")), CUT, P(unreduced={"X", "Y"})),
        [(F32, (2,), CUT)],
    ),
    13: (
        region(lambda v: lax.pmax(v, "X"), P("X", unreduced={"Y"}), P(unreduced={"Y"})),
        [(F32, (2,), P("X", unreduced={"Y"}))],
    ),
    42: (
        lambda x: bound("random_gamma_p", log_space=False)(jax.random.key(0), x),
        [(F32, (), PENDING)],
    ),
    43: (region(lambda k: lax.rng_bit_generator(k, (1,))[1]), [(np.uint32, (8,), CUT)]),
    55: (jax.grad(region(chosen, (P(), CUT))), [(F32, (), P()), (F32, (4,), CUT)]),
    62: (region(lambda v: lax.cond(v[0] > 1.0, lambda: 1.0, lambda: 2.0)), [(F32, (2,), CUT)]),
    63: (region(lambda v: lax.fori_loop(0, v[0], lambda i, c: c + 1, 0)), [(np.int32, (2,), CUT)]),
    64: (region(lambda v: lax.pmax(v, "X", axis_index_groups=[[0, 1], [2, 3]])), [(F32, (4,), CUT)]),
    65: (region(callback), [(F32, (2,), CUT)]),
    66: (region(effectful), [(F32, (2,), CUT)]),
    67: (lambda z: lax.while_loop(lambda c: c[0] < 3, whole, (0, z, z))[2], [(F32, (), PENDING)]),
    68: (lambda p, v: lax.cond(p, lambda v: 1.0, einsum, v), [(np.bool_, (), P()), (F32, (4,), CUT)]),
    69: (lambda z: lax.scan(lambda c, _: (1.0, c), z, length=2), [(F32, (), PENDING)]),
    71: (cell, [(F32, (2,), P(None, unreduced={"X"}))]),
    72: (lambda x, w: x @ w, [(F32, (4, 4), P("X", None)), (F32, (4, 2), P("X", None))]),
    73: (doubled, [(F32, (4,), CUT)]),
    116: (lambda x: jax.jvp(lambda x: x + x, (x,), (1.0,)), [(F32, (), PENDING)]),
    142: (jax.grad(lambda x: jax.reshard(untracked(x), COPY)), [(F32, (4,), CUT)]),
}
COUNTS = {12: (2, 2), 13: (2, 2), 64: (4,)}
ELSEWHERE = {3, 6, 16, 45, 58, 59, 10, 70, 94}
"""Cells, which `agree --matrix` holds against JAX; of 64 bits; a rule where it is called; a derivative, simplified."""


def equations(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for program in programs_of(read(text)):
        for equation in program.equations:
            yield equation.primitive, tuple(map(str, equation.types))


def test_all_programs_of_searches_are_here() -> None:
    searched = {entry.number for entry in ledger() if entry.counterexample and entry.counterexample.by == SEARCH}
    assert searched == {*PROGRAMS, *ELSEWHERE}


@pytest.mark.parametrize("number", PROGRAMS)
def test_jax_types_it_so(number: int) -> None:
    counterexample = ledger()[number - 1].counterexample
    assert counterexample is not None
    f, given = PROGRAMS[number]
    sizes = COUNTS.get(number, (2,))
    mesh = jax.make_mesh(sizes, ("X", "Y")[: len(sizes)], axis_types=(jax.sharding.AxisType.Explicit,) * len(sizes))
    with jax.set_mesh(mesh):
        types = [
            jax.ShapeDtypeStruct(shape, dtype, sharding=jax.NamedSharding(mesh, spec)) for dtype, shape, spec in given
        ]
        traced = {*equations(str(jax.make_jaxpr(f)(*types)))}
    assert traced >= {*equations(counterexample.gradient or counterexample.program)}
