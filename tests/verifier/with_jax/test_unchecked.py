"""Functions that JAX refuses, judged by our rules at the very types that they are given. The verdicts are those of the
cases 09, 19, 25, 27, 57 and 33; bytes are worked out beside them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from verifier.functions import FunctionReport
from verifier.ledger import ledger
from verifier.with_jax import cotangents, replaced, unchecked

MESH = AbstractMesh((4,), ("X",), axis_types=(AxisType.Explicit,))
SQUARE = AbstractMesh((2, 2), ("X", "Y"), axis_types=(AxisType.Explicit,) * 2)


def struct(*shape: int, spec: P | None = None, mesh: Any = MESH) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P() if spec is None else spec))


CUT, PIECES = struct(8, spec=P("X")), struct(8, spec=P(None, unreduced={"X"}))


def mapped(body: Callable[[Any], Any], entering: Any = None, leaving: Any = None) -> Callable[[Any], Any]:
    return jax.shard_map(body, in_specs=entering or P("X"), out_specs=P("X") if leaving is None else leaving)


def report(function: Callable[..., Any], *arguments: Any) -> FunctionReport:
    return verifier.check(function, *arguments, mesh=arguments[0].sharding.mesh)


ZERO: Any = 0.0


def looped(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, sum: sum + jnp.sum(x), ZERO)[None]


def repeated(x: Any) -> Any:
    return jax.lax.while_loop(lambda carry: carry[0] < 3, lambda c: (c[0] + 1, c[1] + jnp.sum(x)), (0, ZERO))[1][None]


def scanned(x: Any) -> Any:
    return jax.lax.scan(lambda carry, row: (carry + row, None), ZERO, x)[0][None]


def chosen(x: Any) -> Any:
    return jax.lax.cond(True, lambda x: x, lambda x: jnp.zeros(2), x)


@pytest.mark.parametrize(
    ("body", "code", "both", "cast"),
    [
        (
            looped,
            "carry-type",
            "carry 1 of fori_loop x3, whose counter is carry 0, is f32[] before an iteration and f32[]{V:X} after",
            "initial value",
        ),
        (repeated, "carry-type", "carry 1 of the while loop is f32[] before an iteration and f32[]{V:X}", "initial"),
        (
            scanned,
            "carry-type",
            "carry 0 of scan x2 is f32[] before an iteration and f32[]{V:X} after",
            "initial value",
        ),
        (chosen, "branch-types", "result 0 is f32[2] in branch 0 and f32[2]{V:X} in branch 1", "it in branch 0"),
    ],
)
def test_loops_and_branches_of_two_types(body: Callable[[Any], Any], code: str, both: str, cast: str) -> None:
    """Case 09: a carry that starts as a constant. One cast that is free, at the user's line."""
    found = report(mapped(body), CUT)
    (refusal,) = found.refusals
    assert (refusal.code, refusal.line) == (code, body.__code__.co_firstlineno + 1)
    assert both in refusal.message
    assert refusal.help.startswith(f"cast the {cast}" if cast != "it in branch 0" else f"cast {cast}")
    assert "with pvary over X (free forward" in refusal.help
    assert found.notes[0].startswith("JAX refuses this (TypeError: ")


def test_a_contraction_of_which_one_side_is_whole() -> None:
    """Case 19: sound, and free; what JAX has no type for is named, with its number in the ledger."""

    def product(a: Any, b: Any) -> Any:
        return jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced={"X"}))

    found = report(product, struct(4, 8, mesh=SQUARE), struct(8, 4, spec=P("X"), mesh=SQUARE))
    assert (found.verdict, found.assumed, found.communication) == ("ok", 0, [])
    assert str(found.types["result"]) == "f32[4,4]{U:X}"
    line = product.__code__.co_firstlineno + 1
    assert (
        f"{line}: JAX cannot trace dot_general of f32[4,8], f32[8@X,4]; by the rules here it is f32[4,4]{{U:X}}"
        in (found.notes[1])
    )
    assert "(difference " in found.notes[1]
    assert found.source is not None
    assert (found.source.refused, found.source.entry > 0) == (True, True)
    assert found.notes[1].endswith("JAX takes, as free forward: operand 0 resharded first, to f32[4,8@X]")
    cut = struct(4, 8, spec=P(None, "X"), mesh=SQUARE), struct(8, 4, spec=P("X"), mesh=SQUARE)
    with jax.sharding.use_abstract_mesh(SQUARE):
        assert jax.eval_shape(product, *cut).sharding.spec.unreduced == {"X"}


