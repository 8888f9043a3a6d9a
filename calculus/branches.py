"""Branches, and who takes which: a predicate must lead all devices that communicate the same way. Seeds A46, B9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calculus.bodies import Formed, Result, agree, enter, inputs_of, leave, names_of, program_of, settle
from calculus.carries import cast_together
from calculus.cells import written
from calculus.deciding import taken_of
from calculus.effects import Inner
from calculus.judgments import rule
from calculus.meshes import AxisMode
from calculus.parameters import integer, required
from calculus.programs import Equation, Program, Programs, body
from calculus.reconciling import reconciled
from calculus.refusals import Place, refuse
from calculus.rules import Typing
from calculus.types import TOKEN, ArrayType, OpaqueType, Type, array_type, held
from calculus.uses import Operand, operand_type

if TYPE_CHECKING:
    from calculus.checking import Checked, Checker, Scope

_BOOL = array_type("bool")


@rule
def cond(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    i : an integer scalar      every branch: x ⊢ branch : τ ▷ κⱼ
    where i varies, so does every result and every cell that is written, and no κⱼ is over such an axis
    ──────────────────────────────────────────────────────────────────────────────────── cond
    Γ ⊢ cond[branches=…] i x : τ ▷ at most each κⱼ; of a number i, κᵢ
    """
    value = required(equation.parameters, "branches")
    items = value.items if isinstance(value, Programs) else (value,) if body(value) else ()
    programs = [found for item in items if (found := body(item)) is not None]
    if not programs or not operands:
        raise refuse("bad-parameter", "cond has no branches or no predicate", place=Place("parameter", name="branches"))
    checked = [
        enter(checker, program, scope, operands[1:], f"branch {index}", 1) for index, program in enumerate(programs)
    ]
    first = _one_type(checker, equation, checked, scope)
    predicate = operand_type(operands[0])
    _converge(checker, predicate, checked, "the predicate", scope)
    _decides(predicate, first, "the predicate", ("i32", "bool", "u32", "i64"), operands[0])
    if isinstance(predicate, ArrayType) and predicate.dtype == "bool" and len(programs) != 2:
        raise refuse(
            "arity",
            f"the predicate is {predicate}, and there are {len(programs)} branches",
            because="false chooses branch 0 and true branch 1",
            help="give two branches, or an i32 index",
            place=Place("parameter", name="branches"),
        )
    _same_writes(predicate, checked, "the predicate")
    types = leave(checker, equation, first, "the cond")
    taken = taken_of(operands[0], len(checked))
    inner = tuple(
        Inner(branch, 1 if taken in (None, index) else 0, f"branch {index}", maybe=taken is None, offset=1)
        for index, branch in enumerate(checked)
    )
    return Typing(types), inner, False  # type: ignore[arg-type]


def _one_type(
    checker: Checker, equation: Equation, branches: Sequence[Checked], scope: Scope
) -> tuple[Type | None, ...]:
    """The types of the results, the same in every branch. Refuses `branch-types`."""
    counts = [len(branch.types) for branch in branches]
    for index, count in enumerate(counts):
        if count != counts[0]:
            raise refuse("branch-types", f"branch 0 has {counts[0]} results and branch {index} {count}")
    first: list[Type | None] = []
    for position in range(counts[0]):
        wanted = equation.types[position] if position < len(equation.types) else None
        for index, branch in enumerate(branches):
            type = settle(checker, branch.types[position], wanted)
            if index == 0:
                first.append(type)
            elif not agree(first[position], type):
                raise refuse(
                    "branch-types",
                    f"result {position} is {first[position]} in branch 0 and {type} in branch {index}",
                    because="whichever branch runs, what follows reads the result at one type",
                    help=reconciled(type, first[position], f"it in branch {index}", "it in branch 0", scope.mesh),
                    place=Place("parameter", name="branches"),
                )
            first[position] = type if first[position] is None else first[position]
            wanted = wanted or type
    return tuple(first)


