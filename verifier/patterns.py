"""Patterns: which differences between two verdicts, two derivatives or two runs an entry of the ledger covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from calculus.bodies import names_of
from calculus.loops import scan_parts
from calculus.meshes import Mesh
from calculus.programs import Equation, Literal, Program, body
from calculus.types import ArrayType, Type, same
from verifier.cells import Call, Cell, Refusal, Verdict
from verifier.finishing import computes, finished_alone, made_from_whole

if TYPE_CHECKING:
    from verifier.backward_agreement import Comparison
    from verifier.findings import Finding

ABOUT: Final = ("any", "some", "every", "read", "target", "jax", "we")
"""What a condition of a pattern may be about, beside the number of an operand."""

JAX, OURS, BOTH = "jax", "ours", "both"
"""Who accepts: JAX alone, we alone, or both, each another type."""

SAME_DIM: Final = "Sd"
"""What is cut on some dim: the same one wherever a pattern says so."""


class BadLedger(ValueError):
    """An entry that says something that no entry can say."""


@dataclass(frozen=True)
class Difference:
    """A cell on which the two sides differ. program: the body that an equation stands in, where it is of one."""

    call: Call
    mesh: Mesh
    cell: Cell
    ours: Verdict
    theirs: Verdict
    program: Program | None = None

    @property
    def modes(self) -> frozenset[str]:
        """The modes of the mesh: `explicit` or `manual`, or both, and then `partial` too."""
        found = frozenset(axis.mode.value for axis in self.mesh.axes)
        return found | {"partial"} if len(found) > 1 else found

    @property
    def accepts(self) -> str:
        """Who accepts."""
        if self.ours.types is None:
            return JAX
        return OURS if self.theirs.types is None else BOTH

    def __str__(self) -> str:
        return f"{self.call.name} {self.cell} on {self.mesh}: we say {self.ours}; JAX says {self.theirs}"


def agree(ours: Verdict, theirs: Verdict) -> bool:
    """Whether both refuse, or both give the same types."""
    if ours.types is None or theirs.types is None:
        return ours.types is theirs.types
    return len(ours.types) == len(theirs.types) and all(map(same, ours.types, theirs.types))


Conditions: TypeAlias = "tuple[tuple[int | str, frozenset[str]], ...]"


@dataclass(frozen=True)
class Pattern:
    """Which cells an entry covers: all of what is given must hold.

    primitives: their names. mode: that of an axis of the mesh, `explicit` or `manual`, or `partial` where it has axes
    of both. accepts: who accepts. says: a regular expression that is found in JAX's refusal (`class: message`). codes:
    codes of our refusal. target: whether a sharding is asked for.
    along: conditions `(what, states)` that hold together along one mesh axis, where `what` is an operand's number,
    `any` operand (or `some`, where another one is meant too), all that are in one state (`every`), one that a
    loop has a name for, does not change, and computes with (`read`), the `target`, or the results as `jax` or
    as `we` type them; states are letters as types print them (`N`, `S`, `R`, `V`, `U`, `U_max`, `U_min`, and `U*` for
    the last three), `S0`, `S1` where that dim is cut, and `Sd` where some dim is, the same wherever the pattern says
    `Sd`. beside: such conditions that hold together along another axis. dies: of what goes wrong on devices, whether
    that ends the process. derivative: whether not the call goes wrong, but its derivative, and then an axis of one
    device is none beside. parameters: of the call, each with a regular expression that is found in what it says.
    stretched: whether an operand that is pending has another shape than the result. unlike: whether the two axes, along
    which and beside, are of unlike sizes, neither of them 1. folded: whether what is compiled together with the reshard
    that finishes its sum goes right.
    """

    primitives: frozenset[str] | None = None
    mode: str | None = None
    accepts: frozenset[str] | None = None
    says: re.Pattern[str] | None = None
    codes: frozenset[str] | None = None
    target: bool | None = None
    along: Conditions = ()
    beside: Conditions = ()
    dies: bool = False
    derivative: bool = False
    parameters: tuple[tuple[str, re.Pattern[str]], ...] = ()
    stretched: bool = False
    unlike: bool = False
    folded: bool = False

    def fits(self, difference: Difference, ran: str | None = None) -> bool:
        """Whether a difference is of this pattern. ran: how a cell that both type alike ran; then `says` means that."""
        refusal, theirs = difference.ours.refusal, difference.theirs.refusal
        said = ran if ran is not None else f"{theirs.code}: {theirs.message}" if theirs is not None else None
        return (
            (self.primitives is None or difference.call.primitive in self.primitives)
            and (self.mode is None or self.mode in difference.modes)
            and (self.accepts is None or difference.accepts in self.accepts)
            and (self.codes is None or (refusal is not None and refusal.code in self.codes))
            and (self.target is None or (difference.cell.target is not None) is self.target)
            and (self.says is None or (said is not None and bool(self.says.search(said))))
            and (not self.stretched or _stretched(difference))
            and self._placed(difference)
            and all(_says(difference.call.equation, name, asked) for name, asked in self.parameters)
        )

    @property
    def mark(self) -> str:
        """What must hold along one axis, or nothing fits, as words that need no ledger: of each condition the states,
        one of which an operand has, or, behind `>`, a result; `manual` for such an axis, `beside` for another one,
        `stretched`, and `=name` for a parameter that the equation has."""
        words = {
            f"{'>' if what in ('we', 'jax', 'target') else ''}{''.join(sorted({state[:1] for state in states}))}"
            for what, states in self.along
        }
        said = {"manual": self.mode == "manual", "beside": bool(self.beside), "stretched": self.stretched}
        named = {f"={name}" for name, _ in self.parameters}
        return " ".join(sorted(words | named | {word for word, is_so in said.items() if is_so}))

    def apart(self, difference: Difference) -> bool:
        """Whether what fits goes wrong only where it is compiled apart from the reshard that finishes its sum: that is
        all that uses it, or, of a derivative, all that the operand is made by and for."""
        if not self.folded or difference.program is None:
            return False
        equation = difference.call.equation
        if self.derivative:
            return made_from_whole(difference.program, equation)
        return all(finished_alone(difference.program, name) for name in equation.binders)

    def _placed(self, difference: Difference) -> bool:
        if not self.along:
            return True
        if not any(SAME_DIM in states for _, states in (*self.along, *self.beside)):
            return self._at(difference, self.along, self.beside)
        rank = max((len(type.shape) for type in _arrays(difference)), default=0)
        return any(self._at(difference, _on(dim, self.along), _on(dim, self.beside)) for dim in range(rank))

    def _at(self, difference: Difference, along: Conditions, beside: Conditions) -> bool:
        mesh = difference.mesh
        others = [name for name in mesh.by_name if not self.derivative or mesh.size((name,)) != 1]
        return any(
            _holds(along, difference, axis)
            and (
                not beside
                or any(
                    _holds(beside, difference, other)
                    for other in others
                    if other != axis and (not self.unlike or _unlike(mesh.size((axis,)), mesh.size((other,))))
                )
            )
            for axis in mesh.by_name
        )


def _on(dim: int, conditions: Conditions) -> Conditions:
    """Conditions of which the dim that all mean is this one."""
    found = f"S{dim}"
    return tuple((what, frozenset(found if one == SAME_DIM else one for one in states)) for what, states in conditions)


def _arrays(difference: Difference) -> list[ArrayType]:
    types = (*difference.cell.operands, *(difference.ours.types or ()), *(difference.theirs.types or ()))
    return [type for type in types if isinstance(type, ArrayType)]


def _unlike(one: int | None, other: int | None) -> bool:
    """Whether two axes have several devices each, and not as many; what is not known may be so."""
    return one != other and 1 not in (one, other)


def _stretched(difference: Difference) -> bool:
    shapes = {result.shape for result in (difference.ours.types or ()) if isinstance(result, ArrayType)}
    return any(one.unreduced and one.shape not in shapes for one in difference.cell.operands)


def _says(equation: Equation, name: str, asked: re.Pattern[str]) -> bool:
    """Whether a parameter of an equation says what is asked for."""
    if name not in equation.parameters:
        return False
    from grammar.print import print_value

    return bool(asked.search(print_value(equation.parameters[name])))


def _holds(conditions: Conditions, difference: Difference, axis: str) -> bool:
    return all(states & _states(what, difference, axis) for what, states in conditions)


@dataclass(frozen=True)
class BackwardPattern:
    """Which differences of backward programs an entry covers: all of what is given must hold.

    accepts: who differentiates. says: a regular expression that is found in JAX's refusal (`class: message`), or in
    what our checker says of JAX's program (`code: message`). ours: one that is found in our own refusal. retyped:
    whether JAX types the function itself otherwise than we do. Where our checker objects to JAX's program, the two are
    alike besides; uncounted: but for what they communicate, of which there is no count where devices go different ways
    to it.
    """

    accepts: frozenset[str]
    says: re.Pattern[str] | None = None
    ours: re.Pattern[str] | None = None
    retyped: bool | None = None
    uncounted: bool = False

    def fits(self, found: Comparison) -> bool:
        """Whether two derivatives differ in this way."""
        ours, theirs = found.ours.refusal, found.theirs.refusal or found.theirs.objection
        alike = found.typed_alike if self.uncounted else found.alike
        return (
            found.accepts in self.accepts
            and _found(self.ours, ours)
            and (self.retyped is None or found.ours.retyped is self.retyped)
            and (found.theirs.objection is None or found.accepts != BOTH or alike)
            and _found(self.says, theirs)
        )


@dataclass(frozen=True)
class ProgramPattern:
    """Which findings in drawn programs an entry covers: all of what is given must hold.

    shows: what is found (`verifier.findings`). says: a regular expression that is found in what is said of it.
    primitives: of which the smallest program uses one at least; all: of which it uses each. single: whether an axis of
    the mesh has one device.
    """

    shows: frozenset[str]
    says: re.Pattern[str] | None = None
    primitives: frozenset[str] = frozenset()
    all: frozenset[str] = frozenset()
    single: bool | None = None

    @property
    def looks(self) -> bool:
        """Whether it says what a program uses."""
        return bool(self.primitives or self.all)

    def fits(self, finding: Finding) -> bool:
        """Whether a finding is of this pattern."""
        return (
            finding.shows in self.shows
            and (self.says is None or bool(self.says.search(finding.message)))
            and (not self.primitives or bool(self.primitives & finding.primitives))
            and self.all <= finding.primitives
            and self.single in (None, any(axis.size == 1 for axis in finding.mesh.axes))
        )


def _found(asked: re.Pattern[str] | None, refusal: Refusal | None) -> bool:
    """Whether what is asked for is found in a refusal."""
    return asked is None or (refusal is not None and bool(asked.search(f"{refusal.code}: {refusal.message}")))


def _states(what: int | str, difference: Difference, axis: str) -> frozenset[str]:
    """The states, along an axis, of what a condition is about. Of every operand, only one that all share."""
    operands = difference.cell.operands
    if isinstance(what, int):
        return _letters_of(operands[what : what + 1], axis)
    if what in ("any", "some"):
        return _letters_of(operands, axis)
    if what == "every":
        found = {letter(type, axis) for type in operands}
        return frozenset(found if len(found) == 1 else ())
    if what == "read":
        return _letters_of(_read(difference), axis)
    types: Iterable[Type] = {
        "target": () if difference.cell.target is None else (difference.cell.target,),
        "jax": difference.theirs.types or (),
        "we": difference.ours.types or (),
    }[what]
    return _letters_of(types, axis)


def _read(difference: Difference) -> Sequence[Type]:
    """The operands that a loop hands to its body, or to its condition, in each iteration as they are, and that it
    computes with there."""
    equation = difference.call.equation
    parts = _constants(equation)
    operands = iter(difference.cell.operands)
    given = {at: next(operands, None) for at, atom in enumerate(equation.inputs) if not isinstance(atom, Literal)}
    found = []
    for name, first, count, others in parts:
        inner = body(equation.parameters.get(name))
        names = () if inner is None else names_of(inner, len(equation.inputs) - others)
        for at in range(count):
            type = given.get(first + at)
            if type is not None and (inner is None or at >= len(names) or computes(inner, names[at])):
                found.append(type)
    return found


def _constants(equation: Equation) -> Iterator[tuple[str, int, int, int]]:
    """The bodies of a loop: of each its name, the first operand that it reads and does not change, their number, and
    how many operands it does not take."""
    parameters = equation.parameters
    if equation.primitive == "scan":
        constants, _ = scan_parts(parameters, len(equation.inputs), len(equation.binders))
        yield "jaxpr", 0, constants, 0
        return
    before, held = (parameters.get(name) for name in ("cond_nconsts", "body_nconsts"))
    if isinstance(before, int) and isinstance(held, int):
        yield "cond_jaxpr", 0, before, held
        yield "body_jaxpr", before, held, before


def _letters_of(types: Iterable[Type], axis: str) -> frozenset[str]:
    """The states of types along an axis; where one is cut, on which dim too."""
    found: set[str] = set()
    for type in types:
        found.add(letter(type, axis))
        if isinstance(type, ArrayType):
            found.update(f"S{dim}" for dim, axes in enumerate(type.axes) if axis in axes)
    return frozenset(found)


def letter(type: Type, axis: str) -> str:
    """The state of a type along an axis, as types print it."""
    if not isinstance(type, ArrayType):
        return ""
    if axis in type.unreduced and axis in type.reduced:
        return "UR"
    state = type.state(axis)
    return f"U_{type.kind}" if state == "U" and type.kind != "sum" else state


# --- as the ledger writes them ---


def pattern(number: int, cells: Mapping[str, Any], sides: Sequence[str]) -> Pattern:
    """A pattern of cells, of an entry of which `sides` may accept. Raises `BadLedger`, like those below."""
    known = {"primitives", "mode", "accepts", "says", "codes", "target", "along", "beside"}
    known |= {"dies", "derivative", "parameters", "stretched", "unlike", "folded"}
    if not cells.keys() <= known:
        raise BadLedger(f"entry {number}: cells have no {', '.join(sorted(cells.keys() - known))}")
    accepts = frozenset(cells.get("accepts", sides))
    if not accepts <= set(sides):
        raise BadLedger(f"entry {number}: where {', '.join(sorted(accepts))} accepts, it is of another kind")
    along, beside = (_conditions(number, cells.get(name, {})) for name in ("along", "beside"))
    return Pattern(
        frozenset(cells["primitives"]) if "primitives" in cells else None,
        cells.get("mode"),
        accepts,
        re.compile(cells["says"]) if "says" in cells else None,
        frozenset(cells["codes"]) if "codes" in cells else None,
        cells.get("target"),
        along,
        beside,
        bool(cells.get("dies")),
        bool(cells.get("derivative")),
        tuple((name, re.compile(asked)) for name, asked in cells.get("parameters", {}).items()),
        bool(cells.get("stretched")),
        bool(cells.get("unlike")),
        bool(cells.get("folded")),
    )


def _conditions(number: int, said: Mapping[str, str]) -> Conditions:
    found = tuple(
        (int(what) if what.lstrip("-").isdigit() else what, _letters(states)) for what, states in said.items()
    )
    if any(isinstance(what, str) and what not in ABOUT for what, _ in found):
        raise BadLedger(f"entry {number}: along {said}")
    return found


def backward_pattern(number: int, said: Mapping[str, Any]) -> BackwardPattern:
    """A pattern of derivatives."""
    known = {"accepts", "says", "ours", "retyped", "uncounted"}
    if not said.keys() <= known or not set(said.get("accepts", ())) <= {JAX, OURS, BOTH} or len(said) < 2:
        raise BadLedger(f"entry {number}: backward programs have no {', '.join(sorted(said.keys() - known)) or 'side'}")
    says, ours = (re.compile(said[name]) if name in said else None for name in ("says", "ours"))
    accepts, uncounted = frozenset(said.get("accepts", ())), bool(said.get("uncounted"))
    return BackwardPattern(accepts, says, ours, said.get("retyped"), uncounted)


def program_pattern(number: int, said: Mapping[str, Any]) -> ProgramPattern:
    """A pattern of findings in drawn programs."""
    if not said.keys() <= {"shows", "says", "primitives", "all", "single"} or not said.get("shows") or len(said) < 2:
        raise BadLedger(f"entry {number}: programs show what, and say or use what?")
    says = re.compile(said["says"]) if "says" in said else None
    some, each = (frozenset(said.get(name, ())) for name in ("primitives", "all"))
    return ProgramPattern(frozenset(said["shows"]), says, some, each, said.get("single"))


def _letters(states: str) -> frozenset[str]:
    return frozenset(
        one for state in states.split() for one in (("U", "U_max", "U_min") if state == "U*" else (state,))
    )
