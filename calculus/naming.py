"""Names as JAX prints them: `a`, `b`, ... in the order of the text, through all bodies; `_` for what nothing uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from calculus.programs import (
    Atom,
    Document,
    Equation,
    Parameters,
    Program,
    Programs,
    Reference,
    Value,
    Variable,
    body,
)


def tidy(program: Program) -> Document:
    """A program with the names that JAX would print. What it holds in several places, or refers to by name, comes
    before it as a definition, once. Bodies with Ref statements keep their own names: the text of a cell's indices is
    not taken apart."""
    return _Names({id(inner): name for inner, name in _repeated(program)}).document(program)


class _Names:
    def __init__(self, apart: Mapping[int, str]) -> None:
        self.apart = apart
        self.numbers = itertools.count()
        self.definitions: list[tuple[str, Program]] = []
        self.done: dict[int, Reference] = {}

    def document(self, program: Program) -> Document:
        main = self.program(program)
        return Document(tuple(self.definitions), main)

    def program(self, program: Program) -> Program:
        if any(equation.cell is not None for equation in program.equations):
            return program
        for equation in program.equations:  # what is printed before the program takes its names first
            self.hoist(equation)
        names: dict[Atom, Atom] = {}

        def bind(variables: Iterable[Variable], used: set[Atom] | None = None) -> tuple[Variable, ...]:
            found = tuple(self.name() if used is None or variable in used else "_" for variable in variables)
            names.update(zip(variables, found, strict=True))
            return found

        used: set[Atom] = {*program.outputs, *(atom for equation in program.equations for atom in equation.inputs)}
        constants, inputs = bind(program.constants), bind(program.inputs)
        equations = []
        for equation in program.equations:
            atoms = tuple(names.get(atom, atom) for atom in equation.inputs)
            binders = bind(equation.binders, used)
            parameters = self.parameters(equation.parameters)
            equations.append(Equation(equation.primitive, parameters, atoms, binders, equation.types, equation.line))
        outputs = tuple(names.get(atom, atom) for atom in program.outputs)
        types = program.constant_types, program.input_types
        return Program(constants, types[0], inputs, types[1], tuple(equations), outputs, None, program.line)

    def hoist(self, equation: Equation) -> None:
        """Make definitions of the bodies of an equation that are to stand apart."""
        for _, value in equation.parameters.items_in_order:
            for item in value.items if isinstance(value, Programs) else (value,):
                inner = body(item)
                if inner is not None and id(inner) in self.apart and id(inner) not in self.done:
                    tidied = self.program(inner)
                    taken = {name for name, _ in self.definitions}
                    wanted = self.apart[id(inner)]
                    choices = (wanted, *(f"{wanted}{number}" for number in range(1, len(taken) + 2)))
                    name = next(choice for choice in choices if choice not in taken)
                    self.definitions.append((name, tidied))
                    self.done[id(inner)] = Reference(name, tidied)

    def parameters(self, parameters: Parameters) -> Parameters:
        """The parameters, the bodies in them named: the same, where there are none."""
        if not any(isinstance(value, (Program, Programs, Reference)) for _, value in parameters.items_in_order):
            return parameters
        return Parameters(tuple((key, self.value(value)) for key, value in parameters.items_in_order))

    def value(self, value: Value) -> Value:
        """A parameter's value, the bodies in it named as well."""
        if isinstance(value, Programs):
            return Programs(tuple(self.body(item) for item in value.items))
        return self.body(value) if isinstance(value, (Program, Reference)) else value

    def body(self, item: Program | Reference) -> Program | Reference:
        program = body(item)
        if program is None:
            return item
        return self.done[id(program)] if id(program) in self.done else self.program(program)

    def name(self) -> Variable:
        number, text = next(self.numbers), ""
        while True:
            number, letter = divmod(number, 26)
            text = chr(ord("a") + letter) + text
            if not number:
                return text


def _repeated(program: Program) -> Iterator[tuple[Program, str]]:
    """The bodies that stand in several places, or are referred to, with the name that each asks for."""
    counts: dict[int, int] = {}
    found: dict[int, tuple[Program, str]] = {}
    waiting = [program]
    while waiting:
        for equation in waiting.pop().equations:
            for name, value in equation.parameters.items_in_order:
                for item in value.items if isinstance(value, Programs) else (value,):
                    inner = body(item)
                    if inner is None:
                        continue
                    first = id(inner) not in counts
                    counts[id(inner)] = counts.get(id(inner), 0) + (2 if isinstance(item, Reference) else 1)
                    if first:
                        called = equation.parameters.get("name")
                        found[id(inner)] = inner, str(called) if isinstance(called, str) else name
                        waiting.append(inner)
    yield from (one for key, one in found.items() if counts[key] > 1)
