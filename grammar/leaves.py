"""The leaves of programs that are common enough to be decoded by hand: types, literals and parameter values.

Nothing here decides what the language is: that is the grammar of `grammar.parse`. Each function here knows the forms
that make up nearly all of what is printed, gives the terms that the grammar gives, and on any other text either asks
the grammar (`type_of`, `value_of`) or raises `Odd`. Results are kept by text, so that each text is decoded once.
"""

from __future__ import annotations

import re
from typing import Final

from calculus.programs import Braces, Call, Literal, Pair, Real, Value, Word
from calculus.types import DTYPES, SHORT_NAMES, Axes, RefType, Type, array_type
from grammar.layout import terminals

DEEPEST: Final = 24
"""How deep brackets may nest in a value that is decoded by hand."""


class Odd(Exception):
    """The text is not one of the forms decoded by hand. It may still be well formed: ask the grammar."""


_TYPES: Final[dict[str, Type]] = {}
_LITERALS: Final[dict[str, Literal]] = {}
_VALUES: Final[dict[str, Value]] = {}


def clear() -> None:
    """Forget every leaf decoded so far. For measurements only."""
    _TYPES.clear()
    _LITERALS.clear()
    _VALUES.clear()
    _LATEST.clear()


# Types

_ARRAY: Final = re.compile(
    r"(~?)(key<[a-z]++>|[a-z]\w*+)(?:<([A-Za-z_]\w*+)>)?+\[([^\[\]]*+)\](?:\{([^{}]++)\})?+", re.ASCII
)
_DIM: Final = re.compile(
    r"(0|[1-9][0-9]{0,17})(?:@(?:([A-Za-z_]\w*+)|\(([A-Za-z_]\w*+(?:,[A-Za-z_]\w*+)++)\)))?+(,(?=[0-9])|\Z)", re.ASCII
)
_STATES: Final = re.compile(
    r"(V|R|U|U_max|U_min):(?:([A-Za-z_]\w*+)|\(([A-Za-z_]\w*+(?:,[A-Za-z_]\w*+)++)\))(, (?=[VUR])|\Z)", re.ASCII
)
_REF: Final = re.compile(r"Ref(?:<([A-Za-z_]\w*+)>)?+\{(.*)\}", re.ASCII)


def type_of(text: str) -> Type:
    """The type with this text, on its own. Raises `Refused` if the grammar refuses it."""
    try:
        return _known_type(text)
    except Odd:
        from grammar.parse import parse_type

        return parse_type(text)


def printed_type(text: str) -> Type:
    """The type with this text, in a program, where blanks do not part a type's tokens everywhere.

    Raises `Odd` if it may not stand there, and `Refused` if the grammar refuses it.
    """
    try:
        return _known_type(text)
    except Odd:
        token = re.match(terminals()["TYPE"], text)
        if token is None or token.end() != len(text):
            raise
    found = _TYPES[text] = type_of(text)
    return found


def _known_type(text: str) -> Type:
    found = _TYPES.get(text)
    if found is None:
        found = _TYPES[text] = _type(text)
    return found


def _type(text: str) -> Type:
    matched = _ARRAY.fullmatch(text)
    if matched is None:
        cell = _REF.fullmatch(text)
        if cell is None or cell[2].startswith("Ref"):  # a cell of a cell
            raise Odd
        return RefType(_type(cell[2]), cell[1] or "")
    weak, dtype, memory, dims, states = matched.groups()
    if dtype not in DTYPES and dtype not in SHORT_NAMES:
        raise Odd
    shape: list[int] = []
    axes: list[Axes] = []
    for size, axis, several in _items(_DIM, dims):
        shape.append(int(size))
        axes.append(_axes(axis, several))
    varying: Axes = ()
    unreduced: Axes = ()
    reduced: Axes = ()
    kind = "sum"
    last = ""
    for state, axis, several in _items(_STATES, states or ""):
        if state[0] in last or (last and state[0] == "V") or last == "R":  # in the printed order, each once
            raise Odd
        last = state[0]
        if last == "V":
            varying = _axes(axis, several)
        elif last == "R":
            reduced = _axes(axis, several)
        else:
            unreduced = _axes(axis, several)
            kind = state[2:] or "sum"
    return array_type(dtype, tuple(shape), tuple(axes), varying, unreduced, reduced, kind, memory or "", bool(weak))


def _items(pattern: re.Pattern[str], text: str) -> list[tuple[str, str, str]]:
    """The groups of each item of a list, the fourth being what ends it; every character belongs to an item."""
    found = []
    position = 0
    while position < len(text):
        matched = pattern.match(text, position)
        if matched is None:
            raise Odd
        found.append((matched[1], matched[2], matched[3]))
        position = matched.end()
    return found


def _axes(one: str | None, several: str | None) -> Axes:
    if one is not None:
        return (one,)
    return () if several is None else tuple(several.split(","))


# Literals

_NUMBER: Final = r"(?:[0-9]++(?:\.[0-9]++)?+(?:e[+-][0-9]++)?+)"
_LITERAL: Final = re.compile(
    rf"(-?(?:{_NUMBER}j?|inf)|nan|True|False|\(-?{_NUMBER}[+-]{_NUMBER}j\)|\(b'',\))(?::(\S++))?+", re.ASCII
)