def test_what_the_ledger_says_to_write_instead_is_taken_by_jax() -> None:
    """And is what is refused, at its type."""
    forms = [form.partition(" for ") for entry in ledger() for form in entry.instead.values() if " for " in form]
    values = {"x": struct(8, 4, spec=P("X")), "s": struct(4, spec=P(None, reduced={"X"}))}
    values["w"] = struct(4, 4, spec=P(None, None, reduced={"X"}))
    assert len(forms) >= 3
    for written, _, refused in forms:
        names = [name for name in values if name in re.findall(r"\w+", refused)]
        taken, ours = (
            eval(f"lambda {', '.join(names)}: {code}", {"jnp": jnp})  # noqa: S307 - forms of ours
            for code in (written, refused)
        )
        given = [values[name] for name in names]
        theirs = report(taken, *given)
        assert not theirs.notes
        assert theirs.types == report(ours, *given).types


def test_specs_that_are_not_those_of_what_enters() -> None:
    """Case 25: the gather that older releases made without a word; f32[8] on each device, 32 bytes."""
    found = report(mapped(jnp.negative, P(None), P(None)), CUT)
    (refusal,) = found.refusals
    assert refusal.code == "boundary-spec"
    assert "reshard operand 0 to f32[8] first (all-gather over X of 32 bytes forward, free backward)" in refusal.help


def test_the_reshard_leaves_alone_what_is_not_manual() -> None:
    """f32[4,4] cut on both dims enters a body that is manual along X: the other cut stays. 4 * 2 * 4 bytes."""
    entered = jax.shard_map(jnp.negative, in_specs=P(None), out_specs=P(None), axis_names={"X"})
    (refusal,) = report(entered, struct(4, 4, spec=P("X", "Y"), mesh=SQUARE)).refusals
    assert refusal.help.startswith("reshard operand 0 to f32[4,4@Y] first (all-gather over X of 32 bytes forward, ")


def test_pieces_that_enter_as_copies_are_refused_without_a_print(capsys: pytest.CaptureFixture[str]) -> None:
    (refusal,) = report(mapped(jnp.negative, P(None), P(None)), PIECES).refusals
    assert (refusal.code, capsys.readouterr().out) == ("boundary-spec", "")


def test_a_body_that_closes_over_an_array() -> None:
    """Case 27: copies are one more argument, whose gradient is one sum of f32[]; what is cut may not enter so."""

    def scaled(w: Any, x: Any) -> Any:
        return mapped(lambda x: x * jnp.sum(w))(x)

    copies = report(jax.grad(lambda w, x: jnp.sum(scaled(w, x))), struct(2), CUT)
    assert (copies.verdict, str(copies.types["result"])) == ("ok", "f32[2]")
    assert [(row.kind, row.bytes) for row in copies.communication] == [("all-reduce", 4)]
    assert [(row.kind, row.bytes) for row in report(scaled, struct(2), CUT).backward().communication] == [
        ("all-reduce", 4)
    ]
    (refusal,) = report(scaled, CUT, CUT).refusals
    assert refusal.code == "boundary-spec"
    assert "operand 0 is w" in refusal.message


