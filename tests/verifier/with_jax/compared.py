"""Derivatives beside JAX's: what JAX prints of a gradient (or of a jvp, where there is no way back) says the same as
what we derive from the function's own program, has the same types, and communicates the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from calculus.building import Builder, Workbench
from calculus.checking import Checker
from calculus.equivalence import difference
from calculus.gradients import gradient
from calculus.linearization import differentiable, linearize
from calculus.meshes import Mesh
from calculus.naming import tidy
from calculus.programs import Program
from calculus.refusals import Refused
from calculus.types import ArrayType, same
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from verifier.report import Report
from verifier.texts import check_text
from verifier.with_jax.objects import ObjectChecker, Objects

P = jax.sharding.PartitionSpec
#: gradients that are typed with reduced values and casts; the older release has neither
TYPED = jax.__version_info__ >= (0, 12)

Argument = tuple[tuple[int, ...], Any]
"""A shape and a spec; a dtype after them, where that is not float32."""
X = (8, 4), P("X")
N = (8, 4), P()
W = (4, 4), P()
V = (4,), P()
INT = (), P(), jnp.int32


def printed(function: Callable[..., Any], arguments: list[Any]) -> str:
    return str(jax.make_jaxpr(function)(*arguments).jaxpr.pretty_print(use_color=False))


class Traced:
    """A function, its arguments, and the mesh that they are on: none for the older release."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.mesh = jax.make_mesh((2, 2), ("X", "Y"), devices=jax.devices()[:4]) if TYPED else None
        self.meshes: list[Mesh] = parse_meshes("X=2, Y=2") if TYPED else []
        self.arguments = [self._struct(*argument) for argument in arguments]
        self.wrt = tuple(at for at, one in enumerate(self.arguments) if jnp.issubdtype(one.dtype, jnp.floating))

    def _struct(self, shape: tuple[int, ...], spec: Any, dtype: Any = jnp.float32) -> Any:
        placed = {"sharding": jax.sharding.NamedSharding(self.mesh, spec)} if self.mesh is not None else {}
        return jax.ShapeDtypeStruct(shape, dtype, **placed)

    def text(self, function: Callable[..., Any], *more: Any) -> str:
        if self.mesh is None:
            return printed(function, [*self.arguments, *more])
        with jax.set_mesh(self.mesh):
            return printed(function, [*self.arguments, *more])

    def program(self) -> tuple[Program, Workbench]:
        """The function's own program, which is well typed."""
        program, checker = read(self.text(self.function)).program, Checker(self.meshes)
        checker.check(program)
        assert not checker.refusals, checker.refusals[0][0].message
        return program, Workbench(checker)

    def gradient(self) -> tuple[str, Workbench]:
        program, bench = self.program()
        return print_document(tidy(gradient(program, bench, self.wrt))), bench

    def alike(self, ours: str, theirs: str) -> str:
        """What keeps two derived programs from being the same."""
        assert communication(check_text(ours, self.meshes, "ours")) == communication(
            check_text(theirs, self.meshes, "theirs")
        )
        one, other = read(ours).program, read(theirs).program
        assert all(same(left, right) for left, right in zip(types_of(one), types_of(other), strict=True))
        return difference(one, other)


def communication(report: Report) -> list[tuple[object, ...]]:
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    return sorted((row.kind, row.axes, row.bytes, row.times) for row in report.communication)


def types_of(program: Program) -> list[Any]:
    types = dict(zip(program.inputs, program.input_types, strict=True))
    for one in program.equations:
        types.update(zip(one.binders, one.types, strict=True))
    return [types[str(atom)] for atom in program.outputs]


def same_gradient(function: Callable[..., Any], *arguments: Any) -> Workbench:
    """Our gradient is JAX's."""
    traced = Traced(function, arguments)
    ours, bench = traced.gradient()
    theirs = traced.text(jax.grad(function, argnums=traced.wrt))
    assert traced.alike(ours, theirs) == ""
    return bench


def forward(program: Program, bench: Workbench, wrt: tuple[int, ...]) -> Program:
    """The program from the inputs, and tangents of some, to the results and their tangents, zeros included."""
    found = linearize(bench, bench.checker.scope, program, [at in wrt for at in range(len(program.inputs))])
    builder = Builder(bench, bench.checker.scope)
    inputs = [builder.input(type) for type in program.input_types if type is not None]
    tangents = [builder.input(builder.type_of(inputs[at])) for at in wrt]
    made = builder.inline(found.forward, inputs)
    count = len(program.outputs)
    pushed = iter(builder.inline(found.linear, [*made[count:], *tangents]))
    ends = []
    for result, flows in zip(made, found.nonzero, strict=False):
        type = builder.type_of(result)
        if differentiable(type):
            assert isinstance(type, ArrayType)
            ends.append(next(pushed) if flows else builder.full(0, type))
    return builder.program([*inputs, *tangents], [*made[:count], *ends])


def same_tangents(function: Callable[..., Any], *arguments: Any) -> None:
    """Our linearized program, applied to tangents, is what JAX's jvp computes."""
    traced = Traced(function, arguments)
    program, bench = traced.program()
    ours = print_document(tidy(forward(program, bench, traced.wrt)))
    count = len(arguments)

    def both(*values: Any) -> Any:
        given, flowing = values[:count], iter(values[count:])
        zero = [jnp.zeros(one.shape, jax.dtypes.float0) for one in given]
        tangents = [next(flowing) if at in traced.wrt else zero[at] for at in range(count)]
        results, pushed = jax.jvp(function, given, tuple(tangents))
        floating = [one for one in jax.tree.leaves(pushed) if one.dtype != jax.dtypes.float0]
        return jax.tree.leaves(results), floating

    theirs = traced.text(both, *(traced.arguments[at] for at in traced.wrt))
    one, other = read(ours).program, read(theirs).program
    communication(check_text(ours, traced.meshes, "ours"))
    assert difference(one, other) == ""


def refused(function: Callable[..., Any], *arguments: Any) -> str:
    """What our gradient is refused for."""
    with pytest.raises(Refused) as caught:
        Traced(function, arguments).gradient()
    assert caught.value.refusal.code in ("unmodelled-construct", "no-cotangent")
    assert caught.value.refusal.help
    return caught.value.refusal.message


needs_types = pytest.mark.skipif(not TYPED, reason="the older release has no explicit gradients to compare with")


class OfObjects(Traced):
    """The same from JAX's objects, in which rules are at hand."""

    def gradient(self) -> tuple[str, Workbench]:
        with contextlib.nullcontext() if self.mesh is None else jax.set_mesh(self.mesh):
            made = jax.make_jaxpr(self.function)(*self.arguments)
        objects = Objects(made)
        checker = ObjectChecker(self.meshes, objects)
        checker.check_objects()
        assert not checker.refusals, checker.refusals[0][0].message
        bench = Workbench(checker)
        return print_document(tidy(gradient(objects.program(objects.main), bench, self.wrt))), bench


def same_from_objects(function: Callable[..., Any], *arguments: Any) -> None:
    """Our gradient is JAX's, and nothing is assumed."""
    traced = OfObjects(function, arguments)
    ours, bench = traced.gradient()
    assert bench.assumed == set()
    assert traced.alike(ours, traced.text(jax.grad(function, argnums=traced.wrt))) == ""
