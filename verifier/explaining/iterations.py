"""Sums over devices in loops, that the types would allow outside: what a loop only adds to what it carries, or stacks,
may stay pending and be summed once; what it does not change may be summed before it.

A sum may wait for the end of a loop where all that reads it is linear, and each carry that it ends in is read by
nothing but its own addition: neither by another equation, nor by a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.checking import Checked
from calculus.communication import ALL_REDUCE, REDUCE_SCATTER
from calculus.effects import Charge, Inner
from calculus.programs import Atom, Equation, Literal
from calculus.types import ArrayType
from verifier.compiled.values import inner_of

SUMS: Final = (ALL_REDUCE, REDUCE_SCATTER)

_OTHERS: Final = ("max", "min", "and", "or", "xor", "prod", "arg")
"""In the names of primitives that reduce otherwise than by addition."""
_LINEAR: Final = frozenset({
    "neg", "reshape", "squeeze", "expand_dims", "transpose", "copy", "broadcast_in_dim", "pvary", "name", "slice",
    "reduce_sum", "optimization_barrier", "reshard", "rev",
})  # fmt: skip
_SAME: Final = frozenset({"convert_element_type", "pvary", "copy"})
_ADDS: Final = frozenset({"add", "add_any", "sub"})


def is_sum(charge: Charge) -> bool:
    """Whether a collective adds up, over devices."""
    name = charge.equation.primitive
    parts = name.split("_")
    return charge.collective.kind in SUMS and not any(one in parts or name == f"p{one}" for one in _OTHERS)


class Waiting:
    """Which sums in loops may wait, in one program: each body is looked through once."""

    def __init__(self) -> None:
        self._bodies: dict[int, _Body] = {}

    def of(self, charge: Charge) -> bool:
        """Whether a sum in a loop may stay pending until the loop is through, by the types and by what is read."""
        names = [name for name in charge.equation.binders if name != "_"]
        for depth in range(len(charge.sites) - 1, 0, -1):
            checked, _ = charge.sites[depth]
            outer, above = charge.sites[depth - 1]
            call, inner = outer.program.equations[above], inner_of(outer, above, checked)
            if inner is None or inner.label.startswith(("branch", "while condition")):
                return False
            body = self._bodies.setdefault(id(checked), _Body(checked))
            found = body.linear(names, frozenset(charge.collective.axes))
            if not found:
                return False
            if is_loop(inner):
                return body.only_added(found, call, inner) and not any(
                    inner.until is not None and _decides(outer, above, call, index) for index in body.ends(found)
                )
            outputs = checked.program.outputs
            pairs = zip(call.binders, outputs, strict=False)
            names = [binder for binder, atom in pairs if atom in found and binder != "_"]
        return False


def unchanged(charge: Charge) -> bool:
    """Whether what the innermost loop around a sum does to it is the same in every iteration, from values that some
    input of the program has a part in."""
    names = {atom for atom in charge.equation.inputs if isinstance(atom, str)}
    for depth in range(len(charge.sites) - 1, 0, -1):
        body, _ = charge.sites[depth]
        outer, above = charge.sites[depth - 1]
        call, inner = outer.program.equations[above], inner_of(outer, above, body)
        positions = _read_from(body, names)
        if inner is None or not positions:
            return False
        places = {inner.operand(position, len(call.inputs)) for position in positions}
        if is_loop(inner):
            return max(places) < _constants(call, inner)
        names = {
            atom for place in places if 0 <= place < len(call.inputs) and isinstance(atom := call.inputs[place], str)
        }
    return False


def is_loop(inner: Inner) -> bool:
    """Whether a body runs more than once each time that it is reached."""
    return inner.label.startswith(("scan", "while")) and inner.times != 1


def in_loop(charge: Charge) -> bool:
    """Whether a collective stands in a loop."""
    return any(label.startswith(("scan", "while")) and not label.endswith(" x1") for label in charge.inside)


def loop_in_shard_map(charge: Charge) -> bool:
    """Whether the innermost loop around a collective stands inside of the code of each device."""
    loops = [at for at, label in enumerate(charge.inside) if label.startswith(("scan", "while"))]
    return any(label.startswith("shard_map") for label in charge.inside[: max(loops, default=0)])


def _constants(call: Equation, inner: Inner) -> int:
    """How many of a loop's operands, the first ones, are the same in every iteration."""
    if inner.carry is not None:
        return inner.carry[0]
    counts = [call.parameters.get(name) for name in ("cond_nconsts", "body_nconsts")]
    return sum(count for count in counts if isinstance(count, int))


