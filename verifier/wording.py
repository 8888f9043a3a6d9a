"""What a report on a function says in the words of its author: values by their path, equations by their line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from calculus.bodies import settle
from calculus.communication import ALL_GATHER
from calculus.effects import Charge
from calculus.primitives import TABLE
from calculus.programs import Equation, Literal, Program
from calculus.refusals import Family, Refusal
from calculus.repairs import restated
from calculus.types import ArrayType, Type
from verifier.attribution import Attribution, Origin
from verifier.examine import Examined, row
from verifier.report import Row

_KEY: Final = re.compile(r"\[[^\[\]]*\]|\.\w+")


_ROOT: Final = re.compile(r"args\[\d+\]|[^\[.]*")


def root(path: str) -> str:
    """What the paths of an argument's leaves begin with: `params` of `params['w']`, `args[0]` of `args[0][1]`."""
    found = _ROOT.match(path)
    return found[0] if found is not None else path


class Frame(Protocol):
    """A line of a file, which `str` shows with the file's name."""

    @property
    def file(self) -> str:
        """The file."""
        ...

    @property
    def line(self) -> int:
        """The line, from 1."""
        ...

    @property
    def function(self) -> str:
        """The function that the line is in."""
        ...


class Site(Protocol):
    """Where an equation comes from: the author's line, and the library's that it calls, `None` where there is none."""

    @property
    def user(self) -> Frame | None:
        """The author's line."""
        ...

    @property
    def library(self) -> Frame | None:
        """The library's line."""
        ...


class Lines(Protocol):
    """The sites of equations, by what `Equation.line` says."""

    def at(self, place: int) -> Sequence[Site]:
        """One, or several where one equation is reached from several lines."""
        ...

    def loop(self, place: int) -> str:
        """What the author called for a loop, where that has another name than the equation; else nothing."""
        ...


class Words:
    """The words for one examined program. inputs, outputs: what people call its inputs (`None` for a constant, which
    come first) and its outputs; lines: of its equations. types: of its results. derived: whether it is a program that
    was derived from the author's, so that each output's name says what it is."""

    def __init__(
        self, program: Program, examined: Examined, inputs: Sequence[str | None], outputs: Sequence[str], lines: Lines,
        derived: bool = False,
    ) -> None:  # fmt: skip
        self.program = program
        self.inputs = inputs
        self.outputs = outputs
        self.lines = lines
        self.derived = derived
        self._said: dict[tuple[Site, ...], tuple[str, str]] = {}
        self.attribution = Attribution(examined.checked, program)
        found = examined.checked.types if examined.checked is not None else ()
        self.types = [settle(examined.checker, result, None) for result in found]

    @functools.cached_property
    def twins(self) -> _Twins:
        """The inputs that outputs belong to."""
        return _Twins(self.inputs, (*self.program.constant_types, *self.program.input_types))

    def place(self, equation: Equation) -> str:
        """The user's line of an equation."""
        return self.where(equation.line)[0] or "somewhere"

    def where(self, place: int) -> tuple[str, str]:
        """As `where`; many equations stand on one line."""
        sites = tuple(self.lines.at(place)) if place > 0 else ()
        found = self._said.get(sites)
        if found is None:
            found = self._said[sites] = said(sites)
        return found

    def row(self, charge: Charge, value: str | None = None) -> Row:
        """A collective, at the user's line, with the value that it moves or makes: what is given, else as `value`."""
        line = charge.equation.line
        place, library = self.where(line)
        found = row(charge, user_line(self.lines, line), place, self.value(charge) if value is None else value, library)
        return found._replace(inside=self._inside(charge)) if charge.inside else found

    def _inside(self, charge: Charge) -> tuple[str, ...]:
        """The constructs around a collective, loops as their author wrote them."""
        if len(charge.sites) != len(charge.inside) + 1:
            return charge.inside
        around = [checked.program.equation(at) for checked, at in charge.sites[:-1]]
        return tuple(_as_written(label, one, self.lines) for label, one in zip(charge.inside, around, strict=True))

    def value(self, charge: Charge) -> str:
        """The input that is moved, or what the result becomes: the gradient (or, of a gather, the update) of the input
        that these outputs belong to, else the outputs' own paths."""
        found = self.attribution.origin(charge)
        if found is not None and found < len(self.inputs):
            return self.inputs[found] or ""
        places = [index for index in sorted(self.attribution.destinations(charge)) if index < len(self.outputs)]
        if not places:
            return ""
        paths = [self.outputs[index] for index in places]
        named = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        return named if self.derived else self.twin(charge, places) or named

    def twin(self, charge: Charge, places: Sequence[int]) -> str:
        """What the outputs at these places are of an input that they belong to; nothing where there is none."""
        found = self.twins.of([self.outputs[index] for index in places], [self.types[index] for index in places])
        return f"{'update' if charge.collective.kind == ALL_GATHER else 'gradient'} of {found}" if found else ""

    def refusal(self, refusal: Refusal, site: Equation | Program | None) -> Refusal:
        """A refusal with the user's line, and with what its operands are."""
        return _in_their_words(refusal, site, self.attribution, self.inputs, self.lines)


