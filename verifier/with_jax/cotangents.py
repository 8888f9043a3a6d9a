"""Tangents and cotangents that a function hands to JAX's derivatives by hand, compared with what the calculus demands
while the function is traced: afterwards nothing in the program shows them.

JAX asks no type of a number or of an array of numpy's, since they lie on no mesh; so a pull-back that wants
`f32[]{U:X}` takes 1.0, and the gradient counts it on every device. What is compared:

    jax.vjp, jax.linear_transpose           the seeds of the pull-back
    jax.jvp, jax.linearize                  the tangents
    jax.custom_vjp                          what the backward rule returns, custom_gradient's too
    jax.custom_jvp                          the tangents that the rule returns
    jax.custom_derivatives.linear_call      what the transpose returns

The functions of JAX that take them are replaced while `compared` lasts, by ones that look and then do the same. A
release that lacks one is not looked at there, and `Found.unseen` says so.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import jax
import numpy as np
from jax.tree_util import tree_leaves, tree_map, treedef_children

from calculus.handed import COTANGENT, TANGENT, Handed, hold, wanted
from calculus.meshes import AxisMode, Mesh
from calculus.refusals import Refusal, Refused
from calculus.types import ArrayType
from verifier.with_jax import meshes
from verifier.with_jax.lines import Frame, kind, user_frame
from verifier.with_jax.probe import of_aval
from verifier.with_jax.replaced import generation, replaced, traced_apart


@dataclass
class Found:
    """refusals: of what is handed in, in the order of the trace, each with the user's line. unseen: the functions of
    this release's that are not looked at, and why."""

    refusals: list[Refusal] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


_LOOKING: Final[ContextVar[Found | None]] = ContextVar("looking", default=None)

_current = generation()


@contextlib.contextmanager
def compared() -> Iterator[Found]:
    """Within this, what is handed to a derivative is compared with the type that it should have."""
    with replaced(PLACES) as unseen:
        found = Found(unseen=unseen)
        token = _LOOKING.set(found)
        try:
            with traced_apart(_current):
                yield found
        finally:
            _LOOKING.reset(token)


