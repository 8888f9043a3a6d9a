"""Loops that run a printed number of times.

How a scan's operands split into constants, carries and scanned arrays is printed in two dialects. JAX 0.10 prints
`num_consts` and `num_carry`. JAX 0.12 prints the trees `ft_in` = (constants, carry, xs) and `ft_out` = (carry, ys), in
several spellings, of which only the number of leaves matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calculus.bodies import Formed, counted, enter, inputs_of, leave, names_of, program_of, settle
from calculus.branches import carried
from calculus.effects import Inner
from calculus.judgments import rule
from calculus.parameters import bad, dim, integer, required
from calculus.programs import Call, Equation, Parameters, Value, Word
from calculus.refusals import Place, refuse
from calculus.rules import Typing
from calculus.types import ArrayType, Type, array_type
from calculus.uses import Operand, operand_type
from calculus.wellformed import ELEMENTS

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope


@rule
def scan(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    constants, carry, slices ⊢ body : (carry, outputs) ▷ κ
    xs = slices stacked `length` times on a new leading dim, whole on every device
    ───────────────────────────────────────────────────────────────────────────── scan
    Γ ⊢ scan[jaxpr=body length=n] constants carry xs : (carry, stacked outputs) ▷ n · κ
    """
    program = program_of(equation, "jaxpr")
    length = dim(required(equation.parameters, "length"), "length")
    if isinstance(length, int) and not 0 <= length <= ELEMENTS:
        raise bad("length", str(length), "a number of iterations")
    times = length if isinstance(length, int) else None
    label = f"scan x{length}"
    constants, carries = scan_parts(equation.parameters, len(operands), len(equation.binders))
    held = constants + carries
    slices = [*operands[:held], *(_slice_of(xs, length, held + k) for k, xs in enumerate(operands[held:]))]
    checked = enter(checker, program, scope, slices, label)
    counted(checked.types, equation, label)
    befores = inputs_of(checked.program, len(slices))[constants : constants + carries]
    names = names_of(checked.program, len(slices))[constants : constants + carries]
    after = carried(checker, befores, checked.types[:carries], label, constants, scope, checked.program, names)
    printed = [slice_type(type) for type in equation.types[carries:]]
    kept = [settle(checker, result, wanted) for result, wanted in zip(checked.types[carries:], printed, strict=True)]
    stacks = [stacked(type, length) or result for type, result in zip(kept, checked.types[carries:], strict=True)]
    types = leave(checker, equation, (*after, *stacks), label)
    return Typing(types), (Inner(checked, times, label, carry=(constants, carries)),), False  # type: ignore[arg-type]


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


def stacked(type: Type | None, length: Value) -> Type | None:
    """The type of what every iteration gives, on a new leading dim that is whole on every device."""
    if type is not None and not isinstance(type, ArrayType):
        raise refuse(
            "dtype",
            f"the iterations of a scan give back {type}",
            because="what is stacked is arrays",
            help="carry it, or finish it inside",
        )
    if type is None:
        return None
    size = length if isinstance(length, int) else str(length)
    return _with_dims(type, (size, *type.shape), ((), *type.axes))


def slice_type(type: Type | None) -> Type | None:
    """The type of one iteration's part of a stacked result; of what cannot be one, itself."""
    return _with_dims(type, type.shape[1:], type.axes[1:]) if isinstance(type, ArrayType) and type.shape else type


def _with_dims(type: ArrayType, shape, axes) -> ArrayType:  # type: ignore[no-untyped-def]
    return array_type(
        type.dtype, shape, axes, type.varying, type.unreduced, type.reduced, type.kind, type.memory, type.weak
    )


def scan_parts(parameters: Parameters, operands: int, results: int) -> tuple[int, int]:
    """The number of constants and of carries. Refuses `bad-parameter` where the text does not tell. JAX drops operands
    that nothing needs and prints the trees as they were: where none of them is a constant or a carry, all are slices.
    """
    if "num_carry" in parameters and "num_consts" in parameters:
        constants, carries = (integer(parameters[name], name) for name in ("num_consts", "num_carry"))
    else:
        trees = parts(parameters.get("ft_in"))
        if len(trees) != 3:
            raise refuse(
                "bad-parameter",
                "ft_in should be the trees of constants, carry and scanned arrays",
                because="they tell which operands change from one iteration to the next",
                help="print ft_in=((None,), (None,), (None,)) or num_consts=, num_carry=",
                place=Place("parameter", name="ft_in" if "ft_in" in parameters else ""),
            )
        constants, carries, scanned = map(count_leaves, trees)
        kept = parts(parameters.get("ft_out"))
        if kept and count_leaves(kept[0]) != carries:
            raise refuse(
                "bad-parameter",
                f"ft_in has {carries} carries and ft_out {count_leaves(kept[0])}",
                because="a carry that goes into an iteration comes out of it",
                place=Place("parameter", name="ft_out"),
            )
        if constants + carries + scanned != operands and (constants or carries or scanned < operands):
            raise refuse(
                "arity",
                f"ft_in has {constants} + {carries} + {scanned} leaves, and the scan has {operands} operands",
                because="every leaf is one operand",
                place=Place("parameter", name="ft_in"),
            )
    if not (constants >= 0 and 0 <= carries <= results and constants + carries <= operands):
        raise refuse(
            "arity", f"{constants} constants and {carries} carries among {operands} operands, {results} results"
        )
    return constants, carries


def parts(tree: Value) -> tuple[Value, ...]:
    """The top branches of a printed tree: `((None,), (), (None,))`, or the same inside `Pytree(vals=, tree=)`."""
    if isinstance(tree, Call) and tree.name == "Pytree":
        return parts(tree.keyword("tree"))
    if isinstance(tree, Call) and tree.name == "PyTreeDef" and len(tree.arguments) == 1:
        return parts(tree.arguments[0])
    return tuple(tree) if isinstance(tree, (tuple, list)) else ()


def count_leaves(tree: Value, without: str = "") -> int:
    """The number of leaves: `None` where a tree stands for values, `*` inside a PyTreeDef. Of two trees in one,
    `RightsOnly(...)` has the leaves that are not in a `Left(...)`."""
    if tree is None or (isinstance(tree, Word) and tree == "*"):
        return 1
    if isinstance(tree, Call):
        if tree.name == without:
            return 0
        without = "Left" if tree.name == "RightsOnly" else without
        if tree.name == "Pytree":
            values = tree.keyword("vals")
            items = values if isinstance(values, (tuple, list)) else (values,)
            return sum(not (isinstance(one, Call) and one.name == without) for one in items)
        return sum(count_leaves(one, without) for one in tree.arguments)
    if isinstance(tree, (tuple, list)):
        return sum(count_leaves(one, without) for one in tree)
    raise bad("ft_in", str(tree), "trees of None")
