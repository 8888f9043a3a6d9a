"""What a grammar expected, in plain words: syntax errors for people."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

_WORDS = {
    "$END": "the end of the text",
    "_END": "the end of the line",
    "_IN": "`in`",
    "_OPEN": "parameters, `[name=value ...]`",
    "_PAREN": "`(`",
    "_RESULTS": "`in (...)`",
    "ACTION": "an equation",
    "ANGLES": "a value",
    "AXIS": "a mesh axis",
    "BRACE": "a program, `{ lambda ...`",
    "BYTES": "a value",
    "CALLEE": "a value",
    "CELL": "a cell, `x[...]`",
    "DEFINITION": "the name of a definition",
    "DTYPE": "an element type, as in `f32[4]`",
    "EFFECTS": "effects, ` : { ... }`",
    "HAT": "`^`",
    "KEY": "a parameter, `name=value`",
    "LITERAL": "a literal",
    "MEMORY": "a memory space, `<host>`",
    "MESH": "`# mesh:`",
    "MINUS": "`-`",
    "NAME": "a name",
    "NUMBER": "a number",
    "OPAQUE": "a type",
    "PLUS": "`+`",
    "PRIMITIVE": "a primitive",
    "REF": "`Ref{...}`",
    "SPACE": "a memory space, `<default>`",
    "STAR": "`*`",
    "STATE": "one of `V`, `U`, `R`, `U_max`, `U_min`",
    "TYPE": "a type, as in `f32[4]`",
    "VALUE": "a value",
    "VARIABLE": "a variable",
    "WEAK": "`~`",
    "WORDS": "words",
}
_RARE = frozenset({"MESH", "MEMORY", "SPACE", "WEAK", "HAT", "STAR", "PLUS", "MINUS", "OPAQUE", "REF"})
_FOUND = re.compile(r"\w+|\S", re.DOTALL)


def explain(text: str, offset: int, expected: Collection[tuple[str, str | None]]) -> str:
    """One sentence: what stands at an offset, and what would have fitted.

    `expected` has terminals by name, each with its text if it has only one.
    """
    found = _FOUND.search(text, offset)
    what = "the text ends" if found is None else f"`{found.group()[:40]}` stands"
    common = [pair for pair in expected if pair[0] not in _RARE] or list(expected)
    words = sorted({f"`{fixed}`" if fixed else _WORDS.get(name, name.lower()) for name, fixed in common})
    if not words:
        return f"{what} here, where nothing fits"
    either = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return f"{what} where {either} is expected"


def acceptable(parser_state: Any) -> set[str]:
    """The terminals that a LALR parser can shift next, exactly: a table's own list also has those that a merged
    state can only reduce by."""
    return {
        terminal
        for terminal in parser_state.parse_conf.states[parser_state.position]
        if terminal.isupper() and can_shift(parser_state, terminal)
    }


def can_shift(parser_state: Any, terminal: str) -> bool:
    """Whether the parser can take this terminal next."""
    from lark.parsers.lalr_analysis import Shift

    states = parser_state.parse_conf.states
    stack = list(parser_state.state_stack)
    while terminal in states[stack[-1]]:
        action, target = states[stack[-1]][terminal]
        if action is Shift:
            return True
        if target.expansion:
            del stack[-len(target.expansion) :]
        _, state = states[stack[-1]][target.origin.name]
        stack.append(state)
        if state == parser_state.parse_conf.end_state:
            return terminal == "$END"
    return False
