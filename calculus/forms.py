"""Forms: constructs that no index scheme describes, one judgment rule each. Calls, loops, branches; the boundary of a
shard_map is in `calculus.boundaries`, casts and collectives in `calculus.collectives`, resharding in
`calculus.resharding`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from calculus.boundaries import shard_map
from calculus.checking import agree
from calculus.collectives import COLLECTIVES, collective
from calculus.effects import Inner
from calculus.judgments import rule
from calculus.layouts import check_formats, layout_constraint
from calculus.loops import scan_parts
from calculus.meshes import AxisMode, same_devices
from calculus.opaque import assume, declared, opaque
from calculus.parameters import bad, dim, integer, mesh, required
from calculus.programs import Equation, Program, Programs, Value, body
from calculus.refusals import Place, refuse
from calculus.resharding import device_put, reshard, sharding_constraint
from calculus.rules import Typing, has_type
from calculus.types import ArrayType, Type, array_type
from calculus.uses import Operand, operand_type
from calculus.wellformed import ELEMENTS

if TYPE_CHECKING:
    from calculus.checking import Checked, Checker, Scope

Formed: TypeAlias = "tuple[Typing, tuple[Inner, ...], bool]"
"""A form's typing, the bodies inside it, and whether its judgment may be remembered."""
Form: TypeAlias = "Callable[[Checker, Equation, Sequence[Operand], Scope], Formed]"