@rule
def while_loop(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    constants, carry ⊢ condition : bool ▷ κ₁      constants, carry ⊢ body : carry ▷ κ₂
    where the condition varies, so does every carry and every cell that is written, and neither κ is over such an axis
    ──────────────────────────────────────────────────────────────────────────────────────────────────── while
    Γ ⊢ while[…] constants carry : carry ▷ (n + 1) · κ₁ + n · κ₂, n not known
    """
    counts = [integer(required(equation.parameters, name), name) for name in ("cond_nconsts", "body_nconsts")]
    held = sum(counts)
    if min(counts) < 0 or held > len(operands):
        raise refuse(
            "arity",
            f"the while loop has {counts[0]} and {counts[1]} constants among {len(operands)} operands",
            because="the condition's constants stand first, then the body's, then the carries",
            place=Place("parameter", name="cond_nconsts" if counts[0] < 0 else "body_nconsts"),
        )
    carry = operands[held:]
    condition = enter(
        checker, program_of(equation, "cond_jaxpr"), scope, [*operands[: counts[0]], *carry], "the while condition"
    )
    program = program_of(equation, "body_jaxpr")
    inside = enter(checker, program, scope, operands[counts[0] :], "the while body", counts[0])
    if len(condition.types) != 1:
        raise refuse(
            "arity",
            f"the while condition has {len(condition.types)} results",
            because="it decides whether there is another iteration, and nothing else",
            help="give back one bool[]",
            place=Place("parameter", name="cond_jaxpr"),
        )
    if len(inside.types) != len(carry):
        raise refuse(
            "arity",
            f"the while body has {len(inside.types)} results for {len(carry)} carries",
            because="every carry that goes into an iteration comes out of it",
            place=Place("parameter", name="body_jaxpr"),
        )
    befores = inputs_of(inside.program, counts[1] + len(carry))[counts[1] :]
    names = names_of(inside.program, counts[1] + len(carry))[counts[1] :]
    afters = carried(checker, befores, inside.types, "the while loop", held, scope, inside.program, names)
    decides = settle(checker, condition.types[0], _BOOL)
    if isinstance(decides, ArrayType) and decides.shape and decides.dtype == "bool":
        raise refuse(
            "unmodelled-construct",
            f"a while loop whose condition is {decides}, one decision for each element",
            because="vmap makes it so: the loop goes on while any of them is true, and the elements that are done stay "
            "as they are; what that communicates is not modelled",
            help="loop while any element goes on (jnp.any), and keep those that are done with jnp.where",
            place=Place("parameter", name="cond_jaxpr"),
        )
    _converge(checker, decides, (condition, inside), "the while condition", scope)
    _decides(decides, afters, "the while condition", ("bool",))
    _same_writes(decides, (condition, inside), "the while condition")
    types = leave(checker, equation, afters, "the while loop")
    inner = (
        Inner(condition, None, "while condition", without=range(counts[0], held), until=condition),
        Inner(inside, None, "while", (held, len(carry)), offset=counts[0], until=condition),
    )
    return Typing(types), inner, False  # type: ignore[arg-type]


def carried(
    checker: Checker,
    befores: Sequence[Type | None],
    afters: Sequence[Result],
    what: str,
    first: int,
    scope: Scope,
    program: Program,
    names: Sequence[str],
) -> list[Type | None]:
    """The types of carries, the same before and after an iteration. Refuses `carry-type` at operand `first` + k.
    program: what an iteration does, to inputs of these names."""
    found: list[Type | None] = []
    for index, (before, result) in enumerate(zip(befores, afters, strict=True)):
        after = settle(checker, result, before)
        if not agree(before, after):
            raise refuse(
                "carry-type",
                f"carry {index} of {what} is {before} before an iteration and {after} after it",
                because="every iteration starts from what the one before it ends with, at one type",
                help=_all_at_once(checker, befores, afters, program, names, scope)
                or reconciled(before, after, "the initial value", "the body's result", scope.mesh),
                place=Place("operand", first + index),
            )
        found.append(after)
    return found


def _all_at_once(
    checker: Checker, befores: Sequence[Type | None], afters: Sequence[Result], program: Program,
    names: Sequence[str], scope: Scope,
) -> str:  # fmt: skip
    """The repair of all carries together, where that of one would leave another to be repaired."""
    types = [settle(checker, after, before) for before, after in zip(befores, afters, strict=True)]
    return cast_together(program, names, befores, types, scope.mesh)


def _decides(
    type: Type | None,
    results: Sequence[Type | None],
    what: str,
    dtypes: tuple[str, ...],
    operand: Operand | None = None,
) -> None:
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
    for index, given in enumerate(results):
        result = held(given)  # what is on its way will be there
        if isinstance(result, (ArrayType, OpaqueType)) and result != TOKEN:
            varying = result.varying if isinstance(result, ArrayType) else ()
            missing = [axis for axis in type.varying if axis not in varying]
            if missing:
                raise refuse(
                    "hidden-variation",
                    f"{what} varies over {', '.join(missing)}, and result {index} is {result}",
                    because="devices that decide differently end with different values",
                    help=f"cast the result with pvary over {', '.join(missing)}",
                    place=Place("binder", index),
                )


def _converge(checker: Checker, type: Type | None, bodies: Sequence[Checked], what: str, scope: Scope) -> None:
    """Devices that wait for each other in a collective take the same way to it. Refuses `divergent-collective`. Where
    variation is not tracked, that they do is assumed, axis by axis."""
    if not isinstance(type, ArrayType):
        return
    inside = frozenset().union(*(checked.over for checked in bodies))
    if not scope.mesh.tracked:
        checker.assumptions += sum(scope.mesh.mode(axis) is AxisMode.MANUAL for axis in inside if axis in scope.mesh)
        return
    apart = [axis for axis in type.varying if axis in inside]
    if apart:
        over = ", ".join(apart)
        raise refuse(
            "divergent-collective",
            f"{what} is {type}, and what it decides about communicates over {over}",
            because=f"devices along {over} decide differently, and those that arrive would wait for the others",
            help=f"make {what} the same along {over} (pmax over {over}), or move the collective out of the branch",
            place=Place("operand", 0),
        )


def _same_writes(type: Type | None, bodies: Sequence[Checked], what: str) -> None:
    """Devices that decide apart write apart: the cells that bodies write vary where what decides does. Refuses
    `hidden-variation`."""
    if not isinstance(type, ArrayType) or not type.varying:
        return
    for checked in bodies:
        for position, cell in written(checked):
            varying = cell.inner.varying if isinstance(cell.inner, ArrayType) else ()
            missing = [axis for axis in type.varying if axis not in varying]
            if missing:
                over = ", ".join(missing)
                names = (*checked.program.constants, *checked.program.inputs)
                raise refuse(
                    "hidden-variation",
                    f"{what} varies over {over}, and what it decides about writes {names[position]}, {cell}",
                    because=f"devices along {over} that decide differently leave different values in the cell",
                    help=f"make the cell of a value that is cast with pvary over {over}",
                    place=Place("operand", 0),
                )
