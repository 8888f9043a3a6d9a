"""Rows of the table beside JAX's own rules, where arrays are cut: of each function below, at each placement of its
arguments that JAX types, the program of its results and of the cotangents of its arguments that we derive communicates,
by our checker, as the one that JAX prints, and its results have the same types.

Where JAX fails to transpose what it has typed, ours is well typed all the same.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.equivalence import difference
from calculus.gradients import vjp
from calculus.naming import tidy
from calculus.programs import Literal, Program
from calculus.types import Type, same
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from verifier.texts import check_text

if jax.__version_info__ < (0, 12):
    pytest.skip("the older JAX types no cotangents: it has neither reduced values nor casts", allow_module_level=True)

P = jax.P
MESH = parse_meshes("X=2")


PRODUCT: Any = jax.make_jaxpr(jnp.prod)(jnp.ones(2)).jaxpr.eqns[-1].primitive


class Case(NamedTuple):
    """A function and its arguments: floating ones, by shape. fails: at how many placements JAX fails to transpose it.
    why: where our program is written otherwise than JAX's."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    fails: int = 0
    why: str = ""


def convolution(**said: Any) -> Callable[..., Any]:
    """A convolution along one dim, with the features last."""
    usual: dict[str, Any] = {"window_strides": (1,), "padding": ((0, 0),), "dimension_numbers": ("NWC", "WIO", "NWC")}
    return lambda x, kernel: lax.conv_general_dilated(x, kernel, **usual | said)


def pooled(start: Any, combine: Any, window: tuple[int, ...], strides: tuple[int, ...], padding: Any) -> Any:
    return lambda x: lax.reduce_window(x, start, combine, window, strides, padding)


def places() -> Any:
    return lax.iota("int32", 3) * 2


TO_ROWS = (8, 4), (3, 4)

# fmt: off
CASES: dict[str, Case] = {
    "a convolution": Case(convolution(padding="SAME"), ((4, 8, 4), (3, 4, 6))),
    "a convolution, strided": Case(convolution(window_strides=(2,)), ((4, 8, 4), (2, 4, 6))),
    "a convolution, dilated": Case(convolution(rhs_dilation=(2,), padding=((1, 2),)), ((4, 8, 4), (2, 4, 6))),
    "a convolution, transposed": Case(convolution(lhs_dilation=(2,), padding=((1, 1),)), ((4, 8, 4), (2, 4, 6))),
    "a convolution of groups": Case(convolution(feature_group_count=2), ((4, 8, 4), (3, 2, 8))),
    "a convolution of batches": Case(convolution(batch_group_count=2), ((4, 8, 4), (3, 4, 8)), fails=1),
    "a convolution of images": Case(
        lambda x, k: lax.conv(x, k, (1, 1), "SAME"), ((4, 2, 8, 8), (6, 2, 3, 3))),
    "a convolution of narrow numbers": Case(
        lambda x, k: convolution(preferred_element_type=jnp.float32)(x.astype("bfloat16"), k.astype("bfloat16")),
        ((4, 8, 4), (3, 4, 6))),
    "sums of windows": Case(pooled(0.0, lax.add, (1, 3), (1, 1), "SAME"), ((4, 8),)),
    "sums of windows, strided": Case(pooled(0.0, lax.add, (1, 2), (1, 2), "VALID"), ((4, 8),), fails=1),
    "maxima of windows": Case(pooled(-np.inf, lax.max, (1, 3), (1, 2), "SAME"), ((4, 8),)),
    "minima of windows": Case(pooled(np.inf, lax.min, (1, 2), (1, 2), "VALID"), ((4, 8),)),
    "products along a dim": Case(lambda x: lax.cumprod(x, 1, reverse=True), ((4, 8),)),
    "maxima along a dim": Case(lambda x: lax.cummax(x, 1), ((4, 7),)),
    "minima along a dim": Case(lambda x: lax.cummin(x, 0), ((4, 8),)),
    "logarithms of sums along a dim": Case(lambda x: lax.cumlogsumexp(x, 1), ((4, 8),)),
    "a product": Case(lambda x: PRODUCT.bind(x, axes=(1,)), ((4, 8, 2),), fails=3),
    "updates added": Case(lambda x, u: x.at[places()].add(u), TO_ROWS),
    "updates subtracted": Case(lambda x, u: x.at[places()].subtract(u), TO_ROWS),
    "updates written once": Case(lambda x, u: x.at[places()].set(u, unique_indices=True), TO_ROWS),
    "updates written": Case(
        lambda x, u: x.at[places()].set(u), TO_ROWS, fails=2, why="ours looks up in the scatter's own mode"),
    "an update written": Case(lambda x, u: x.at[places()[1]].set(u), ((8, 4), (4,))),
    "updates multiplied": Case(lambda x, u: x.at[places()].multiply(u, unique_indices=True), TO_ROWS),
    "greatest updates": Case(lambda x, u: x.at[places()].max(u), TO_ROWS),
    "least updates": Case(lambda x, u: x.at[places()].min(u, mode="clip"), TO_ROWS),
    "updates of each row": Case(jax.vmap(lambda x, u: x.at[places()].add(u)), ((4, 8), (4, 3))),
    "lookups of each row": Case(jax.vmap(lambda x: x[places()]), ((4, 8),)),
    "lookups, zeros elsewhere": Case(lambda x: x.at[places()].get(mode="fill", fill_value=0), ((8, 4),)),
    "in order": Case(lambda x: lax.sort(x, dimension=1), ((4, 8),)),
    "in order by another": Case(lambda x, y: lax.sort((x, y), dimension=1, num_keys=1)[1], ((4, 8), (4, 8))),
    "the first few": Case(lambda x: lax.top_k(x, 3)[0], ((4, 8),)),
    "about the first few": Case(
        lambda x: lax.approx_max_k(x, 3)[0], ((4, 8),), why="what stands there is looked up where it is known to be"),
    "tiles": Case(lambda x: lax.tile(x, (2, 3)), ((4, 8),)),
    "bounds": Case(lax.clamp, ((4, 8), (4, 8), (4, 8)), fails=6),
    "the greatest": Case(lambda x: jnp.max(x, 1), ((4, 8),)),
    "a part": Case(lambda x: lax.dynamic_slice(x, (places()[1], 0), (2, 4)), ((8, 4),)),
    "an update": Case(lambda x, u: lax.dynamic_update_slice(x, u, (places()[1], 0)), ((8, 4), (2, 4))),
}
# fmt: on


