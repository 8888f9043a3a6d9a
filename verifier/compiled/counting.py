"""How often a loop of a module runs: where the text says it, or where it counts from a constant, by a constant, up to
one."""

from __future__ import annotations

import re
from typing import NamedTuple

from verifier.compiled.module import Computation, Instruction, Module


class Around(NamedTuple):
    """What stands around a computation: the instruction that calls it, in which computation, and so on outwards."""

    caller: Instruction
    computation: Computation
    outer: Around | None


def trips(module: Module, loop: Instruction, computation: Computation, around: Around | None) -> int | None:
    """How often the body of a loop runs, where the text says it; else from where its counter starts, what is added to
    it in each iteration, and what the condition compares it with (`i < n`); `None` where the data decide. computation:
    where the loop stands, and what is around that."""
    known = re.search(r'"?known_trip_count"?:\{"n":"(\d+)"\}', loop.text)
    if known is not None:
        return int(known[1])
    condition, body = (module.computations.get(loop.said(key)) for key in ("condition", "body"))
    if condition is None or body is None:
        return None
    root = _root(condition)
    if root is None or root.operation != "compare" or "direction=LT" not in root.text or len(root.operands) != 2:
        return None
    inside = Around(loop, computation, around)
    part = _part(condition, root.operands[0])
    limit = _constant(module, condition, root.operands[1], inside)
    if part is None or limit is None:
        return None
    start = _constant(module, computation, f"{loop.operands[0]}#{part}", around)
    step = _step(module, body, part, inside)
    return None if start is None or step is None or step < 1 else max(0, -((start - limit) // step))


def _root(computation: Computation) -> Instruction | None:
    return next((one for one in computation.instructions if one.root), None)


def _made(computation: Computation, name: str) -> tuple[Instruction | None, str]:
    """The instruction that makes a value, copies and parts of tuples aside; and which part of its result it is."""
    while True:
        base, _, part = name.partition("#")
        one = computation.by_name.get(base)
        if "#" in part:  # a part of a part
            return None, ""
        if one is not None and one.operation == "copy":
            name = f"{one.operands[0]}#{part}" if part else one.operands[0]
        elif one is not None and one.operation == "get-tuple-element" and not part:
            name = f"{one.operands[0]}#{one.said('index')}" if "#" not in one.operands[0] else one.operands[0]
        elif one is not None and one.operation == "tuple" and part and int(part) < len(one.operands):
            name = one.operands[int(part)]
        else:
            return one, part


def _part(computation: Computation, name: str) -> int | None:
    """Which part of the only parameter a value is."""
    one, part = _made(computation, name)
    return int(part) if one is not None and one.operation == "parameter" and part else None


def _next(body: Computation, part: int) -> str | None:
    """What an iteration makes of a part that is carried."""
    root = _root(body)
    return root.operands[part] if root is not None and root.operation == "tuple" and part < len(root.operands) else None


def _step(module: Module, body: Computation, part: int, around: Around) -> int | None:
    """What an iteration adds to a counter."""
    name = _next(body, part)
    one = None if name is None else _made(body, name)[0]
    if one is None or one.operation != "add":
        return None
    for counter, step in (one.operands, one.operands[::-1]):
        if _part(body, counter) == part:
            return _constant(module, body, step, around)
    return None


def _constant(module: Module, computation: Computation, name: str, around: Around | None) -> int | None:
    """The whole number that a value is; `None` where the data decide."""
    one, part = _made(computation, name)
    if one is None or one.operation == "constant":
        found = None if one is None else re.match(r"(-?\d+)\)", one.text)
        return None if found is None else int(found[1])
    if one.operation != "parameter" or around is None:
        return None
    caller = around.caller
    if caller.operation == "while" and part:
        body = module.computations.get(caller.said("body"))
        same = None if body is None else _next(body, int(part))
        if body is None or same is None or _part(body, same) != int(part):
            return None
        return _constant(module, around.computation, f"{caller.operands[0]}#{part}", around.outer)
    if caller.operation in ("call", "fusion"):
        operand = caller.operands[int(one.text.partition(")")[0])]
        return _constant(module, around.computation, f"{operand}#{part}" if part else operand, around.outer)
    return None
