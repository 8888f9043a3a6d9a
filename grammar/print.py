"""Terms to text: the bytes that JAX prints.

A program is one group: a short one stands on one line, its equations separated by `; `; a longer one gives each
equation a line. Within the line each list (binders, arguments, outputs) and each block of parameters breaks on its
own account. A list fills its lines; a block, once broken, gives each parameter a line and never breaks a value.
`grammar.pretty` decides what fits.

What a term does not hold is not printed: a literal or a binder without a type prints none, a program whose effects are
not known prints none. So one printer serves every dialect, and parsing and printing give back the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from calculus.programs import (
    Atom,
    Braces,
    Call,
    Document,
    Equation,
    Pair,
    Parameters,
    Program,
    Programs,
    Real,
    Reference,
    Value,
    Variable,
    Word,
)
from calculus.types import Type
from grammar.pretty import GAP, Break, Comment, Deferred, Group, Nest, Part, lay_out, separated

_BLANK: Final = Break(" ")
_NOTHING: Final = Break("")
_SEMICOLON: Final = Break("; ")

_SPECS: Final = frozenset({"P", "PartitionSpec"})
"""Constructors printed like tuples: `P('X',)` has a comma after its only argument."""


def print_document(document: Document) -> str:
    """The whole text, without a newline at its end: the line `# mesh: ...` if there is one, the hoisted definitions,
    the program.

    Raises `Refused` (`too-deep`), as does every function here, if programs nest about a thousand deep.
    """
    parts: list[Part] = []
    for name, program in document.definitions:
        parts += [f"let {name} = ", _deferred(program), " in", _BLANK]
    text = lay_out([*parts, _deferred(document.program)])
    return text if document.mesh is None else f"# mesh: {document.mesh}\n{text}"


def print_program(program: Program) -> str:
    """A program on its own: `{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }`."""
    return lay_out(_program(program))


def print_equation(equation: Equation) -> str:
    """An equation on its own, starting in the first column: `b:f32[] = sin a`."""
    return lay_out(_equation(equation))


def print_value(value: Value) -> str:
    """A parameter's value: `((1, 2), P('X', None))`."""
    return lay_out(_value(value))


def _deferred(program: Program) -> Part:
    return Deferred(partial(_program, program))


def _program(program: Program) -> Part:
    equations = [Deferred(partial(_equation, equation)) for equation in program.equations]
    head = (_binders(program.constants, program.constant_types), "; ", _binders(program.inputs, program.input_types))
    result = ("in (", _arguments(program.outputs, ","), ",)" if len(program.outputs) == 1 else ")")
    effects = "" if program.effects is None else f" : {program.effects}"
    let = Nest((_BLANK, separated(equations, _SEMICOLON)))
    return Group((Nest(("{ lambda ", head, ". let", let, _BLANK, result, effects)), " }"))


def _equation(equation: Equation) -> Part:
    note: Part = () if equation.comment is None else Comment(equation.comment)
    if equation.cell is not None:
        return _statement(equation, f"{equation.cell.variable}[{equation.cell.indices}]", note)
    binders: Part = (_binders(equation.binders, equation.types), " = ") if equation.binders else ()
    parameters = _parameters(equation.parameters) if equation.parameters else ()
    return (binders, note, equation.primitive, parameters, " ", _arguments(equation.inputs))


def _statement(equation: Equation, cell: str, note: Part) -> Part:
    """A Ref statement: `y:T <- x[i]`, `x[i] <- v`, `y:T, x[i] <- x[i], v` or `x[i] += v`. What is written is the
    second input."""
    binders = _binders(equation.binders, equation.types)
    if equation.primitive == "get":
        return (binders, note, " <- ", cell)
    written = str(equation.inputs[1])
    if equation.primitive == "addupdate":
        return (cell, note, " += ", written)
    if equation.binders:
        return (binders, ", ", cell, note, " <- ", cell, ", ", written)
    return (cell, note, " <- ", written)


def _binders(variables: Sequence[Variable], types: Sequence[Type | None]) -> Part:
    pairs = zip(variables, types, strict=True)
    return _listed([name if type is None else f"{name}:{type}" for name, type in pairs])


def _arguments(atoms: Sequence[Atom], separator: str = "") -> Part:
    return _listed([str(atom) for atom in atoms], separator)


def _listed(items: Sequence[str], separator: str = "") -> Part:
    return Nest(Group(separated(items, separator, GAP)))


def _parameters(parameters: Parameters) -> Part:
    rows = [(f"{name}=", _value(value)) for name, value in parameters.items_in_order]
    return Group((Nest(("[", _NOTHING, separated(rows, _BLANK))), _NOTHING, "]"))


def _value(value: Value) -> Part:
    if isinstance(value, Program):
        return _deferred(value)
    if isinstance(value, Programs):
        return _column(value.items)
    if isinstance(value, tuple) and not value:
        return _column(())  # a tuple of no programs, for all that the printer knows: beyond the margin it breaks
    return list(_pieces(value))


def _column(programs: Sequence[Program | Reference]) -> Part:
    rows = [_value(program) for program in programs]
    return Group((Nest(("(", _NOTHING, separated(rows, _BLANK))), _NOTHING, ")"))


def _pieces(value: Value) -> Iterator[Part]:
    """The text of a value, never to be broken, piece by piece: depth costs no stack."""
    agenda: list[Value] = [value]
    while agenda:
        item = agenda.pop()
        if isinstance(item, Word | Real):
            yield str(item)
        elif isinstance(item, str):
            yield repr(item)
        elif isinstance(item, tuple):
            agenda += [Word(",)" if len(item) == 1 else ")"), *_reversed(item), Word("(")]
        elif isinstance(item, list):
            agenda += [Word("]"), *_reversed(item), Word("[")]
        elif isinstance(item, Braces):
            agenda += [Word("}"), *_reversed(item.items), Word("{")]
        elif isinstance(item, Pair):
            agenda += [item.value, Word(": "), item.key]
        elif isinstance(item, Call):
            alone = item.name in _SPECS and len(item.arguments) == 1 and not item.keywords
            agenda += [Word(",)" if alone else ")"), *_reversed(item.arguments, item.keywords), Word(f"{item.name}(")]
        elif isinstance(item, Reference):
            yield item.name
        elif isinstance(item, Program | Programs):
            yield _value(item)
        else:
            yield str(item)


def _reversed(items: Sequence[Value], keywords: Sequence[tuple[str, Value]] = ()) -> list[Value]:
    """Items and keyword arguments with the commas between them, last first."""
    found: list[Value] = []
    for name, value in reversed(keywords):
        found += (value, Word(f"{name}="), Word(", "))
    for item in reversed(items):
        found += (item, Word(", "))
    return found[:-1]
