"""The fast reader: the printed text of a program, in one pass and without the grammar.

It reads the layout that JAX prints: one equation a line, or a few lines where a block of parameters is broken. One
regular expression takes a whole equation; its types and its head (`dot_general[...]`) are looked up by their text, so
each is decoded once. What that expression does not take (programs inside parameters, lists wrapped over lines,
statements on cells, bodies on one line) is read piece by piece.

It is strict. On anything it does not know it raises `Odd`, and `grammar.read` asks the grammar instead: the language
is what `grammar.parse` accepts, and what is read here is the same term.
"""

from __future__ import annotations

import gc
import re
from typing import Final, TypeAlias

from calculus.programs import (
    NO_PARAMETERS,
    Atom,
    Cell,
    Document,
    Equation,
    Parameters,
    Program,
    Programs,
    Reference,
    Value,
    Variable,
)
from calculus.types import Type
from grammar.blocks import PARAMETER, Heads
from grammar.leaves import Odd, literal_of, type_of, value_at

DEEPEST: Final = 200
"""How deep programs may nest here; beyond that the grammar decides."""

_NAME: Final = r"[a-z_]\w*+"
_SHORT_TYPE: Final = r"[^ {\n]++(?:\{[^{}\n]*+\})?+"  # looser than a type: it is checked where it is decoded
_TYPE: Final = (
    r"~?[A-Za-z]\w*+(?:<[^<>\s]*+>)?+(?:\[[^\[\]\n]*+\])?+(?:\{[^{}\n]*+(?:\{[^{}\n]*+\}[^{}\n]*+)*+\})?+"
)
_ATOM: Final = r"[^\s,()]++"

# An equation on a line of its own, or with a block of parameters that hold no braces; no wrapped lists.
_EQUATION: Final = re.compile(
    rf"( *+)({_NAME}):({_SHORT_TYPE})((?: {_NAME}:{_SHORT_TYPE})*+) = "
    r"([a-z_][\w-]*+(?:\["
    r"(?:[^\[\]\n]++(?:\[[^\[\]\n]*+\][^\[\]\n]*+)*+"
    r"|(?:\n\1  \w++=[^\n{]*+)++\n\1)"
    r"\])?+)"
    r" ([ -\"$-~]*+)(?:(?<= )# ([^\n]*+))?+\n(?!\1 )",
    re.ASCII,
)
_BOUND: Final = re.compile(rf"({_NAME})(?::({_TYPE}))?+(?:\s++|\Z)", re.ASCII)
_BINDERS: Final = re.compile(
    rf"( *+)((?:{_NAME}(?::{_TYPE})?+(?: |\n\1 ++))++)= ([a-z_][\w-]*+)(?:(\[)|(?= ))", re.ASCII
)
_NO_BINDERS: Final = re.compile(r"( *+)()([a-z_][\w-]*+)(?:(\[)|(?= ))", re.ASCII)
_CELL: Final = rf"({_NAME})\[([^\[\]\n]*+)\]"
_GET: Final = re.compile(rf"( *+)({_NAME}):({_TYPE}) <- {_CELL}", re.ASCII)
_SWAP: Final = re.compile(rf"( *+)({_NAME}):({_TYPE}), {_CELL} <- {_CELL}, ({_ATOM})", re.ASCII)
_SET: Final = re.compile(rf"( *+){_CELL} (<-|\+=) ({_ATOM})", re.ASCII)
_OUTPUTS: Final = re.compile(
    rf" *+in \(((?:{_ATOM}(?:,(?: |\n *+){_ATOM})++|{_ATOM},)?+)\)(?: : (\{{ [^{{}}\n]*+ \}}))?+ \}}"
)
_INLINE_ARGUMENTS: Final = re.compile(r"((?: (?!in \()[^ ;\n]++)*+)(?:; |(?= in \((?!b''|[0-9.e+-]++j)))")
_COMMENT: Final = re.compile(r"(?: ++# ([^\n]*+))?+\n")
_VARIABLE: Final = re.compile(_NAME, re.ASCII)
_ITEM: Final = re.compile(r"[A-Za-z_]\w*+", re.ASCII)
_MESH: Final = re.compile(r"# mesh: ?([^\n]*+)\n")
_LET: Final = re.compile(r"let (\S++) = (?=\{ lambda )")
_DEFINITION: Final = re.compile(r"^let (\S++) = \{ lambda ", re.MULTILINE)


def read_fast(text: str) -> Document:
    """The document with this text. Raises `Odd` where only the grammar can tell, and `Refused` for a bad leaf."""
    collecting = gc.isenabled()
    gc.disable()  # a reader makes much and drops nothing: collections would only walk the growing program
    try:
        return _Reader(text).document()
    finally:
        if collecting:
            gc.enable()


_Bound: TypeAlias = "tuple[tuple[Variable, ...], tuple[Type | None, ...]]"


