"""Programs that JAX refuses to trace at the types they are given, traced at just these with JAX's own checks put off:
the rules of the calculus judge instead, and say why, and what repairs it.

What is put off: that a carry keeps its type, that branches have one type, that specs of a shard_map are those of what
crosses them, that a body closes over no explicit array, and the types of calls. A call that JAX has no type for has
that of the calculus, or the one that is asked for; where there is neither, the trace ends.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from calculus.boundaries import taken
from verifier.with_jax.otherwise import traced_otherwise
from verifier.with_jax.refused_calls import Calls, end, judged
from verifier.with_jax.replaced import Place
from verifier.with_jax.trace import Trace
from verifier.with_jax.untyped import refused_by_jax


@dataclass(slots=True)
class Unchecked:
    """A trace without JAX's checks; `None` where it ended. calls: those that JAX refuses. operands: of the call at
    hand."""

    trace: Trace | None = None
    operands: Sequence[Any] = ()
    calls: Calls = field(default_factory=Calls)


_PUTTING_OFF: Final[ContextVar[Unchecked | None]] = ContextVar("putting_off", default=None)


def unchecked(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> Unchecked | None:
    """The program of a function that JAX refuses. `None` where what is raised is not JAX's own."""
    if not refused_by_jax(f, args, kwargs, mesh):
        return None
    found = Unchecked()
    found.trace = traced_otherwise(_PUTTING_OFF, found, PLACES, f, args, kwargs, mesh)
    return found


