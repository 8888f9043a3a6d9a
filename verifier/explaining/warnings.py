"""What is well typed, and rarely what is meant: warnings beside an explanation, each at the author's line.

copies-summed    a sum over devices of a value that is the same on all of them: it multiplies by their number
copies-averaged  a mean, a maximum or a minimum over devices of such a value, or a gather: it gives back the value
unused           a collective that is asked for, whose result nothing uses: no compiler runs it
in-a-loop        a sum in a loop that the types allow once, outside of it
reduced-lost     a value is cast to reduced, and cast back before it is used: its gradient is summed at each use
summed-apart     a replicated value has several uses, each of which sums its own part of the cotangent
untracked        check_vma=False around a gradient: no type says what varies, and a gradient may be wrong
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from calculus.checking import Checked
from calculus.collectives import COLLECTIVES
from calculus.copies import Copies, Found
from calculus.effects import Effect, Pricing, wanted_of
from calculus.programs import Equation, Program, bodies
from calculus.types import ArrayType, Type
from verifier.examine import idle
from verifier.explaining.entries import BACKWARD, FORWARD, Entry, Step
from verifier.explaining.facts import CAST, REPLICATED
from verifier.explaining.iterations import SUMS, Waiting, in_loop, is_sum, loop_in_shard_map, unchanged
from verifier.wording import Words

COPIES: Final = "copies-summed"
IDLE: Final = "copies-averaged"
UNUSED: Final = "unused"
LOOP: Final = "in-a-loop"
LOST: Final = "reduced-lost"
APART: Final = "summed-apart"
UNTRACKED: Final = "untracked"


class Warned(NamedTuple):
    """A warning. code: one of those above. where: the author's line. says: what happens there. help: what to write.
    value: what it is about, as it is called in both, where many may be told of in the same words."""

    code: str
    where: str
    says: str
    help: str = ""
    value: str = ""

    def data(self) -> dict[str, object]:
        """The warning as plain data."""
        return {name: value for name, value in self._asdict().items() if name != "value"}

    def __str__(self) -> str:
        return f"{self.where}: {self.says}{f'; {self.help}' if self.help else ''} [{self.code}]"


def warnings(
    checked: Checked, words: Words, entries: Sequence[Entry], differentiated: bool, step: Step | None = None
) -> list[Warned]:
    """What there is to warn of in a forward program, or in a step with its gradient. checked: that program. entries:
    the rows of both passes. differentiated: whether there is a backward pass. step: what JAX tells of the equations of
    a step."""
    made = None if step is None else _Differentiated(checked.program, step)
    found = [*_copies(entries), *_in_loops(entries), *_apart(entries), *_unused(checked, words, made)]
    for body in _bodies(checked):
        found += _lost(body, words)
        found += _untracked(body, words, made) if differentiated else ()
    return list(dict.fromkeys(found))


def in_groups(found: Iterable[Warned]) -> Iterator[tuple[Warned, list[str]]]:
    """Warnings that say the same of several values: the first of them, and the others by name and line."""
    groups: dict[object, tuple[Warned, list[str]]] = {}
    for one in found:
        alike: object = one
        if one.value:
            name = re.compile(rf"(?<!\w){re.escape(one.value)}(?!\w)")
            alike = one.code, name.sub("", one.says), name.sub("", one.help)
        first, others = groups.setdefault(alike, (one, []))
        if first is not one:
            others.append(one.value if one.where == first.where else f"{one.value}, {one.where}")
    yield from groups.values()


def _copies(entries: Iterable[Entry]) -> Iterator[Warned]:
    """Sums of equal copies, of the author's own: what a transpose sums is decided by the forward pass."""
    copies = Copies()
    for one in entries:
        found = copies.summed(one.charge) if one.direction != BACKWARD else Found()
        if found.idle:
            help = f"; for a mean, divide by {one.group}" if found.total and one.group is not None else ""
            yield Warned(IDLE, one.row.where, idle(one.charge, found), f"leave it out{help}")
        axes = found.axes or found.added
        if not axes:
            continue
        names = ", ".join(axes)
        group = one.group if set(axes) == set(one.row.axes) else None
        times = "by the number of devices" if group is None else f"by {group}"
        if found.axes:
            says = f"{one.row.primitive} over {names} adds up equal copies: it multiplies {times}"
            help = "leave it out, or multiply, which needs no communication"
        else:
            says = (
                f"{one.row.primitive} over {names} adds up parts of a sum, to each of which a value is added that is "
                f"the same on every device: that value is multiplied {times}"
            )
            help = "add it after the sum, or on one device alone"
        yield Warned(COPIES, one.row.where, says, help)