@pytest.mark.parametrize(
    ("body", "leaving", "code"),
    [
        (lambda x: x * 2.0, P(), "hidden-variation"),
        (lambda x: jax.lax.pcast(x, "X", to="unreduced"), P(), "boundary-spec"),
        (lambda x: jax.lax.psum(x, "X"), P(unreduced={"X"}), None),
    ],
)
def test_specs_that_are_not_those_of_what_leaves(body: Callable[[Any], Any], leaving: P, code: str | None) -> None:
    """Case 57. Release 0.10.2 casts what leaves as pieces, and then refuses its own cast: of what does not vary."""
    (refusal,) = report(mapped(body, leaving=leaving), CUT).refusals
    assert refusal.code == code if code else refusal.code in ("boundary-spec", "no-cast")


def test_a_map_over_a_dim_that_is_cut_leaves_no_axis_to_a_shard_map() -> None:
    """Case 29: the mapped code runs at one coordinate of X."""
    summed: Any = jax.shard_map(lambda x: jax.lax.psum(x, "X"), in_specs=P(None), out_specs=P(None), axis_names={"X"})

    def each(x: Any) -> Any:
        return jax.vmap(summed)(x)

    rows = struct(4, 8, spec=P("X"))
    found = unchecked.unchecked(each, (rows,), {}, MESH)
    assert found is not None
    (refusal,) = found.calls.refusals
    assert (refusal.code, refusal.line) == ("boundary-spec", each.__code__.co_firstlineno + 1)
    assert "the code around is mapped over a dim that is cut on X" in refusal.message
    assert report(each, rows).verdict == "refused"


def test_a_number_is_what_it_is_where_it_is_known() -> None:
    """Case 33: JAX's numpy takes its numbers as arguments. Of pieces, twice is well typed, plus three is not; plus zero
    is."""
    assert report(lambda v: v * 2.0, PIECES).verdict == "ok"
    assert report(lambda v: v * np.float32(2) / np.sqrt(2.0), PIECES).verdict == "ok"
    (refusal,) = report(lambda v, s: v * s, PIECES, struct()).refusals
    assert (refusal.code, "operand 1, y, is s" in refusal.message) == ("transpose-communicates", True)
    assert report(lambda v: v + 0.0, PIECES).verdict == "ok"
    (refusal,) = report(lambda v: v + 3.0, PIECES).refusals
    assert refusal.code == "state"
    assert "the number 3.0" in refusal.message


def test_a_constant_that_is_cast_sends_nothing_backward() -> None:
    (refusal,) = report(lambda w: jnp.where(w > 0, w, 0.0), struct(4, spec=P(None, reduced={"X"}))).refusals
    assert refusal.code == "transpose-communicates"
    assert "operand 1 is a constant, without a gradient: a cast of it sends nothing backward" in refusal.help
    assert refusal.help.endswith("; as jnp.zeros_like(w) it lies as that does")


def greatest(a: Any, b: Any) -> Any:
    reduced = P(reduced={"X"})
    found = jax.shard_map(jnp.maximum, in_specs=(reduced, reduced), out_specs=reduced)(a, b)
    return jax.reshard(found, P()).sum()


def test_a_call_of_a_derivative_is_told_by_what_is_differentiated() -> None:
    """Nobody has written the product that JAX makes of which is greatest."""
    (refusal,) = report(jax.grad(greatest), WHOLE, WHOLE).refusals
    assert "mul of (reduced, replicated) along X" in refusal.message
    assert refusal.message.endswith("JAX calls it for the derivative of max, which is called on that line")
    assert "before the call of max" in refusal.help
    assert refusal.line == greatest.__code__.co_firstlineno + 2


WHOLE = struct(4, spec=P(None, reduced={"X"}))
PENDING = struct(4, spec=P(None, unreduced={"X"}))


