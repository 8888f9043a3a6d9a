"""What goes wrong in JAX though it is well typed: equations of a checked program of which the ledger says so.

The ledger is read only where an equation may fit: one of a primitive that it speaks of, with a state that it speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from calculus.checking import Checker, Scope
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Equation, Literal, Program
from calculus.refusals import Refused
from calculus.types import ArrayType, Type, held

if TYPE_CHECKING:
    from verifier.ledger import Entry
    from verifier.patterns import Difference

REFERENCE: Final = "0.12.0.1"
"""The release that is spoken of where none is installed."""

WATCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("U stretched",),
    "bessel_i1e": ("R",),
    "cbrt": ("R",),
    "cholesky_update": ("V manual",),
    "cond": ("=branches N V",),
    "conv_general_dilated": ("=dimension_numbers S beside", "=feature_group_count S beside"),
    "div": ("R", "U stretched"),
    "dot_general": (">N R S",),
    "dynamic_slice": ("R manual",),
    "erf": ("V manual",),
    "erfc": ("V manual",),
    "fft": ("=fft_type RU",),
    "gather": ("R manual",),
    "igamma": ("RS",),
    "igamma_grad_a": ("RS",),
    "igammac": ("RS",),
    "lgamma": ("RS",),
    "mul": ("U stretched",),
    "qr": ("S",),
    "random_gamma": ("=log_space S",),
    "random_gamma_grad": ("RS",),
    "reduce_prod": ("=axes S",),
    "reduce_window_sum": ("=window_strides S",),
    "regularized_incomplete_beta": ("RS",),
    "reshape": ("=dimensions U",),
    "reshard": ("=source_mesh >U", ">NRS U beside", ">S R beside", ">U S beside"),
    "scan": ("RU manual",),
    "scatter": ("=dimension_numbers =unique_indices >S S", "=dimension_numbers =unique_indices N S"),
    "scatter-add": (">S N S",),
    "scatter-max": ("N S",),
    "scatter-min": ("N S",),
    "scatter-sub": (">S N S",),
    "select_n": ("RU manual", "U"),
    "shard_map": ("=check_vma =in_specs U", "=check_vma =out_specs >U"),
    "slice": (">N S",),
    "sort": ("R manual",),
    "stack": ("R", "U"),
    "sub": ("U stretched",),
    "svd": ("=compute_uv S",),
    "while": ("U",),
}
"""The primitives of which the ledger knows that they go wrong, and what must hold of their operands and results along
one axis (`Pattern.mark`), or they do not. It stands here too so that most checks need not read the ledger. `index`
makes it."""

_NAMED: Final = {
    primitive: tuple(dict.fromkeys(word[1:] for mark in marks for word in mark.split() if word[0] == "="))
    for primitive, marks in WATCHED.items()
}
"""The parameters that the marks of a primitive ask for."""

_SHOWS: Final[Mapping[str, str]] = {
    "wrong value": "computes another value here",
    "wrong gradient": "computes another gradient here",
    "crash": "ends in an error here",
    "backward fails": "raises here",
}


class Known(NamedTuple):
    """An equation that goes wrong in a release of JAX. ends: whether it ends the process. derivative: whether only its
    derivative does. apart: whether only where it is compiled apart from what finishes its sum, as outside of jit."""

    equation: Equation
    entry: Entry
    release: str
    ends: bool = False
    derivative: bool = False
    apart: bool = False

    def data(self, line: int, where: str = "") -> dict[str, object]:
        """As plain data for `--json`. line: of the equation. where: the user's own line, of a function."""
        return {
            "line": line,
            **({"where": where} if where else {}),
            "primitive": self.equation.primitive,
            "jax": self.release,
            "entry": self.entry.number,
            "title": self.entry.title,
            "defect": self.entry.defect,
            "ends_process": self.ends,
            "in_derivative": self.derivative,
            "outside_of_jit": self.apart,
        }

    @property
    def shown(self) -> bool:
        """Whether what goes wrong when this is differentiated is in the derivative itself, which can be looked at."""
        return self.entry.defect != "wrong gradient"

    @property
    def says(self) -> str:
        """What JAX does, and where that is written down."""
        shows = "ends its process here" if self.ends else _SHOWS[self.entry.defect]
        when = " when this is differentiated" if self.derivative and "gradient" not in shows else ""
        when += ", outside of jit" if self.apart else ""
        return (
            f"well typed, but JAX {self.release} {shows}{when}: {self.entry.title[0].lower()}{self.entry.title[1:]} "
            f"(entry {self.entry.number} of the ledger)"
        )


def known(checker: Checker, differentiated: Callable[[int], bool] = lambda line: False) -> list[Known]:
    """The equations of what was checked that go wrong in the JAX at hand: the installed one, else the reference. Bodies
    are looked at once, however often they are called. differentiated: whether the equation at a place has its
    derivative beside it, which is looked at itself, though a gradient that is wrong may not show there."""
    found = [one for program, scope in checker.walked() for one in _suspects(program, scope)]
    if not found:
        return []
    from verifier.ledger import ledger

    release = installed()
    entries = [entry for entry in ledger() if release in entry.versions and entry.foreseen and entry.defect in _SHOWS]
    every = [one for difference in found for one in _fitting(difference, entries, release)]
    return [one for one in every if not (one.derivative and one.shown and differentiated(one.equation.line))]


