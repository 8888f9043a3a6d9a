"""Rules of custom_jvp and custom_vjp, traced: in JAX's objects the functions themselves are at hand.

A rule is traced by differentiating the one equation that it belongs to, on its own types and in its own mesh, when a
derivative is first asked for. What cannot be traced by itself (a rule that communicates inside of a shard_map) is left
to those who ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.source_info_util import user_context
from jax.sharding import AxisType, NamedSharding, PartitionSpec

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
        with user_context(eqn.source_info.traceback):  # what the rule does is done where the author calls it
            made = _apart(eqn, function, operands, others)
    except Exception:  # noqa: BLE001 (whatever the rule of a stranger raises)
        return None
    return None if opened(made).constvars else read(opened(made))


def _apart(eqn: Any, function: Any, operands: Sequence[Any], others: Sequence[Any]) -> Any:
    """The program of a function of two lists of values of these types, where the equation stands: inside of a shard_map
    of its own, if types there tell what varies."""
    mesh = getattr(eqn.ctx, "cur_abstract_mesh", None)
    if mesh is None or mesh.empty:
        return jax.make_jaxpr(function)(list(operands), list(others))
    whole = (*operands, *others)
    if not any(_states(one) for one in whole):
        with jax.sharding.use_abstract_mesh(mesh):
            return jax.make_jaxpr(function)(list(operands), list(others))
    manual = frozenset(mesh.manual_axes)
    outside = mesh.update_axis_types(dict.fromkeys(manual, AxisType.Explicit))
    found: list[Any] = []

    def body(*values: Any) -> Any:
        cast = [_in_state(value, one) for value, one in zip(values, whole, strict=True)]
        found.append(jax.make_jaxpr(function)(cast[: len(operands)], cast[len(operands) :]))
        return jnp.zeros(())

    specs = [PartitionSpec() if one.sharding is None else one.sharding.spec for one in whole]
    given = [
        jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=NamedSharding(outside, spec))
        for one, spec in zip(whole, specs, strict=True)
    ]
    with jax.sharding.use_abstract_mesh(outside):
        around: Any = jax.shard_map(body, in_specs=PartitionSpec(), out_specs=PartitionSpec(), axis_names=manual)
        jax.eval_shape(around, *given)
    return found[0]


def _states(struct: Any) -> tuple[tuple[str, frozenset[str]], ...]:
    """The axes along which a value is not the same everywhere: what it is there, by the name of the cast."""
    kind = struct.manual_axis_type
    if kind is None:
        return ()
    held = (("varying", kind.varying), ("unreduced", kind.unreduced), ("reduced", kind.reduced))
    return tuple((name, frozenset(axes)) for name, axes in held if axes)


def _in_state(value: Any, struct: Any) -> Any:
    """A value that is the same everywhere, cast to the type of another."""
    for name, axes in _states(struct):
        if name == "unreduced":
            value = jax.lax.pcast(value, tuple(axes), to="varying")
        value = jax.lax.pcast(value, tuple(axes), to=name)
    return value