def _in_loops(entries: Iterable[Entry]) -> Iterator[Warned]:
    """Sums that a loop only adds to what it carries, or stacks, and sums of what it does not change."""
    waiting = Waiting()
    for one in entries:
        if not in_loop(one.charge) or not is_sum(one.charge) or "check_vma=False" in str(one.charge.inside):
            continue
        along = ", ".join(one.row.axes)
        mapped = one.charge.equation.primitive in COLLECTIVES
        manual = mapped and loop_in_shard_map(one.charge)
        fact = one.fact
        if one.direction == FORWARD and unchanged(one.charge):
            yield Warned(
                LOOP, one.row.where,
                f"{one.row.primitive} sums over {along}, in every iteration, what the loop does not change",
                "sum it once, before the loop",
            )  # fmt: skip
        elif not waiting.of(one.charge):
            continue
        elif one.direction == BACKWARD and fact is not None:
            if fact.state != REPLICATED and not (fact.state == CAST and _is_whole(fact.type, one.row.axes)):
                continue
            what = fact.value or "a value"
            cast = (
                f"jax.lax.pcast({what}, {_names(one.row.axes)}, to='varying')"
                if manual
                else (f"jax.reshard({what}, P(..., reduced={{{_quoted(one.row.axes)}}}))")
            )
            if mapped and not manual:
                cast += ", and enter the shard_map with it, by an in_spec that says so"
            pending = "is each device's own part" if manual else "stays pending"
            yield Warned(
                LOOP, one.row.where,
                f"the gradient of {what} is summed over {along} in every iteration",
                f"cast it before the loop, {cast}: its gradient {pending} there, and is summed once",
                fact.value,
            )  # fmt: skip
        elif fact is None:
            leave = f"leave it pending in the loop, unreduced={{{_quoted(one.row.axes)}}}, and reshard it once, outside"
            if mapped:
                leave += ": in the shard_map jax.lax.pcast(..., to='unreduced'), and such an out_spec"
            if manual:
                names = _names(one.row.axes)
                leave = f"add up, or stack, each device's own part, and sum once, outside: jax.lax.psum(..., {names})"
            yield Warned(
                LOOP, one.row.where,
                f"{one.row.primitive} finishes a sum over {along} in every iteration, and the loop only adds the "
                "results up, or stacks them",
                leave,
            )  # fmt: skip


def _is_whole(type: Type | None, axes: Iterable[str]) -> bool:
    """Whether a value is cut along none of these axes."""
    return isinstance(type, ArrayType) and not {axis for dim in type.axes for axis in dim}.intersection(axes)


def _apart(entries: Iterable[Entry]) -> Iterator[Warned]:
    """One value whose cotangent is summed at several uses, in a place where they could be added first."""
    uses: dict[tuple[object, ...], list[Entry]] = {}
    for one in entries:
        fact = one.fact
        if one.direction == BACKWARD and fact is not None and fact.state == REPLICATED and fact.use is not None:
            atom = fact.use.equation.inputs[fact.use.operand] if fact.use.operand is not None else None
            if isinstance(atom, str) and one.row.kind in SUMS:
                uses.setdefault((atom, fact.type, one.row.axes, one.row.inside), []).append(one)
    for (_, type, axes, _), those in uses.items():
        lines = {id(one.fact.use.equation) for one in those if one.fact is not None and one.fact.use is not None}
        if len(lines) > 1:
            assert isinstance(axes, tuple)
            name = next((one.fact.value for one in those if one.fact is not None and one.fact.value), "")
            what = f"{name} {type}".strip()
            yield Warned(
                APART, those[0].row.where,
                f"{what} is replicated along {', '.join(axes)} and has {len(lines)} uses, each of which sums its part "
                "of the cotangent over devices",
                f"cast it once, reduced={{{_quoted(axes)}}}: the parts are added where they are, and summed once",
            )  # fmt: skip


def _unused(checked: Checked, words: Words, made: _Differentiated | None) -> Iterator[Warned]:
    """Collectives of per-device code, and reshards, that communicate and whose results nothing uses, whichever way
    leads to them. Those that JAX leaves of a forward pass whose gradient alone is used are nobody's."""
    if not any(_asked_for(body) for body in _bodies(checked)):
        return
    pricing = Pricing()
    used: dict[int, set[int]] = {}
    waiting = [(checked, frozenset(range(len(checked.program.outputs))))]
    seen: set[tuple[int, frozenset[int]]] = set()
    for body, wanted in waiting:  # grows while it is read
        if (id(body), wanted) in seen or not any(one.inner or one.collectives for one in body.effects):
            continue
        seen.add((id(body), wanted))
        live = pricing.live(body, wanted)
        used.setdefault(id(body), set()).update(live.equations)
        for effect in body.effects:
            equation = body.program.equations[effect.at]
            for inner in effect.inner:
                if effect.at in live.equations:
                    asked = wanted_of(pricing, inner, equation.inputs, equation.binders, live.needed)
                    waiting.append((inner.body, asked))
    for body in _bodies(checked):
        alive = used.get(id(body), set())
        for effect in _asked_for(body):
            equation = body.program.equations[effect.at]
            if effect.at in alive or (made is not None and made.has(equation)):
                continue
            kinds = ", ".join(dict.fromkeys(one.kind for one in effect.collectives))
            yield Warned(
                UNUSED, words.place(equation),
                f"nothing uses the result of {equation.primitive} ({kinds}): no compiler runs it",
                "leave it out",
            )  # fmt: skip


