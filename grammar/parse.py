"""The reader that follows the grammar: text to terms by lark alone. It is the norm, and slow; see fast.py.

`parse_type`, `parse_document`, `parse_equation` and `parse_value` read one phrase each. All refuse with
`calculus.refusals.Refused`: `syntax`, `too-deep`, `two-kinds`, `cyclic-definition`, `unknown-definition`. Lark is
imported, and each grammar built, when it is first needed.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calculus.programs import Document, Equation, Reference, Value, Word
from calculus.refusals import Place, Refused
from calculus.types import Type
from grammar.expected import acceptable, explain
from grammar.layout import NESTING, TEXT_PARAMETERS, depth, syntax, too_deep
from grammar.quoted import quoted
from grammar.references import equations, holds_programs, resolve
from grammar.source import Source

if TYPE_CHECKING:
    from lark import Lark
    from lark.exceptions import UnexpectedInput

    from grammar.lexer import Reading

_WORD = re.compile(r"[^\s=(){},;'\"\[\]]+")


def parse_type(text: str) -> Type:
    """The type that a text denotes, `f32[8@X,4]{U:Y}`.

    Raises `Refused`, pointing at `Place("type")`: `two-kinds`, `too-deep`, or `syntax` with the column and what was
    expected there.
    """
    try:
        return _parse_type(text)
    except Refused as refused:
        refusal = refused.refusal
        refusal.place = Place("type")
        if refusal.code == "syntax":
            refusal.message = f"column {refusal.column}: {refusal.message}"
            refusal.help = refusal.help or "write a type as jax.typeof prints it: f32[8@X,4@(Y,Z)]{U:W}"
        raise


def parse_document(text: str) -> Document:
    """The program, and its hoisted definitions, that a text denotes; references are resolved.

    Raises `Refused` with the line and column.
    """
    from grammar.lexer import Reading

    reading = Reading(text)
    document: Document = _read(reading, "document")
    programs = [program for _, program in document.definitions] + [document.program]
    _attach_comments(reading, [equation for program in programs for equation in program.equations])
    return resolve(document, Source(text))


def parse_equation(text: str, line: int = 1) -> Equation:
    """One equation, over as many lines as it needs; `line` is the line it begins on, for messages and terms.

    References stay unresolved: `grammar.references.resolve` does that when the whole document is read.
    Raises `Refused` with the line and column.
    """
    from grammar.lexer import Reading

    reading = Reading(text, line)
    equation: Equation = _read(reading, "equation")
    _attach_comments(reading, [equation])
    return equation


def parse_value(text: str, parameter: str = "", hoisted: Container[str] | None = None) -> Value:
    """The value that the text of a parameter denotes; text that the grammar does not derive is a `Word`.

    `parameter` is its name: under `jaxpr` and the like a bare word is a `Reference`, if it is among the names
    `hoisted`, or if these are not given (then `resolve` makes it a `Word` again if no definition has that name).
    Raises `Refused` (`too-deep`).
    """
    if parameter in TEXT_PARAMETERS:
        return Word(text)
    value = _parse_value(text)
    named = isinstance(value, Word) and holds_programs(parameter) and _WORD.fullmatch(value)
    return Reference(str(value)) if named and (hoisted is None or value in hoisted) else value


def clear() -> None:
    """Forget every type and value parsed so far. For measurements only."""
    _parse_type.cache_clear()
    _parse_value.cache_clear()


@functools.lru_cache(maxsize=1 << 14)
def _parse_type(text: str) -> Type:
    from lark.exceptions import UnexpectedInput

    if depth(text) > NESTING:
        raise too_deep("brackets", 1, 1)
    try:
        made: Type = _type_language().parse(text)  # type: ignore[assignment]  # a term, not a tree
    except UnexpectedInput as error:
        raise _complaint(text, error) from None
    return made


@functools.lru_cache(maxsize=1 << 14)
def _parse_value(text: str) -> Value:
    from lark.exceptions import UnexpectedInput

    from grammar.terms import NotAValue

    if depth(text) > NESTING:
        raise too_deep("brackets")
    try:
        value: Value = _value_language().parse(text, "value")  # type: ignore[assignment]  # a term, not a tree
    except (UnexpectedInput, NotAValue):
        return quoted(text)
    return value


def _read(reading: Reading, start: str) -> Any:
    return _program_language().parse(reading, start)  # the lexer takes a `Reading`, and refuses what does not fit


def _complaint(text: str, error: UnexpectedInput) -> Refused:
    """The refusal that says where lark stopped in a type, and what it expected there."""
    token = getattr(error, "token", None)
    offset = error.pos_in_stream if token is None else token.start_pos
    if offset is None or (token is not None and token.type == "$END"):
        offset = len(text)
    fixed = {term.name: term.pattern.value for term in _type_language().terminals if term.pattern.type == "str"}
    expected = acceptable(error.interactive_parser.parser_state)
    return syntax(explain(text, offset, [(name, fixed.get(name)) for name in expected]), 1, offset + 1)


def _attach_comments(reading: Reading, outermost: list[Equation]) -> None:
    """Give each comment to the equation that began last before it, the first one where there are several."""
    if not reading.comments:
        return
    inner = list(equations(outermost))
    lines = [equation.line for equation in inner]
    for line, comment in reading.comments:
        index = bisect_right(lines, line) - 1
        if index >= 0 and inner[index].comment is None:
            inner[index].comment = comment


@functools.cache
def _type_language() -> Lark:
    from lark import Lark

    from grammar.terms import TypeTerms

    return Lark(_text("types.lark"), parser="lalr", start="type", transformer=TypeTerms())


@functools.cache
def _value_language() -> Lark:
    from lark import Lark

    from grammar.terms import ValueTerms

    return Lark(_text("programs.lark"), parser="lalr", start="value", transformer=ValueTerms())


@functools.cache
def _program_language() -> Lark:
    from lark import Lark

    from grammar.lexer import LayoutLexer
    from grammar.terms import ProgramTerms

    terms = ProgramTerms(_parse_type, parse_value)
    start = ["document", "equation"]
    return Lark(_text("programs.lark"), parser="lalr", lexer=LayoutLexer, start=start, transformer=terms)


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