class _Body:
    """A body, and who reads and makes its values."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._program = checked.program
        self._readers: dict[Atom, list[Equation]] = {}
        self._made: dict[str, Equation] = {}
        self._sums: dict[frozenset[str], set[str]] = {}
        for equation in checked.program.equations:
            self._made.update(dict.fromkeys(equation.binders, equation))
            for atom in equation.inputs:
                if isinstance(atom, str):
                    self._readers.setdefault(atom, []).append(equation)

    def linear(self, names: Sequence[str], axes: frozenset[str]) -> set[str]:
        """The values that sums over these axes become, through equations that are linear in them; none where something
        else reads one."""
        sums = self._summed(axes)
        inputs = {*self._program.inputs}
        found = {*names}
        waiting = [*names]
        for name in waiting:  # grows while it is read
            for reader in self._readers.get(name, ()):
                if len(reader.binders) != 1:
                    return set()
                if reader.primitive in _ADDS:
                    fresh = [one for one in reader.inputs if isinstance(one, str) and one in sums and one not in found]
                    found.update(fresh)
                    waiting += fresh
                    for other in reader.inputs:
                        if isinstance(other, Literal):
                            alike = _is_zero(other)
                        else:
                            alike = other in found or self._carried(other) in inputs
                        if not alike:
                            return set()
                elif not _scales(reader, name):
                    return set()
                if reader.binders[0] not in found:
                    found.add(reader.binders[0])
                    waiting.append(reader.binders[0])
        return found

    def ends(self, found: set[str]) -> list[int]:
        """Which outputs these are."""
        return [at for at, atom in enumerate(self._program.outputs) if isinstance(atom, str) and atom in found]

    def only_added(self, found: set[str], call: Equation, inner: Inner) -> bool:
        """Whether a loop only adds these to what it carries, or stacks them."""
        program = self._program
        held, count = _constants(call, inner), len(call.binders) if inner.carry is None else inner.carry[1]
        ends = self.ends(found)
        for index in (one for one in ends if one < count):
            places = range(len(program.inputs))
            position = next(at for at in places if inner.operand(at, len(call.inputs)) == held + index)
            waiting = [program.inputs[position]]
            for name in waiting:  # grows while it is read
                for reader in self._readers.get(name, ()):
                    if reader.binders[0] in found:
                        continue
                    if reader.primitive not in _SAME:
                        return False
                    waiting.append(reader.binders[0])
            if any(atom in waiting for at, atom in enumerate(program.outputs) if at != index):
                return False
        return bool(ends)

    def _summed(self, axes: frozenset[str]) -> set[str]:
        """What sums over these axes give."""
        found = self._sums.get(axes)
        if found is None:
            found = self._sums[axes] = set()
            for effect in self._checked.effects:
                over = {axis for one in effect.collectives if one.kind in SUMS for axis in one.axes}
                if over == axes and not effect.inner:
                    found.update(self._program.equations[effect.at].binders)
        return found

    def _carried(self, name: str) -> str:
        """What a value is the same as, up to its dtype and its placement."""
        while (maker := self._made.get(name)) is not None and maker.primitive in _SAME:
            (atom,) = maker.inputs
            if not isinstance(atom, str):
                break
            name = atom
        return name


def _is_zero(literal: Literal) -> bool:
    return literal.text.strip("-") in ("0", "0.0")


def _scales(reader: Equation, name: str) -> bool:
    """Whether an equation is linear in a value, and reads no other."""
    if reader.primitive == "convert_element_type":
        type = reader.types[0]
        return isinstance(type, ArrayType) and type.dtype.startswith(("f", "bf", "c"))
    if reader.primitive == "mul":
        return any(isinstance(one, Literal) for one in reader.inputs)
    if reader.primitive == "div":
        return reader.inputs[0] == name and isinstance(reader.inputs[1], Literal)
    return reader.primitive in _LINEAR and sum(isinstance(one, str) for one in reader.inputs) == 1


def _decides(outer: Checked, above: int, call: Equation, index: int) -> bool:
    """Whether a while loop's condition reads a carry."""
    conditions = [
        one.body.program
        for effect in outer.effects
        if effect.at == above
        for one in effect.inner
        if one.label == "while condition"
    ]
    held = call.parameters.get("cond_nconsts")
    if len(conditions) != 1 or not isinstance(held, int):
        return True
    (condition,) = conditions
    name = condition.inputs[held + index]
    return name in condition.outputs or any(name in one.inputs for one in condition.equations)


def _read_from(checked: Checked, names: set[str]) -> set[int]:
    """The positions of the inputs (constants first) that values are made from."""
    program = checked.program
    makers = {binder: one for one in program.equations for binder in one.binders if binder != "_"}
    inputs = {name: index for index, name in enumerate((*program.constants, *program.inputs))}
    waiting, seen = [*names], {*names}
    for name in waiting:  # grows while it is read
        if name in makers:
            fresh = {atom for atom in makers[name].inputs if isinstance(atom, str)} - seen
            seen |= fresh
            waiting += fresh
    return {inputs[name] for name in seen if name in inputs}
