"""Calls that JAX refuses, judged by the calculus: of each its type, or the refusal, in our words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import Literal
from jax.sharding import NamedSharding

from calculus.checking import Checker
from calculus.collectives import COLLECTIVES
from calculus.meshes import AxisMode, Mesh
from calculus.primitives import TABLE
from calculus.programs import Equation
from calculus.refusals import Family, Refusal, Refused
from calculus.types import ArrayType, array_type
from verifier import cells
from verifier.ledger import ledger
from verifier.patterns import Difference
from verifier.with_jax import meshes
from verifier.with_jax.lines import Frame, differentiating, user_frame
from verifier.with_jax.probe import TARGETS, of_aval, spec
from verifier.with_jax.untyped import WithoutTypes


@dataclass(frozen=True, slots=True)
class Typed:
    """A call that JAX refuses and the calculus types. number: that of the difference in the ledger, if it is in it.
    asked: the sharding that JAX asks for, where it does. instead: what JAX takes, as free forward."""

    primitive: str
    operands: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    number: int | None
    frame: Frame | None
    asked: str = ""
    instead: str = ""

    def __str__(self) -> str:
        operands, results = (", ".join(map(str, types)) for types in (self.operands, self.results))
        where = f"{self.frame}: " if self.frame is not None else ""
        asked = f"; the out_sharding that JAX asks for is {self.asked}" if self.asked else ""
        listed = f" (difference {self.number} in proofs/differences.md)" if self.number is not None else ""
        instead = f"; JAX takes, as free forward: {self.instead}" if self.instead else ""
        said = f"{where}JAX cannot trace {self.primitive} of {operands}; by the rules here it is {results}"
        return f"{said}{asked}{listed}{instead}"


@dataclass(slots=True)
class Calls:
    """typed: those that the calculus types. refusals: of those that it refuses as well. elements: of those of one
    element of what is mapped, which need not be refused for all."""

    typed: list[Typed] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    elements: list[Refusal] = field(default_factory=list)


def judged(
    found: Calls, primitive: Any, avals: Sequence[Any], params: dict[str, Any], tracers: Sequence[Any], error: Exception
) -> Any | None:
    """What JAX's evaluation of a call would have given, if it had not raised this error: the types of the results and
    the effects. `None` where the call is wrong for another reason, or refused. tracers: its operands."""
    here = next((aval.sharding.mesh for aval in avals if not aval.sharding.mesh.empty), None)
    types_given = tuple(of_aval(aval) for aval in avals)
    if here is None or not all(isinstance(type, ArrayType) for type in types_given):
        return None
    target = next((name for name in TARGETS if params.get(name) is not None), "")
    results, effects = _shaped(primitive, avals, params, target)
    if not results:
        return None
    asked = [_asked(out, params[target], here) for out in results] if target else results
    conversion = WithoutTypes(None)
    atoms, known = zip(*(_atom(aval, tracer) for aval, tracer in zip(avals, tracers, strict=True)), strict=True)
    (equation,) = conversion.equations([_Call(primitive, params, list(atoms), [_Variable(out) for out in asked])])
    operands = [conversion.literal(one) if isinstance(one, Literal) else of_aval(one.aval) for one in atoms]
    mesh = meshes.ours(here)
    try:
        checker = Checker([mesh])
        typing, _ = checker.judge(equation, operands, checker.scope, (object(),))
        types = tuple(type for type in typing.types if isinstance(type, ArrayType))
        found.typed.append(_told(primitive.name, equation, types_given, types, target, mesh, error))  # type: ignore[arg-type]
    except Refused as refused:
        if target:
            types = tuple(of_aval(out) for out in asked)  # type: ignore[misc]
        elif all(known):
            end(found, refused.refusal, found.elements if _of_one_element() else None)
            return None
        else:  # where the number is known the call is judged again
            types = tuple(next((one for one in types_given if one.shape == out.shape), None) for out in results)  # type: ignore[misc,union-attr]
            if None in types:
                return None
    if [type.shape for type in types] != [out.shape for out in results]:
        return None
    made = [_at(out, type, here) for out, type in zip(results, types, strict=True)]
    return (made if primitive.multiple_results else made[0]), effects


def _shaped(primitive: Any, avals: Sequence[Any], params: dict[str, Any], target: str) -> tuple[list[Any], Any]:
    """The shapes and dtypes of a call's results, and its effects: of one in the table as JAX finds them for arrays that
    lie nowhere; of casts and sums, those of their operands. None where the call is wrong for these."""
    if primitive.name in COLLECTIVES and params.keys() <= _KEEPING:
        return list(avals), frozenset()
    if primitive.name not in TABLE:
        return [], frozenset()
    with _nowhere():
        plain = [jax.core.ShapedArray(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
        try:
            outs, effects = primitive.abstract_eval(*plain, **{**params, **({target: None} if target else {})})
        except Exception:  # noqa: BLE001 - it is wrong without any placement
            return [], frozenset()
    return list(outs) if primitive.multiple_results else [outs], effects


_KEEPING: Final = frozenset({"axes", "axis_name", "axis_index_groups"})
"""The parameters of collectives that keep the shape."""


@dataclass(frozen=True)
class _Call:
    """An equation that is not made yet, as a conversion looks at it."""

    primitive: Any
    params: dict[str, Any]
    invars: list[Any]
    outvars: list[Any]
    ctx: Any = None


@dataclass(frozen=True, eq=False)
class _Variable:
    aval: Any


def _atom(aval: Any, tracer: Any) -> tuple[Any, bool]:
    """An operand of a call: a number, if it is one in the program, or becomes one of another dtype; and whether it is
    known. A scalar that nothing here has made is as yet unknown, since calls of JAX's own numpy take their numbers as
    arguments: it is judged again where it is known."""
    source = tracer
    while (made := getattr(source, "parent", None)) is not None and made.primitive.name == "convert_element_type":
        (source,) = made.in_tracers
    value = source.get_const() if hasattr(source, "get_const") else None
    weak = getattr(source.aval, "weak_type", False)
    if value is None and aval.shape == () and (weak or (made is None and getattr(of_aval(aval), "plain", False))):
        return Literal(np.ones((), aval.dtype)[()], jax.core.ShapedArray((), aval.dtype)), False
    if value is None or isinstance(value, jax.core.Tracer) or np.shape(value):
        return _Variable(aval), True
    return Literal(np.asarray(value, aval.dtype)[()], jax.core.ShapedArray((), aval.dtype)), True


def _of_one_element() -> bool:
    """Whether a trace is inside a vmap over a dim that is cut: types are those of one element, which say nothing of the
    axes of the cut, and what is called is judged again, for all elements."""
    env = import_module("jax._src.core").trace_ctx.axis_env
    return bool(getattr(env, "explicit_mesh_axis_names", ()))


def _asked(out: Any, sharding: Any, here: Any) -> Any:
    named = sharding if isinstance(sharding, NamedSharding) else NamedSharding(here, sharding)
    return out.update(sharding=named)


def _at(out: Any, type: ArrayType, here: Any) -> Any:
    """A type of JAX's that is ours, with what else it has."""
    mesh = meshes.ours(here)
    manual = [axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL]
    kept = (type.varying, type.unreduced, type.reduced)
    varying, unreduced, reduced = (frozenset(axes).intersection(manual) for axes in kept)
    state = {"varying": varying, "unreduced": unreduced, "reduced": reduced}
    made = out.update(sharding=NamedSharding(here, spec(type.without(manual))))
    return made.update(manual_axis_type=out.mat.__class__(**state)) if any(state.values()) else made


