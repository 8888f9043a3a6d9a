"""Checking JAX's program objects as they are: judgments are looked up by JAX's own types and parameters, and an
equation becomes a term only where its judgment is new, or where a report shows it.

A judgment without bodies depends on nothing but its own key and the meshes in scope, so it is remembered from one check
to the next, as JAX remembers what it has traced.

JAX interns types, and a variable carries its own, so that most equations of an unrolled program are one look-up. What
is judged, and by which rules, is the same as for terms: a new judgment goes through `Checker` like any other.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from jax.extend.core import DropVar, Literal
from jax.extend.core.primitives import cond_p

from calculus import programs
from calculus.checking import Checked, Checker, Scope
from calculus.deciding import number
from calculus.effects import Effect, Inner
from calculus.meshes import Mesh
from calculus.programs import Atom, Document, Equation, Parameters, Program, Value, Variable
from calculus.refusals import Place, refuse
from calculus.remembering import Memory, declarations
from calculus.rules import Typing
from calculus.types import Type
from verifier.with_jax.convert import DROPPED, SPECIAL, Conversion, Converted, Plan
from verifier.with_jax.custom_rules import jvp_of, vjp_of
from verifier.with_jax.policies import policy
from verifier.with_jax.shared import opened
from verifier.with_jax.shown import identical


class Head(NamedTuple):
    """What the terms of equations with one judgment have in common. values: the parameters that JAX has."""

    primitive: str
    parameters: Parameters
    types: tuple[Type | None, ...]
    values: tuple[Any, ...]


Judgment: TypeAlias = "tuple[Typing, tuple[Inner, ...], Head | None]"
"""With what the terms have in common, where one is like the other but for names."""


def remembered(meshes: tuple[Mesh, ...]) -> Memory:
    """The judgments without bodies that were made with these meshes in scope, by the declarations that are in the table
    now, and what was derived. `objects` are judgments by JAX's primitive, its parameters, and the types of operands and
    results."""
    return _remembered(meshes, declarations()).bounded()


@lru_cache(maxsize=16)
def _remembered(meshes: tuple[Mesh, ...], table: Hashable) -> Memory:
    return Memory(table)


forget: Final = _remembered.cache_clear


class ObjectProgram(Program):
    """A program of JAX's, turned into terms when its equations are first looked at. Its inputs and their types are
    terms from the start. heads: of its equations, where it has been walked."""

    __slots__ = ("_conversion", "_terms", "heads", "jaxpr")

    def __init__(self, jaxpr: Any, conversion: Objects) -> None:
        self.jaxpr = jaxpr
        self._conversion = conversion
        self._terms: Program | None = None
        self.heads: Sequence[Head | None] = ()
        self.constants: tuple[Variable, ...] = tuple([conversion.binder(variable) for variable in jaxpr.constvars])
        self.inputs: tuple[Variable, ...] = tuple([conversion.binder(variable) for variable in jaxpr.invars])
        self.constant_types = tuple([conversion.type(variable) for variable in jaxpr.constvars])
        self.input_types = tuple([conversion.type(variable) for variable in jaxpr.invars])
        self.effects = None

    def uses(self, primitives: AbstractSet[str]) -> bool:
        """Whether an equation is of one of these primitives."""
        return any(eqn.primitive.name in primitives for eqn in self.jaxpr.eqns)

    @property
    def terms(self) -> Program:
        """The same program as terms."""
        if self._terms is None:
            self._terms = self._conversion.terms(self.jaxpr)
        return self._terms

    @property
    def equations(self) -> tuple[Equation, ...]:  # type: ignore[override]
        """The equations, as terms."""
        return self.terms.equations

    @property
    def outputs(self) -> tuple[Atom, ...]:  # type: ignore[override]
        """The outputs, as terms."""
        return self.terms.outputs

    @property
    def line(self) -> int:  # type: ignore[override]
        """The place of the program among the conversion's origins."""
        return self.terms.line