def _asked_for(body: Checked) -> list[Effect]:
    """The effects of collectives and reshards that a body itself asks for, and that communicate."""
    equations = body.program.equations
    asked = [effect for effect in body.effects if effect.collectives and not effect.inner]
    return [effect for effect in asked if equations[effect.at].primitive in (*COLLECTIVES, "reshard")]


def _lost(body: Checked, words: Words) -> Iterator[Warned]:
    """Casts from reduced back to replicated, of what meets a value that is cut along the axis later."""
    program = body.program
    casts = [one for one in program.equations if one.primitive == "reshard" and isinstance(one.inputs[0], str)]
    if not casts:
        return
    names = (*program.constants, *program.inputs)
    types = dict(zip(names, (*program.constant_types, *program.input_types), strict=True))
    for equation in program.equations:
        types.update(zip(equation.binders, equation.types, strict=True))
    for equation in casts:
        before, after = types.get(str(equation.inputs[0])), equation.types[0]
        if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
            continue
        gone = [axis for axis in before.reduced if after.state(axis) == "N" and _meets(program, equation, axis, types)]
        if gone:
            yield Warned(
                LOST, words.place(equation),
                f"what is reduced along {', '.join(gone)} is cast back to replicated: what uses it from here on sums "
                "its part of the gradient at each use, and where it was cast to reduced the sum is made once more",
                "use the reduced value",
            )  # fmt: skip


def _meets(program: Program, cast: Equation, axis: str, types: Mapping[str, Type | None]) -> bool:
    """Whether what is made from a cast's result, and is whole along an axis, meets a value that is cut there."""
    whole = {*cast.binders}
    for equation in program.equations:
        if whole.isdisjoint(equation.inputs):
            continue
        operands = [types.get(atom) for atom in equation.inputs if isinstance(atom, str)]
        if any(isinstance(type, ArrayType) and axis in type.sharded for type in operands):
            return True
        ends = zip(equation.binders, equation.types, strict=True)
        whole.update(name for name, type in ends if isinstance(type, ArrayType) and type.state(axis) == "N")
    return False


def _untracked(body: Checked, words: Words, made: _Differentiated | None) -> Iterator[Warned]:
    for equation in body.program.equations:
        if equation.primitive != "shard_map" or equation.parameters.get("check_vma") is not False:
            continue
        if made is None or made.has(equation) or made.has_inside(equation):
            yield Warned(
                UNTRACKED, words.place(equation),
                "check_vma=False around what is differentiated: no type says what varies inside, every input that "
                "in_specs leave whole has its cotangent summed, needed or not, and the gradient may be wrong",
                "leave check_vma at True; shardproof run shows what devices hold",
            )  # fmt: skip


class _Differentiated:
    """The equations of a step that JAX has differentiated, or made by it, and those that it left on the same lines of
    the author's: what a forward pass computes whose gradient alone is used, or before a loop of it."""

    def __init__(self, program: Program, step: Step) -> None:
        self._program = program
        self._step = step

    @functools.cached_property
    def _inside(self) -> dict[int, Equation]:
        found: dict[int, Equation] = {}
        waiting = [(self._program, False)]
        seen: set[tuple[int, bool]] = set()
        for program, within in waiting:  # grows while it is read
            for equation in program.equations:
                here = within or self._step.differentiated(equation)
                if here:
                    found[id(equation)] = equation
                for _, inner in bodies(equation.parameters) if equation.parameters.holding else ():
                    if (id(inner), here) not in seen:
                        seen.add((id(inner), here))
                        waiting.append((inner, here))
        return found

    def has(self, equation: Equation) -> bool:
        """Whether an equation is one of them."""
        return id(equation) in self._inside or any(
            self._step.same_line(equation.line, other.line) for other in self._inside.values()
        )

    def has_inside(self, equation: Equation) -> bool:
        """Whether one inside it is."""
        return any(
            id(one) in self._inside or self.has_inside(one)
            for _, inner in (bodies(equation.parameters) if equation.parameters.holding else ())
            for one in inner.equations
        )


def _bodies(checked: Checked) -> Iterator[Checked]:
    """A body and those inside it, each once."""
    seen: set[int] = set()
    waiting = [checked]
    for body in waiting:  # grows while it is read
        if id(body) not in seen:
            seen.add(id(body))
            yield body
            waiting += [inner.body for effect in body.effects for inner in effect.inner]


def _quoted(axes: Iterable[str]) -> str:
    return ", ".join(f"'{axis}'" for axis in axes)


def _names(axes: Sequence[str]) -> str:
    return f"'{axes[0]}'" if len(axes) == 1 else f"({_quoted(axes)})"