def end(found: Calls, refusal: Refusal, among: list[Refusal] | None = None) -> None:
    """Keep the refusal of the call at which the trace ends, among others of its kind. What nobody describes JAX itself
    may have a reason for."""
    if refusal.family is Family.UNMODELLED:
        return
    frame, of = user_frame(), differentiating()
    if frame is not None:
        refusal.line = frame.line
        refusal.trail = (f"at {frame}",)
    if of:
        refusal.message += f"; JAX calls it for {of}, which is called on that line"
        refusal.repair = (
            "its operands are JAX's own: reshard what is reduced, or pending, before the call of "
            f"{of.rpartition(' ')[2]}, or write that with operations that have a derivative here"
        )
    (found.refusals if among is None else among).append(refusal)


def _told(
    name: str, equation: Equation, operands: tuple[ArrayType, ...], types: tuple[ArrayType, ...], target: str,
    mesh: Mesh, error: Exception,
) -> Typed:  # fmt: skip
    call = cells.Call(name, "", equation, operands, target)
    cell = cells.Cell(operands, types[0] if target and types else None)
    theirs = cells.Verdict(None, cells.Refusal(type(error).__name__, str(error)))
    difference = Difference(call, mesh, cell, cells.Verdict(types), theirs)
    entry = next((entry for entry in ledger() if entry.covers(difference)), None)
    number = None if entry is None else entry.number
    instead = _cut_first(equation, operands, types, mesh) or _scaled(name, operands)
    instead = instead or ("" if entry is None else entry.instead.get(name, ""))
    asked = str(spec(types[0])) if _ASKS in str(error) and len(types) == 1 else ""
    return Typed(name, operands, types, number, user_frame(), asked.replace("PartitionSpec", "P"), instead)


