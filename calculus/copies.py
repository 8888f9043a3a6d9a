"""Sums of equal copies: a collective over an axis along which its operand is typed as varying, and is the same on all
devices even so, since it was cast there, or gathered. Well typed and legal; the sum is n times the value, and rarely
what is meant: a gradient that is summed already, summed again.

Within one body: what comes in varies as far as anyone knows. A value is the same along an axis after `pvary`,
`all_gather` and `pbroadcast` over it, and where a primitive of the table makes it from such values alone. Inside a
shard_map with check_vma=False nothing is known.
"""

from __future__ import annotations

from typing import Final

from calculus.checking import Checked
from calculus.communication import ALL_REDUCE
from calculus.effects import Charge
from calculus.parameters import names
from calculus.primitives import TABLE
from calculus.programs import Literal
from calculus.types import Axes

_NONE: Final[frozenset[str]] = frozenset()
_SAME_AFTER: Final = {"pvary": "axes", "all_gather": "axis_name", "pbroadcast": "axis_name"}
_SUMS: Final = ("psum", "psum_invariant", "psum_invariant_start", "psum_start")


class Copies:
    """What is the same on every device in the bodies of one program, each looked through once."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, frozenset[str]]] = {}

    def summed(self, charge: Charge) -> Axes:
        """The axes along which a collective adds up equal copies; none for most."""
        equation = charge.equation
        if charge.collective.kind != ALL_REDUCE or equation.primitive not in _SUMS:
            return ()
        around = (body.program.equations[at] for body, at in charge.sites[:-1])
        if any(construct.parameters.get("check_vma") is False for construct in around):
            return ()
        summands = [atom for atom in equation.inputs if not isinstance(atom, Literal)]
        if charge.slot >= len(summands):
            return ()
        body = charge.sites[-1][0]
        known = self._known.get(id(body))
        if known is None:
            known = self._known[id(body)] = _known(body)
        same = known.get(summands[charge.slot], _NONE)
        return tuple(axis for axis in charge.collective.axes if axis in same)


def _known(body: Checked) -> dict[str, frozenset[str]]:
    """For each value of a body that is the same along some axes of its type, those axes."""
    found: dict[str, frozenset[str]] = {}
    for equation in body.program.equations:
        operands = [atom for atom in equation.inputs if not isinstance(atom, Literal)]
        if not operands:
            continue
        same = found.get(operands[0], _NONE)
        after = _SAME_AFTER.get(equation.primitive)
        if after is not None:
            same = same.union(names(equation.parameters[after], after))
        elif equation.primitive in TABLE and equation.cell is None:
            same = same.intersection(*(found.get(atom, _NONE) for atom in operands[1:]))
        else:
            continue
        if same:
            found.update(dict.fromkeys(equation.binders, same))
    return found
