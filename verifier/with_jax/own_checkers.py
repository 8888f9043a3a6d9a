"""What JAX's own checkers say: `check_jaxpr`, of cells that it types and that are unsound, and `no_collectives`, of
cells that communicate, and of cells that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from calculus.checking import Checker
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Equation, Program
from calculus.refusals import Refused
from verifier.audit import Asked
from verifier.cells import Cell, Verdict, cells, our_verdict
from verifier.examine import examine
from verifier.matrix import MESHES, Matrix, applies, modelled
from verifier.patterns import OURS, agree
from verifier.with_jax import probe


def ask(
    found: Matrix,
    primitives: Sequence[str] = (),
    progress: Callable[[str], None] = lambda name: None,
    calls: Sequence[probe.Traced] = (),
) -> Asked:
    """Ask both, of the cells along one axis: of these calls, by default of all."""
    total = Asked()
    differing: dict[tuple[str, Mesh], set[Cell]] = {}
    for difference in found.differences:
        if difference.accepts != OURS and len(difference.mesh.axes) == 1:
            differing.setdefault((difference.call.name, difference.mesh), set()).add(difference.cell)
    for call in calls or probe.calls():
        name = call.call.primitive
        if not modelled(name) or (primitives and name not in primitives) or call.call.handed:
            continue
        for mesh in MESHES:
            if len(mesh.axes) > 1 or not applies(call.call.axes, call.call.asked, mesh):
                continue
            progress(f"JAX's own checkers: {call.call.name} on {mesh}")
            unsound = sorted(differing.get((call.call.name, mesh), ()), key=str)
            if unsound:
                total = _checked(call, unsound, mesh, total)
            if mesh.axes[0].mode is AxisMode.EXPLICIT and hasattr(jax.sharding, "no_collectives"):
                total = _forbidden(call, mesh, total)
    return total


def _checked(call: probe.Traced, chosen: Sequence[Cell], mesh: Mesh, total: Asked) -> Asked:
    """`check_jaxpr` of all cells in one program; where it objects, of each alone."""
    from jax._src.core import check_jaxpr

    def accepted(some: Sequence[Cell]) -> tuple[int, list[str]]:
        try:
            check_jaxpr(probe.program(call, some, mesh))
        except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
            if len(some) == 1:
                return 0, [f"{call.call.name} {some[0]}: {type(error).__name__}"]
            parts = [accepted([one]) for one in some]
            return sum(number for number, _ in parts), [text for _, texts in parts for text in texts]
        return len(some), []

    number, objections = accepted(chosen)
    return total._replace(
        unsound=total.unsound + len(chosen),
        unsound_accepted=total.unsound_accepted + number,
        objections=(*total.objections, *objections),
    )


def _forbidden(call: probe.Traced, mesh: Mesh, total: Asked) -> Asked:
    """`no_collectives` over all axes, beside what we derive."""
    chosen = cells(call.call, mesh, probe.KINDS, 200)
    plain = probe.evaluate(call, chosen, mesh)
    with jax.sharding.no_collectives(set(mesh.by_name)):
        strict = probe.evaluate(call, chosen, mesh)
    for cell, verdict, allowed, equation in zip(
        chosen, plain, strict, probe.equations(call, chosen, mesh), strict=True
    ):
        if verdict.types is None or not agree(our_verdict(call.call, equation, cell, verdict, mesh), verdict):
            continue
        moves = _communicates(equation, cell, verdict, mesh)
        if moves is None:
            continue
        refused = allowed.types is None
        if moves:
            total = total._replace(
                communicating=total.communicating + 1,
                communicating_accepted=total.communicating_accepted + (not refused),
            )
        else:
            total = total._replace(silent=total.silent + 1, silent_refused=total.silent_refused + refused)
    return total


def _communicates(equation: Equation, cell: Cell, verdict: Verdict, mesh: Mesh) -> bool | None:
    """Whether we charge anything for a cell; `None` where it cannot be priced."""
    names = tuple(atom for atom in equation.inputs if isinstance(atom, str))
    types: tuple[Any, ...] = verdict.types or ()
    made = Equation(equation.primitive, equation.parameters, equation.inputs, equation.binders, types)
    program = Program((), (), names, cell.operands, (made,), equation.binders)
    try:
        examined = examine(program, Checker([mesh]))
    except Refused:
        return None
    return None if examined.refusals else bool(examined.charges)