def _cut_first(equation: Equation, operands: tuple[ArrayType, ...], types: tuple[ArrayType, ...], mesh: Mesh) -> str:
    """Which copy, beside what is cut along an axis in a contraction, is to be cut alike first, in words; else empty."""
    if equation.primitive != "dot_general":
        return ""
    checker = Checker([mesh])
    for index, type in enumerate(operands):
        cuts = {axis for other in operands for axis in other.sharded}.difference(type.sharded, type.unreduced)
        for axis in mesh.in_order(cuts):
            for dim in range(type.rank):
                lists = tuple((*axes, axis) if at == dim else axes for at, axes in enumerate(type.axes))
                promised = tuple(one for one in type.reduced if one != axis)
                cut = array_type(type.dtype, type.shape, lists, type.varying, type.unreduced, promised, type.kind)
                given = [cut if at == index else other for at, other in enumerate(operands)]
                with contextlib.suppress(Refused):
                    typing, _ = checker.judge(equation, given, checker.scope, (object(),))
                    if typing.types == types and not typing.collectives and _alike(equation, given):
                        return f"operand {index} resharded first, to {cut}"
    return ""


def _scaled(name: str, operands: Sequence[ArrayType]) -> str:
    """How JAX takes a product, or a sum, of what is cut along an axis, x, and what is reduced there, s; else empty."""
    if name not in ("mul", "add") or len(operands) != 2:
        return ""
    x, s = operands if operands[1].reduced else operands[::-1]
    cut = [dim for dim, axes in enumerate(x.axes) if set(axes).intersection(s.reduced)]
    if s.rank not in (0, x.rank) or x.reduced or not cut or x.rank > len(_LETTERS):
        return ""
    sign = "*" if name == "mul" else "+"
    if s.rank and any(s.shape[dim] == x.shape[dim] for dim in cut):
        lists = tuple(
            x.axes[dim] if s.shape[dim] == x.shape[dim] and dim in cut else s.axes[dim] for dim in range(s.rank)
        )
        kept = tuple(axis for axis in s.reduced if all(axis not in axes for axes in lists))
        target = array_type(s.dtype, s.shape, lists, s.varying, s.unreduced, kept, s.kind)
        return f"x {sign} jax.reshard(s, {str(spec(target)).replace('PartitionSpec', 'P')}) for x {sign} s"
    whole = _LETTERS[: x.rank]
    own = "".join(letter for letter, size in zip(whole, s.shape, strict=False) if size != 1)
    if name == "mul":
        return f"jnp.einsum('{whole},{own}->{whole}', x, s) for x * s, s without dims of size 1"
    return f"x + jnp.einsum('{whole},{own}->{whole}', jnp.ones_like(x), s) for x + s, s without dims of size 1"


_LETTERS: Final = "abcdefgh"


def _alike(equation: Equation, operands: Sequence[ArrayType]) -> bool:
    """Whether the dims that a contraction pairs are cut alike."""
    numbers: Any = equation.parameters["dimension_numbers"]
    contracted, batch = numbers
    one, other = operands
    return all(one.axes[a] == other.axes[b] for pair in (contracted, batch) for a, b in zip(*pair, strict=True))


_ASKS: Final = "out_sharding="
"""What JAX's refusals name where a sharding that is asked for ends them."""


@contextlib.contextmanager
def _nowhere() -> Iterator[None]:
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        yield
