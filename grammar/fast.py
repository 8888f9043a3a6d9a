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
from typing import Final, NoReturn

from calculus.programs import Document, Equation, Program
from calculus.refusals import Refused
from grammar.layout import NESTING, TEXT_PARAMETERS
from grammar.leaves import Odd
from grammar.pieces import NAME, Body, Opened, Pieces
from grammar.references import resolve
from grammar.source import Source

_SHORT_TYPE: Final = r"[^ {\n]++(?:\{[^{}\n]*+\})?+"  # looser than a type: it is checked where it is decoded

# An equation on a line of its own, or with a block of parameters that hold no braces; no wrapped lists.
_EQUATION: Final = re.compile(
    rf"( *+)({NAME}):({_SHORT_TYPE})((?: {NAME}:{_SHORT_TYPE})*+) = "
    r"([A-Za-z_][\w-]*+(?:\["
    r"(?:[^\[\]\n]++(?:\[[^\[\]\n]*+\][^\[\]\n]*+)*+"
    r"|(?:\n\1  \w++=[^\n{]*+)++\n\1)"
    r"\])?+)"
    r"(?: |(?=\n))([ -\"$-~]*+)(?:(?<= )# ([^\n]*+))?+\n(?!\1 )",
    re.ASCII,
)
_EQUATIONS: Final = re.compile(f"{_EQUATION.pattern}|", re.ASCII)  # the empty match ends a run of equations
_UNSEEN: Final = "\0"  # the margin of a body of which no line is read yet
_MESH: Final = re.compile(r"# mesh:([^\n]*+)\n")
_LET: Final = re.compile(r"let ([^\s=(){},;]++) = (?=\{ lambda )")
_QUOTED: Final = re.compile(r"(?<=[(\[{ =])'[^'\\\n]*+'(?=[)\]},:])")
_MARKS: Final = re.compile(r"[()\[\]{}'\"]")
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}
_DEFINITION: Final = re.compile(r"\nlet ([^\s=(){},;]++) = \{ lambda ")


def read_fast(text: str) -> Document:
    """The document with this text. Raises `Odd` where only the grammar of documents can tell, and `Refused` with the
    line and column where an equation goes wrong."""
    collecting = gc.isenabled()
    gc.disable()  # a reader makes much and drops nothing: collections would only walk the growing program
    try:
        return _Reader(text).document()
    finally:
        if collecting:
            gc.enable()


