"""A program read piece by piece: heads, outputs, and the equations that `fast` does not take whole.

These are the equations with programs among their parameters, with lists wrapped over lines, with a comment inside a
block, without a result or without types, the statements on cells, and everything in a body that stands on one line.
Raises `Odd` on what it does not know, and `Refused` on a type that the grammar refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from calculus.programs import (
    NO_PARAMETERS,
    Atom,
    Cell,
    Equation,
    Parameters,
    Program,
    Programs,
    Reference,
    Value,
    Variable,
)
from calculus.types import Type
from grammar.blocks import PARAMETER, Heads, distinct
from grammar.layout import TEXT_PARAMETERS
from grammar.leaves import Odd, literal_of, printed_type, value_at
from grammar.references import holds_programs

NAME: Final = r"[a-z_]\w*+"
_TYPE: Final = r"~?[A-Za-z]\w*+(?:<[^<>\s]*+>)?+(?:\[[^\[\]\n]*+\])?+(?:\{[^{}\n]*+(?:\{[^{}\n]*+\}[^{}\n]*+)*+\})?+"
_ATOM: Final = r"[^\s,()]++"
_BOUND: Final = re.compile(rf"({NAME})(?::({_TYPE}))?+(?:\s++|\Z)", re.ASCII)
_BINDERS: Final = re.compile(
    rf"( *+)((?:{NAME}(?::{_TYPE})?+(?: |\n\1 ++))++)= ([A-Za-z_][\w-]*+)(?:(\[)|(?=[ \n]))", re.ASCII
)
_NO_BINDERS: Final = re.compile(r"( *+)()([A-Za-z_][\w-]*+)(?:(\[)|(?=[ \n]))", re.ASCII)
_CELL: Final = rf"({NAME})\[([^\[\]\n=#]*+(?:\]\[[^\[\]\n=#]*+)*+)\]"
_GET: Final = re.compile(rf" *+({NAME}):({_TYPE}) <- {_CELL}", re.ASCII)
_SWAP: Final = re.compile(rf" *+({NAME}):({_TYPE}), {_CELL} <- {_CELL}, ({_ATOM})", re.ASCII)
_SET: Final = re.compile(rf" *+{_CELL} (<-|\+=) ({_ATOM})", re.ASCII)
_OUTPUTS: Final = re.compile(
    rf"(?: *+\n)?+ *+in \(((?:{_ATOM}(?:,(?: |\n *+){_ATOM})++|{_ATOM},)?+)\)(?: : (\{{ [^{{}}\n]*+(?<= )\}}))?+ \}}"
)
_INLINE_ARGUMENTS: Final = re.compile(r"((?: (?!in \()[^ ;\n]++)*+)(?:; |(?= in \((?!b''|[0-9.e+-]++j)))")
_BEGINNING: Final = re.compile(r"( *+)(?![ #\n]|in \()")
_COMMENT: Final = re.compile(r"(?: ++# ([^\n]*+))?+\n")
_VARIABLE: Final = re.compile(NAME, re.ASCII)
_ITEM: Final = re.compile(r"[A-Za-z_]\w*+", re.ASCII)

Bound: TypeAlias = "tuple[tuple[Variable, ...], tuple[Type | None, ...]]"


class Types(dict[str, "tuple[Type]"]):
    """Types by their text, each as the tuple of one that an equation with one result holds."""

    def __missing__(self, text: str) -> tuple[Type]:
        found = self[text] = (printed_type(text),)
        return found


class Atoms(dict[str, Atom]):
    """Operands by their text; a variable is the one string that all its uses share."""

    def __missing__(self, text: str) -> Atom:
        found: Atom = text if _VARIABLE.fullmatch(text) else literal_of(text)
        self[text] = found
        return found


class Body:
    """A program whose equations are being read. `margin` is what its lines start with: `None` before the first
    line is seen, and `""` where the body stands on one line (then `wrapped` is False)."""

    __slots__ = ("begun", "constants", "equations", "inputs", "line", "margin", "wrapped")

    def __init__(self, constants: Bound, inputs: Bound, line: int, wrapped: bool) -> None:
        self.constants = constants
        self.inputs = inputs
        self.line = line
        self.wrapped = wrapped
        self.margin: str | None = None if wrapped else ""
        self.equations: list[Equation] = []
        self.begun: tuple[int, int] | None = None  # where the equation at hand begins, and on which line


class Opened:
    """An equation whose parameters are being read one by one, for some hold programs. `wrapped`: a line each."""

    __slots__ = (
        "bound",
        "comment",
        "items",
        "line",
        "margin",
        "name",
        "primitive",
        "programs",
        "rows",
        "texts",
        "wrapped",
    )

    def __init__(
        self, primitive: str, bound: Bound, line: int, margin: str, wrapped: bool, comment: str | None
    ) -> None:
        self.primitive = primitive
        self.bound = bound
        self.line = line
        self.margin = margin
        self.wrapped = wrapped
        self.comment = comment
        self.items: list[tuple[str, Value]] = []
        self.texts: list[str] | None = []  # None once a parameter holds a program
        self.name = ""  # of the parameter whose program is being read
        self.programs: list[Program | Reference] | None = None
        self.rows = False  # whether those programs have a line each


class Pieces:
    """The place in a text, and what is kept while it is read: types, operands and heads by their text."""

    def __init__(self, text: str, definitions: Iterable[str]) -> None:
        self.text = text
        self.position = 0
        self.line = 1
        self.types = Types()
        self.atoms = Atoms()
        self.heads = Heads(definitions)

    def head(self) -> Body:
        """`{ lambda constants; inputs. let`, up to the first equation."""
        text, line = self.text, self.line
        start = self.position + 9
        end = text.find(". let", start)
        declared = text[start:end]
        after = text[end + 5 : end + 6]
        if not text.startswith("{ lambda ", self.position) or end < 0 or after not in ("\n", " "):
            raise Odd
        constants, semicolon, inputs = declared.partition(";")
        if not semicolon or (inputs and inputs[0] not in " \n"):
            raise Odd
        self.position = end + 6
        self.line += declared.count("\n") + (after == "\n")
        return Body(self.bound(constants), self.bound(inputs.lstrip(" \n")), line, after == "\n")

    def bound(self, text: str) -> Bound:
        """Binders with their types, separated by blanks and line breaks."""
        names: list[Variable] = []
        types: list[Type | None] = []
        position = 0
        while position < len(text):
            matched = _BOUND.match(text, position)
            if matched is None:
                raise Odd
            position = matched.end()
            names.append(matched[1])
            types.append(None if matched[2] is None else self.types[matched[2]][0])
        return tuple(names), tuple(types)

    def outputs(self, body: Body) -> Program | None:
        """The program, if its outputs come next: `in (a, b) }`."""
        matched = _OUTPUTS.match(self.text, self.position)
        if matched is None:
            return None
        listed = matched[1]
        self.position = matched.end()
        self.line += matched[0].count("\n")
        outputs = self.words(listed.replace(",", " ").replace("\n", " "))
        return Program(*body.constants, *body.inputs, tuple(body.equations), outputs, matched[2], body.line)

    def statement(self, body: Body) -> Opened | None:
        """One equation, piece by piece. It is added to the body, unless it is opened: its parameters come next."""
        text, start, line = self.text, self.position, self.line
        if body.wrapped:
            beginning = _BEGINNING.match(text, start)
            if beginning is None or body.margin not in (None, beginning[1]):
                raise Odd
            body.margin = beginning[1]
            body.begun = (start, line)
        matched = _BINDERS.match(text, start)
        if matched is None:
            if self.cell(body):
                return None
            matched = _NO_BINDERS.match(text, start)
            if matched is None:
                raise Odd
        breaks = matched[2].count("\n")
        if breaks and not body.wrapped:
            raise Odd
        self.line += breaks
        self.position = matched.end()
        bound = self.bound(matched[2])
        if breaks and bound[1][0] is None:
            raise Odd
        if matched[4] is None:
            operands, comment = self.operands(body)
            body.equations.append(Equation(matched[3], NO_PARAMETERS, operands, *bound, line, comment))
            return None
        comment = None
        wrapped = False
        if body.wrapped:
            broken = _COMMENT.match(text, self.position)
            if broken is not None:
                wrapped = True
                comment = broken[1] and broken[1].strip()
                self.position = broken.end()
                self.line += 1
        return Opened(matched[3], bound, line, matched[1], wrapped, comment)

    def cell(self, body: Body) -> bool:
        """A statement on a cell, on a line of its own."""
        text, types, atoms = self.text, self.types, self.atoms
        if (matched := _GET.match(text, self.position)) is not None:
            name, type, variable, indices = matched.groups()
            made = Equation("get", NO_PARAMETERS, (variable,), (name,), types[type], self.line)
        elif (matched := _SET.match(text, self.position)) is not None:
            variable, indices, arrow, written = matched.groups()
            primitive = "swap" if arrow == "<-" else "addupdate"
            made = Equation(primitive, NO_PARAMETERS, (variable, atoms[written]), (), (), self.line)
        elif (matched := _SWAP.match(text, self.position)) is not None:
            name, type, variable, indices, again, same, written = matched.groups()
            if (again, same) != (variable, indices):
                raise Odd
            made = Equation("swap", NO_PARAMETERS, (variable, atoms[written]), (name,), types[type], self.line)
        else:
            return False
        made.cell = Cell(variable, indices)
        made.inputs += made.cell.names
        self.position = matched.end()
        operands, comment = self.operands(body)
        if operands:
            raise Odd
        if comment is not None:
            note(comment, made)
        body.equations.append(made)
        return True

    def operands(self, body: Body) -> tuple[tuple[Atom, ...], str | None]:
        """The operands that come next, the comment after them, and the end of the equation."""
        text = self.text
        if not body.wrapped:
            matched = _INLINE_ARGUMENTS.match(text, self.position)
            if matched is None:
                raise Odd
            self.position = matched.end()
            return self.words(matched[1]), None
        end = text.find("\n", self.position)
        listed, sign, comment = text[self.position : end].partition(" # ")
        if end < 0 or (listed and listed[0] != " "):
            raise Odd
        self.line += 1
        deeper = f"{body.margin} "
        if text.startswith(deeper, end + 1):
            pieces = [listed]
            while text.startswith(deeper, end + 1):
                start = end + 1
                end = text.find("\n", start)
                if end < 0:
                    raise Odd
                pieces.append(text[start:end])
                self.line += 1
            listed = "".join(pieces)
        self.position = end + 1
        return self.words(listed), comment.strip() if sign else None

    def words(self, listed: str) -> tuple[Atom, ...]:
        """Operands, separated by blanks."""
        if not (listed.isascii() and listed.isprintable()):
            raise Odd
        atoms = self.atoms
        return tuple([atoms[word] for word in listed.split()])

    def parameters(self, opened: Opened) -> bool:
        """The parameters that come next, up to a program, which is to be read first (True), or to the end (False)."""
        text = self.text
        while True:
            if opened.programs is not None:
                if self.item(opened, opened.programs):
                    return True
                continue
            if opened.wrapped:
                if text.startswith(f"{opened.margin}]", self.position):
                    self.position += len(opened.margin)
                    return False
                self.skip(f"{opened.margin}  ")
            elif opened.items:
                if text.startswith("]", self.position):
                    return False
                self.skip(" ")
            matched = PARAMETER.match(text, self.position)
            if matched is None:
                raise Odd
            name = opened.name = matched[1]
            start = self.position = matched.end()
            if text.startswith("{ lambda ", start):
                return True
            if name == "branches" and text.startswith("(", start):
                rows = opened.wrapped and text.startswith("(\n", start)
                self.skip("(\n" if rows else "(")
                opened.programs, opened.rows = [], rows
                continue
            if opened.wrapped:
                end = text.find("\n", start)
                if end < 0:
                    raise Odd
                value = self.heads.value(name, text[start:end])
            else:
                if name in TEXT_PARAMETERS or (text.startswith("(", start) and holds_programs(name)):
                    raise Odd
                value, end = value_at(text, start)
                value = self.heads.resolved(name, value)
            self.position = end
            self.add(opened, value, text[start:end])

    def item(self, opened: Opened, programs: list[Program | Reference]) -> bool:
        """The next of several programs: True if it starts here, False if it was a name or if there are no more."""
        text = self.text
        margin = f"{opened.margin}  "
        if opened.rows and text.startswith(f"{margin}  ", self.position):
            self.position += len(margin) + 2
        elif opened.rows:
            self.skip(margin)
        elif programs and text.startswith(" ", self.position):
            self.position += 1
        if text.startswith("{ lambda ", self.position):
            return True
        matched = _ITEM.match(text, self.position)
        if matched is None:
            self.skip(")")
            if not programs:
                raise Odd
            opened.programs = None
            self.add(opened, Programs(tuple(programs)), None)
            return False
        programs.append(self.heads.refer(matched[0]))
        self.position = matched.end()
        if opened.rows:
            self.skip("\n")
        return False

    def deliver(self, opened: Opened, program: Program) -> None:
        """A program that an opened equation waits for has been read."""
        if opened.programs is None:
            self.add(opened, program, None)
        else:
            opened.programs.append(program)
            if opened.rows:
                self.end_row(program)

    def add(self, opened: Opened, value: Value, printed: str | None) -> None:
        """A parameter has been read. `printed` is its text, `None` where it holds a program."""
        opened.items.append((opened.name, value))
        if printed is None:
            opened.texts = None
        elif opened.texts is not None:
            opened.texts.append(f"{opened.name}={printed}")
        if opened.wrapped:
            self.end_row(value if isinstance(value, Program) else None)

    def end_row(self, program: Program | None) -> None:
        """The line ends here. If it ends in a comment, that belongs to the last equation of this program."""
        matched = _COMMENT.match(self.text, self.position)
        if matched is None:
            raise Odd
        if matched[1] is not None:
            if program is None or not program.equations:
                raise Odd
            note(matched[1], latest(program.equations[-1]))
        self.position = matched.end()
        self.line += 1

    def close(self, opened: Opened, body: Body) -> None:
        """The bracket that ends the parameters, and the operands."""
        self.skip("]")
        if opened.texts is None:
            parameters = Parameters(distinct(opened.items))
        else:
            parameters = self.heads.shared(opened.items, opened.texts)
        operands, comment = self.operands(body)
        made = Equation(opened.primitive, parameters, operands, *opened.bound, opened.line, opened.comment)
        if comment is not None:
            note(comment, latest(made))
        body.equations.append(made)

    def skip(self, expected: str) -> None:
        """This text comes next."""
        if not self.text.startswith(expected, self.position):
            raise Odd
        self.position += len(expected)
        if expected[-1] == "\n":
            self.line += 1


def latest(equation: Equation) -> Equation:
    """The equation that begins last of this one and those in its programs: the one that a comment after it is for."""
    while True:
        inner = [
            program
            for _, value in equation.parameters.items_in_order
            for program in (value.items if isinstance(value, Programs) else (value,))
            if isinstance(program, Program) and program.equations
        ]
        if not inner:
            return equation
        equation = inner[-1].equations[-1]


def note(comment: str, equation: Equation) -> None:
    """Give an equation its comment. Raises `Odd` if it has one."""
    if equation.comment is not None:
        raise Odd
    equation.comment = comment.strip()
