"""Assertions about types inside a JAX function: checked while it is traced, gone when it runs. Seed A32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import jax
from jax.ad_checkpoint import checkpoint_name

from calculus.handed import STATES
from calculus.reconciling import turned
from calculus.refusals import Place, Refusal, Refused, refuse
from calculus.types import ArrayType, same
from calculus.wellformed import well_formed
from grammar.leaves import type_of
from grammar.read import read_type
from verifier.with_jax import meshes

T = TypeVar("T")

MARK: Final = "shardproof: "
"""How an assertion begins that stands in a program as the name of a value."""

_LATER: ContextVar[bool] = ContextVar("later", default=False)


class WrongType(AssertionError):
    """A value does not have the type that is asserted. `refusal` says it as data: code, because, help."""

    def __init__(self, refusal: Refusal) -> None:
        words = (f"{name}: {said}" for name, said in (("because", refusal.because), ("help", refusal.help)) if said)
        super().__init__("\n  ".join([refusal.message, *words]))
        self.refusal = refusal


def assert_type(value: T, type: str) -> T:
    """The value, if it has this type; else raises `WrongType`.

        dw = verifier.assert_type(jax.grad(loss)(w, x), "f32[4,2]{U:X}")

    type: in the language of types, as `jax.typeof` prints it, with the short or long dtype. The order of axes within a
    state does not count, nor does weakness. Along auto axes types say nothing, so neither does an assertion. In traced
    code the check happens once, while tracing; nothing of it is in the program.

    Raises `TypeError` where the type is no text.
    """
    if not isinstance(type, str):
        raise TypeError(f"a type is asserted as text, as in 'f32[4,2]{{U:X}}', and this is {type!r}")
    try:
        asserted = read_type(type)
        if _LATER.get():
            checkpoint_name(value, f"{MARK}{asserted}")
            return value
        _hold(value, asserted)
    except Refused as refused:
        raise WrongType(refused.refusal) from None
    return value


def _hold(value: Any, asserted: Any) -> None:
    """Refuses `inconsistent-type`, and what `well_formed` refuses of the type that is asserted."""
    aval = jax.typeof(value)
    have = type_of(aval.str_short(short_dtypes=True))
    mesh = meshes.ours(getattr(getattr(aval, "sharding", None), "mesh", jax.sharding.get_abstract_mesh()))
    if same(have, asserted):
        return
    well_formed(asserted, mesh)
    way = turned(have, asserted, mesh) if isinstance(have, ArrayType) and isinstance(asserted, ArrayType) else None
    raise refuse(
        "inconsistent-type",
        f"the value is {have}, and {asserted} is asserted",
        because=_difference(have, asserted),
        help=f"assert {have}" + ("" if way is None else f", or {way.of('the value', asserted)}"),
        place=Place("operand", 0),
    )


def _difference(have: Any, asserted: Any) -> str:
    """The first thing in which two types differ."""
    if not isinstance(have, ArrayType) or not isinstance(asserted, ArrayType):
        return "the one is an array, and the other is not"
    for what in ("dtype", "shape", "memory"):
        one, other = getattr(have, what), getattr(asserted, what)
        if one != other:
            return f"its {what} is {_shown(one)}, not {_shown(other)}"
    for axis in dict.fromkeys((*have.mentioned, *asserted.mentioned)):
        states = have.state(axis), asserted.state(axis)
        if states[0] != states[1]:
            return f"along {axis} it is {STATES[states[0]]}, not {STATES[states[1]]}"
    if have.axes != asserted.axes:
        dim = next(dim for dim, axes in enumerate(have.axes) if axes != asserted.axes[dim])
        lists = (f"({', '.join(type.axes[dim])})" for type in (have, asserted))
        return f"its dim {dim} is sharded on {' not on '.join(lists)}"
    return f"what is pending in it is a {have.kind}, not a {asserted.kind}"


def _shown(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else value or "device"


@contextlib.contextmanager
def asserted_later() -> Iterator[None]:
    """Within this, types are not those of the arguments given, so an assertion becomes the name of its value in the
    program, and whoever infers the types holds them against it."""
    token = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(token)
