"""Forms: constructs that no index scheme describes, one judgment rule each. Calls are here; loops and branches in
`calculus.loops` and `calculus.branches`, the boundary of a shard_map in `calculus.boundaries`, casts and collectives in
`calculus.collectives`, resharding in `calculus.resharding`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calculus.bodies import Form, Formed, enter, leave, program_of
from calculus.boundaries import shard_map
from calculus.branches import cond, while_loop
from calculus.cells import statement
from calculus.collectives import COLLECTIVES, collective
from calculus.effects import Inner
from calculus.exchanges import AWAITED, await_future, broadcast_from, ragged_exchange, receive, send, token
from calculus.handovers import handovers
from calculus.judgments import rule
from calculus.layouts import check_formats, layout_constraint
from calculus.lifetimes import create_linear, empty_ref, freeze, new_ref, pin, run_state
from calculus.loops import scan
from calculus.meshes import AxisMode, Mesh, as_given
from calculus.opaque import UNMODELLED, assume, declared, in_kernels, opaque
from calculus.parameters import mesh
from calculus.passing import beside, count, linear_solve, observe
from calculus.programs import Call, Equation
from calculus.refusals import Place, refuse
from calculus.resharding import device_put, handed_out, memory_constraint, reshard, sharding_constraint
from calculus.rules import Typing, has_type
from calculus.types import RefType
from calculus.uses import Operand

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope


def form(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """The judgment of a form. Refuses `unmodelled-primitive` where none is written."""
    formed = _formed(checker, equation, operands, scope)
    if equation.primitive not in CELLS:
        for index, type in enumerate(formed[0].types):
            if isinstance(type, RefType):
                raise refuse(
                    "unmodelled-construct",
                    f"result {index} of {equation.primitive} is {type}, a cell",
                    because="what names a cell that another name stands for too is not followed",
                    help="give back what the cell holds",
                    place=Place("binder", index),
                )
    return formed


def _formed(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    found = FORMS.get(equation.primitive)
    if found is not None:
        return found(checker, equation, operands, scope)
    if equation.primitive in COLLECTIVES:
        return collective(equation, operands, scope.mesh), (), True
    if opaque(equation.primitive):
        kernel = declared(equation)
        if kernel is not None:
            return has_type(kernel, equation.parameters, operands, equation.types, scope.mesh), (), True
        return assume(checker, equation, operands, scope)
    raise refuse(
        "unmodelled-primitive",
        f"{equation.primitive} has no declaration",
        because=UNMODELLED.get(equation.primitive, "what is not declared cannot be judged")
        if not in_kernels(equation.primitive)
        else "it belongs to the language of kernels, whose bodies are not entered",
        help="declare it in the table, or in a rules file of your own",
    )


CELLS: Final = frozenset({"new_ref", "empty_ref"})
"""What makes cells."""

_BODIES: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr", "callee", "call", "fwd_jaxpr")


@rule
def call(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        x₁ … xₙ ⊢ body : τ ▷ κ      the operands have the inputs' types
        ──────────────────────────────────────────────────────────────── call
        Γ ⊢ jit[jaxpr=body] x₁ … xₙ : τ ▷ κ

    So do closed_call, remat, custom_jvp_call and custom_vjp_call, and regions under another mesh (`ctx_mesh`). The
    shardings that a jit asks for are in κ, and in no type: see `calculus.handovers`. The memories that results are
    handed out in (`out_memory_spaces`) are in their types.
    """
    program = program_of(equation, *_BODIES)
    name = equation.parameters.get("name")
    label = f"{equation.primitive} {name}" if isinstance(name, str) else equation.primitive
    check_formats(equation.parameters, operands, equation.types)
    inside = checker.scope_on(context(equation, scope), scope)
    checked = enter(checker, program, inside, operands, label)
    types = leave(checker, equation, handed_out(checked.types, equation.parameters), label)
    if equation.parameters.keys().isdisjoint(("in_shardings", "out_shardings")):
        return Typing(types), (Inner(checked, 1, label),), not checked.ended  # type: ignore[arg-type]
    asked = handovers(equation.parameters, operands, types, scope)
    inner = Inner(checked, 1, label, maybe=asked.elsewhere)
    return Typing(types, asked.moves), (inner,), not checked.ended  # type: ignore[arg-type]


def context(equation: Equation, scope: Scope) -> Mesh:
    """The mesh that a call sets for its body: its sizes must be those given, its modes are its own, except that what is
    manual stays so (JAX prints the modes outside the shard_map). Seeds B8, B9."""
    said = equation.parameters.get("ctx_mesh")
    if not isinstance(said, Call):
        return scope.mesh
    try:
        known = scope.contexts.get(said)
    except TypeError:  # a list stands in it
        return _context(said, scope)
    if known is None:
        known = scope.contexts[said] = _context(said, scope)
    return known


def _context(said: Call, scope: Scope) -> Mesh:
    found = mesh(said, "ctx_mesh")
    if found is None or not found.axes:
        return scope.mesh
    manual = {axis.name: axis.mode for axis in scope.mesh.axes if axis.mode is AxisMode.MANUAL}
    return as_given(found.with_modes(manual, scope.mesh.tracked), scope.meshes, "ctx_mesh")


@rule
def identity(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ xᵢ : τᵢ
        ────────────────────────────────────────── identity
        Γ ⊢ optimization_barrier x₁ … xₙ : τ₁ … τₙ

    A barrier or a name changes nothing that a type says; each result is its own operand.
    """
    types = leave(checker, equation, operands, equation.primitive)
    return Typing(types), (), True  # type: ignore[arg-type]


FORMS: Final[dict[str, Form]] = {
    **dict.fromkeys(
        (
            "jit",
            "pjit",
            "closed_call",
            "core_call",
            "remat",
            "remat2",
            "checkpoint",
            "custom_jvp_call",
            "custom_vjp_call",
            "custom_vjp_call_jaxpr",
            "eval_jaxpr",
            "compute_on",
            "call",
            "linear_call",
            "composite",
            "custom_vmap_call",
            "custom_jvp_call_jaxpr",
            "remat_opt",
            "xla_metadata_call",
            "program_order",
        ),
        call,
    ),
    **dict.fromkeys(
        (
            "optimization_barrier",
            "name",
            "accum_grad_in_ref",
            "xla_metadata_value",
            "stage",
            "shard_alike",
            "zeros_like",
        ),
        identity,
    ),
    **dict.fromkeys(("get", "swap", "addupdate"), statement),
    "new_ref": new_ref,
    "empty_ref": empty_ref,
    **dict.fromkeys(AWAITED, await_future),
    "pbroadcast_dynamic": broadcast_from,
    "ragged_all_to_all": ragged_exchange,
    "psend": send,
    "precv": receive,
    **dict.fromkeys(("create_token", "after_all"), token),
    **dict.fromkeys(("freeze", "free_ref"), freeze),
    "scan": scan,
    "while": while_loop,
    "cond": cond,
    "shard_map": shard_map,
    "device_put": device_put,
    "with_memory_space_constraint": memory_constraint,
    **dict.fromkeys(("layout_constraint", "relayout"), layout_constraint),
    **dict.fromkeys(("tie", "add_dependency"), beside),
    **dict.fromkeys(("check", "shape_assertion", "inspect_sharding", "dce_sink"), observe),
    **dict.fromkeys(("platform_index", "dim_as_value", "dimension_size"), count),
    "custom_linear_solve": linear_solve,
    "run_state": run_state,
    **dict.fromkeys(("pin", "unpin"), pin),
    "create_linear": create_linear,
    "reshard": reshard,
    "sharding_constraint": sharding_constraint,
}
