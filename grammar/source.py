"""Where things stand: the line and column of a place in an equation or a program, found again in the text.

Readers keep one line per equation and per program. When a refusal is shown, the text is scanned once more from that
line, with the terminals of programs.lark; lark itself is not needed.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from calculus.programs import Atom, Equation, Literal, Program
from calculus.refusals import Place, Refused
from grammar.layout import Layout, terminals

CANDIDATES = 1000
"""How many places on one line are tried: a line holds several equations only where a body stands on one line."""


class Source:
    """A text with a name for people (a path, or `-`)."""

    __slots__ = ("_layout", "name", "reached", "spans", "text")

    def __init__(self, text: str, name: str = "-") -> None:
        self.text = text
        self.name = name
        self._layout: Layout | None = None
        self.spans: dict[int, tuple[Equation | Program, _Spans | None]] = {}  # by the id of what was looked for
        self.reached: dict[int, int] = {}  # for each line, where the term begins that was found there last

    @property
    def layout(self) -> Layout:
        """The text's lines and indentation."""
        if self._layout is None:
            self._layout = Layout(self.text)
        return self._layout

    def line(self, number: int) -> str:
        """A line, counted from 1, without its line break; empty if there is no such line."""
        start = self.layout.offset(number)
        return self.text[start : self.layout.offset(number + 1)].removesuffix("\n")


def locate(source: Source, term: Equation | Program, place: Place) -> tuple[int, int]:
    """Line and column, from 1, of a place in an equation or a program; (0, 0) if the term has no line.

    Where the place names an axis or a dim, it is that of the type that is printed for the binder or input. Of an
    equation: `primitive` (of a Ref statement the arrow), `operand` and `binder` by index, `type` of a binder by index,
    `parameter` by name. Of a program: `input` and `output` by index. A place that the term does not have is the term's
    beginning, and where the text does not show the term it is the beginning of its line.
    """
    if term.line <= 0:
        return 0, 0
    if id(term) not in source.spans:
        spans = _find_equation(source, term) if isinstance(term, Equation) else _find_program(source, term)
        source.spans[id(term)] = term, spans
    _, found = source.spans[id(term)]
    if found is None:
        line = source.line(term.line)
        return term.line, len(line) - len(line.lstrip()) + 1
    return source.layout.position(found.inside(source.text, place))


def inside_type(text: str, place: Place, start: int = 0) -> int:
    """Where, in the type that is printed from `start` on, the place's axis was mentioned last, or its dim stands;
    `start` if the type shows neither."""
    printed = _pattern(r"\s*<TYPE>").match(text, start)
    opening = -1 if printed is None else text.find("[", start, printed.end())
    if printed is None or opening < 0:
        return start
    if place.dim is not None:
        level, commas = 0, place.dim
        for mark in re.compile(r"(?<=\[)\s*|,\s*|[()]").finditer(text, opening + 1, printed.end()):
            level += {"(": 1, ")": -1}.get(mark[0], 0)
            if level == 0 and mark[0] not in ("(", ")"):
                if commas == 0:
                    return mark.end()
                commas -= 1
    elif place.axis:
        axis = rf"[@:]\s*(?:\((?:[^()]*,)?\s*)?({re.escape(place.axis)})(?=[\s,()\[\]{{}}<>@:])"
        for mark in re.compile(axis).finditer(text, opening, printed.end()):
            start = mark.start(1)
    return start


@dataclass(slots=True)
class _Spans:
    """Offsets of the parts of one equation or program."""

    start: int
    end: int = 0
    primitive: int | None = None
    binders: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)
    parameters: dict[str, int] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    input_types: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def offset(self, place: Place) -> int:
        if place.part == "parameter":
            return self.parameters.get(place.name, self._primitive())
        lists = {
            "operand": self.operands,
            "binder": self.binders,
            "type": self.types,
            "input": self.inputs,
            "output": self.outputs,
        }
        offsets = lists.get(place.part, [])
        return offsets[place.index] if 0 <= place.index < len(offsets) else self._primitive()

    def inside(self, text: str, place: Place) -> int:
        """The offset of what is wrong in a type, where the place says that; else of the place."""
        types = {"binder": self.types, "type": self.types, "input": self.input_types}.get(place.part, [])
        if (place.axis or place.dim is not None) and 0 <= place.index < len(types):
            return inside_type(text, place, types[place.index])
        return self.offset(place)

    def _primitive(self) -> int:
        return self.start if self.primitive is None else self.primitive


class _Mismatch(Exception):
    """The text at hand is not the term that is looked for."""


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    """A regular expression in which `<NAME>` stands for a terminal of the grammar."""
    return re.compile(re.sub(r"<([A-Z_]+)>", lambda name: f"(?:{terminals()[name[1]]})", template))


_BLANKS = re.compile(r"(?:\s++|#[^\n]*+)*+")
_Term = TypeVar("_Term", Equation, Program)


