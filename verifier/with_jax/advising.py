"""What this release of JAX says of a program that is proposed, and what XLA makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import jax

from calculus.cotangents import cotangent
from calculus.linearization import differentiable
from calculus.meshes import Mesh
from calculus.programs import Program
from calculus.types import ArrayType, Type, same
from verifier.compiled.agreement import Compared, compared
from verifier.compiled.targets import CPU, target
from verifier.with_jax import meshes
from verifier.with_jax.compiling import mesh_on, trace_on
from verifier.with_jax.names import leaves
from verifier.with_jax.probe import of_aval, struct
from verifier.with_jax.python_values import Unwritten
from verifier.with_jax.running import callable_of, inputs_of

VERSION: Final = jax.__version__

UNKNOWN: Final = "it is not known to be taken"
"""What is said of a program that cannot be written for JAX."""


def differentiated(
    program: Program, mesh: Mesh, results: Sequence[Type], wrt: Sequence[int]
) -> tuple[Callable[..., Any], list[ArrayType]]:
    """A program as a function of JAX's, to its results and, where there are some, the cotangents of these inputs; and
    the types that it takes: its own inputs', and then a cotangent's for each floating result. Raises `Unwritten`."""
    function = callable_of(program, mesh)
    inputs = inputs_of(program)
    if not wrt:
        return function, inputs
    held, count = len(program.constants), len(inputs)
    seeded = [number for number, type in enumerate(results) if differentiable(type)]
    seeds = [one for one in map(cotangent, (results[number] for number in seeded)) if isinstance(one, ArrayType)]

    def whole(*values: Any) -> Any:
        def part(*chosen: Any) -> Any:
            filled = list(values[:count])
            for index, value in zip(wrt, chosen, strict=True):
                filled[held + index] = value
            found = function(*filled)
            return [found[number] for number in seeded], found

        _, back, found = jax.vjp(part, *(values[held + index] for index in wrt), has_aux=True)
        return [*found, *back(list(values[count:]))]

    return whole, [*inputs, *seeds]


def says(program: Program, mesh: Mesh, results: Sequence[Type], wrt: Sequence[int]) -> str:
    """What JAX says against a program, or against its vjp with respect to some inputs: that it raises, or types a
    result or a gradient otherwise; nothing where it takes it. results: the types of the program's."""
    try:
        function, inputs = differentiated(program, mesh, results, wrt)
    except Unwritten as error:
        return f"{UNKNOWN}: {error}"
    where = meshes.abstract(mesh)
    types = (*program.constant_types, *program.input_types)[len(program.constants) :]
    wanted = [*results, *(cotangent(types[index]) for index in wrt)]  # type: ignore[arg-type]
    try:
        with jax.sharding.use_abstract_mesh(where):
            made = jax.make_jaxpr(function)(*(struct(type, where) for type in inputs))
    except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
        said = " ".join(str(error).partition("\n---")[0].split())
        return f"{type(error).__name__}: {said[:300]}"
    for aval, type_ in zip(made.out_avals, wanted, strict=True):
        if not same(of_aval(aval), type_):
            return f"the result is {of_aval(aval)}, not {type_}"
    return ""


def compiled(name: str, program: Program, mesh: Mesh, results: Sequence[Type], wrt: Sequence[int]) -> Compared:
    """What XLA for CPU devices moves for a program, and its vjp, beside what is derived. Raises `NotCompiled`,
    `NoCompiler` and `Unwritten`."""
    chosen = target(CPU)
    function, inputs = differentiated(program, mesh, results, wrt)
    on = mesh_on(chosen, mesh)
    traced = trace_on(on, function, [struct(type, on) for type in inputs], {})
    return compared(name, chosen, on, traced)


def counted(found: Compared) -> tuple[int, Mapping[str, int]]:
    """How many collectives a compiled program runs, loops counted, as its partitioner left it; and how many of those
    differ from what is derived in which class, of kind, payload or number (`verifier.compiled.classes`)."""
    (stage,) = found.stages.values()
    moved = {id(one): one for one in (*(one for pair in stage.pairs for one in pair.moved), *stage.moved)}
    return sum(prod(times or 1 for times in one.loops) for one in moved.values()), stage.classes


def placed_as(
    f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], types: Mapping[str, ArrayType]
) -> tuple[Any, Any]:
    """A call's arguments, with those at these paths as their types say. Raises `KeyError` for a path that is none."""
    known = leaves(f, args, kwargs)
    values, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    left = dict(types)
    for place, leaf in enumerate(known):
        type_ = left.pop(leaf.path, None)
        if type_ is not None:
            mesh = leaf.value.sharding.mesh
            values[place] = struct(type_, getattr(mesh, "abstract_mesh", mesh))
    if left:
        raise KeyError(next(iter(left)))
    made: tuple[Any, Any] = jax.tree.unflatten(tree, values)
    return made