@pytest.mark.parametrize(
    ("written", "argument", "help", "repaired"),
    [
        (
            lambda w: w + jnp.ones(4), WHOLE, "as jnp.full_like(w, 1.0) it lies as that does",
            lambda w: w + jnp.full_like(w, 1.0),
        ),
        (
            lambda w: w * np.ones(4, np.float32), WHOLE, "operand 1 as f32[4]{R:X} is free, and the result is reduced",
            lambda w: w * jax.reshard(np.ones(4, np.float32), P(None, reduced={"X"})),
        ),
        (
            lambda u: jnp.pad(u, 1), PENDING, "jax.lax.pad takes the number itself, 0, and is well typed",
            lambda u: jax.lax.pad(u, 0.0, ((1, 1, 0),)),
        ),
    ],
)  # fmt: skip
def test_a_constant_can_be_written_as_its_repair_says(
    written: Callable[..., Any], argument: Any, help: str, repaired: Callable[..., Any]
) -> None:
    """What is printed is well typed by the rules, and taken by the installed JAX."""
    (refusal,) = report(written, argument).refusals
    assert refusal.help.endswith(help), refusal.help
    found = report(repaired, argument)
    assert (found.verdict, found.communication, [note for note in found.notes if "JAX" in note]) == ("ok", [], [])


@pytest.mark.parametrize(
    ("cut", "scale", "says"),
    [
        ((8, 3, 4), (4,), "jnp.einsum('abc,c->abc', x, s)"),
        ((8, 3, 4), (3, 4), "jnp.einsum('abc,bc->abc', x, s)"),
        ((8, 4), (), "jnp.einsum('ab,->ab', x, s)"),
        ((8, 4), (8, 1), "x * jax.reshard(s, P('X', None))"),
        ((8,), (8,), "x * jax.reshard(s, P('X',))"),
    ],
)
def test_a_reduced_scale_of_any_shape(cut: tuple[int, ...], scale: tuple[int, ...], says: str) -> None:
    """Difference 23: what JAX takes instead is said for these shapes, and JAX takes it, forward and backward."""
    x, s = struct(*cut, spec=P("X")), struct(*scale, spec=P(*[None] * len(scale), reduced={"X"}))
    (note,) = [note for note in report(lambda x, s: x * s, x, s).notes if "JAX takes, as free forward: " in note]
    assert f"JAX takes, as free forward: {says}" in note
    with jax.sharding.use_abstract_mesh(MESH):
        made = eval(f"lambda x, s: ({says}).sum()", {"jnp": jnp, "jax": jax, "P": P})  # noqa: S307 - what is printed
        gradients = jax.eval_shape(jax.grad(made, argnums=(0, 1)), x, s)
    assert "X" in gradients[1].sharding.spec.unreduced


def test_a_derivative_is_typed_where_jax_has_no_rule() -> None:
    """Case 13: the gradient of a reduced kernel is a pending sum, and free. JAX has a type for neither call."""

    def loss(kernel: Any, x: Any) -> Any:
        numbers = ("NHC", "HIO", "NHC")
        return jnp.sum(jax.lax.conv_general_dilated(x, kernel, (1,), "VALID", dimension_numbers=numbers))

    found = report(
        jax.grad(loss), struct(3, 1, 2, spec=P(None, None, None, reduced={"X"})), struct(8, 8, 1, spec=P("X"))
    )
    assert (found.verdict, found.assumed, found.communication) == ("ok", 0, [])
    assert str(found.types["result"]) == "f32[3,1,2]{U:X}"
    calls = [note.partition("JAX cannot trace ")[2].partition(" (")[0] for note in found.notes[1:]]
    assert calls == [
        "conv_general_dilated of f32[8@X,8,1], f32[3,1,2]{R:X}; by the rules here it is f32[8@X,6,2]",
        "conv_general_dilated of f32[8@X,8,1], f32[8@X,6,2]; by the rules here it is f32[3,1,2]{U:X}",
    ]


def test_what_ends_the_trace_is_told_by_the_rule_that_it_breaks() -> None:
    """The argument is closed over, so that there is no other at which JAX would trace it."""
    (refusal,) = report(lambda v: jax.jit(lambda: jnp.cos(v))(), PIECES).refusals
    assert refusal.code == "state"
    assert refusal.trail[0].startswith("at ")