class _Types(dict[str, "tuple[Type]"]):
    """Types by their text, each as the tuple of one that an equation with one result holds."""

    def __missing__(self, text: str) -> tuple[Type]:
        found = self[text] = (type_of(text),)
        return found


class _Atoms(dict[str, Atom]):
    """Operands by their text; a variable is the one string that all its uses share."""

    def __missing__(self, text: str) -> Atom:
        found: Atom = text if _VARIABLE.fullmatch(text) else literal_of(text)
        self[text] = found
        return found


class _Body:
    """A program whose equations are being read. `margin` is what its lines start with: `None` before the first
    line is seen, and `""` where the body stands on one line (then `wrapped` is False)."""

    __slots__ = ("constants", "equations", "inputs", "line", "margin", "wrapped")

    def __init__(self, constants: _Bound, inputs: _Bound, line: int, wrapped: bool) -> None:
        self.constants = constants
        self.inputs = inputs
        self.line = line
        self.wrapped = wrapped
        self.margin: str | None = None if wrapped else ""
        self.equations: list[Equation] = []


class _Opened:
    """An equation whose parameters are being read one by one, for some hold programs. `wrapped`: a line each."""

    __slots__ = (
        "bound", "comment", "items", "line", "margin", "name", "primitive", "programs", "rows", "texts", "wrapped",
    )

    def __init__(
        self, primitive: str, bound: _Bound, line: int, margin: str, wrapped: bool, comment: str | None
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


class _Reader:
    """One reading of one text: the place in it, and what is kept for its length."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line = 1
        self.types = _Types()
        self.atoms = _Atoms()
        self.heads = Heads(_DEFINITION.findall(text))

    def document(self) -> Document:
        """The whole text: definitions, then the program."""
        text = self.text
        mesh = _MESH.match(text)
        if mesh is not None:
            self.position = mesh.end()
            self.line = 2
        definitions: list[tuple[str, Program]] = []
        while (let := _LET.match(text, self.position)) is not None:
            self.position = let.end()
            program = self.program()
            definitions.append((let[1], program))
            if not text.startswith(" in\n", self.position):
                raise Odd
            self.position += 4
            self.line += 1
            self.heads.references[let[1]].program = program
        program = self.program()
        if text[self.position :].strip(" \n"):
            raise Odd
        if len(definitions) != len(self.heads.references):  # some name defined twice, or where none may be
            raise Odd
        return Document(tuple(definitions), program, mesh and mesh[1])

    def program(self) -> Program:
        """The program that starts here, with all that is nested in it."""
        bodies = [self.head()]
        equations: list[_Opened] = []  # equations[i] stands in bodies[i], and bodies[i + 1] in equations[i]
        while True:
            if len(equations) < len(bodies):
                body = bodies[-1]
                if body.wrapped:
                    self.run(body)
                program = self.outputs(body)
                if program is None:
                    opened = self.statement(body)
                    if opened is not None:
                        equations.append(opened)
                    continue
                bodies.pop()
                if not bodies:
                    return program
                self.deliver(equations[-1], program)
            elif self.parameters(equations[-1]):
                if len(bodies) >= DEEPEST:
                    raise Odd
                bodies.append(self.head())
            else:
                self.close(equations.pop(), bodies[-1])

    def head(self) -> _Body:
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
        return _Body(self.bound(constants), self.bound(inputs.lstrip(" \n")), line, after == "\n")

    def bound(self, text: str) -> _Bound:
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

    def run(self, body: _Body) -> None:
        """All equations from here on that `_EQUATION` takes whole."""
        text, line = self.text, self.line
        margin = body.margin
        scan = _EQUATION.match
        heads, types, atoms = self.heads, self.types, self.atoms
        atom = atoms.__getitem__
        add = body.equations.append
        end = self.position
        try:
            while (matched := scan(text, end)) is not None:
                blanks, name, type, others, head, operands, comment = matched.groups()
                if blanks != margin:
                    if margin is not None:
                        break
                    body.margin = margin = blanks
                primitive, parameters, height = heads[head]
                atoms[name] = name
                if others:
                    bound = self.bound(others[1:])
                    names, its_types = (name, *bound[0]), (types[type][0], *bound[1])
                else:
                    names, its_types = (name,), types[type]
                add(
                    Equation(
                        primitive,
                        parameters,
                        tuple(map(atom, operands.split())),
                        names,
                        its_types,
                        line,
                        comment,
                    )
                )
                line += height
                end = matched.end()
        except Odd:
            pass  # the statement is read piece by piece
        self.position, self.line = end, line

    def outputs(self, body: _Body) -> Program | None:
        """The program, if its outputs come next: `in (a, b) }`."""
        matched = _OUTPUTS.match(self.text, self.position)
        if matched is None:
            return None
        self.position = matched.end()
        listed = matched[1]
        self.line += listed.count("\n")
        atoms = self.atoms
        outputs = tuple([atoms[word] for word in listed.replace(",", " ").split()])
        return Program(*body.constants, *body.inputs, tuple(body.equations), outputs, matched[2], body.line)

    def statement(self, body: _Body) -> _Opened | None:
        """One equation, piece by piece. It is added to the body, unless it is opened: its parameters come next."""
        text, start, line = self.text, self.position, self.line
        matched = _BINDERS.match(text, start)
        if matched is None:
            if self.cell(body):
                return None
            matched = _NO_BINDERS.match(text, start)
            if matched is None:
                raise Odd
        self.inside(body, matched[1])
        breaks = matched[2].count("\n")
        if breaks and not body.wrapped:
            raise Odd
        self.line += breaks
        self.position = matched.end()
        bound = self.bound(matched[2])
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
                comment = broken[1]
                self.position = broken.end()
                self.line += 1
        return _Opened(matched[3], bound, line, matched[1], wrapped, comment)

    def inside(self, body: _Body, margin: str) -> None:
        """A line of the body starts with this margin."""
        if body.margin is None:
            body.margin = margin
        elif body.margin != margin:
            raise Odd

    def cell(self, body: _Body) -> bool:
        """A statement on a cell, on a line of its own."""
        text, types, atoms = self.text, self.types, self.atoms
        if (matched := _GET.match(text, self.position)) is not None:
            margin, name, type, variable, indices = matched.groups()
            made = Equation("get", NO_PARAMETERS, (variable,), (name,), types[type], self.line)
        elif (matched := _SET.match(text, self.position)) is not None:
            margin, variable, indices, arrow, written = matched.groups()
            primitive = "swap" if arrow == "<-" else "addupdate"
            made = Equation(primitive, NO_PARAMETERS, (variable, atoms[written]), (), (), self.line)
        elif (matched := _SWAP.match(text, self.position)) is not None:
            margin, name, type, variable, indices, again, same, written = matched.groups()
            if (again, same) != (variable, indices):
                raise Odd
            made = Equation("swap", NO_PARAMETERS, (variable, atoms[written]), (name,), types[type], self.line)
        else:
            return False
        self.inside(body, margin)
        made.cell = Cell(variable, indices)
        self.position = matched.end()
        operands, made.comment = self.operands(body)
        if operands:
            raise Odd
        body.equations.append(made)
        return True

    def operands(self, body: _Body) -> tuple[tuple[Atom, ...], str | None]:
        """The operands that come next, the comment after them, and the end of the equation."""
        text = self.text
        if not body.wrapped:
            matched = _INLINE_ARGUMENTS.match(text, self.position)
            if matched is None:
                raise Odd
            self.position = matched.end()
            return self.words(matched[1]), None
        end = text.find("\n", self.position)
        listed, hash, note = text[self.position : end].partition(" # ")
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
        return self.words(listed), note if hash else None

    def words(self, listed: str) -> tuple[Atom, ...]:
        atoms = self.atoms
        return tuple([atoms[word] for word in listed.split()])

    def parameters(self, opened: _Opened) -> bool:
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
                value, end = value_at(text, start)
                value = self.heads.resolved(name, value)
            self.position = end
            self.add(opened, value, text[start:end])

    def item(self, opened: _Opened, programs: list[Program | Reference]) -> bool:
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
            opened.programs = None
            self.add(opened, Programs(tuple(programs)), None)
            return False
        reference = self.heads.references.get(matched[0])
        if reference is None:
            raise Odd
        self.position = matched.end()
        programs.append(reference)
        if opened.rows:
            self.skip("\n")
        return False

    def deliver(self, opened: _Opened, program: Program) -> None:
        """A program that an opened equation waits for has been read."""
        if opened.programs is None:
            self.add(opened, program, None)
        else:
            opened.programs.append(program)
            if opened.rows:
                self.skip("\n")

    def add(self, opened: _Opened, value: Value, printed: str | None) -> None:
        """A parameter has been read. `printed` is its text, `None` where it holds a program."""
        opened.items.append((opened.name, value))
        if printed is None:
            opened.texts = None
        elif opened.texts is not None:
            opened.texts.append(f"{opened.name}={printed}")
        if opened.wrapped:
            self.skip("\n")

    def close(self, opened: _Opened, body: _Body) -> None:
        """The bracket that ends the parameters, and the operands."""
        self.skip("]")
        if opened.texts is None:
            parameters = Parameters(tuple(opened.items))
        else:
            parameters = self.heads.shared(opened.items, opened.texts)
        operands, comment = self.operands(body)
        if comment is not None and (opened.wrapped or opened.texts is None):
            raise Odd  # whose comment it is, the layout alone does not say
        if opened.wrapped:
            comment = opened.comment
        body.equations.append(
            Equation(opened.primitive, parameters, operands, *opened.bound, opened.line, comment)
        )

    def skip(self, expected: str) -> None:
        """This text comes next."""
        if not self.text.startswith(expected, self.position):
            raise Odd
        self.position += len(expected)
        if expected[-1] == "\n":
            self.line += 1
