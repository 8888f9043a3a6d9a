"""An explanation beside what a compiler makes of the same step: each row confirmed, or with its class of difference.

What is compiled is the step itself, or, of a function that was differentiated here, the function with its gradient as
JAX makes it. Collectives are matched as `shardproof agree --target` does (proofs/compiled.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from calculus.gradients import gradient, vjp
from calculus.meshes import Mesh
from verifier.backward import KINDS
from verifier.compiled.agreement import Compared, of_function
from verifier.compiled.classes import CLASSES
from verifier.compiled.derived import Said
from verifier.compiled.targets import PARTITIONED, RUN, Target
from verifier.explaining.entries import Entry
from verifier.explaining.explanation import Explanation
from verifier.factories import made_by

CONFIRMED: Final = "confirmed"
UNEXPLAINED: Final = "not found in what is compiled"

_Key: TypeAlias = "tuple[str, tuple[str, ...], int | None, str]"


def confirm(
    found: Explanation, target: Target, function: Callable[..., Any], arguments: Sequence[Any], keywords: Any,
    mesh: Mesh | None,
) -> Explanation:  # fmt: skip
    """The explanation with each row held against a compiler for a target. function: what was explained, or, where its
    backward pass was derived, the function with its gradient. mesh: to compile for, instead of that of the arguments.

    Raises `NoCompiler`, with the repair, `NotCompiled` and `Refused`.
    """
    compared = of_function(found.name, target, function, arguments, keywords, mesh)
    stage = RUN if RUN in compared.stages else PARTITIONED
    early = _classes(compared, PARTITIONED, lines=found.source is not None)
    said = _classes(compared, stage, lines=found.source is not None)
    keys = [_key(one) if found.source is not None else (*_key(one)[:3], "") for one in found.entries]
    rows = [
        replace(one, confirmed=_verdict(said.get(key, [UNEXPLAINED]), early.get(key, [UNEXPLAINED])))
        for one, key in zip(found.entries, keys, strict=True)
    ]
    more = list(compared.stages[stage].moved) if stage in compared.stages else []
    problem = [f"compiled for {target} as far as the partitioner: {compared.problem}"] if compared.problem else []
    extra = [f"{target} moves besides: {one.kind} over {', '.join(one.axes)}, {one.payload:,} bytes" for one in more]
    met = {name for classes in said.values() for name in classes}
    meant = [f"{one.name}: {one.means}" for one in CLASSES if one.name in met]
    notes = [
        *found.notes,
        f"held against what is compiled for {target} on the mesh {compared.mesh}",
        *meant,
        *problem,
        *extra,
    ]
    return replace(found, entries=rows, notes=notes)


def step_of(
    found: Explanation, name: str, meshes: Sequence[Mesh], is_function: bool
) -> tuple[Any, Any, Any, Mesh | None]:
    """What is to be compiled: the function by name, or that of a text, with its gradient where that was derived here;
    its arguments, those by name, and the mesh, where one is given. Raises what `made_by` and `function_of` do."""
    keywords: Any = {}
    if is_function:
        function, arguments, keywords = made_by(name)
        mesh = meshes[0] if meshes else None
    else:
        from verifier.with_jax.backward_programs.printed import function_of

        function, arguments, mesh = function_of(name, meshes)
    if found.what in (KINDS[gradient], KINDS[vjp]):
        from verifier.with_jax.gradients import with_gradient

        function, arguments = with_gradient(functools.partial(function, **keywords), arguments, found.positions)
        keywords = {}
    return function, arguments, keywords, mesh


def _classes(compared: Compared, stage: str, lines: bool) -> dict[_Key, list[str]]:
    """How each collective of the types stands in what is compiled. lines: whether they are told apart by the author's
    lines, which a text that is compiled as a function has not."""
    found: dict[_Key, list[str]] = {}
    matching = compared.stages.get(stage)
    if matching is None:
        return found
    for pair in matching.pairs:
        for one in pair.said:
            found.setdefault(_said(one, lines), []).append(CONFIRMED if pair.class_ is None else pair.class_.name)
    for one in matching.said:
        found.setdefault(_said(one, lines), []).append(UNEXPLAINED)
    return found


def _said(one: Said, lines: bool) -> _Key:
    return one.kind, one.axes, one.payload, one.where if lines else ""


def _key(one: Entry) -> _Key:
    return one.row.kind, tuple(sorted(one.row.axes)), one.row.bytes, one.row.where


def _verdict(classes: list[str], early: list[str]) -> str:
    """What is found in the end; where something is not, what the partitioner had made of it."""
    found = ", ".join(sorted(set(classes)))
    if UNEXPLAINED in classes and UNEXPLAINED not in early:
        return f"as partitioned: {', '.join(sorted(set(early)))}; {found}"
    return found