class Objects(Conversion):
    """A conversion that leaves every program as it is until it is looked at."""

    def __init__(self, jaxpr: Any) -> None:
        super().__init__(opened(jaxpr), printed=False)
        self._programs: dict[int, ObjectProgram] = {}

    def program(self, jaxpr: Any) -> ObjectProgram:
        """The program that stands for a jaxpr: one for each."""
        found = self._programs.get(id(jaxpr))
        if found is None:
            found = self._programs[id(jaxpr)] = ObjectProgram(jaxpr, self)
        return found

    def terms(self, jaxpr: Any) -> Program:
        """A jaxpr as terms; programs inside it stay as they are."""
        return super().program(jaxpr)

    def inside(self, jaxpr: Any) -> Iterator[Equation]:
        """The equations of a body; of those whose judgments are known, only names are new."""
        heads = self.program(jaxpr).heads
        if not heads:
            yield from self.equations(jaxpr.eqns)
            return
        origins, names, literal = self.origins, self.names, self.literal
        names.give([variable for eqn in jaxpr.eqns for variable in eqn.outvars if type(variable) is not DropVar])
        for eqn, head in zip(jaxpr.eqns, heads):  # noqa: B905  # of the same equations, if there are any
            if head is None or (head.values and not identical(eqn.params.values(), head.values)):
                yield from self.equations((eqn,))
                continue
            origins.append(eqn)
            yield Equation(
                head.primitive,
                head.parameters,
                tuple([literal(atom) if type(atom) is Literal else names[atom] for atom in eqn.invars]),
                tuple([DROPPED if type(out) is DropVar else names[out] for out in eqn.outvars]),
                head.types,
                len(origins),
            )

    def value(self, name: str, value: Any) -> Value:
        """A parameter's value; of a policy, what it closes over too."""
        return policy(value) if name == "policy" and callable(value) else super().value(name, value)

    def custom(self, eqn: Any) -> Equation:
        """A call with a rule of its own: the rule is at hand, and is traced when it is asked for."""
        plan = Plan(eqn.primitive.name, tuple(eqn.params))
        shown = dict(self.block(plan, eqn.params).items_in_order)
        name, rule = ("jvp", jvp_of) if "jvp" in shown else ("fwd", vjp_of)
        shown[name] = rule(eqn, str(shown[name]), self.program)
        binders = tuple([self.binder(variable) for variable in eqn.outvars])
        types = tuple([self.type(variable) for variable in eqn.outvars])
        return Equation(eqn.primitive.name, Parameters(tuple(shown.items())), self.atoms(eqn.invars), binders, types)

    def as_converted(self) -> Converted:
        """The conversion as it stands, for `Lines`; what is looked at becomes terms then."""
        return Converted(Document((), self.program(self.main)), self.origins)

    def equation(self, eqn: Any) -> Equation:
        """One equation as a term."""
        (found,) = self.equations((eqn,))
        return found


