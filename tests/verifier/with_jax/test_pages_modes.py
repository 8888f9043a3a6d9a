"""Regions, constraints and layouts of JAX's page on distributed arrays, on eight CPU devices, beside what we say. The
numbers are those of tests/spec/seeds-arrays.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.sharding import PartitionSpec as P
from jax.sharding import SingleDeviceSharding, auto_axes, explicit_axes

import verifier
from calculus.concrete import refines, type_of
from calculus.layouts import AUTO, Handover, format_of, hand_over
from calculus.refusals import Refused
from calculus.types import array_type
from tests.verifier.with_jax.test_pages import HIDDEN, MESH, MIXED, moved, placed, type_at, types
from verifier import WrongType, assert_type
from verifier.with_jax.meshes import ours
from verifier.with_jax.stored import stored

CHOSEN = "unknown"


X, Y, XY = placed(MESH, P("X", None), 4, 4), placed(MESH, P(None, "X"), 4, 4), placed(MESH, P("X", "Y"), 4, 4)


def test_b29_b31_auto_axes_hides_axes_inside_and_has_the_sharding_asked_for_outside() -> None:
    """At the call or at the decorator. Inside, neither operand mentions X, which X + Y would mention twice."""

    def inside(x: Any, y: Any) -> Any:
        return assert_type(x, "f32[4,4]") + assert_type(y, "f32[4,4]")

    at_the_call = auto_axes(inside)
    at_the_definition = auto_axes(inside, out_sharding=P("X", None))
    for add2 in (lambda x, y: at_the_call(x, y, out_sharding=P("X", None)), at_the_definition):
        found, report = types(add2, X, Y)
        assert found == "f32[4@X,4]"
        assert {kind for kind, _, _ in moved(report)} == {CHOSEN}
        assert [note for note in report.notes if "chosen by the compiler" in note]
    with jax.set_mesh(MESH):
        assert np.allclose(at_the_definition(X, Y), np.asarray(X) + np.asarray(Y))


@pytest.mark.parametrize(
    ("axes", "inside", "chosen"),
    [("X", "f32[4,4@Y]", ("X",)), ("Y", "f32[4@X,4]", ("Y",)), (("X", "Y"), "f32[4,4]", ("X", "Y"))],
)
def test_b32_a_subset_of_the_axes_may_be_switched(axes: Any, inside: str, chosen: tuple[str, ...]) -> None:
    def region(x: Any) -> Any:
        return jnp.sin(assert_type(x, inside))

    switched = auto_axes(region, axes=axes, out_sharding=P("X", "Y"))

    found, report = types(switched, XY)
    assert found == "f32[4@X,4@Y]"
    assert {axes for _, axes, _ in moved(report)} == {chosen}


def test_b32_what_is_not_hidden_is_still_held_against_the_types() -> None:
    """Y is explicit in the region, so what it sums over Y is priced: f32[4] is 16 bytes."""

    def region(x: Any) -> Any:
        return x.sum(1)

    switched = auto_axes(region, axes="X", out_sharding=P("X"))

    _, report = types(switched, XY)
    assert ("all-reduce", ("Y",), 16) in moved(report)


def test_b32_under_auto_axes_there_is_nothing_to_switch() -> None:
    def region(x: Any) -> Any:
        return x * 2.0

    switched = auto_axes(region, out_sharding=P("X", None))

    found, report = types(switched, placed(HIDDEN, P("X", None), 4, 4), mesh=HIDDEN)
    assert (found, moved(report)) == ("f32[4,4]", [])


def test_b32_under_manual_axes_it_is_refused() -> None:
    """By JAX while it traces; by us in the text of such a program, which only a hand can write: seeds-arrays.md."""

    def inside(x: Any) -> Any:
        return auto_axes(lambda x: x, out_sharding=P())(x)

    with jax.set_mesh(MESH):
        report = verifier.check(jax.shard_map(inside, in_specs=P("X"), out_specs=P("X")), X)
    (refusal,) = report.refusals
    assert (report.verdict, refusal.code) == ("refused", "unmodelled-construct")
    assert "JAX does not trace this: NotImplementedError: Going from `Manual`" in refusal.message


def test_b32_beside_manual_axes_the_others_may_be_switched() -> None:
    def inside(x: Any) -> Any:
        region = auto_axes(lambda x: assert_type(x, "f32[1,4]{V:X}") * 2.0, axes="Y", out_sharding=P(None, "Y"))
        return assert_type(region(assert_type(x, "f32[1,4@Y]{V:X}")), "f32[1,4@Y]{V:X}")

    f = jax.shard_map(inside, in_specs=P("X"), out_specs=P("X"), axis_names={"X"})
    found, report = types(jax.jit(f), XY)
    assert found == "f32[4@X,4@Y]"
    assert {(kind, axes) for kind, axes, _ in moved(report)} == {(CHOSEN, ("Y",))}


def test_b33_auto_mode_the_same_dot_is_no_error() -> None:
    """The compiler chooses, and what it chose can be read off the array."""
    x, y = placed(HIDDEN, P(None, "X"), 8, 4), placed(HIDDEN, P("X", None), 4, 16)
    found, report = types(jax.jit(lambda x, y: x @ y), x, y, mesh=HIDDEN)
    assert (found, moved(report)) == ("f32[8,16]", [])
    assert report.unsharded
    with jax.set_mesh(HIDDEN):
        chosen, mesh = stored(jax.jit(lambda x, y: x @ y)(x, y))
    assert refines(chosen, array_type("f32", (8, 16)), mesh)


def test_b34_on_auto_axes_a_constraint_is_a_hint() -> None:
    x, y = placed(HIDDEN, P(None, "X"), 8, 4), placed(HIDDEN, P("X", None), 4, 16)

    @jax.jit
    def f(x: Any, y: Any) -> Any:
        return jax.lax.with_sharding_constraint(x @ y, P("X", None))

    found, report = types(f, x, y, mesh=HIDDEN)
    assert (found, moved(report)) == ("f32[8,16]", [(CHOSEN, ("X",), None)])
    with jax.set_mesh(HIDDEN):
        assert str(stored(f(x, y))[0]) == "f32[8@X,16]"


def test_b35_on_explicit_axes_a_constraint_is_an_assertion() -> None:
    def constrained(spec: P) -> Callable[[Any], Any]:
        return jax.jit(lambda x: jax.lax.with_sharding_constraint(x, spec))

    found, report = types(constrained(P("X", None)), X)
    assert (found, moved(report)) == ("f32[4@X,4]", [])
    for spec in (P("Y", None), P(None, "X"), P()):
        with jax.set_mesh(MESH):
            report = verifier.check(constrained(spec), X)
        (refusal,) = report.refusals
        assert (report.verdict, refusal.code) == ("refused", "unmodelled-construct")
        assert "acts as an assert" in refusal.message


def test_b36_explicit_axes_shows_axes_inside() -> None:
    def inside(y: Any) -> Any:
        return assert_type(y, "f32[4@X,4@Y]") * 2.0

    shown = explicit_axes(inside)

    @jax.jit
    def f(x: Any) -> Any:
        return assert_type(shown(jnp.sin(assert_type(x, "f32[4,4]")), in_sharding=P("X", "Y")), "f32[4,4]") + 1.0

    found, report = types(f, placed(HIDDEN, P("X", "Y"), 4, 4), mesh=HIDDEN)
    assert found == "f32[4,4]"
    assert {(kind, axes) for kind, axes, _ in moved(report)} == {(CHOSEN, ("X", "Y"))}


def test_b36_what_is_explicit_inside_is_held_against_the_types() -> None:
    """In a loop and behind a call too. Of the sum, f32[4@Y], a device has 2 numbers, 8 bytes."""

    def summed(y: Any) -> Any:
        start = jnp.zeros(4, out_sharding=P("Y"))
        return jax.lax.fori_loop(0, 3, lambda _, total: total + jax.jit(lambda y: y.sum(0))(y), start)

    shown = explicit_axes(summed, in_sharding=P("X", "Y"))

    _, report = types(jax.jit(shown), placed(HIDDEN, P("X", "Y"), 4, 4), mesh=HIDDEN)
    assert [
        (*one, row.times) for one, row in zip(moved(report), report.communication, strict=True) if one[0] != CHOSEN
    ] == [("all-reduce", ("X",), 8, 3)]


@pytest.mark.parametrize("mesh", [MESH, HIDDEN, MIXED], ids=["explicit", "auto", "both"])
@pytest.mark.parametrize("spec", [P("X", "Y"), P(("X", "Y")), P(("Y", "X")), P(None, "Y"), P("Y"), P()])
def test_b37_what_is_stored_is_consistent_with_the_type_and_may_say_more(mesh: jax.sharding.Mesh, spec: P) -> None:
    """For what was placed, and for what the compiler made of it: the type is the one above what is stored."""
    x = placed(mesh, spec, 8, 8)
    with jax.set_mesh(mesh):
        made = [x, jnp.sin(x), jax.jit(lambda x: jnp.cos(x).T)(x), jax.jit(lambda x: (x * x)[None])(x)]
    for array in made:
        found, where = stored(array)
        type = type_at(array)
        assert where == ours(mesh)
        assert refines(found, type, where)
        assert type_of(found, where) is type
        assert refines(type, found, where) == (type is found)
    assert (str(stored(x)[0]) != str(type_at(x))) == (mesh is HIDDEN and spec != P()) or mesh is MIXED


def test_b37_the_pages_two_contexts() -> None:
    """P('X') stored; at the top the type says so too, and in an auto region it says nothing."""
    x = placed(MESH, P("X"), 8)
    assert stored(x)[0] is type_at(x)
    auto = array_type("f32", (8,))
    assert refines(stored(x)[0], auto, ours(HIDDEN))
    assert not refines(stored(x)[0], auto, ours(MESH))


ONE = SingleDeviceSharding(jax.devices()[0])


def test_b40_a_layout_alone_is_not_accepted_where_a_format_is() -> None:
    order = Layout((1, 0))
    for attempt in (
        lambda: jax.device_put(np.ones((4, 6)), order),
        lambda: jax.jit(lambda x: x, in_shardings=order)(np.ones((4, 6))),
        lambda: Format(order),
    ):
        with pytest.raises(ValueError, match=r"[Ll]ayout"):
            attempt()
    with pytest.raises(Refused):
        format_of((1, 0))
    assert format_of(AUTO).sharding is Format(Layout.AUTO).sharding is None


@pytest.mark.parametrize("wanted", [(0, 1), (1, 0)])
@pytest.mark.parametrize("given", [(0, 1), (1, 0)])
@pytest.mark.parametrize("committed", [False, True])
def test_b43_committed_or_not_matching_or_not(wanted: tuple[int, ...], given: tuple[int, ...], committed: bool) -> None:
    """A compiled program, and an array handed to it. An uncommitted array is row-major: JAX makes no other."""
    shape = jax.ShapeDtypeStruct((4, 6), jnp.float32)
    compiled = jax.jit(lambda y: y * 2.0, in_shardings=Format(Layout(wanted), ONE)).trace(shape).lower().compile()
    array = jax.device_put(np.ones((4, 6), np.float32), Format(Layout(given), ONE)) if committed else jnp.ones((4, 6))
    assert array.committed == committed
    given = getattr(array, "format").layout.major_to_minor  # noqa: B009 - arrays have it, their type does not say so
    if hand_over(wanted, given, committed) is Handover.REFUSED:
        with pytest.raises(ValueError, match="layout"):
            compiled(array)
    else:
        assert np.asarray(compiled(array)).sum() == 48.0
        assert hand_over(wanted, given, committed) is (Handover.AS_IT_IS if given == wanted else Handover.RELAID)


def test_b42_one_function_compiled_to_match_another() -> None:
    """Formats asked for are those that the compiled function has, and types know nothing of them."""
    shape = jax.ShapeDtypeStruct((4, 6), jnp.float32)
    wanted = Format(Layout((1, 0)), ONE)
    apply = jax.jit(lambda y: y[:, 0], in_shardings=wanted).trace(shape).lower().compile()
    init = jax.jit(lambda y: y * 3.0, out_shardings=apply.input_formats[0][0]).trace(shape).lower().compile()
    assert init.output_formats.layout == apply.input_formats[0][0].layout
    assert np.allclose(apply(init(jnp.ones((4, 6)))), 3.0)


def test_b44_a_layout_constraint_is_an_identity() -> None:
    def f(x: Any) -> Any:
        return with_layout_constraint(x.T, Layout((0, 1))) * 2.0

    found, report = types(jax.jit(f), XY)
    assert (found, moved(report)) == ("f32[4@Y,4@X]", [])


def test_an_assertion_in_a_region_is_about_what_types_say_there() -> None:
    region = auto_axes(lambda x: assert_type(x, "f32[4@X,4]"), out_sharding=P("X"))
    with jax.set_mesh(MESH), pytest.raises(WrongType, match="X, which is auto"):
        verifier.check(region, X)