def where(lines: Lines, place: int) -> tuple[str, str]:
    """The user's line, or the first of several, `train.py:42`; and the library's function and line that it calls."""
    return said(lines.at(place)) if place > 0 else ("", "")


def said(sites: Sequence[Site]) -> tuple[str, str]:
    """The same of these sites."""
    if not sites:
        return "", ""
    first, *more = sites
    at = str(first.user) if first.user is not None else str(first)
    inside = first.library if first.user is not None else None
    return (
        f"{at} and {len(more)} more" if more else at,
        "" if inside is None else f"{inside.function}, {inside}",
    )


def user_line(lines: Lines, place: int) -> int:
    """The number of the user's line, or of the first of several; 0 where there is none."""
    if place < 1:
        return 0
    user = lines.at(place)[0].user
    return 0 if user is None else user.line


class _Twins:
    """The inputs that outputs belong to: those whose keys end the outputs' paths, and which have their shape."""

    def __init__(self, inputs: Sequence[str | None], types: Sequence[Type | None]) -> None:
        self._by_keys: dict[tuple[str, ...], list[tuple[str, object]]] = {}
        for path, type in zip(inputs, types, strict=False):
            if path:
                self._by_keys.setdefault(_keys(path), []).append((path, getattr(type, "shape", None)))

    def of(self, paths: Sequence[str], types: Sequence[Type | None]) -> str | None:
        """The input that all these outputs belong to, by the longest keys. Keys that are the whole of an output's path
        tell something only if one of them is a name."""
        ends = [_keys(path) for path in paths]
        shapes = {getattr(type, "shape", None) for type in types}
        for count in range(min(map(len, ends)), 0, -1):
            keys = ends[0][-count:]
            if any(end[-count:] != keys for end in ends):
                continue
            if count == min(map(len, ends)) and all(key[1:-1].isdigit() for key in keys):
                continue
            for path, shape in self._by_keys.get(keys, ()):
                if shapes == {shape}:
                    return path
        return None


@functools.cache
def _keys(path: str) -> tuple[str, ...]:
    """The keys of a path, in order: `params['up'].kernel.value` has `['up']` and `.kernel`, since a variable's value is
    the variable."""
    found = _KEY.findall(path)
    return tuple(found[:-1] if found and found[-1] == ".value" else found)


def _in_their_words(
    refusal: Refusal,
    site: Equation | Program | None,
    attribution: Attribution,
    inputs: Sequence[str | None],
    lines: Lines,
) -> Refusal:
    """A refusal with the user's line, and with what its operands are."""
    place = site.line if site is not None else 0
    refusal.line = user_line(lines, place)
    refusal.column = 0
    at, library = where(lines, place)
    if isinstance(site, Equation) and (written := lines.loop(place)):
        counts = {"scan": "counter is carry 0", "while": "counter and bound are carries 0 and 1"}
        said = f", whose {counts[site.primitive]}," if written == "fori_loop" and site.primitive in counts else ""
        refusal.message = _LOOP.sub(lambda found: f"{written}{found[2] or ''}{said}", refusal.message, count=1)
    if at:
        refusal.trail = (*refusal.trail, f"at {at} (in {library})" if library else f"at {at}")
    if isinstance(site, Equation) and refusal.family is not Family.UNMODELLED:
        spoken_of = [index for index in range(len(site.inputs)) if _mentions(refusal, index, len(site.inputs))]
        named = [_operand(refusal, site, index, attribution, inputs, lines) for index in spoken_of]
        if any(named):
            refusal.message = f"{refusal.message} ({'; '.join(filter(None, named))})"
        if refusal.code in _OF_STATES:
            refusal.help = "; ".join([refusal.help, *_of_constants(refusal, site, attribution, inputs)])
    return refusal


_LOOP: Final = re.compile(r"\b(scan|the while loop)( x[\w,]+)?")


def _as_written(label: str, equation: Equation, lines: Lines) -> str:
    written = lines.loop(equation.line) if label.startswith(("scan", "while")) else ""
    return f"{written}{label.removeprefix('scan').removeprefix('while')}" if written else label


_OF_STATES: Final = ("state", "transpose-communicates")
"""Codes of refusals that a cast of an operand repairs."""


