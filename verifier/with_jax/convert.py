"""JAX's programs as terms: `jax.extend.core.Jaxpr` objects to `calculus.programs`, without the text of the program.

The terms are those that reading the printed text gives: the same names, definitions and parameters (tests compare
them on every program that the tests can trace). Only leaves pass through text, each distinct one once: a type, a
parameter's value, a literal. What a leaf's text means is the grammar's business.

`Equation.line` and `Program.line` are places in `Converted.origins`, which says where each came from.
"""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from jax.extend.core import DropVar, Literal, Var

from calculus import programs
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
    Word,
)
from calculus.refusals import Refused
from calculus.types import OpaqueType, Type
from grammar.layout import TEXT_PARAMETERS
from grammar.leaves import type_of, value_of
from verifier.with_jax.shared import PROGRAM, definitions, inner_of, opened
from verifier.with_jax.shown import identical, rows

Origin: TypeAlias = Any
"""A `jax.extend.core.JaxprEqn` or a `Jaxpr`."""

_ADDRESS: Final = re.compile(r" at 0x([0-9a-fA-F]+)")
_BRACKETS: Final = re.compile(r"(\[[^\[\]]*\])+")
DROPPED: Final = "_"


@dataclass(frozen=True, slots=True)
class Converted:
    """A document, and where its terms come from: what an equation or a program was is `origins[term.line - 1]`."""

    document: Document
    origins: Sequence[Origin]


def convert(program: Any) -> Document:
    """The document of a `jax.extend.core.Jaxpr` or `ClosedJaxpr`; equal to reading its printed text."""
    return convert_with_origins(program).document


def convert_with_origins(program: Any) -> Converted:
    """The document of a program, with its origins."""
    collecting = gc.isenabled()
    gc.disable()  # much is made and nothing dropped: collections would only walk the growing program
    try:
        return Conversion(opened(program)).converted()
    finally:
        if collecting:
            gc.enable()


class _Names(dict[Any, Variable]):
    """Names of variables: each new one gets the next free name, in the order in which they are printed."""

    def __init__(self, taken: set[str], dropped: dict[Any, Variable]) -> None:
        super().__init__(dropped)
        self._fresh = itertools.filterfalse(taken.__contains__, _alphabet())

    def __missing__(self, variable: Any) -> Variable:
        name = self[variable] = next(self._fresh)
        return name

    def give(self, variables: Iterable[Any]) -> None:
        """Name those that have no name yet, in their order."""
        new = [variable for variable in variables if variable not in self]
        self.update(zip(new, itertools.islice(self._fresh, len(new)), strict=True))


_ALPHABET: Final[list[str]] = []


def _alphabet() -> Iterator[str]:
    """a .. z, ba .. bz, ca .., baa ..: the numbers in base 26."""
    index = 0
    while True:
        if index == len(_ALPHABET):
            digits, rest = "", index
            while rest or not digits:
                rest, digit = divmod(rest, 26)
                digits = chr(ord("a") + digit) + digits
            _ALPHABET.append(digits)
        yield _ALPHABET[index]
        index += 1


class _Context:
    """What JAX's index expressions ask for when they print themselves."""

    def __init__(self, names: _Names) -> None:
        self.var_names = names


class Plan:
    """How the equations of one primitive with the same set of parameters print them."""

    __slots__ = ("blocks", "keys", "primitive", "rows", "special")

    def __init__(self, primitive: str, parameters: tuple[str, ...]) -> None:
        self.primitive = primitive
        self.special = SPECIAL.get(primitive)
        self.rows = rows(primitive, parameters)
        self.keys = tuple(dict.fromkeys(row.key for row in self.rows))
        self.blocks: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], Parameters]]] = {}