def test_what_is_wrong_for_another_reason_is_jaxs_to_tell() -> None:
    with pytest.raises(TypeError, match=r"pytree|structure"):
        report(lambda v: jax.lax.fori_loop(0, 3, lambda _, carry: (carry, carry), v), CUT)
    with pytest.raises(TypeError, match="shape"):
        report(lambda v: jax.lax.add(v, jnp.zeros(3)), CUT)


def test_cotangents_are_compared_where_jax_refuses_before() -> None:
    """The product is refused first; what is handed in after it is seen all the same."""

    def both(r: Any, v: Any) -> Any:
        return v * 2.0, jax.vjp(lambda r: r + r, r)[1](1.0)

    codes = {refusal.code for refusal in report(both, struct(spec=P(reduced={"X"})), PIECES).refusals}
    assert codes == {"inconsistent-type"}


def test_jax_checks_again_afterwards() -> None:
    """Nothing of what was traced without its checks is remembered, and all places are as they were."""
    function = jax.jit(mapped(scanned))
    assert report(function, CUT).verdict == "refused"
    with pytest.raises(TypeError, match="carry"):
        function.trace(CUT)
    assert not replaced.active(unchecked.PLACES)
    assert not replaced.active(cotangents.PLACES)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.at[0].set(0.0),
        lambda x: x.at[5].add(1.0),
        lambda x: x.at[2].multiply(2.0),
        lambda x: x.at[1, 1].min(2.0),
        lambda x: x.at[jnp.array([0, 6])].max(2.0),
        lambda x: x.at[::3].add(1.0),
    ],
)
def test_what_is_written_into_rows_that_devices_have_lies_as_they_do(write: Callable[[Any], Any]) -> None:
    """Case 15: a row is one device's to write, so the type is that of the array, and nothing moves."""
    found = report(write, struct(8, 3, spec=P("X", None)))
    assert (found.verdict, found.communication, str(found.types["result"])) == ("ok", [], "f32[8@X,3]")


def test_the_sharding_that_jax_asks_for_is_named() -> None:
    found = report(lambda x: x.at[0].set(0.0), struct(8, 3, spec=P("X", None)))
    assert "the out_sharding that JAX asks for is P('X', None)" in found.notes[1]


def test_a_window_of_several_rows_is_refused_with_one_that_moves_nothing() -> None:
    """XLA gathers the array for it; written row by row it does not."""
    array = struct(8, 3, spec=P("X", None))
    (refusal,) = report(lambda x: x.at[1:3].set(0.0), array).refusals
    assert (refusal.code, "x.at[jnp.arange(start, stop)]" in refusal.help) == ("whole-dim-sharded", True)
    assert report(lambda x: x.at[jnp.arange(1, 3)].set(0.0), array).communication == []


def test_a_row_that_is_read_is_given_by_the_device_that_has_it() -> None:
    """Case 11: a row f32[3] of f32[4@X,3] is 12 bytes, where the array gathered is 48; the way back moves nothing."""
    (refusal,) = report(lambda a: a[0], struct(4, 3, spec=P("X", None))).refusals
    assert refusal.code == "whole-dim-sharded"
    assert "f32[4,3] first (all-gather over X of 48 bytes forward, free backward)" in refusal.help
    assert "as f32[1,3] (all-reduce over X of 12 bytes forward, free backward:" in refusal.help


def test_what_is_closed_over_and_cut_needs_a_spec() -> None:
    """Case 27: there is no one type for it inside."""

    def scaled(x: Any, w: Any) -> Any:
        return mapped(lambda x: x * w.sum())(x)

    (refusal,) = report(scaled, CUT, CUT).refusals
    assert "in_specs[0] leaves dim 0 whole, and operand 0 is f32[8@X]" in refusal.message
    assert refusal.help.endswith("pass it as an argument, with P('X')")


