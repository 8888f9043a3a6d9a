"""Cells, where a body makes them, reads and writes them whole, and finishes them: they are values then, one after
another, and a body without cells computes the same. What it takes to follow a cell into a loop or a call, or a part of
one, is not written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.building import Builder, Workbench
from calculus.checking import Scope
from calculus.programs import Atom, Equation, Program, Variable
from calculus.refusals import Place, refuse

_MAKE: Final = frozenset({"new_ref", "empty_ref"})
_END: Final = frozenset({"freeze", "free_ref"})
_STATEMENTS: Final = frozenset({"get", "swap", "addupdate"})
_TELLING: Final = _MAKE | _STATEMENTS


def has_cells(program: Program) -> bool:
    """Whether a body makes cells, or reads or writes some."""
    return any(one.cell is not None or one.primitive in _TELLING for one in program.equations)


def without_cells(bench: Workbench, scope: Scope, program: Program) -> Program:
    """The body with values in the place of cells. Refuses `unmodelled-construct`."""
    return bench.once("without cells", program, scope, lambda: _Walk(Builder(bench, scope)).walk(program))


class _Walk:
    """held: what each cell holds. names: the values of the body."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.names: dict[Atom, Atom] = {}
        self.held: dict[Atom, Atom] = {}

    def walk(self, program: Program) -> Program:
        held = len(program.constants)
        types = (*program.constant_types, *program.input_types)
        inputs = [self.builder.input(type) for type in types if type is not None]
        self.names.update(zip((*program.constants, *program.inputs), inputs, strict=True))
        for equation in program.equations:
            self.builder.line = equation.line
            self.names.update(zip(equation.binders, self.equation(equation), strict=True))
        outputs = tuple(self.read(atom) for atom in program.outputs)
        return Program(
            tuple(inputs[:held]),
            types[:held],
            tuple(inputs[held:]),
            types[held:],
            tuple(self.builder.equations),
            outputs,
        )

    def read(self, atom: Atom) -> Atom:
        return self.names.get(atom, atom)

    def equation(self, equation: Equation) -> Sequence[Atom]:
        """The results of an equation; of one that makes a cell, the cell's own name."""
        name = equation.primitive
        if name == "new_ref" and equation.parameters.get("kind") is None and not equation.parameters.get("pin"):
            (cell,) = equation.binders
            self.held[cell] = self.read(equation.inputs[0])
            return (cell,)
        if name in _MAKE or (name in _STATEMENTS and equation.cell is None):
            raise _not_followed(equation, f"what {name} makes or takes")
        if equation.cell is not None:
            return self.statement(equation, equation.cell.variable)
        if name in _END and equation.inputs[0] in self.held:
            value = self.held.pop(equation.inputs[0])
            return (value,) if equation.binders else ()
        if any(atom in self.held for atom in equation.inputs):
            raise _not_followed(equation, f"a cell that {name} is given")
        inputs = [self.read(atom) for atom in equation.inputs]
        return self.builder.emit(name, inputs, equation.parameters, equation.types)

    def statement(self, equation: Equation, cell: Variable) -> Sequence[Atom]:
        """A cell is read, written, or added to."""
        before = self.held.get(cell)
        assert equation.cell is not None
        whole = not equation.cell.indices.replace(",", "").replace(":", "").replace(".", "").strip()
        if before is None or not whole:
            what = "a part of a cell" if before is not None else "a cell that was not made here"
            raise _not_followed(equation, what)
        if equation.primitive != "get":
            value = self.read(equation.inputs[1])
            if equation.primitive == "addupdate":
                value = self.builder.one("add", (before, value))
            self.held[cell] = value
        return (before,) if equation.binders else ()


def _not_followed(equation: Equation, what: str) -> Exception:
    return refuse(
        "unmodelled-construct",
        f"the derivative of {equation.primitive}: {what} is not followed",
        because="what a cell holds depends on the order of statements, which a tangent would have to follow",
        help="carry the value through the loop or the call instead",
        place=Place("primitive"),
    )