class Conversion:
    """One conversion. `printed`: whether names, hoisting and what is dropped are to be those that JAX prints, which
    takes a look at the whole program first."""

    def __init__(self, program: Any, printed: bool = True) -> None:
        self.main = program
        self.printed = printed
        self.shared = definitions(program) if printed else {}
        self.references = {identity: Reference(name) for identity, (name, _) in self.shared.items()}
        self.names = _Names({name for name, _ in self.shared.values()}, _unused(program) if printed else {})
        self.origins: list[Origin] = []
        self._plans: dict[tuple[Any, tuple[str, ...]], Plan] = {}
        self._types: dict[int, tuple[Type]] = {}

    def converted(self) -> Converted:
        """The whole document: the hoisted definitions, then the program."""
        found: list[tuple[str, Program]] = []
        for identity, (name, jaxpr) in self.shared.items():
            program = self.references[identity].program = self.program(jaxpr)
            found.append((name, program))
        return Converted(Document(tuple(found), self.program(self.main)), self.origins)

    def program(self, jaxpr: Any) -> Program:
        """One body, its equations in order."""
        self.origins.append(jaxpr)
        line = len(self.origins)
        constants = tuple([self.binder(variable) for variable in jaxpr.constvars])
        inputs = tuple([self.binder(variable) for variable in jaxpr.invars])
        equations = tuple(self.inside(jaxpr))
        return Program(
            constants,
            tuple([self.type(variable) for variable in jaxpr.constvars]),
            inputs,
            tuple([self.type(variable) for variable in jaxpr.invars]),
            equations,
            self.atoms(jaxpr.outvars),
            None,
            line,
        )

    def binder(self, variable: Any) -> Variable:
        """The name of a variable that is bound here."""
        return DROPPED if type(variable) is DropVar else self.names[variable]

    def type(self, variable: Any) -> Type:
        """The type of a variable or literal."""
        aval = variable.aval
        found = self._types.get(id(aval))
        return self._new_type(aval)[0] if found is None else found[0]

    def _new_type(self, aval: Any) -> tuple[Type]:
        text = aval.str_short(short_dtypes=True)
        try:
            made: Type = type_of(text)
        except Refused:
            made = OpaqueType(text)
        found = self._types[id(aval)] = (made,)
        return found

    def atoms(self, variables: Sequence[Any]) -> tuple[Atom, ...]:
        """Operands."""
        names = self.names
        return tuple([self.literal(atom) if type(atom) is Literal else names[atom] for atom in variables])

    def literal(self, literal: Any) -> programs.Literal:
        """A literal operand: a scalar's text, `[...]` for an array."""
        value = literal.val
        if type(value) in (float, int, bool):
            text = str(value)
        elif getattr(value, "shape", ()):
            text = "[...]"
        else:
            text = str(np.asarray(value).item())
        return programs.Literal(text, self.type(literal) if getattr(literal.aval, "dtype", None) else None)

    def inside(self, jaxpr: Any) -> Iterator[Equation]:
        """The equations of a body."""
        return self.equations(jaxpr.eqns)

    def equations(self, eqns: Sequence[Any]) -> Iterator[Equation]:
        """The equations of one body."""
        origins, names, types, plans = self.origins, self.names, self._types, self._plans
        for eqn in eqns:
            origins.append(eqn)
            line = len(origins)
            primitive, parameters, outs = eqn.primitive, eqn.params, eqn.outvars
            key = (primitive, tuple(parameters))
            plan = plans.get(key)
            if plan is None:
                plan = plans[key] = Plan(primitive.name, key[1])
            if plan.special is not None:
                made = plan.special(self, eqn)
                if made is not None:
                    made.line = line
                    yield made
                    continue
            binders: tuple[Variable, ...]
            bound: tuple[Type, ...]
            if len(outs) == 1:
                variable = outs[0]
                binders = (DROPPED if type(variable) is DropVar else names[variable],)
                bound = types.get(id(variable.aval)) or self._new_type(variable.aval)
            else:
                binders = tuple([self.binder(variable) for variable in outs])
                bound = tuple([self.type(variable) for variable in outs])
            yield Equation(
                plan.primitive,
                self.parameters(plan, parameters) if plan.rows else NO_PARAMETERS,
                tuple([self.literal(atom) if type(atom) is Literal else names[atom] for atom in eqn.invars]),
                binders,
                bound,
                line,
            )

    # Parameters

    def parameters(self, plan: Plan, held: dict[str, Any]) -> Parameters:
        """The parameters as printed; equations that print the same ones share them."""
        values = tuple([held[key] for key in plan.keys])
        try:
            known = plan.blocks.setdefault(values, [])
        except TypeError:  # a value that does not hash
            return self.block(plan, held)
        for others, block in known:
            if identical(values, others):
                return block
        block = self.block(plan, held)
        known.append((values, block))
        return block

    def block(self, plan: Plan, held: dict[str, Any]) -> Parameters:
        """New parameters."""
        items: list[tuple[str, Value]] = []
        for row in plan.rows:
            value = held[row.key]
            if row.unless is None or not row.unless(value):
                items.append((row.name, self.value(row.name, value if row.convert is None else row.convert(value))))
        return Parameters(tuple(items)) if items else NO_PARAMETERS

    def value(self, name: str, value: Any) -> Value:
        """A parameter's value."""
        if _plain(value):
            plain: Value = value
            return plain
        if isinstance(value, PROGRAM):
            return self.body(value)
        if type(value) is tuple and value and all(isinstance(item, PROGRAM) for item in value):
            return Programs(tuple(self.body(item) for item in value))
        if isinstance(value, frozenset):
            text = f"frozenset({{{', '.join(map(repr, sorted(value)))}}})"
        else:
            text = _ADDRESS.sub(lambda found: " at 0x" + "X" * len(found[1]), str(value))
        if name in TEXT_PARAMETERS:
            return Word(text)
        try:
            return value_of(text)
        except Refused:
            return Word(text)

    def body(self, jaxpr: Any) -> Program | Reference:
        """A program inside an equation: a reference if it is hoisted."""
        jaxpr = opened(jaxpr)
        return self.references.get(id(jaxpr)) or self.program(jaxpr)

    # Primitives that are printed in a way of their own

    def jit(self, eqn: Any) -> None:
        """A call's body, if it is written out here, has its inputs and outputs named as the call's are."""
        jaxpr = opened(eqn.params["jaxpr"])
        if id(jaxpr) not in self.references:
            self._alike(jaxpr.invars, eqn.invars)
            self._alike(jaxpr.outvars, eqn.outvars)

    def _alike(self, inner: Sequence[Any], outer: Sequence[Any]) -> None:
        if len(inner) != len(outer):
            return
        used: set[Any] = set()
        for variable, model in zip(inner, outer, strict=True):
            if not isinstance(model, Var) or not isinstance(variable, Var):
                continue
            if model not in used and variable not in self.names:
                used.add(model)
                self.names[variable] = self.binder(model)

    def reshard(self, eqn: Any) -> Equation | None:
        """The usual way where what is printed is wanted."""
        return None if self.printed else self.between_meshes(eqn)

    def between_meshes(self, eqn: Any) -> Equation | None:
        """Where a region of auto axes begins or ends, the meshes of both sides, which JAX does not print."""
        (operand,), (result,) = eqn.invars, eqn.outvars
        sides = operand.aval.sharding.mesh, result.aval.sharding.mesh
        if sides[0] == sides[1] or sides[0].empty or sides[1].empty:
            return None
        names = ("source_mesh", "target_mesh")
        held = Parameters(tuple((name, self.value(name, side)) for name, side in zip(names, sides, strict=True)))
        return Equation("reshard", held, self.atoms((operand,)), (self.binder(result),), (self.type(result),))

    def custom(self, eqn: Any) -> Equation | None:
        """A call with a rule of its own, of which the name alone is printed."""
        return None

    def get(self, eqn: Any) -> Equation | None:
        """`y:T <- x[i]`"""
        (result,), (cell, *indices) = eqn.outvars, eqn.invars
        name = self.binder(result)
        return self._statement(eqn, cell, indices, (), (name,), (self.type(result),))

    def swap(self, eqn: Any) -> Equation | None:
        """`x[i] <- v`, or `y:T, x[i] <- x[i], v` where the old value is used"""
        (result,), (cell, value, *indices) = eqn.outvars, eqn.invars
        if self.names.get(result) == DROPPED:
            return self._statement(eqn, cell, indices, (value,), (), ())
        name = self.binder(result)
        return self._statement(eqn, cell, indices, (value,), (name,), (self.type(result),))

    def addupdate(self, eqn: Any) -> Equation | None:
        """`x[i] += v`"""
        cell, value, *indices = eqn.invars
        return self._statement(eqn, cell, indices, (value,), (), ())

    def _statement(
        self,
        eqn: Any,
        cell: Any,
        indices: list[Any],
        written: tuple[Any, ...],
        binders: tuple[Variable, ...],
        types: tuple[Type, ...],
    ) -> Equation | None:
        """A Ref statement; `None` if its indices are not brackets, and then the equation is printed as others."""
        from jax.tree_util import tree_unflatten

        tree = eqn.params.get("tree")
        transforms = () if tree is None else tree_unflatten(tree, indices)
        context = _Context(self.names)
        text = "".join(str(transform.pretty_print(context)) for transform in transforms) or "[...]"
        if tree is None or _BRACKETS.fullmatch(text) is None:
            return None
        (variable, *values) = self.atoms((cell, *written))
        assert isinstance(variable, str)
        part = Cell(variable, text[1:-1])
        inputs = (variable, *values, *part.names)
        return Equation(eqn.primitive.name, NO_PARAMETERS, inputs, binders, types, cell=part)

    def high(self, eqn: Any) -> Equation | None:
        """A primitive of JAX's high level, printed under its own name with its own parameters."""
        primitive = eqn.params["_prim"]
        if not hasattr(primitive, "pp_params"):  # release 0.10.2
            return None
        binders = tuple([self.binder(variable) for variable in eqn.outvars])
        items = [(name, self.value(name, inner_of(value))) for name, value in primitive.pp_params().items()]
        return self._named(eqn, type(primitive).__name__, binders, items)

    def high_linearized(self, eqn: Any) -> Equation | None:
        """The linear part of such a primitive."""
        held = eqn.params
        name = type(held["_prim"]).__name__
        binders = tuple([self.binder(variable) for variable in eqn.outvars])
        if "has_sres" not in held:  # release 0.10.2
            shown = {**held, "_prim": type(held["_prim"]), "residuals_tree": "..."}
            items = [(key, self.value(key, shown[key])) for key in sorted(shown)]
            return self._named(eqn, eqn.primitive.name, binders, items)
        keys = ("nz_in_flat", "nz_out_flat", *(("has_sres",) if held["has_sres"] else ()))
        items = [(key, self.value(key, held[key])) for key in keys]
        return self._named(eqn, f"{name}.linearized", binders, items)

    def _named(self, eqn: Any, name: str, binders: tuple[Variable, ...], items: list[tuple[str, Value]]) -> Equation:
        return Equation(
            name,
            Parameters(tuple(items)) if items else NO_PARAMETERS,
            self.atoms(eqn.invars),
            binders,
            tuple([self.type(variable) for variable in eqn.outvars]),
        )


#: primitives that are printed in a way of their own; a handler that gives `None` has only prepared the usual way
SPECIAL: Final = {
    "addupdate": Conversion.addupdate,
    "call_hi_primitive": Conversion.high,
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call"), lambda conversion, eqn: conversion.custom(eqn)),
    "call_hi_primitive_linearized": Conversion.high_linearized,
    "get": Conversion.get,
    "jit": Conversion.jit,
    "reshard": lambda conversion, eqn: conversion.reshard(eqn),
    "swap": Conversion.swap,
}


def _plain(value: Any) -> bool:
    """Whether a value is its own term: truth values, integers, `None`, and tuples and lists of these."""
    kind = type(value)
    if kind is tuple or kind is list:
        return all(map(_plain, value))
    return kind is int or kind is bool or value is None


def _unused(jaxpr: Any) -> dict[Any, Variable]:
    """The variables of the outermost program that nothing uses: they are printed as `_`."""
    dropped: dict[Any, Variable] = {}
    used = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    for eqn in reversed(jaxpr.eqns):
        for variable in eqn.outvars:
            if variable not in used:
                dropped[variable] = DROPPED
        used.update([atom for atom in eqn.invars if isinstance(atom, Var)])
    return dropped