class _Reader(Pieces):
    """One reading of one document."""

    def __init__(self, text: str) -> None:
        super().__init__(text, _DEFINITION.findall(f"\n{text}"))
        self.asked = 0  # how many characters the grammar was asked about

    def document(self) -> Document:
        """The whole text: definitions, then the program."""
        text = self.text
        if any(blank in text for blank in "\t\r\f\v"):  # blanks that the layout counts too
            raise Odd
        mesh = _MESH.match(text)
        if mesh is not None:
            self.position = mesh.end()
            self.line = 2
        references = self.heads.references
        definitions: list[tuple[str, Program]] = []
        uses: dict[str, dict[str, int]] = {}
        while (let := _LET.match(text, self.position)) is not None:
            name = let[1]
            self.position = let.end()
            uses[name] = self.heads.uses = {}
            program = references[name].program = self.program()
            definitions.append((name, program))
            self.skip(" in\n")
        uses[""] = self.heads.uses = {}  # no definition has the empty name
        program = self.program()
        if text[self.position :].strip(" \n"):
            raise Odd
        if not len(definitions) == len(references) == len(uses) - 1:  # a name is defined twice, or in a wrong place
            raise Odd
        document = Document(tuple(definitions), program, mesh and mesh[1].strip())
        if self.asked:
            return resolve(document, Source(text))
        if height(uses) > NESTING:
            raise Odd
        return document

    def program(self) -> Program:
        """The program that starts here, with all that is nested in it."""
        bodies: list[Body] = []
        equations: list[Opened] = []  # equations[i] stands in bodies[i], and bodies[i + 1] in equations[i]
        while True:
            try:
                program = self.step(bodies, equations)
            except (Odd, Refused):
                self.ask(bodies, equations)
            else:
                if program is not None:
                    return program

    def step(self, bodies: list[Body], equations: list[Opened]) -> Program | None:
        """Read on, in the innermost body or equation. The program, once the outermost body is read."""
        if len(equations) == len(bodies):
            if equations and not self.parameters(equations[-1]):
                self.close(equations.pop(), bodies[-1])
            elif len(bodies) == NESTING:
                raise Odd
            else:
                bodies.append(self.head())
                self.heads.depth = len(bodies)
            return None
        body = bodies[-1]
        body.begun = None
        if body.wrapped:
            self.run(body)
        program = self.outputs(body)
        if program is None:
            opened = self.statement(body)
            if opened is not None:
                equations.append(opened)
            return None
        bodies.pop()
        self.heads.depth = len(bodies)
        if bodies:
            self.deliver(equations[-1], program)
            return None
        return program

    def ask(self, bodies: list[Body], equations: list[Opened]) -> None:
        """Ask the grammar for the innermost equation that begins on a line of its own, from its beginning.

        Raises `Odd` if there is none, or if the layout alone does not say where it ends, and `Refused` if it is
        the equation itself that is wrong.
        """
        while bodies and bodies[-1].begun is None:
            bodies.pop()
            del equations[len(bodies) :]
        if not bodies:
            raise Odd
        body = bodies[-1]
        del equations[len(bodies) - 1 :]
        assert body.begun is not None
        start, line = body.begun
        end = self.text.find("\n", start) + 1
        within = (f"{body.margin} ", f"{body.margin}]")
        while end and self.text.startswith(within, end):
            end = self.text.find("\n", end) + 1
        piece = self.text[start:end]
        self.asked += len(piece)
        if not piece or self.asked > 2 * len(self.text) or len(bodies) + piece.count("lambda") > NESTING:
            raise Odd
        from grammar.parse import parse_equation

        try:
            equation = parse_equation(piece.rstrip(), line)
        except Refused:
            if any(f"{name}=" in piece for name in TEXT_PARAMETERS) or not balanced(piece):
                raise Odd from None  # it may reach beyond the piece
            self.explain(piece, line)
        body.equations.append(equation)
        body.begun = None
        self.heads.depth = len(bodies)
        self.position = end
        self.line = line + piece.count("\n")

    def explain(self, piece: str, line: int) -> NoReturn:
        """Raise what the grammar has against an equation, in the words in which it refuses the whole document."""
        from grammar.parse import parse_document

        try:
            parse_document(f"{{ lambda ; . let\n{piece}")
        except Refused as refused:
            refusal = refused.refusal
            if 2 <= refusal.line <= 1 + piece.count("\n"):  # not where the piece ends
                refusal.line += line - 2
                raise
        raise Odd

    def run(self, body: Body) -> None:
        """All equations from here on that `_EQUATION` takes whole."""
        text, line = self.text, self.line
        margin = _UNSEEN if body.margin is None else body.margin
        end = self.position
        heads, types, atoms = self.heads, self.types, self.atoms
        add = body.equations.append
        try:
            for matched in _EQUATIONS.finditer(text, end):  # each begins where the one before it ended
                blanks, name, type, others, head, operands, comment = matched.groups()
                if blanks != margin:
                    if margin != _UNSEEN or blanks is None:
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
                        tuple([atoms[operand] for operand in operands.split()]),
                        names,
                        its_types,
                        line,
                        comment and comment.strip(),
                    )
                )
                line += height
                end = matched.end()
        except Odd:
            pass  # the statement is read piece by piece
        self.position, self.line = end, line


def height(uses: dict[str, dict[str, int]]) -> int:
    """How deep programs nest, through their uses of definitions. Raises `Odd` if one reaches itself.

    `uses` gives, for each definition, those that it uses, each with how deep that use is nested.
    """
    heights: dict[str, int] = {}
    for root in uses:
        path = [root] if root not in heights else []
        waiting = {root: iter(uses[root])}
        while path:
            name = path[-1]
            used = next(waiting[name], None)
            if used is None:
                path.pop()
                heights[name] = max((depth + heights[other] for other, depth in uses[name].items()), default=1)
            elif used not in heights:
                if used in waiting:
                    raise Odd
                waiting[used] = iter(uses[used])
                path.append(used)
    return max(heights.values())


def balanced(piece: str) -> bool:
    """Whether all brackets of a text close, in order, and all quotes; then no reader of it looks beyond its end."""
    waiting = []
    for mark in _MARKS.findall(_QUOTED.sub("", piece)):
        if mark in _CLOSES:
            waiting.append(_CLOSES[mark])
        elif not waiting or waiting.pop() != mark:
            return False
    return not waiting