def _seeds(before: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.vjp`: the cotangents of the results."""

    def check(cts: Sequence[Any], primals: Sequence[Any], *rest: Any, **more: Any) -> Any:
        for index, (ct, primal) in enumerate(zip(cts, primals, strict=False)):
            _compare(_numbered("the seed of the pull-back", "result", index, len(cts)), COTANGENT, primal, ct)
        return before(cts, primals, *rest, **more)

    return check


def _transposed(before: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.linear_transpose`: it holds each cotangent against the type of the result."""

    def check(aval: Any, value: Any) -> Any:
        if sys._getframe(1).f_code.co_name == "transposed_fun":
            _compare("the seed of the transposed function", COTANGENT, aval, value)
        return before(aval, value)

    return check


def _tangents(before: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jvp`: the tangents of the arguments."""

    def push(fun: Any, primals: Any, tangents: Any, *rest: Any, **more: Any) -> Any:
        _all("the tangent that jvp is given", TANGENT, primals, tangents)
        return before(fun, primals, tangents, *rest, **more)

    return push


def _linearized(before: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.linearize`: the tangents of the arguments, which come last."""

    def push(jaxpr: Any, primals: Any, *rest: Any) -> Any:
        with contextlib.suppress(AttributeError, ValueError):
            given = tree_leaves(rest[len(rest) - len(treedef_children(primals.tree)) :])
            for index, (primal, tangent) in enumerate(zip(primals, given, strict=True)):
                what = _numbered("the tangent that the linear function is given", "argument", index, len(given))
                _compare(what, TANGENT, primal, tangent)
        return before(jaxpr, primals, *rest)

    return push


def _with_vjp(before: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.custom_vjp`: what its backward rule returns, argument by argument."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _LOOKING.get() is None or not (self.fwd and self.bwd) or getattr(self, "with_accums", False):
            return before(self, *args, **kwargs)
        given: list[Any] = []
        forward, backward = self.fwd, self.bwd
        fixed = frozenset(getattr(self, "nondiff_argnums", None) or ())
        logs = bool(getattr(self, "with_logs", False))

        @functools.wraps(forward)
        def fwd(*primals: Any, **named: Any) -> Any:
            given[:] = [tree_map(_typed, one) for index, one in enumerate(primals) if index not in fixed]
            return forward(*primals, **named)

        @functools.wraps(backward)
        def bwd(*rest: Any) -> Any:
            found = backward(*rest)
            cts = found[0] if logs and isinstance(found, (tuple, list)) and found else found
            if isinstance(cts, (tuple, list)) and len(cts) == len(given):
                for index, (ct, primal) in enumerate(zip(cts, given, strict=True)):
                    what = f"the cotangent that the rule {_name(backward)} returns"
                    _all(_numbered(what, "argument", index, len(given)), COTANGENT, primal, ct, backward)
            return found

        return before(_like(self, fwd=fwd, bwd=bwd), *args, **kwargs)

    return call


def _with_jvp(before: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.custom_jvp`: the tangents of its results."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _LOOKING.get() is None or not self.jvp:
            return before(self, *args, **kwargs)
        rule = self.jvp

        @functools.wraps(rule)
        def jvp(*given: Any, **named: Any) -> Any:
            found = rule(*given, **named)
            if isinstance(found, (tuple, list)) and len(found) == 2:
                primals, tangents = found
                _all(f"the tangent that the rule {_name(rule)} returns", TANGENT, primals, tangents, rule)
            return found

        return before(_like(self, jvp=jvp), *args, **kwargs)

    return call


def _with_transpose(before: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.custom_derivatives.linear_call`: the cotangents of its linear arguments."""

    def call(fun: Any, fun_transpose: Any, residuals: Any, linear: Any) -> Any:
        if _LOOKING.get() is None:
            return before(fun, fun_transpose, residuals, linear)
        given = tree_map(_typed, linear)

        @functools.wraps(fun_transpose)
        def transpose(*rest: Any) -> Any:
            found = fun_transpose(*rest)
            what = f"the cotangent that the transpose {_name(fun_transpose)} returns"
            _all(what, COTANGENT, given, found, fun_transpose)
            return found

        return before(fun, transpose, residuals, linear)

    return call


PLACES: Final = (
    ("jax._src.api", "_vjp_check_ct_avals", _seeds),
    ("jax._src.core", "typecheck", _transposed),
    ("jax._src.api", "_jvp", _tangents),
    ("jax._src.api", "_lift_linearized", _linearized),
    ("jax", "custom_vjp.__call__", _with_vjp),
    ("jax", "custom_jvp.__call__", _with_jvp),
    ("jax.custom_derivatives", "linear_call", _with_transpose),
)
"""Where releases 0.10.2 and 0.12.0.1 take what is handed in. Three have no public name."""


def _like(rule: Any, **changed: Any) -> Any:
    made = object.__new__(type(rule))
    made.__dict__.update(rule.__dict__, **changed)
    return made


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "of its own"))


def _numbered(what: str, of: str, index: int, count: int) -> str:
    return what if count == 1 else f"{what} for {of} {index}"


def _all(what: str, kind: str, primals: Any, given: Any, rule: Any = None) -> None:
    """Compare every leaf of a tree, of which the one given may be a prefix. Where the trees differ JAX says so."""

    def leaves(one: Any, primal: Any) -> None:
        if one is not None:
            for leaf in tree_leaves(primal):
                _compare(what, kind, leaf, one, rule)

    with contextlib.suppress(ValueError, TypeError):
        tree_map(leaves, given, primals, is_leaf=lambda one: one is None)


def _typed(value: Any) -> Any:
    """A value's type, which is also what is kept of an argument until its cotangent comes; itself, where it is one or
    has none."""
    if hasattr(type(value), "str_short"):
        return value
    value = getattr(value, "value", value) if type(value).__name__ == "CustomVJPPrimal" else value
    try:
        return jax.typeof(value)
    except TypeError:
        return value


def _compare(what: str, kind: str, primal: Any, given: Any, rule: Any = None) -> None:
    """Hold one against the type of its primal, a value or a type, and remember a refusal."""
    found = _LOOKING.get()
    if found is None or type(given).__name__ in ("Zero", "SymbolicZero"):  # zero is in every state
        return
    try:
        before = of_aval(_typed(primal))
        aval = jax.typeof(given)
        after = of_aval(aval)
    except (TypeError, Refused):  # nothing that JAX knows, or that we do
        return
    if not isinstance(before, ArrayType) or not isinstance(after, ArrayType) or after.dtype_class not in ("f", "c"):
        return
    constant = aval.sharding.mesh.empty and after.plain
    handed = Handed(what, kind, before, after, constant, constant and _zero(given))
    mesh = meshes.ours(jax.sharding.get_abstract_mesh())
    try:
        hold(handed, mesh)
    except Refused as refused:
        _remember(found, refused.refusal, handed, mesh, rule)


def _zero(value: Any) -> bool:
    """Whether a constant is known to be one of zeros."""
    return not isinstance(value, jax.core.Tracer) and not np.any(np.asarray(value))


def _remember(found: Found, refusal: Refusal, handed: Handed, mesh: Mesh, rule: Any) -> None:
    global _current
    _current = generation()  # what JAX remembers of this trace would be found without a word
    type = wanted(handed.kind, handed.primal)
    if type is not None and not refusal.help.startswith("give it at"):
        value = "jnp.asarray(...)" if handed.constant else "..."  # to reshard a mere number, not in a jit, ends JAX
        refusal.help += f": {written(handed.type, type, mesh, value)}"
    frame = _defined(rule) or user_frame()
    if frame is not None:
        refusal.line = frame.line
        refusal.trail = (f"at {frame}",)
    if refusal not in found.refusals:
        found.refusals.append(refusal)


def _defined(rule: Any) -> Frame | None:
    """Where a rule is written, if the user wrote it."""
    code = getattr(rule, "__code__", None)
    if code is None or kind(code.co_filename) != "user":
        return None
    return Frame(code.co_filename, code.co_firstlineno, code.co_qualname)


_CASTS: Final = {"V": "varying", "R": "reduced", "U": "unreduced"}


def written(before: ArrayType, after: ArrayType, mesh: Mesh, value: str) -> str:
    """A cast or reshard as people write it in JAX: `jax.reshard(..., P(unreduced={'X'}))`."""
    manual = [axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL]
    for axis in manual:
        have, want = before.state(axis), after.state(axis)
        if have != want:
            cast = f"jax.lax.pcast({value}, '{axis}', to='{_CASTS.get(want)}')"
            value = f"jax.lax.psum({value}, '{axis}')" if want == "N" else cast
    target = after.without(manual)
    if before.without(manual).canonical is target.canonical:
        return value
    dims = [str(axes) if len(axes) > 1 else repr(axes[0]) if axes else "None" for axes in target.axes]
    states = (("unreduced", target.unreduced), ("reduced", target.reduced))
    said = [f"{name}={{{', '.join(map(repr, axes))}}}" for name, axes in states if axes]
    return f"jax.reshard({value}, P({', '.join((*dims, *said))}))"