def placements(case: Case) -> Iterator[tuple[Any, ...]]:
    """Each argument cut on each of its dims, or on none."""
    yield from itertools.product(
        *([P(), *(P(*(None,) * dim, "X") for dim in range(len(shape)))] for shape in case.shapes)
    )


def printed(function: Callable[..., Any], arguments: list[Any]) -> str:
    return str(jax.make_jaxpr(function)(*arguments).jaxpr.pretty_print(use_color=False))


def types_of(program: Program) -> list[Type]:
    types = dict(zip(program.inputs, program.input_types, strict=True))
    for one in program.equations:
        types.update(zip(one.binders, one.types, strict=True))
    found = [atom.type if isinstance(atom, Literal) else types[atom] for atom in program.outputs]
    assert None not in found
    return found  # type: ignore[return-value]


def communication(text: str) -> list[tuple[object, ...]]:
    report = check_text(text, MESH, "it")
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    return sorted((row.kind, row.axes, row.bytes, row.times) for row in report.communication)


def ours(forward: str, count: int) -> str:
    """Our program of the results and cotangents; none where the types that JAX gives the call are another matter."""
    program, checker = read(forward).program, Checker(MESH)
    checker.check(program)
    if checker.refusals:
        return ""
    return print_document(tidy(vjp(program, Workbench(checker), range(count))))


@pytest.mark.parametrize("name", CASES)
def test_a_row_communicates_as_jax_does(name: str) -> None:
    case = CASES[name]
    mesh = jax.make_mesh((2,), ("X",), devices=jax.devices()[:2])
    compared = failed = 0
    count = len(case.shapes)
    for specs in placements(case):
        with jax.set_mesh(mesh), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arguments = [
                jax.ShapeDtypeStruct(shape, jnp.float32, sharding=jax.NamedSharding(mesh, spec))
                for shape, spec in zip(case.shapes, specs, strict=True)
            ]
            try:
                forward = printed(case.function, arguments)
            except Exception:  # noqa: BLE001  # JAX does not type it: there is nothing to compare
                continue
            result = jax.eval_shape(case.function, *arguments)
            seed = jax.ShapeDtypeStruct(result.shape, result.dtype, sharding=result.sharding)

            def both(*values: Any) -> Any:
                found, pull = jax.vjp(case.function, *values[:count])
                return found, *pull(values[count])

            try:
                theirs = printed(both, [*arguments, seed])
            except Exception:  # noqa: BLE001  # JAX fails on what it has typed itself
                theirs = ""
        mine = ours(forward, count)
        if not mine:
            continue
        moved = communication(mine)
        if not theirs:
            failed += 1
            continue
        assert moved == communication(theirs), specs
        one, other = read(mine).program, read(theirs).program
        assert all(same(left, right) for left, right in zip(types_of(one), types_of(other), strict=True)), specs
        assert (difference(one, other) == "") is not bool(case.why), specs
        compared += 1
    assert compared >= 1
    assert failed == case.fails
