"""The cotangent map: on states, on types, and against JAX's own."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import pytest

from calculus.cotangents import cotangent, cotangent_dtype, cotangent_state
from calculus.refusals import Family, Refused
from calculus.types import ArrayType, OpaqueType, RefType, array_type


@pytest.mark.parametrize(("primal", "theirs"), [("N", "N"), ("V", "V"), (("S", 1), ("S", 1)), ("R", "U"), ("U", "R")])
def test_states(primal: str, theirs: str) -> None:
    """The table of seed A, statement A26."""
    assert cotangent_state(primal) == theirs
    assert cotangent_state(cotangent_state(primal)) == primal


@pytest.mark.parametrize("state", ["Umax", "Umin"])
def test_a_pending_maximum_has_none(state: str) -> None:
    with pytest.raises(Refused) as caught:
        cotangent_state(state)
    assert caught.value.refusal.code == "no-cotangent"
    assert caught.value.refusal.family is Family.UNSOUND
    with pytest.raises(Refused) as caught:
        cotangent(array_type("f32", (4,), unreduced=("X",), kind=state[1:]))
    assert caught.value.refusal.code == "no-cotangent"
    assert f"U_{state[1:]}:X" in caught.value.refusal.message


@pytest.mark.parametrize(
    ("primal", "theirs"),
    [
        (array_type("f32", (8, 4), (("X",), ())), "f32[8@X,4]"),
        (array_type("f32", (8,), (("Y", "X"),), reduced=("Z",)), "f32[8@(Y,X)]{U:Z}"),
        (array_type("bf16", (4,), unreduced=("Y", "X")), "bf16[4]{R:(Y,X)}"),
        (array_type("f32", (4,), varying=("A",), unreduced=("X",), reduced=("Y",)), "f32[4]{V:A, U:Y, R:X}"),
        (array_type("c64", ("b + 1",), reduced=("X",), memory="host"), "c64<host>[b + 1]{U:X}"),
        (array_type("f32", weak=True), "~f32[]"),
        (array_type("i32", (8,), (("X",),)), "float0[8@X]"),
        (array_type("bool"), "float0[]"),
        (array_type("float0", (2,)), "float0[2]"),
        (RefType(array_type("f32", (4,), reduced=("X",)), "default"), "Ref<default>{f32[4]{U:X}}"),
        (OpaqueType("Tok"), "Tok"),
    ],
)
def test_types(primal: ArrayType, theirs: str) -> None:
    assert str(cotangent(primal)) == theirs
    assert cotangent(primal) == cotangent(primal)


@pytest.mark.parametrize("primal", [OpaqueType("AbstractOperator()"), array_type("float7_mine", (4,))])
def test_unknown_types_are_refused(primal: ArrayType | OpaqueType) -> None:
    with pytest.raises(Refused) as caught:
        cotangent(primal)
    assert caught.value.refusal.code == "unmodelled-construct"


STATES = [(), ("X",), ("Y",), ("X", "Y")]
TYPES = [
    array_type("f32", (8, 4), (dim, ()), unreduced=pending, reduced=done)
    for dim, pending, done in itertools.product(STATES, repeat=3)
    if len({*dim, *pending, *done}) == len((*dim, *pending, *done))
]


@pytest.mark.parametrize("primal", TYPES, ids=str)
def test_twice_is_the_identity(primal: ArrayType) -> None:
    """Theorem `involution`; the types are interned, so this is identity."""
    assert cotangent(cotangent(primal)) is primal


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f8_e4m3fn", "c64", "i32", "u8", "i4", "bool", "key<fry>"])
@pytest.mark.parametrize("marks", ["unreduced", "reduced", "none"])
def test_against_jax(dtype: str, marks: str) -> None:
    """JAX's own map, read off the printed types."""
    explicit = (jax.sharding.AxisType.Explicit,) * 2
    mesh = jax.sharding.AbstractMesh((2, 2), ("X", "Y"), axis_types=explicit)
    spec = jax.P("X", None, **({} if marks == "none" else {marks: {"Y"}}))
    axes = {} if marks == "none" else {marks: ("Y",)}
    ours = array_type(dtype, (4, 4), (("X",), ()), unreduced=axes.get("unreduced", ()), reduced=axes.get("reduced", ()))
    named = jax.typeof(jax.random.key(0)).dtype if dtype == "key<fry>" else jnp.dtype(_long(dtype))
    with jax.sharding.use_abstract_mesh(mesh):
        structure = jax.ShapeDtypeStruct((4, 4), named, sharding=jax.NamedSharding(mesh, spec))
        primal = jax.jit(lambda x: x).trace(structure).jaxpr.in_avals[0]
        assert primal.str_short(short_dtypes=True) == str(ours)
        assert primal.to_ct_aval().str_short(short_dtypes=True) == str(cotangent(ours))


def _long(dtype: str) -> str:
    return array_type(dtype).long.partition("[")[0]


def test_dtypes() -> None:
    """Integers, bools and keys have nothing to differentiate."""
    assert {cotangent_dtype(dtype) for dtype in ("i32", "u2", "bool", "key<rbg>", "float0")} == {"float0"}