def _of_one_structure(one: int, other: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A check of two trees of types, the arguments of these numbers: put off where the trees are alike."""

    def made(before: Callable[..., Any]) -> Callable[..., Any]:
        def check(*given: Any) -> Any:
            try:
                return before(*given)
            except TypeError:
                if _PUTTING_OFF.get() is None or given[one].tree != given[other].tree:
                    raise
            return None

        return check

    return made


def _varying(before: Callable[..., Any]) -> Callable[..., Any]:
    """That nothing leaves a shard_map as a copy that is none."""

    def check(*given: Any) -> Any:
        try:
            return before(*given)
        except Exception:
            if _PUTTING_OFF.get() is None:
                raise
        return None

    return check


def _inward(before: Callable[..., Any]) -> Callable[..., Any]:
    """The type inside of what enters by a spec: as if it had the states that the spec says."""

    def enter(mesh: Any, manual: Any, check: Any, by: Any, aval: Any) -> Any:
        if _PUTTING_OFF.get() is None:
            return before(mesh, manual, check, by, aval)
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # JAX prints the states before it refuses them
                return before(mesh, manual, check, by, aval)
        except ValueError:
            partitions = getattr(aval.sharding.spec, "partitions", aval.sharding.spec)
            said = PartitionSpec(*partitions, **_states(by))
            return before(mesh, manual, check, by, aval.update(sharding=aval.sharding.update(spec=said)))

    return enter


def _outward(before: Callable[..., Any]) -> Callable[..., Any]:
    """The type outside of what leaves by a spec, likewise."""

    def leave(mesh: Any, check: Any, by: Any, aval: Any) -> Any:
        try:
            return before(mesh, check, by, aval)
        except ValueError:
            if _PUTTING_OFF.get() is None:
                raise
            varying = aval.mat.varying - by.unreduced - by.reduced
            said = type(aval.mat)(varying=varying, **_states(by))
            return before(mesh, check, by, aval.update(manual_axis_type=said))

    return leave


def _states(spec: Any) -> dict[str, Any]:
    kind = getattr(spec, "unreduced_kind", None)
    return {
        "unreduced": spec.unreduced,
        "reduced": spec.reduced,
        **({"unreduced_kind": kind} if kind is not None else {}),
    }


class _Agreeing:
    """A spec that is every other, and the type and the sharding that have it."""

    def __init__(self, aval: Any) -> None:
        self._aval = aval
        self.sharding = self.spec = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._aval, name)

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


def _entering(before: Callable[..., Any]) -> Callable[..., Any]:
    """That in_specs are the specs of the arguments: the function that checks it asks for the type of each, and nothing
    else there does."""

    def typeof(value: Any) -> Any:
        aval = before(value)
        caller = sys._getframe(1).f_code
        inside = _PUTTING_OFF.get() is not None and caller.co_name == "wrapped"
        return _Agreeing(aval) if inside and hasattr(aval, "sharding") else aval

    return typeof


def _manual(before: Callable[..., Any]) -> Callable[..., Any]:
    def part(axes: Any, spec: Any, mesh: Any) -> Any:
        return spec if isinstance(spec, _Agreeing) else before(axes, spec, mesh)

    return part


def _closing(before: Callable[..., Any]) -> Callable[..., Any]:
    """That a body closes over no explicit array: what it closes over enters by a spec that names no axis."""

    def bind(self: Any, *args: Any, **params: Any) -> Any:
        if _PUTTING_OFF.get() is not None and not self.skip_canonicalization:
            here = jax.sharding.get_abstract_mesh()
            if any(kind is AxisType.Manual for kind in getattr(here, "axis_types", ())):
                args = tuple(_entered(value, here) for value in args)
        return before(self, *args, **params)

    return bind


def _entered(value: Any, here: Any) -> Any:
    if not isinstance(value, jax.core.Tracer | jax.Array):
        return value
    aval = jax.typeof(value)
    around = getattr(getattr(aval, "sharding", None), "mesh", here)
    if around.empty or around == here or AxisType.Explicit not in around.axis_types:
        return value
    if AxisType.Explicit in here.axis_types:
        return value
    return jax.sharding.reshard(value, NamedSharding(here, PartitionSpec(*[None] * aval.ndim)))


def _mapped(before: Callable[..., Any]) -> Callable[..., Any]:
    """That a shard_map is over axes that no map around it is over: the trace ends there, for our reason."""

    def check(mesh: Any, axes: Any, *rest: Any, **more: Any) -> Any:
        try:
            return before(mesh, axes, *rest, **more)
        except ValueError:
            found = _PUTTING_OFF.get()
            around = getattr(import_module("jax._src.core").get_axis_env(), "explicit_mesh_axis_names", ())
            names = (mesh or jax.sharding.get_abstract_mesh()).axis_names
            twice = [axis for axis in names if axis in (axes or names) and axis in around]
            if found is not None and twice:
                end(found.calls, taken(twice[0], f"is mapped over a dim that is cut on {twice[0]}").refusal)
            raise

    return check


def _noting(before: Callable[..., Any]) -> Callable[..., Any]:
    """The operands of each call, of which its evaluation sees the types alone: a number is in every state."""

    def process(self: Any, primitive: Any, tracers: Any, *rest: Any, **more: Any) -> Any:
        found = _PUTTING_OFF.get()
        if found is not None:
            found.operands = tracers
        return before(self, primitive, tracers, *rest, **more)

    return process


def _typing(before: Callable[..., Any]) -> Callable[..., Any]:
    """The types of a call's results."""

    def evaluate(primitive: Any, *avals: Any, **params: Any) -> Any:
        try:
            return before(primitive, *avals, **params)
        except Exception as error:
            found = _PUTTING_OFF.get()
            if found is not None and primitive.name in _BODIES:
                return before(primitive, *_BODIES[primitive.name](avals, params), **params)
            made = None if found is None else judged(found.calls, primitive, avals, params, found.operands, error)
            if made is None:
                raise
            return made

    return evaluate


def _carried(avals: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """The operands of a scan whose carries are what its body makes of them."""
    if "num_carry" in params:  # release 0.10.2
        first, count = params["num_consts"], params["num_carry"]
    else:
        first, count = (len(part) for part in params["ft_in"].unpack()[:2])
    return [*avals[:first], *params["jaxpr"].out_avals[:count], *avals[first + count :]]


def _first(avals: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """The operands of a cond, of which the first branch is looked at alone."""
    params["branches"] = params["branches"][:1]
    return avals


_BODIES: Final = {"scan": _carried, "cond": _first}
"""How the types of results follow from a body, when JAX's evaluation compares them with others."""


def _evaluating(before: Callable[..., Any]) -> Callable[..., Any]:
    """The types of a linear call's results, where a derivative is split off: the primitive itself is asked for them."""

    def process(self: Any, primitive: Any, tracers: Any, params: Any) -> Any:
        found = _PUTTING_OFF.get()
        if found is None:
            return before(self, primitive, tracers, params)
        found.operands = tracers
        evaluate = primitive.abstract_eval
        typed = _typing(lambda _, *avals, **params: evaluate(*avals, **params))
        primitive.abstract_eval = functools.partial(typed, primitive)
        try:
            return before(self, primitive, tracers, params)
        finally:
            primitive.abstract_eval = evaluate

    return process


PLACES: Final[tuple[Place, ...]] = (
    ("jax._src.lax.control_flow.loops", "_check_carry_type", _of_one_structure(2, 3)),
    ("jax._src.lax.control_flow.conditionals", "_check_branch_outputs", _of_one_structure(5, 6)),
    ("jax._src.shard_map", "_shmap_checks", _mapped),
    ("jax._src.shard_map", "_check_mats", _varying),
    ("jax._src.shard_map", "shard_aval", _inward),
    ("jax._src.shard_map", "unshard_aval", _outward),
    ("jax._src.shard_map", "typeof", _entering),
    ("jax._src.shard_map", "_manual_spec", _manual),
    ("jax._src.core", "Primitive.bind", _closing),
    ("jax._src.interpreters.partial_eval", "DynamicJaxprTrace.default_process_primitive", _noting),
    ("jax._src.interpreters.partial_eval", "JaxprTrace.default_process_primitive", _evaluating),
    ("jax._src.interpreters.partial_eval", "_cached_abstract_eval", _typing),
)
"""Where releases 0.10.2 and 0.12.0.1 check. What another release lacks it goes on checking."""
