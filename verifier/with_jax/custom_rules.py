"""Rules of custom_jvp and custom_vjp, traced: in JAX's objects the functions themselves are at hand.

A rule is traced by differentiating the one equation that it belongs to, on its own types and in its own mesh, when a
derivative is first asked for. What cannot be traced by itself (a rule that communicates inside of a shard_map) is left
to those who ask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from calculus.programs import Code, Program
from verifier.with_jax.shared import opened

Read = Callable[[Any], Program]
"""A jaxpr as terms."""


def jvp_of(eqn: Any, name: str, read: Read) -> Code:
    """The rule of a custom_jvp_call: a program from its operands, and tangents of some of them, to its results and
    their tangents."""

    def trace(flows: tuple[bool, ...]) -> Program | None:
        def pushed(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            results, found = jax.jvp(_among(eqn, primals, flows), _chosen(primals, flows), tuple(tangents))
            return list(results), [one for one in found if one.dtype != jax.dtypes.float0]

        operands = [_struct(atom.aval) for atom in eqn.invars]
        return _traced(eqn, pushed, operands, _chosen(operands, flows), read)

    return Code(name, trace)


def vjp_of(eqn: Any, name: str, read: Read) -> Code:
    """The rule of a custom_vjp_call: a program from its operands, and the cotangents of those results that have one, to
    its results and the cotangents of some of the operands."""

    def trace(flows: tuple[bool, ...]) -> Program | None:
        def pulled(primals: Sequence[Any], cotangents: Sequence[Any]) -> Any:
            results, back = jax.vjp(_among(eqn, primals, flows), *_chosen(primals, flows))
            given = iter(cotangents)
            whole = [next(given) if _changes(one) else jnp.zeros(one.shape, jax.dtypes.float0) for one in results]
            return list(results), list(back(whole))

        operands = [_struct(atom.aval) for atom in eqn.invars]
        wanted = [_cotangent(variable.aval) for variable in eqn.outvars if _changes(variable.aval)]
        return _traced(eqn, pulled, operands, wanted, read)

    return Code(name, trace)


def _among(eqn: Any, primals: Sequence[Any], flows: Sequence[bool]) -> Callable[..., list[Any]]:
    """What the equation computes, as a function of those operands that can change."""

    def call(*changing: Any) -> list[Any]:
        given = iter(changing)
        values = [next(given) if flowing else one for one, flowing in zip(primals, flows, strict=True)]
        made = eqn.primitive.get_bind_params(eqn.params)
        if isinstance(made, tuple):  # release 0.10.2
            functions, params = made
            return list(eqn.primitive.bind(*functions, *values, **params))
        return list(eqn.primitive.bind(*values, **made))

    return call


def _chosen(values: Sequence[Any], flows: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(one for one, flowing in zip(values, flows, strict=True) if flowing)


def _changes(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))


def _struct(aval: Any) -> Any:
    sharding = None if aval.sharding.mesh.empty else aval.sharding
    more = {"manual_axis_type": aval.manual_axis_type} if hasattr(aval, "manual_axis_type") else {}
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type, **more)


def _cotangent(aval: Any) -> Any:
    made = aval.to_ct_aval() if hasattr(aval, "to_ct_aval") else aval.to_cotangent_aval()
    return _struct(made)


def _traced(eqn: Any, function: Any, operands: Sequence[Any], others: Sequence[Any], read: Read) -> Program | None:
    try:
        with _around(eqn):
            made = jax.make_jaxpr(function)(list(operands), list(others))
    except Exception:  # noqa: BLE001 (whatever the rule of a stranger raises)
        return None
    return None if opened(made).constvars else read(opened(made))


@contextlib.contextmanager
def _around(eqn: Any) -> Iterator[None]:
    mesh = getattr(eqn.ctx, "cur_abstract_mesh", None)
    with contextlib.nullcontext() if mesh is None or mesh.empty else jax.sharding.use_abstract_mesh(mesh):
        yield