def _of_constants(
    refusal: Refusal, equation: Equation, attribution: Attribution, inputs: Sequence[str | None]
) -> Iterator[str]:
    """Of operands that are constants what their cast costs, and how they are written to lie as what they meet does."""
    origins = {
        at: attribution.of_operand(equation, at) for at, atom in enumerate(equation.inputs) if isinstance(atom, str)
    }
    types = attribution.types_of(equation)
    constants = [at for at, found in origins.items() if _is_constant(found, inputs)]
    if not constants:
        return
    said = " and ".join(f"operand {at}" for at in constants)
    are = "is a constant" if len(constants) == 1 else "are constants"
    yield f"{said} {are}, without a gradient: a cast of it sends nothing backward"
    for at in constants:
        mine, literal = types[at], origins[at].literal
        if equation.primitive == "pad" and at == 1 and literal is not None and _is_zero(literal):
            yield "jax.lax.pad takes the number itself, 0, and is well typed"
            continue
        for other, type in enumerate(types):
            if other in constants or other not in origins or _declared(equation, other) == "which":
                continue
            what = origins[other].input
            name = (inputs[what] if what is not None and what < len(inputs) else None) or f"operand {other}"
            if not isinstance(type, ArrayType) or not isinstance(
                mine, ArrayType
            ):  # inferred, and told with the refusal
                if "reduced" in refusal.message and equation.primitive in _ELEMENTWISE:
                    yield _filled(name, literal) if literal is not None else f"operand {at} cast to reduced is free"
                    break
                continue
            held = [axis for axis in type.reduced if mine.state(axis) == "N"]
            if literal is not None and (mine.shape, mine.dtype) == (type.shape, type.dtype):
                if held or (type.unreduced and _is_zero(literal)):
                    yield _filled(name, literal)
                    break
            elif held:
                target = functools.reduce(lambda made, axis: restated(made, axis, "R"), held, mine)
                yield f"operand {at} as {target} is free, and the result is reduced"
                break


_ELEMENTWISE: Final = ("add", "sub", "mul", "div", "max", "min", "select_n")
"""Of these a constant has the shape of what it meets."""


def _filled(name: str, literal: Literal) -> str:
    called = f"jnp.zeros_like({name})" if _is_zero(literal) else f"jnp.full_like({name}, {literal.text})"
    return f"as {called} it lies as that does"


def _is_constant(found: Origin, inputs: Sequence[str | None]) -> bool:
    """Whether a value is a number, counted up (iota), or an array that the program holds."""
    held = found.input is not None and found.input < len(inputs) and inputs[found.input] is None
    return held or found.literal is not None or (found.maker is not None and found.maker.primitive == "iota")


def _is_zero(literal: Literal) -> bool:
    return literal.text.removesuffix("j").strip("-0.") == ""


_FEW: Final = 3


def _mentions(refusal: Refusal, index: int, count: int) -> bool:
    """Whether to say what this operand is: one of few, or one that the refusal speaks of."""
    if count <= _FEW or (refusal.place.part == "operand" and refusal.place.index == index):
        return True
    return re.search(rf"\boperand {index}\b", " ".join((refusal.message, refusal.because, refusal.help))) is not None


def _operand(
    refusal: Refusal,
    equation: Equation,
    index: int,
    attribution: Attribution,
    inputs: Sequence[str | None],
    lines: Lines,
) -> str:
    """What people know of an operand: which argument it is or is made from, else the line that makes it."""
    name = _declared(equation, index)
    called = f"operand {index}"
    if name and re.search(rf"\b{re.escape(name)}\b", refusal.because):
        called += f", {name},"
    found = attribution.of_operand(equation, index)
    if found.literal is not None:
        return f"{called} is the number {found.literal.text}"
    if found.input is not None and found.input < len(inputs) and inputs[found.input]:
        return f"{called} is {'made from ' if found.moved else ''}{inputs[found.input]}"
    if found.maker is not None:
        at, _ = where(lines, found.maker.line)
        return f"{called} is made by {found.maker.primitive} at {at}" if at else ""
    return ""


def _declared(equation: Equation, index: int) -> str:
    """What the declaration of an equation's primitive calls an operand: `x`, or `x1` of several."""
    primitive = TABLE.get(equation.primitive)
    names: list[str] = []
    for name in primitive.operands if primitive is not None else ():
        many = len(equation.inputs) - len(primitive.operands) + 1 if primitive is not None else 0
        stem = name.removesuffix("...")
        names += [name] if stem == name else [f"{stem}{number}" for number in range(many)] if many > 1 else [stem]
    return names[index] if index < len(names) else ""
