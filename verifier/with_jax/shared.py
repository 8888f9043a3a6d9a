"""Which programs are printed once, before the main one: those that are used twice or are long, and under what names."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from jax.extend.core import ClosedJaxpr, Jaxpr  # type: ignore[attr-defined]

PROGRAM: Final = (Jaxpr, ClosedJaxpr)
"""The classes of JAX's programs. In release 0.12 they are one."""

LONG: Final = 10
"""A body of more equations than this is hoisted, even if it is used once."""


def opened(program: Any) -> Any:
    """The program itself, without the values of its constants."""
    return getattr(program, "jaxpr", program)


def definitions(main: Any) -> dict[int, tuple[str, Any]]:
    """The programs that are hoisted, by identity, with their names: breadth first from the main one."""
    uses: dict[int, int] = {id(main): 1}
    names: dict[int, str] = {}
    found: dict[int, Any] = {id(main): main}
    inside: dict[int, list[int]] = {}
    waiting = deque([main])
    while waiting:
        program = waiting.popleft()
        children = inside[id(program)] = []
        for name, inner in _inner(program):
            identity = id(inner)
            children.append(identity)
            uses[identity] = uses.get(identity, 0) + 1
            if name is not None:
                names.setdefault(identity, name.strip("<>"))
            if identity not in found:
                found[identity] = inner
                waiting.append(inner)
    _count_through(uses, inside)
    counts: dict[str, int] = {}
    hoisted: dict[int, tuple[str, Any]] = {}
    for identity, program in found.items():
        if uses[identity] < 2 and (program is main or len(program.eqns) <= LONG):
            continue
        name = names.get(identity, "jaxpr")
        count = counts.get(name, 0)
        counts[name] = count + 1
        if count:
            name += str(count)
            counts[name] = counts.get(name, 0) + 1
        hoisted[identity] = (name, program)
    return hoisted


def _count_through(uses: dict[int, int], inside: dict[int, list[int]]) -> None:
    """A program inside one that is used twice is used twice."""
    waiting = [identity for identity, count in uses.items() if count > 1]
    while waiting:
        for child in inside[waiting.pop()]:
            if uses[child] < 2:
                uses[child] = 2
                waiting.append(child)


def _inner(program: Any) -> Iterator[tuple[str | None, Any]]:
    """The programs inside the equations of a program, each with the name it would be hoisted under."""
    for eqn in program.eqns:
        held = eqn.params
        if eqn.primitive.name == "call_hi_primitive" and hasattr(held.get("_prim"), "pp_params"):
            yield from _inner_high(held["_prim"])
            continue
        for value in held.values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, PROGRAM):
                    yield held.get("name"), opened(item)


def _inner_high(primitive: Any) -> Iterator[tuple[str | None, Any]]:
    held = primitive.pp_params()
    name = held.get("name")
    for value in held.values():
        inner = inner_of(value)
        if isinstance(inner, PROGRAM):
            yield (name if isinstance(name, str) else None), opened(inner)
        elif hasattr(value, "pp_params"):
            yield from _inner_high(value)


def inner_of(value: Any) -> Any:
    """What a high-level primitive prints for one of its parameters: the program of a traced function, the name of one
    that is not traced, a type's text, else the value itself."""
    if hasattr(value, "jaxpr"):
        return opened(value.jaxpr)
    if inspect.isfunction(value):
        return value.__name__
    if isinstance(value, partial):
        return inner_of(value.func)
    if hasattr(value, "str_short"):
        return value.str_short(short_dtypes=True)
    return value