def _fitting(difference: Difference, entries: Sequence[Entry], release: str) -> Iterator[Known]:
    """The first entry of which a pattern fits the call, and the first of which one fits its derivative, if it has
    one."""
    from calculus.linearization import differentiable

    moves = any(type is not None and differentiable(type) for type in difference.call.equation.types)
    for derivative in (False, True)[: 1 + moves]:
        for entry in entries:
            fitting = [one for one in entry.foreseen if one.derivative is derivative and one.fits(difference, "")]
            if fitting:
                apart = all(one.apart(difference) for one in fitting)
                yield Known(difference.call.equation, entry, release, fitting[0].dies, derivative, apart)
                break


def index(entries: Iterable[Entry]) -> dict[str, tuple[str, ...]]:
    """What `WATCHED` has to be."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        if REFERENCE in entry.versions and entry.defect in _SHOWS:
            for pattern in entry.foreseen:
                for name in pattern.primitives or ("",):
                    found.setdefault(name, set()).add(pattern.mark)
    return {name: tuple(sorted(marks)) for name, marks in sorted(found.items())}


def installed() -> str:
    """The release of JAX that is installed, else the reference."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("jax")
    except PackageNotFoundError:
        return REFERENCE


def _suspects(program: Program, scope: Scope) -> Iterator[Difference]:
    """The equations of a body that may fit, as cells."""
    if not program.uses(WATCHED.keys()):
        return
    from verifier.cells import Verdict
    from verifier.equation_cells import cell_of

    types: dict[str, Type | None] = dict(zip(program.constants, program.constant_types, strict=True))
    types.update(zip(program.inputs, program.input_types, strict=True))
    fits: dict[tuple[object, ...], bool] = {}
    for equation in program.equations:
        binders, primitive = equation.binders, equation.primitive
        results = equation.types if None not in equation.types else _results(equation, types, scope)
        if len(binders) == 1:  # nearly all have one result
            types[binders[0]] = results[0] if results else None
        else:
            types.update(zip(binders, results, strict=False))
        if primitive not in WATCHED:
            continue
        operands = [types.get(atom) for atom in equation.inputs if not isinstance(atom, Literal)]
        asked = tuple(name for name in _NAMED[primitive] if name in equation.parameters)
        key = (primitive, asked, *operands, None, *results)
        fitting = fits.get(key)
        if fitting is None:
            given, made = (
                [one for one in map(held, types) if isinstance(one, ArrayType)] for types in (operands, results)
            )
            fitting = fits[key] = None not in results and _marked(given, made, asked, WATCHED[primitive], scope.mesh)
        if fitting:
            try:
                mesh = (
                    scope.common_mesh(equation, [one for one in operands if one is not None])
                    if scope.others
                    else scope.mesh
                )
            except Refused:  # a move between meshes, of which no cell is
                continue
            alike = Verdict(tuple(one for one in results if one is not None))
            yield cell_of(equation, types, mesh, alike, alike, program)


def _results(equation: Equation, types: Mapping[str, Type | None], scope: Scope) -> tuple[Type | None, ...]:
    """The types of the results, where they are not all printed: as judged."""
    operands = (types.get(atom) if isinstance(atom, str) else atom for atom in equation.inputs)
    found = scope.judged.get((equation.primitive, equation.parameters, equation.types, *operands))
    return equation.types if found is None else found[0].types


def _marked(
    operands: Sequence[ArrayType], results: Sequence[ArrayType], names: Sequence[str], marks: Sequence[str], mesh: Mesh
) -> bool:
    """Whether what one of the marks asks for holds along some axis. names: of the parameters that one may ask for,
    those that are there."""
    shapes = {type.shape for type in results}
    of: dict[str, set[str]] = {}
    for type in (*operands, *results):
        for axis in type.mentioned:
            of.setdefault(axis, set())
    for axis, found in of.items():
        found.update(f"={name}" for name in names)
        found.update(type.state(axis)[0] for type in operands)
        found.update(f">{type.state(axis)[0]}" for type in results)
        if axis in mesh.by_name and mesh.by_name[axis].mode is AxisMode.MANUAL:
            found.add("manual")
        if len(mesh.by_name) > 1 or axis not in mesh.by_name:
            found.add("beside")
        if any(one.unreduced and one.shape not in shapes for one in operands):
            found.add("stretched")
    return any(all(_holds(word, found) for word in mark.split()) for mark in marks for found in (*of.values(), set()))


def _holds(word: str, found: Collection[str]) -> bool:
    if word in ("manual", "beside", "stretched") or word.startswith("="):
        return word in found
    side, letters = (">", word[1:]) if word[:1] == ">" else ("", word)
    return any(f"{side}{letter}" in found for letter in letters)