def literal_of(text: str) -> Literal:
    """The literal with this text, type included: `2.0:f32[]`. Raises `Odd`, or `Refused` for its type."""
    found = _LITERALS.get(text)
    if found is None:
        matched = _LITERAL.fullmatch(text)
        if matched is None:
            raise Odd
        found = _LITERALS[text] = Literal(matched[1], None if matched[2] is None else type_of(matched[2]))
    return found


# Parameter values

_SIZE: Final = r"-?(?:[0-9]++|[A-Za-z_]\w*+)(?:\^[0-9]++)?+"
_LEAF: Final = re.compile(
    rf"({_SIZE}(?:(?:\*| [+-] ){_SIZE})++)(?![\w.+*^<(])"
    r"|(0|-?[1-9][0-9]{0,17})(?![\w.+*<])"
    r"|(-?[0-9]++(?:\.[0-9]++(?:e[+-][0-9]++)?+|e[+-][0-9]++)|-?inf|nan)(?![\w.+*<(])"
    r"|'([^'\\\n\r]*+)'"
    r"|([A-Za-z_]\w*+(?: [\w.-]++)++)(?=[,)\]}])"
    r"|([A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+)(\(?)"
    r"|([(\[{])"
    r"|(<lambda>|\*)",
    re.ASCII,
)
_NUMBERS: Final = re.compile(r"((?:0|-?[1-9]\d{0,17})(?:, (?:0|-?[1-9]\d{0,17}))*+)(,?)([)\]}])", re.ASCII)
_KEYWORD: Final = re.compile(r"([A-Za-z_]\w*+)=", re.ASCII)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_NAMED: Final[dict[str, Value]] = {"None": None, "True": True, "False": False}


_LATEST: Final[dict[str, tuple[str, Value]]] = {}
"""The latest call of each name, by the text of its arguments: the mesh of a sharding is that of the one before."""


def value_of(text: str) -> Value:
    """The parameter value with this text. Raises `Refused` if the grammar refuses it."""
    try:
        return _VALUES[text]
    except KeyError:
        pass
    try:
        value, end = value_at(text, 0)
        if end != len(text):
            raise Odd
    except Odd:
        from grammar.parse import parse_value

        value = parse_value(text)
    _VALUES[text] = value
    return value


def value_at(text: str, start: int, depth: int = 0) -> tuple[Value, int]:
    """The value that starts here, and where it ends. Raises `Odd`."""
    matched = _LEAF.match(text, start)
    if matched is None or depth > DEEPEST:
        raise Odd
    end = matched.end()
    which = matched.lastindex
    if which == 1:
        return Word(matched[1]), end  # a symbolic size
    if which == 2:
        return int(matched[2]), end
    if which == 3:
        return Real(matched[3]), end
    if which == 4:
        return matched[4], end
    if which == 8:
        return _sequence(text, end, matched[8], depth + 1)
    if which in (5, 9):
        return Word(matched[which]), end
    name = matched[6]
    if matched[7]:
        inside, latest = _LATEST.get(name, ("", None))
        if inside and text.startswith(inside, end):  # the same arguments, to their closing bracket
            return latest, end + len(inside)
        value, stop = _call(text, end, name, depth + 1)
        _LATEST[name] = text[end:stop], value
        return value, stop
    return (_NAMED[name] if name in _NAMED else Word(name)), end


def _sequence(text: str, start: int, opening: str, depth: int) -> tuple[Value, int]:
    """The tuple, list or set that was opened just before `start`."""
    numbers = _NUMBERS.match(text, start)
    items: list[Value] = []
    if numbers is not None and numbers[3] == _CLOSING[opening]:  # nearly all are lists of sizes or dims
        items += map(int, numbers[1].split(", "))
        end, comma = numbers.end(), bool(numbers[2])
    else:
        end, comma = _arguments(text, start, _CLOSING[opening], depth, items, None)
    if opening == "(":
        if comma != (len(items) == 1):
            raise Odd
        return tuple(items), end
    if comma:
        raise Odd
    return (items if opening == "[" else Braces(tuple(items))), end


def _call(text: str, start: int, name: str, depth: int) -> tuple[Value, int]:
    """The call whose arguments start here."""
    items: list[Value] = []
    keywords: list[tuple[str, Value]] = []
    end, comma = _arguments(text, start, ")", depth, items, keywords)
    if comma != (name in ("P", "PartitionSpec") and len(items) == 1 and not keywords):
        raise Odd
    return Call(name, tuple(items), tuple(keywords)), end


def _arguments(
    text: str,
    start: int,
    closing: str,
    depth: int,
    items: list[Value],
    keywords: list[tuple[str, Value]] | None,
) -> tuple[int, bool]:
    """Collect the items up to the closing bracket: where it ends, and whether a comma stood before it."""
    position = start
    if text.startswith(closing, position):
        return position + 1, False
    while True:
        key = _KEYWORD.match(text, position)
        if key is not None:
            if keywords is None:
                raise Odd
            value, position = value_at(text, key.end(), depth)
            keywords.append((key[1], value))
        else:
            value, position = value_at(text, position, depth)
            if text.startswith(": ", position) and (closing == "}" or keywords is not None):
                other, position = value_at(text, position + 2, depth)
                value = Pair(value, other)
            if keywords:
                raise Odd
            items.append(value)
        if text.startswith(", ", position):
            position += 2
        elif text.startswith(closing, position):
            return position + 1, False
        elif text.startswith("," + closing, position):
            return position + 2, True
        else:
            raise Odd