def form(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """The judgment of a form. Refuses `unmodelled-primitive` where none is written."""
    found = FORMS.get(equation.primitive)
    if found is not None and equation.cell is None:
        return found(checker, equation, operands, scope)
    if equation.primitive in COLLECTIVES and equation.cell is None:
        return collective(equation, operands, scope.mesh), (), True
    if equation.cell is None and opaque(equation.primitive):
        kernel = declared(equation)
        if kernel is not None:
            return has_type(kernel, equation.parameters, operands, equation.types, scope.mesh), (), True
        return assume(checker, equation, operands, scope)
    name = equation.primitive if equation.cell is None else "a Ref statement"
    raise refuse(
        "unmodelled-primitive",
        f"{name} has no declaration",
        because="what is not declared cannot be judged",
        help="declare it in the table, or in a rules file of your own",
    )


def _program(equation: Equation, *names: str) -> Program:
    for name in names:
        found = body(equation.parameters.get(name))
        if found is not None:
            return found
    raise refuse(
        "bad-parameter",
        f"{equation.primitive} has no body: {' or '.join(names)} holds none",
        because="a call says what it calls",
        help=f"print {names[0]}={{ lambda ; ... }}",
    )


def _enter(
    checker: Checker, program: Program, scope: Scope, operands: Sequence[Operand], what: str, offset: int = 0
) -> Checked:
    """Check a body against the operands it is given. Refuses `arity` and `inconsistent-type`."""
    wanted: tuple[Type | None, ...] = (*program.constant_types, *program.input_types)
    if len(operands) == len(program.inputs):  # constants that a closed body carries along are no operands
        wanted = program.input_types
    if len(wanted) != len(operands):
        raise refuse(
            "arity",
            f"{what} takes {len(wanted)} inputs and is given {len(operands)}",
            because="every input of a body is one operand",
            place=Place("operand", offset + min(len(wanted), len(operands)) - 1),
        )
    checked = checker.body(program, scope)
    for index, (operand, type) in enumerate(zip(operands, wanted, strict=True)):
        given = operand_type(operand, type)
        if not agree(given, type):
            raise refuse(
                "inconsistent-type",
                f"input {index} of {what} is {type}; the operand is {given}",
                because="a body is checked once, at the types its inputs are printed with",
                help=_reconcile(given, type),
                place=Place("operand", offset + index),
            )
    return checked


def _reconcile(given: Type | None, wanted: Type | None) -> str:
    if (
        isinstance(given, ArrayType)
        and isinstance(wanted, ArrayType)
        and (given.shape, given.dtype) == (wanted.shape, wanted.dtype)
    ):
        return f"reshard the operand to {wanted} first, or print the body for {given}"
    return f"give it a value of type {wanted}, or print the body for {given}"


def _leave(
    equation: Equation, results: Sequence[Type | None], what: str, code: str = "inconsistent-type"
) -> tuple[Type | None, ...]:
    """Compare a body's results with the binders. Refuses `arity` and `code`."""
    if len(results) != len(equation.types):
        raise refuse(
            "arity",
            f"{what} has {len(results)} results, and {len(equation.types)} are bound",
            because="every result has a name",
            place=Place("binder", min(len(results), len(equation.types))),
        )
    for index, (result, printed) in enumerate(zip(results, equation.types, strict=True)):
        if not agree(result, printed):
            raise refuse(
                code,
                f"result {index} of {what} is {result}, and it is printed as {printed}",
                because="the equation's results are the body's",
                help=f"bind it at {result}",
                place=Place("binder", index),
            )
    return tuple(printed if result is None else result for result, printed in zip(results, equation.types, strict=True))


def _typing(types: tuple[Type | None, ...]) -> Typing:
    return Typing(types)  # type: ignore[arg-type]


_BODIES: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr")


@rule
def call(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        x₁ … xₙ ⊢ body : τ ▷ κ      the operands have the inputs' types
        ──────────────────────────────────────────────────────────────── call
        Γ ⊢ jit[jaxpr=body] x₁ … xₙ : τ ▷ κ

    So do closed_call, remat, custom_jvp_call and custom_vjp_call, and regions under another mesh (`ctx_mesh`).
    """
    program = _program(equation, *_BODIES)
    name = equation.parameters.get("name")
    label = f"{equation.primitive} {name}" if isinstance(name, str) else equation.primitive
    check_formats(equation.parameters, operands, equation.types)
    inside = checker.scope_on(_context(checker, equation, scope), scope)
    checked = _enter(checker, program, inside, operands, label)
    types = _leave(equation, checked.types, label)
    return _typing(types), (Inner(checked, 1, label),), True


def _context(checker: Checker, equation: Equation, scope: Scope):  # type: ignore[no-untyped-def]
    """The mesh that a call sets for its body: its sizes must be those given, its modes are its own, except that what is
    manual stays so (JAX prints the modes outside the shard_map). Seeds B8, B9."""
    found = mesh(equation.parameters.get("ctx_mesh"), "ctx_mesh")
    if found is None or not found.axes:
        return scope.mesh
    manual = {axis.name: axis.mode for axis in scope.mesh.axes if axis.mode is AxisMode.MANUAL}
    return consistent(found.with_modes(manual, scope.mesh.tracked), scope, "ctx_mesh")


def consistent(found, scope: Scope, name: str):  # type: ignore[no-untyped-def]
    """A printed mesh, whose sizes must not contradict the mesh in context. Refuses `bad-mesh`."""
    same_devices(found, scope.mesh)
    for axis in found.axes:
        known = scope.mesh.by_name.get(axis.name)
        if known is not None and known.size is not None and known.size != axis.size and not _elsewhere(axis, scope):
            raise refuse(
                "bad-mesh",
                f"{name} says axis {axis.name} has size {axis.size}; the mesh given says {known.size}",
                because="a program runs on one number of devices",
                help=f"give the mesh {found}",
                place=Place("parameter", name=name),
            )
    return found


def _elsewhere(axis, scope: Scope) -> bool:  # type: ignore[no-untyped-def]
    return any(axis.name in other and other.by_name[axis.name].size == axis.size for other in scope.others)


@rule
def scan(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    constants, carry, slices ⊢ body : (carry, outputs) ▷ κ
    xs = slices stacked `length` times on a new leading dim, whole on every device
    ───────────────────────────────────────────────────────────────────────────── scan
    Γ ⊢ scan[jaxpr=body length=n] constants carry xs : (carry, stacked outputs) ▷ n · κ
    """
    program = _program(equation, "jaxpr")
    length = dim(required(equation.parameters, "length"), "length")
    if isinstance(length, int) and not 0 <= length <= ELEMENTS:
        raise bad("length", str(length), "a number of iterations")
    times = length if isinstance(length, int) else None
    label = f"scan x{length}"
    constants, carries = scan_parts(equation.parameters, len(operands), len(equation.binders))
    held = constants + carries
    slices = [*operands[:held], *(_slice_of(xs, length, held + k) for k, xs in enumerate(operands[held:]))]
    checked = _enter(checker, program, scope, slices, label)
    if len(checked.types) < carries:
        raise refuse("arity", f"the body of {label} has {len(checked.types)} results for {carries} carries")
    for index in range(carries):
        before, after = operand_type(operands[constants + index]), checked.types[index]
        if not agree(before, after):
            raise refuse(
                "carry-type",
                f"carry {index} of {label} is {before} before an iteration and {after} after it",
                because="every iteration starts from what the one before it ends with, at one type",
                help=f"cast or reshard the initial value to {after}, or the body's result to {before}",
                place=Place("operand", constants + index),
            )
    stacked = [_stacked(type, length) for type in checked.types[carries:]]
    types = _leave(equation, (*checked.types[:carries], *stacked), label)
    return _typing(types), (Inner(checked, times, label, carry=(constants, carries)),), False


def _slice_of(operand: Operand, length: Value, index: int) -> Operand:
    type = operand_type(operand)
    if not isinstance(type, ArrayType) or not type.shape or str(type.shape[0]) != str(length):
        raise refuse(
            "shape",
            f"operand {index} of the scan is {type}, and its leading dim is not the length {length}",
            because="every iteration takes one slice of it",
            place=Place("operand", index),
        )
    if type.axes[0]:
        raise refuse(
            "whole-dim-sharded",
            f"operand {index} of the scan, {type}, is sharded on its leading dim",
            because="each iteration's slice would be on some devices only",
            help="reshard it so that the leading dim is whole",
            place=Place("operand", index),
        )
    return _with_dims(type, type.shape[1:], type.axes[1:])


def _stacked(type: Type | None, length: Value) -> Type | None:
    if not isinstance(type, ArrayType):
        return type
    size = length if isinstance(length, int) else str(length)
    return _with_dims(type, (size, *type.shape), ((), *type.axes))


def _with_dims(type: ArrayType, shape, axes) -> ArrayType:  # type: ignore[no-untyped-def]
    return array_type(
        type.dtype, shape, axes, type.varying, type.unreduced, type.reduced, type.kind, type.memory, type.weak
    )


@rule
def while_loop(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    constants, carry ⊢ condition : bool ▷ κ₁      constants, carry ⊢ body : carry ▷ κ₂
    where the condition varies, so does every carry
    ────────────────────────────────────────────────────────────────────────────────── while
    Γ ⊢ while[…] constants carry : carry ▷ (n + 1) · κ₁ + n · κ₂, n not known
    """
    counts = [integer(required(equation.parameters, name), name) for name in ("cond_nconsts", "body_nconsts")]
    carry = operands[sum(counts) :]
    condition = _enter(
        checker, _program(equation, "cond_jaxpr"), scope, [*operands[: counts[0]], *carry], "the while condition"
    )
    inside = _enter(
        checker, _program(equation, "body_jaxpr"), scope, operands[counts[0] :], "the while body", counts[0]
    )
    _predicate(
        condition.types[0] if len(condition.types) == 1 else None, inside.types, "the while condition", ("bool",)
    )
    for index, (before, after) in enumerate(zip(carry, inside.types, strict=False)):
        if not agree(operand_type(before), after):
            raise refuse(
                "carry-type",
                f"carry {index} of the while loop is {operand_type(before)} before an iteration and {after} after it",
                because="every iteration starts from what the one before it ends with, at one type",
                help=f"cast or reshard the initial value to {after}, or the body's result to {operand_type(before)}",
                place=Place("operand", sum(counts) + index),
            )
    types = _leave(equation, inside.types, "the while loop")
    inner = (Inner(condition, None, "while condition", every=True), Inner(inside, None, "while", every=True))
    return _typing(types), inner, False


@rule
def cond(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    i : an integer scalar, the same on every device      every branch: x ⊢ branch : τ ▷ κⱼ
    where i varies, so does every result
    ──────────────────────────────────────────────────────────────────────────────────── cond
    Γ ⊢ cond[branches=…] i x : τ ▷ at most each κⱼ
    """
    value = required(equation.parameters, "branches")
    items = value.items if isinstance(value, Programs) else (value,) if body(value) else ()
    programs = [found for item in items if (found := body(item)) is not None]
    if not programs or not operands:
        raise refuse("bad-parameter", "cond has no branches or no predicate", place=Place("parameter", name="branches"))
    checked = [
        _enter(checker, program, scope, operands[1:], f"branch {index}", 1) for index, program in enumerate(programs)
    ]
    first = checked[0].types
    for index, other in enumerate(checked[1:], 1):
        for position, (left, right) in enumerate(zip(first, other.types, strict=False)):
            if not agree(left, right):
                raise refuse(
                    "branch-types",
                    f"result {position} is {left} in branch 0 and {right} in branch {index}",
                    because="whichever branch runs, what follows reads the result at one type",
                    help=f"cast or reshard it in branch {index} to {left}, or in branch 0 to {right}",
                    place=Place("parameter", name="branches"),
                )
        if len(first) != len(other.types):
            raise refuse("branch-types", f"branch 0 has {len(first)} results and branch {index} {len(other.types)}")
    _predicate(operand_type(operands[0]), first, "the predicate", ("i32", "bool", "u32", "i64"))
    types = _leave(equation, first, "the cond")
    inner = tuple(Inner(branch, 1, f"branch {index}", maybe=True, offset=1) for index, branch in enumerate(checked))
    return _typing(types), inner, False


def _predicate(type: Type | None, results: Sequence[Type | None], what: str, dtypes: tuple[str, ...]) -> None:
    """A scalar of one of the dtypes, in a state in which devices take the same way, or results that vary with it."""
    if type is None:
        return
    if not isinstance(type, ArrayType) or type.shape or type.dtype not in dtypes:
        raise refuse("dtype", f"{what} is {type}, not a scalar {dtypes[0]}", place=Place("operand", 0))
    if type.unreduced:
        raise refuse(
            "state",
            f"{what} is {type}, still unreduced",
            because="each device would decide by its own piece of the sum",
            help="reshard it first",
            place=Place("operand", 0),
        )
    for index, result in enumerate(results):
        if isinstance(result, ArrayType):
            missing = [axis for axis in type.varying if axis not in result.varying]
            if missing:
                raise refuse(
                    "hidden-variation",
                    f"{what} varies over {', '.join(missing)}, and result {index} is {result}",
                    because="devices that decide differently end with different values",
                    help=f"cast the result with pvary over {', '.join(missing)}",
                    place=Place("binder", index),
                )


@rule
def identity(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ xᵢ : τᵢ
        ────────────────────────────────────────── identity
        Γ ⊢ optimization_barrier x₁ … xₙ : τ₁ … τₙ

    A barrier or a name changes nothing that a type says; each result is its own operand.
    """
    types = _leave(equation, [operand_type(operand) for operand in operands], equation.primitive)
    return _typing(types), (), True


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
            "custom_lin",
            "eval_jaxpr",
            "compute_on",
        ),
        call,
    ),
    **dict.fromkeys(("optimization_barrier", "name"), identity),
    "scan": scan,
    "while": while_loop,
    "cond": cond,
    "shard_map": shard_map,
    "device_put": device_put,
    "layout_constraint": layout_constraint,
    "reshard": reshard,
    "sharding_constraint": sharding_constraint,
}