class _Scanner:
    """A position in the text that moves over what is expected, or raises `_Mismatch`."""

    def __init__(self, source: Source, offset: int) -> None:
        self.source = source
        self.text = source.text
        self.offset = offset

    def skip(self) -> None:
        """Move over blanks, line breaks and comments."""
        self.offset = _BLANKS.match(self.text, self.offset).end()  # type: ignore[union-attr]  # it matches everywhere

    def take(self, template: str) -> re.Match[str]:
        """Move over blanks and what the template describes."""
        self.skip()
        found = _pattern(template).match(self.text, self.offset)
        if found is None:
            raise _Mismatch
        self.offset = found.end()
        return found

    def binders(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """Move over binders with these names: where they stand, and their types (or they, if none is printed)."""
        starts, types = [], []
        for name in names:
            found = self.take(r"(<VARIABLE>)(?:\s*:\s*(<TYPE>))?")
            if found[1] != name:
                raise _Mismatch
            starts.append(found.start())
            types.append(found.start() if found[2] is None else found.start(2))
        return starts, types

    def atom(self, atom: Atom) -> int:
        """Move over one operand and return where it stands."""
        if isinstance(atom, Literal):
            found = self.take(r"(<LITERAL>)(?:\s*:\s*<TYPE>)?")
            if found[1] != atom.text:
                raise _Mismatch
        else:
            found = self.take(r"<VARIABLE>")
            if found[0] != atom:
                raise _Mismatch
        return found.start()

    def parameters(self) -> dict[str, int]:
        """Move over a block of parameters, if there is one, and return where each stands."""
        starts: dict[str, int] = {}
        if _pattern(r"<_OPEN>").match(self.text, self.offset) is None:
            return starts
        self.offset += 1
        while self.text[self.offset : self.offset + 1] != "]":
            key = self.take(r"(<KEY>)=")
            starts[key[1]] = key.start()
            self.offset = self.source.layout.value_end(key.start(), key.end())
            self.skip()
        self.offset += 1
        return starts


def _find_equation(source: Source, equation: Equation, after: int = 0) -> _Spans | None:
    cell = "" if equation.cell is None else equation.cell.variable
    first = equation.binders[0] if equation.binders else cell or equation.primitive
    return _find(source, equation, rf"(?<![\w.]){re.escape(first)}(?!\w)", _scan_equation, after)


def _find_program(source: Source, program: Program) -> _Spans | None:
    return _find(source, program, r"\{\s*lambda\b", _scan_program, 0)


def _find(
    source: Source, term: _Term, start: str, scan: Callable[[Source, _Term, int], _Spans], after: int
) -> _Spans | None:
    reached = source.reached.get(term.line, 0)  # terms are mostly looked for in the order of the text
    for begin in (reached, 0) if reached and not after else (after,):
        for offset in _candidates(source, term.line, start, begin):
            try:
                found = scan(source, term, offset)
            except (_Mismatch, Refused):
                continue
            source.reached[term.line] = offset
            return found
    return None


def _candidates(source: Source, line: int, start: str, after: int) -> Iterator[int]:
    begin, end = source.layout.offset(line), source.layout.offset(line + 1)
    for found in itertools.islice(re.compile(start).finditer(source.text, max(begin, after), end), CANDIDATES):
        yield found.start()


def _scan_equation(source: Source, equation: Equation, offset: int) -> _Spans:
    scanner = _Scanner(source, offset)
    spans = _Spans(offset)
    spans.binders, spans.types = scanner.binders(equation.binders)
    if equation.cell is not None:
        _scan_statement(scanner, equation, spans)
    else:
        if equation.binders:
            scanner.take("=")
        primitive = scanner.take(r"<PRIMITIVE>")
        if primitive[0] != equation.primitive:
            raise _Mismatch
        spans.primitive = primitive.start()
        spans.parameters = scanner.parameters()
        spans.operands = [scanner.atom(atom) for atom in equation.inputs]
    spans.end = scanner.offset
    return spans


def _scan_statement(scanner: _Scanner, equation: Equation, spans: _Spans) -> None:
    if equation.primitive == "get":
        spans.primitive = scanner.take("<-").start()
        spans.operands = [scanner.take(r"<CELL>").start()] * len(equation.inputs)
        return
    if equation.binders:
        scanner.take(",")
    cell = scanner.take(r"<CELL>").start()
    spans.primitive = scanner.take(r"<-|\+=").start()
    if equation.binders:
        scanner.take(r"<CELL>\s*,")
    spans.operands = [cell, scanner.atom(equation.inputs[1]), *(cell for _ in equation.inputs[2:])]


def _scan_program(source: Source, program: Program, offset: int) -> _Spans:
    scanner = _Scanner(source, offset)
    spans = _Spans(offset)
    scanner.take(r"\{\s*lambda\b")
    scanner.binders(program.constants)
    scanner.take(";")
    spans.inputs, spans.input_types = scanner.binders(program.inputs)
    scanner.take(r"\.\s*let\b")
    if program.equations:
        last = _find_equation(source, program.equations[-1], scanner.offset)
        if last is None:
            return spans
        scanner.offset = last.end
    try:
        scanner.take(r";?\s*in\s*\(")
        for atom in program.outputs:
            spans.outputs.append(scanner.atom(atom))
            scanner.take(r",?")
    except _Mismatch:
        spans.outputs = []
    return spans
