"""Whole programs: walk the equations of every body once, type each, and gather refusals and effects.

The walk knows scopes, meshes and bodies. What an equation's type is, it asks the table's one rule (`calculus.rules`)
and the forms (`calculus.forms`). A refused equation binds its printed types, so that one program reports all its
refusals together.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

from calculus.bodies import Result, Several, agree
from calculus.communication import Collective
from calculus.deciding import number
from calculus.effects import Effect, Inner
from calculus.endings import endings
from calculus.kinds import read_at
from calculus.meshes import AxisMode, Mesh, as_given, one_size_each, same_devices
from calculus.parameters import mesh as mesh_of
from calculus.primitives import TABLE
from calculus.programs import Atom, Call, Equation, Literal, Program, Value
from calculus.refusals import Place, Refusal, Refused, refuse
from calculus.remembering import Memory
from calculus.rules import Typing, has_type
from calculus.types import ArrayType, Axes, Type, held
from calculus.uses import Operand, literal_fits
from calculus.wellformed import well_formed

#: how many values called `_`, and choices between them, are told apart
MOST_TRIED = 64
#: programs nest no deeper than this
DEEPEST = 100
Site: TypeAlias = "Equation | Program | None"


class Checked:
    """A body that has been walked: its program, its results, the effects of its equations in order, the axes that it
    communicates over, bodies inside included, and the inputs (constants first) that are cells and end in it."""

    __slots__ = ("effects", "ended", "over", "program", "types")

    def __init__(self, program: Program, types: tuple[Result, ...], effects: tuple[Effect, ...]) -> None:
        self.program = program
        self.types = types
        self.effects = effects
        self.ended: frozenset[int] = frozenset()
        self.over: frozenset[str] = frozenset().union(
            *(one.axes for effect in effects for one in effect.collectives),
            *(inner.body.over for effect in effects for inner in effect.inner),
        )


Bound: TypeAlias = "Type | None | Several"
"""What a name stands for: `None` where an earlier refusal left its type open."""
Given: TypeAlias = "Operand | None | Several"


class Scope:
    """Where a body stands: the mesh in context, and the other meshes that its types may mention (statement B10).
    memory: what is known there from the start, and what is remembered."""

    __slots__ = ("chosen", "contexts", "judged", "memory", "mesh", "others")

    def __init__(self, mesh: Mesh, others: tuple[Mesh, ...] = (), memory: Memory | None = None) -> None:
        self.mesh = mesh
        self.others = others
        self.memory = Memory() if memory is None else memory
        self.judged = dict(self.memory.judged)
        self.chosen: dict[Type, Mesh] = {}
        self.contexts: dict[Value, Mesh] = {}

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """The mesh in context, and the others."""
        return (self.mesh, *self.others)

    def mesh_of(self, type: Type) -> Mesh:
        """The mesh of a type: the first, from the one in context on, that has all its axes and hides none of them. The
        type is checked to be well formed on it. Raises `Refused` where it is not. Seeds B10, B36."""
        found = self.chosen.get(type)
        if found is None:
            array = held(type)
            found = self.mesh
            if isinstance(array, ArrayType) and not array.plain:
                mentioned = array.mentioned
                having = [mesh for mesh in self.meshes if all(axis in mesh for axis in mentioned)]
                found = next((mesh for mesh in having if mesh.shows(mentioned)), having[0] if having else found)
            well_formed(type, found)
            self.chosen[type] = found
        return found

    def common_mesh(self, equation: Equation, operands: Sequence[Operand]) -> Mesh:
        """The one mesh on which operands and results live, cells included; of meshes that differ in modes only, the one
        that shows all their axes. Refuses `mixed-meshes`. Seeds B17, B36."""
        found: Mesh | None = None
        mentioned: dict[str, None] = {}
        for index, operand in enumerate((*operands, *equation.types)):
            type = None if isinstance(operand, Literal) else held(operand)
            if not isinstance(type, ArrayType) or type.plain:
                continue
            mesh = self.mesh_of(type)
            mentioned.update(dict.fromkeys(type.mentioned))
            if found is not None and mesh is not found:
                alike = [one for one in self.meshes if found.grid == mesh.grid == one.grid]
                shown = next((one for one in alike if one.shows(mentioned)), None)
                if shown is None:
                    raise refuse(
                        "mixed-meshes",
                        f"{operand} is on the mesh ({mesh}), an array beside it on ({found})",
                        because="devices are numbered by one mesh at a time, so blocks on two meshes do not line up",
                        help="reshard one of the arrays to the other's mesh",
                        place=Place("operand", index)
                        if index < len(operands)
                        else Place("binder", index - len(operands)),
                    )
                mesh = shown
            found = mesh
        return found or self.mesh

    def inside(self, mesh: Mesh) -> Scope:
        """The scope of a body whose context mesh is another one. What is manual there is so on every mesh."""
        if mesh == self.mesh:
            return self
        manual = {axis.name: axis.mode for axis in mesh.axes if axis.mode is AxisMode.MANUAL}
        if not manual:
            return Scope(mesh, self.others)
        return Scope(mesh, tuple(other.with_modes(manual, mesh.tracked) for other in self.others))


class Checker:
    """One check of one document. `refusals` pairs each refusal with the equation or program it stands in. `ending`:
    whether something ends in the body that is being walked. `main`: the program, when it has been checked."""

    def __init__(self, meshes: Sequence[Mesh]) -> None:
        self.scope = Scope(meshes[0] if meshes else Mesh(()), tuple(meshes[1:]))
        self.refusals: list[tuple[Refusal, Site]] = []
        self.assumptions = 0
        self.assumed: dict[str, int] = {}
        self.equations = 0
        self.ending = False
        self.main: Checked | None = None
        self._bodies: dict[tuple[int, Scope], Checked] = {}
        self._scopes: dict[tuple[Mesh, tuple[Mesh, ...]], Scope] = {}
        self._keep: list[Program] = []
        self._at: dict[tuple[object, ...], Program] = {}
        self._depth = 0

    def check(self, program: Program) -> Checked:
        """Check a whole program: its inputs are as printed. Refuses `bad-mesh` where its meshes disagree."""
        for other in self.scope.others:
            same_devices(other, self.scope.mesh)
        one_size_each((self.scope.mesh, *self.scope.others))
        self.main = self.body(program, self.scope)
        return self.main

    def until_now(self) -> Checker:
        """What has been checked so far, and assumed: what is checked later, for a derivative, is not in it."""
        found = copy.copy(self)
        found.assumed, found._bodies = dict(self.assumed), dict(self._bodies)
        return found

    def scope_on(self, mesh: Mesh, scope: Scope) -> Scope:
        """The scope with another context mesh, shared by all bodies that stand there."""
        if mesh == scope.mesh:
            return scope
        key = (mesh, scope.others)
        return self._scopes.setdefault(key, scope.inside(mesh))

    def body(self, program: Program, scope: Scope) -> Checked:
        """Check a body, once per scope. Refuses `too-deep` beyond `DEEPEST` levels."""
        key = (id(program), scope)
        found = self._bodies.get(key)
        if found is None:
            if self._depth >= DEEPEST:
                raise refuse(
                    "too-deep",
                    f"bodies nest deeper than {DEEPEST} levels",
                    because="every level is checked inside the one around it",
                    help="hoist or flatten the innermost bodies",
                )
            self._depth += 1
            around, self.ending = self.ending, False
            try:
                found = self._bodies[key] = self._walk(program, scope)
                if self.ending:
                    found.ended, refusals = endings(found)
                    for refusal, equation in refusals:
                        self.refuse(refusal, equation or program)
            finally:
                self._depth -= 1
                self.ending = around
            self._keep.append(program)
        self.ending = self.ending or bool(found.ended)
        return found

    def walked(self) -> Iterator[tuple[Program, Scope]]:
        """Every body that was checked, the main program too, with the scopes that it stands in."""
        return ((found.program, scope) for found, scope in self.bodies())

    def bodies(self) -> Iterator[tuple[Checked, Scope]]:
        """The same, with what was found of each."""
        return ((found, scope) for (_, scope), found in self._bodies.items())

    def at(self, program: Program, types: Sequence[Type | None]) -> Program:
        """A body at the types that it is given, where its inputs print none: one program for the same types."""
        key = (id(program), tuple(types))
        found = self._at.get(key)
        if found is None:
            found = self._at[key] = program.at(types)
            self._keep.append(program)
        return found

    def read_at(self, program: Program, kind: str, axes: Axes) -> Program:
        """A body in which what is pending along these axes is of this kind: one program for the same kind."""
        key = (id(program), kind, axes)
        found = self._at.get(key)
        if found is None:
            found = self._at[key] = read_at(program, kind, axes)
            self._keep.append(program)
        return found

    def refuse(self, refusal: Refusal, site: Site) -> None:
        """Record a refusal at an equation or program."""
        if not refusal.line and site is not None:
            refusal.line = site.line
        self.refusals.append((refusal, site))

    def assume(self, what: str) -> None:
        """Count what is trusted rather than checked."""
        self.assumed[what] = self.assumed.get(what, 0) + 1

    def _walk(self, program: Program, scope: Scope) -> Checked:
        env: dict[str, Bound] = {}
        self._bind_inputs(program, scope, env)
        effects: list[Effect] = []
        judged = scope.judged
        equations = program.equations
        self.equations += len(equations)
        for index, equation in enumerate(equations):
            try:
                operands = [env[atom] if isinstance(atom, str) else atom for atom in equation.inputs]
            except KeyError:
                self._unbound(equation, env)
                operands = [env[atom] if isinstance(atom, str) else atom for atom in equation.inputs]
            if equation.primitive == "cond" and operands and isinstance(equation.inputs[0], str):
                operands[0] = number(equation.inputs[0], equations[:index]) or operands[0]
            key = (equation.primitive, equation.parameters, equation.types, *operands)
            found = judged.get(key)
            typing, inner = self._judge(equation, operands, scope, key) if found is None else found
            if inner or typing.collectives:
                effects.append(Effect(index, typing.collectives, inner))
            binders = equation.binders
            if len(binders) == 1:  # nearly all have one result
                name = binders[0]
                env[name] = typing.types[0] if name not in env else self._again(name, typing.types[0], env, equation)
                continue
            for name, type in zip(binders, typing.types, strict=False):
                env[name] = type if name not in env else self._again(name, type, env, equation)
        return Checked(program, self._outputs(program, env), tuple(effects))

    def _judge(
        self, equation: Equation, operands: Sequence[Given], scope: Scope, key: tuple[object, ...]
    ) -> tuple[Typing, tuple[Inner, ...]]:
        if "_" in equation.inputs and any(isinstance(operand, Several) for operand in operands):
            return self._judge_several(equation, operands, scope)
        try:
            if None in operands:
                # A refusal before this one left an operand without a type.
                self._printed_well(equation, scope)
                self._meshes_agree(equation, scope)
                return Typing(equation.types), ()  # type: ignore[arg-type]
            return self.judge(equation, cast("Sequence[Operand]", operands), scope, key)
        except Refused as refused:
            self.refuse(refused.refusal, equation)
            types = tuple(_open_if_ill_formed(type, scope) for type in equation.types)
            return Typing(types), ()  # type: ignore[arg-type]

    def judge(
        self, equation: Equation, operands: Sequence[Operand], scope: Scope, key: tuple[object, ...]
    ) -> tuple[Typing, tuple[Inner, ...]]:
        """The judgment of one equation on operands whose types are known, and the bodies inside it; remembered in the
        scope under `key`. Raises `Refused`; what is refused inside a body is recorded instead."""
        self._printed_well(equation, scope)
        self._meshes_agree(equation, scope)
        primitive = TABLE.get(equation.primitive)
        if primitive is None:
            from calculus.forms import form

            typing, inner, memoised = form(self, equation, operands, scope)
        else:
            mesh = scope.common_mesh(equation, operands) if scope.others else scope.mesh
            typing = has_type(primitive, equation.parameters, operands, equation.types, mesh)
            if None in equation.types:
                self._inferred_well(equation, typing, scope)
            inner, memoised = (), not primitive.trusted
            if primitive.trusted:
                self.assume(equation.primitive)
            elif scope.memory.lasts and not equation.parameters.holding:
                scope.memory.judged[key] = typing, inner
        if memoised:
            scope.judged[key] = typing, inner
        return typing, inner

    def _judge_several(
        self, equation: Equation, operands: Sequence[Given], scope: Scope
    ) -> tuple[Typing, tuple[Inner, ...]]:
        """An equation that reads `_` where several values are called so: the text does not say which it means. The
        newest one at which it is well typed is assumed, and the assumption counted; where there is none, it is refused
        at the newest."""
        choices: list[tuple[Operand | None, ...]] = [
            tuple(reversed(operand.types)) if isinstance(operand, Several) else (operand,) for operand in operands
        ]
        before = len(self.refusals)
        first: list[tuple[Refusal, Site]] = []
        for chosen in itertools.islice(itertools.product(*choices), MOST_TRIED):
            found = self._judge(equation, list(chosen), scope, (object(),))
            if len(self.refusals) == before:
                self.assume("_")
                return found
            first = first or self.refusals[before:]
            del self.refusals[before:]
        self.refusals += first
        return Typing(equation.types), ()  # type: ignore[arg-type]

    def _bind_inputs(self, program: Program, scope: Scope, env: dict[str, Bound]) -> None:
        names = (*program.constants, *program.inputs)
        types = (*program.constant_types, *program.input_types)
        for position, (name, type) in enumerate(zip(names, types, strict=True)):
            if name in env and name != "_":
                self.refuse(_twice(name, Place("input", position)).refusal, program)
            env[name] = type if name not in env or name != "_" else _either(env[name], type)
            if type is None:
                self.refuse(
                    refuse(
                        "choose-type",
                        f"input {name} has no type",
                        because="types are inferred from the inputs on",
                        help="write its type after its name",
                        place=Place("input", position),
                    ).refusal,
                    program,
                )
                continue
            try:
                scope.mesh_of(type)
            except Refused as refused:
                refused.refusal.place = refused.refusal.place.of("input", position)
                self.refuse(refused.refusal, program)
                env[name] = None

    def _printed_well(self, equation: Equation, scope: Scope) -> None:
        for index, type in enumerate(equation.types):
            if type is not None and type not in scope.chosen:
                try:
                    scope.mesh_of(type)
                except Refused as refused:
                    refused.refusal.place = refused.refusal.place.of("binder", index)
                    raise

    def _meshes_agree(self, equation: Equation, scope: Scope) -> None:
        """A sharding in a parameter is about the mesh that it prints, and that is one of those in scope."""
        for name, value in equation.parameters.items_in_order:
            if isinstance(value, Call) and value.name == "NamedSharding":
                printed = mesh_of(value.keyword("mesh"), name)
                if printed is not None:
                    as_given(printed, scope.meshes, name)

    def _inferred_well(self, equation: Equation, typing: Typing, scope: Scope) -> None:
        """A type that is inferred and not printed may ask for a placement that does not divide."""
        for index, (printed, inferred) in enumerate(zip(equation.types, typing.types, strict=False)):
            if printed is None:
                try:
                    scope.mesh_of(inferred)
                except Refused as refused:
                    refused.refusal.place = refused.refusal.place.of("binder", index)
                    raise

    def _outputs(self, program: Program, env: dict[str, Bound]) -> tuple[Result, ...]:
        found: list[Result] = []
        for index, atom in enumerate(program.outputs):
            if isinstance(atom, Literal):
                try:
                    literal_fits(atom, Place("output", index))
                    found.append(atom if atom.type is None else atom.type)
                except Refused as refused:
                    self.refuse(refused.refusal, program)
                    found.append(None)
            elif atom in env:
                found.append(env[atom])
            else:
                self.refuse(_unknown(atom, Place("output", index)).refusal, program)
                found.append(None)
        return tuple(found)

    def _unbound(self, equation: Equation, env: dict[str, Bound]) -> None:
        for index, atom in enumerate(equation.inputs):
            if not isinstance(atom, Literal) and atom not in env:
                self.refuse(_unknown(atom, Place("operand", index)).refusal, equation)
                env[atom] = None

    def _again(self, name: str, type: Type | None, env: dict[str, Bound], equation: Equation) -> Bound:
        """A name is bound that is bound already: refused, unless it is `_`, which then may mean either value."""
        if name != "_":
            self.refuse(_twice(name, Place("binder", equation.binders.index(name))).refusal, equation)
            return type
        return _either(env[name], type)


def _either(before: Bound, type: Type | None) -> Bound:
    """What `_` stands for when it is bound once more."""
    types = before.types if isinstance(before, Several) else (before,)
    if len(types) >= MOST_TRIED or any(agree(type, other) for other in types):
        return before
    return Several((*types, type))


def _open_if_ill_formed(type: Type | None, scope: Scope) -> Type | None:
    """The type; `None` if it is not well formed: that is refused where it is printed, and not again at each use."""
    try:
        if type is not None:
            scope.mesh_of(type)
    except Refused:
        return None
    return type


def _unknown(name: Atom, place: Place) -> Refused:
    return refuse(
        "unbound-variable",
        f"{name} is not bound here",
        because="a body sees its own inputs and the equations before",
        help="bind it before this line, or correct the name",
        place=place,
    )


def _twice(name: str, place: Place) -> Refused:
    return refuse(
        "rebound-variable",
        f"{name} is bound twice in one body",
        because="a name stands for one value",
        help="rename one of the two",
        place=place,
    )


__all__ = ["Checked", "Checker", "Collective", "Scope", "agree"]