def test_what_does_not_compile_is_said() -> None:
    """Case 33: pieces of a sum plus a bias that is a piece, of another shape."""
    bias = struct(8, spec=P(unreduced={"X"}))
    found = report(lambda u, b: u + b, struct(2, 8, spec=P(None, None, unreduced={"X"})), bias)
    assert (found.verdict, [one["entry"] for one in found.known]) == ("ok", [87])
    assert report(lambda u, b: u + b, bias, bias).known == []


def test_what_is_sorted_beside_keys_that_vary_is_cast_first() -> None:
    """Difference 39: the places that `argsort` gives follow each device's own keys, and JAX types them as one array.
    Where each device's are kept apart nothing is wrong; where they are claimed to be one, something is."""
    found = report(mapped(jnp.argsort), CUT)
    assert (found.verdict, str(found.types["result"])) == ("ok", "i32[8@X]")
    assert "difference 39" in found.notes[0]
    assert report(mapped(lambda x: x[jnp.argsort(jnp.argsort(x))]), CUT).verdict == "ok"
    weights = mapped(lambda x: jax.lax.sort_key_val(x, jnp.arange(2.0))[1])
    assert report(weights, CUT).verdict == "refused"  # their gradient, in JAX, lacks a sum
    (refusal,) = report(mapped(jnp.argsort, leaving=P()), CUT).refusals
    assert refusal.code == "mixed-variation"
    assert refusal.help.endswith("and it has no cotangent")


REDUCED = struct(4, 4, spec=P(None, None, reduced={"X"}))


@pytest.mark.parametrize("product", [lambda w: w @ w, lambda w: jnp.einsum("ij,ij->", w, w)])
def test_a_result_that_jax_types_without_a_transpose_is_typed_by_our_rules(product: Callable[..., Any]) -> None:
    """Case 40: a product of what is reduced is reduced; JAX says it is a copy, and has no gradient of it."""
    found = report(product, REDUCED)
    assert (found.verdict, found.refusals) == ("ok", [])
    assert str(found.types["result"]).endswith("{R:X}")
    assert "JAX types dot_general at " in found.notes[0]
    with jax.sharding.use_abstract_mesh(MESH), pytest.raises(Exception, match="unreduced"):
        jax.eval_shape(jax.grad(lambda w: jnp.sum(product(w))), REDUCED)
    asked = lambda w: jnp.matmul(w, w, out_sharding=P(None, None))  # noqa: E731 - what is asked for stays
    assert [one.code for one in report(asked, REDUCED).refusals] == ["transpose-communicates"]


def test_what_vmap_maps_over_a_cut_dim_is_judged_for_all_elements() -> None:
    """Case 51: one element looks like a copy along X, and beside what is reduced a copy is refused."""
    scale = struct(4, spec=P(None, reduced={"X"}))

    def loss(s: Any, x: Any) -> Any:
        return jnp.sum(jax.vmap(lambda row: row * s)(x))

    assert report(loss, scale, struct(8, 4, spec=P("X"))).verdict == "ok"
    assert [one.code for one in report(loss, scale, struct(8, 4)).refusals] == ["transpose-communicates"]


def test_dims_cut_apart_have_two_repairs() -> None:
    """The finer cut is free for the other operand; JAX takes both."""
    once, twice = struct(8, spec=P("X"), mesh=SQUARE), struct(8, spec=P(("X", "Y")), mesh=SQUARE)
    (refusal,) = report(lambda a, b: a + b, once, twice).refusals
    assert refusal.code == "conflicting-sharding"
    assert refusal.help == (
        "reshard operand 1 so that its dim 0 is cut by (X) (an all-gather over Y), or operand 0 so that the dim that "
        "meets it is cut by (X,Y) (free forward)"
    )
    (gather,) = report(lambda a, b: a + jax.reshard(b, P("X")), once, twice).communication
    assert (gather.kind, gather.axes) == ("all-gather", ("Y",))
    assert report(lambda a, b: jax.reshard(a, P(("X", "Y"))) + b, once, twice).communication == []
