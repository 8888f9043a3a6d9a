"""How a scan's operands split into constants, carries and scanned arrays, in both dialects.

JAX 0.10 prints `num_consts` and `num_carry`. JAX 0.12 prints the trees `ft_in` = (constants, carry, xs) and `ft_out` =
(carry, ys), in several spellings, of which only the number of leaves matters.
"""

from __future__ import annotations

from calculus.parameters import bad, integer
from calculus.programs import Call, Parameters, Value, Word
from calculus.refusals import Place, refuse


def scan_parts(parameters: Parameters, operands: int, results: int) -> tuple[int, int]:
    """The number of constants and of carries. Refuses `bad-parameter` where the text does not tell."""
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
        if constants + carries + scanned != operands:
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


def count_leaves(tree: Value) -> int:
    """The number of leaves: `None` where a tree stands for values, `*` inside a PyTreeDef."""
    if tree is None or (isinstance(tree, Word) and tree == "*"):
        return 1
    if isinstance(tree, Call):
        if tree.name == "Pytree":
            values = tree.keyword("vals")
            return len(values) if isinstance(values, (tuple, list)) else count_leaves(values)
        return sum(map(count_leaves, tree.arguments))
    if isinstance(tree, (tuple, list)):
        return sum(map(count_leaves, tree))
    raise bad("ft_in", str(tree), "trees of None")