class ObjectChecker(Checker):
    """A `Checker` that knows JAX's objects."""

    def __init__(self, meshes: Sequence[Mesh], objects: Objects) -> None:
        super().__init__(meshes)
        self.scope = Scope(self.scope.mesh, self.scope.others, remembered(self.scope.meshes))
        self._objects = objects
        self._known: dict[Scope, dict[tuple[Any, ...], Judgment]] = {}
        self._literals: dict[tuple[Any, ...], programs.Literal] = {}

    def check_objects(self) -> Checked:
        """Check the whole program."""
        collecting = gc.isenabled()
        gc.disable()  # much is made and nothing dropped: collections would only walk JAX's program
        try:
            return self.check(self._objects.program(self._objects.main))
        finally:
            if collecting:
                gc.enable()

    def _walk(self, program: Program, scope: Scope) -> Checked:
        if not isinstance(program, ObjectProgram):
            return super()._walk(program, scope)
        self._bind_inputs(program, scope, {})
        jaxpr = program.jaxpr
        bound = {variable: variable.aval for variable in (*jaxpr.constvars, *jaxpr.invars)}
        known: dict[tuple[Any, ...], Judgment] = remembered(scope.meshes).objects if self.scope.memory.lasts else {}
        with_bodies = self._known.setdefault(scope, {})
        literal = self._literal
        effects: list[Effect] = []
        eqns = jaxpr.eqns
        heads: list[Head | None] = []
        self.equations += len(eqns)
        for index, eqn in enumerate(eqns):
            try:
                operands = [literal(atom) if type(atom) is Literal else bound[atom] for atom in eqn.invars]
            except KeyError:
                operands = self._missing(program, index, bound)
            decided = self._decided(eqns, index) if eqn.primitive is cond_p else None
            if decided is not None:
                operands[0] = decided
            results = []
            for out in eqn.outvars:
                bound[out] = aval = out.aval
                results.append(aval)
            params = eqn.params
            key = (eqn.primitive, *params, *params.values(), None, *operands, None, *results)
            try:
                found = known.get(key) or with_bodies.get(key)
            except TypeError:  # a parameter does not hash
                found = None
            if found is None:
                found, lasting = self._judge_object(program, index, eqn, scope, decided)
                if lasting:
                    with contextlib.suppress(TypeError):
                        (with_bodies if found[1] else known)[key] = found
            typing, inner, head = found
            heads.append(head)
            if inner or typing.collectives:
                effects.append(Effect(index, typing.collectives, inner))
        program.heads = heads
        types = tuple([self._objects.type(variable) for variable in jaxpr.outvars])
        return Checked(program, types, tuple(effects))

    def _decided(self, eqns: Sequence[Any], index: int) -> programs.Literal | None:
        """The number that decides for a branch, where the program says it."""
        predicate = eqns[index].invars[0]
        if type(predicate) is Literal:
            return None
        maker = next((one for one in reversed(eqns[:index]) if predicate in one.outvars), None)
        if maker is None or len(maker.outvars) != 1:
            return None
        term = self._objects.equation(maker)
        return number(term.binders[0], [term])

    def _judge_object(
        self, program: ObjectProgram, index: int, eqn: Any, scope: Scope, decided: programs.Literal | None
    ) -> tuple[Judgment, bool]:  # fmt: skip
        """A judgment that is new: the equation as a term, judged as any other; and whether it may be remembered.
        decided: the number that decides for a branch."""
        objects = self._objects
        equation = objects.equation(eqn)
        operands: list[programs.Literal | Type] = [
            self._literal(atom) if type(atom) is Literal else objects.type(atom) for atom in eqn.invars
        ]
        if decided is not None:
            operands[0] = decided
        key = (equation.primitive, equation.parameters, equation.types, *operands)
        alike = eqn.primitive.name not in SPECIAL and not equation.parameters.holding
        values = tuple(eqn.params.values())
        head = Head(equation.primitive, equation.parameters, equation.types, values) if alike else None
        known = scope.judged.get(key)
        if known is not None:
            return (*known, head), True
        before = len(self.refusals)
        typing, inner = self._judge(equation, operands, scope, key)
        for place in range(before, len(self.refusals)):
            refusal, site = self.refusals[place]
            if site is equation:  # shown where it stands, among the others
                term = program.equations[index]
                refusal.line = term.line
                self.refusals[place] = refusal, term
        return (typing, inner, head), key in scope.judged

    def _literal(self, atom: Any) -> programs.Literal:
        """A literal as a term. Equal ones share it; that 0.0 and -0.0 do is no matter, since both are zero."""
        value = atom.val
        if getattr(value, "shape", ()):
            return self._objects.literal(atom)
        key = (type(value), np.asarray(value).item(), atom.aval)
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self._objects.literal(atom)
        return found

    def _missing(self, program: ObjectProgram, index: int, bound: dict[Any, Any]) -> list[Any]:
        """Refuse the operands of an equation that are not bound before it. All its operands, by their own types."""
        atoms = program.jaxpr.eqns[index].invars
        for operand, atom in enumerate(atoms):
            if type(atom) is not Literal and atom not in bound:
                refused = refuse(
                    "unbound-variable",
                    f"operand {operand} is not bound here",
                    because="a body sees its own inputs and the equations before",
                    help="bind it before this equation",
                    place=Place("operand", operand),
                )
                self.refuse(refused.refusal, program.equations[index])
        return [self._literal(atom) if type(atom) is Literal else atom.aval for atom in atoms]


def check_objects(program: Any, meshes: Sequence[Mesh]) -> tuple[ObjectChecker, Checked]:
    """Check a `jax.extend.core.Jaxpr` or `ClosedJaxpr` on meshes, the one in context first. Raises `Refused` only where
    the whole program cannot be walked."""
    checker = ObjectChecker(meshes, Objects(program))
    return checker, checker.check_objects()
