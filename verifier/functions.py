"""Check a function of one's own: trace it, convert the program, type and price it, and say everything in the words of
its author: values by their path, equations by their line.

    report = verifier.check(train_step, params, opt_state, batch)
    print(report); report.communication; report.refusals; report.types; report.to_json()

The door that needs JAX. Nothing here runs the function on devices.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from calculus.checking import Checker
from calculus.effects import Charge
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Document, Equation, Program, bodies
from calculus.refusals import Refusal, Refused
from calculus.types import ArrayType, Type
from verifier.examine import Examined, counted, examine, notes
from verifier.known import known
from verifier.report import Report, as_json, summary, table, verdict_on
from verifier.wording import Words, root, user_line, where

if TYPE_CHECKING:
    from collections.abc import Callable

    from verifier.execution.tracked import Twin
    from verifier.explaining.explanation import Explanation
    from verifier.function_backward import BackwardReport
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.trace import Trace


@dataclass(frozen=True, slots=True)
class Source:
    """What a report is about. inputs, outputs: what people call the program's, constants aside. arguments: what the
    paths of each argument begin with, in order. checker: the one that has checked the program. note: what is to be said
    first. words: those of the report. charges: what its rows are about, in their order. undifferentiated: asks JAX for
    the derivative, and gives what it says where it has none. entry: of the ledger, by which JAX refuses it. refused:
    whether it does, by that or not. twin: of one that JAX differentiates inside a shard_map with check_vma=False, what
    makes the same with check_vma=True."""

    name: str
    program: Program
    meshes: tuple[Mesh, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: tuple[str, ...]
    checker: Checker
    lines: Lines
    note: str = ""
    words: Words | None = field(default=None, repr=False, compare=False)
    charges: tuple[Charge, ...] = field(default=(), repr=False, compare=False)
    undifferentiated: Callable[[], str] = field(default=str, repr=False, compare=False)
    entry: int = 0
    refused: bool = False
    twin: Callable[[], Twin | None] | None = field(default=None, repr=False, compare=False)

    @property
    def known(self) -> list[str | None]:
        """The inputs, constants first, which have no name."""
        return [None] * len(self.program.constants) + list(self.inputs)


@dataclass(slots=True)
class FunctionReport(Report):
    """The report on a function; `file` is its name. types: of every input and output, by its path. unsharded: whether
    no array carries an explicit sharding."""

    types: dict[str, Type] = field(default_factory=dict)
    unsharded: bool = False
    source: Source | None = field(default=None, repr=False, compare=False)

    def backward(self, wrt: Any = None) -> BackwardReport:
        """The report on the program that computes the function and its gradient, or its vjp where the result is not one
        floating number: what the backward pass communicates, refuses, and the type of each gradient.

        wrt: the number of an argument, or several, as `argnums` of `jax.grad`; or the path of an input, or what the
        paths of several begin with (`"params['layers']"`); by default the first argument. Of these, what is not
        floating is left out. Raises `UnknownInput` where nothing floating is left.
        """
        from verifier.function_backward import backward

        return backward(self, wrt)

    def explain(self, wrt: Any = None, hardware: str | None = None) -> Explanation:
        """Where the function communicates, forward and backward, under the author's lines, and which forward fact
        decides each collective of the backward pass. Where JAX has not differentiated it, it is differentiated here.

        wrt: as `backward` takes it. hardware: a TOML file of bandwidths and latencies, for seconds
        (`verifier.explaining.hardware`). Raises `UnknownInput`, and `BadProfile`.
        """
        from verifier.explaining.explanation import explain_function
        from verifier.explaining.hardware import read_hardware

        found = explain_function(self, wrt)
        found.hardware = None if hardware is None else read_hardware(hardware)
        return found

    def __str__(self) -> str:
        return "\n".join(self._paragraphs())

    def _paragraphs(self) -> list[str]:
        found = [summary(self)]
        found += [f"  note: {note}" for note in self.notes]
        if self.communication:
            found += table(self.communication)
        if self.refusals:
            found += ["", self.explained("", len(self.refusals))]
        return found

    def explained(self, text: str, most: int) -> str:
        """The first refusals, each with the user's line instead of a place in a text."""
        return "\n\n".join("\n".join(_shown(refusal)) for refusal in self.refusals[:most])

    def _repr_html_(self) -> str:
        from verifier.html import as_html

        return as_html(self)

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON: what `shardproof check --json` prints for one file, and the types."""
        return json.dumps(self.data(), indent=indent)

    def data(self) -> dict[str, object]:
        """The report as plain data."""
        return {**as_json(self), "types": {path: str(type) for path, type in self.types.items()}}


def check(f: Any, *args: Any, mesh: Any = None, **kwargs: Any) -> FunctionReport:
    """Check a function at these arguments.

    f: a function, a jitted function, a `jax.stages.Traced`, or a jaxpr. args, kwargs: arrays or
    `jax.ShapeDtypeStruct`, in any pytree. mesh: a mesh of JAX's (abstract ones need no devices), or text such as
    `data=512,model=8`; without it the mesh in context, else that of the arguments. Declarations of the project at hand
    (`verifier.rules_files`) join the table first.

    What the function hands to derivatives by hand (the seed of a pull-back, what its custom rules return) is compared
    with the type that it should have while the function is traced, since the program does not show it; where a jaxpr is
    given, nothing can be.

    A function that JAX refuses at these types is traced with JAX's own checks put off; or, where that does not end, at
    arguments that are copies on every device, its types inferred from the arguments on. The report says so, and refuses
    in our words, or says what JAX has no type for.

    Raises `TypeError` for what cannot be traced, `calculus.refusals.Refused` for an impossible mesh, `BadRules`, and
    what else JAX raises when it traces. What the types refuse is in the report.
    """
    from verifier.rules_files import load_rules
    from verifier.with_jax.cotangents import compared
    from verifier.with_jax.trace import trace

    load_rules()
    handed: list[Refusal] = []
    try:
        with compared() as found:
            handed, unseen = found.refusals, found.unseen
            traced = trace(f, *args, mesh=mesh, **kwargs)
    except Refused as refused:
        if refused.refusal.help:
            refused.add_note(f"help: {refused.refusal.help}")
        raise refused.with_traceback(None) from None
    except Exception as error:
        report = _refused(f, args, kwargs, mesh, error, handed) or _unruled(f, args, kwargs, mesh, error)
        if report is not None:
            return report
        error.__traceback__ = _theirs(error.__traceback__)
        raise
    report = _traced(f, args, traced, handed)
    report = (
        _sorted_alike(report, f, args, kwargs, mesh, handed) or _as_ruled(report, f, args, traced, handed) or report
    )
    _with_twin(report, f, args, kwargs, mesh)
    if unseen:
        report.notes.append(f"this release of JAX has no {', '.join(unseen)}: what is handed in there is not looked at")
    return report


def explain(f: Any, *args: Any, mesh: Any = None, wrt: Any = None, hardware: str | None = None) -> Explanation:
    """Where a function communicates at these arguments, and why: `check(f, *args).explain(wrt, hardware)`."""
    return check(f, *args, mesh=mesh).explain(wrt, hardware)


def _source(
    f: Any, args: Any, traced: Trace, program: Program, checker: Checker, lines: Lines, note: str = ""
) -> Source:
    from verifier.with_jax.names import parameter_names

    arguments = tuple(parameter_names(f, len(args))) if args else tuple(dict.fromkeys(map(root, traced.inputs)))
    return Source(_name(f), program, traced.meshes, traced.inputs, traced.outputs, arguments, checker, lines, note)


def _traced(f: Any, args: Any, traced: Trace, handed: list[Refusal]) -> FunctionReport:
    """The report on a program that JAX has traced."""
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.objects import ObjectChecker, Objects

    objects = Objects(traced.program)
    program = objects.program(objects.main)
    examined = examine(program, ObjectChecker(traced.meshes, objects))
    lines = Lines(objects.as_converted())
    source = _source(f, args, traced, program, examined.checker, lines)
    return _report(replace(source, undifferentiated=lambda: _undifferentiated(traced)), examined, handed)


def _as_ruled(report: FunctionReport, f: Any, args: Any, traced: Trace, handed: list[Refusal]) -> FunctionReport | None:
    """Where JAX's types of results are all that is wrong, since they have no transpose (a product of what is reduced is
    reduced, and JAX forgets it): the report on the same program, its types inferred from the arguments on."""
    from verifier.with_jax.convert import Converted
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.untyped import WithoutTypes

    source = report.source
    refusals = source.checker.refusals if source is not None else []
    sites = [at for one, at in refusals if one.code == "transpose-communicates" and isinstance(at, Equation)]
    if source is None or source.words is None or handed or len(sites) < len(refusals) or not sites:
        return None
    conversion = WithoutTypes(traced.program)
    program = conversion.program(conversion.main)
    program.input_types = source.program.input_types
    examined = examine(program, Checker(traced.meshes))
    if examined.refusals or examined.checked is None:
        return None
    lines = Lines(Converted(Document((), program), conversion.origins))
    said = [f"{one.primitive} at {source.words.place(one)} as {', '.join(map(str, one.types))}" for one in sites]
    note = (
        f"JAX types {', '.join(dict.fromkeys(said))}, of which there is no gradient that has a type; here types are "
        "inferred from the arguments on"
    )
    source = _source(f, args, traced, program, examined.checker, lines, note)
    return _report(replace(source, undifferentiated=lambda: _undifferentiated(traced)), examined, handed)


def _undifferentiated(traced: Trace) -> str:
    """What JAX says where it has no derivative of what it has traced."""
    from verifier.with_jax.underived import undifferentiated

    return undifferentiated(traced.program)


def _sorted_alike(
    report: FunctionReport, f: Any, args: Any, kwargs: Any, mesh: Any, handed: list[Refusal]
) -> FunctionReport | None:
    """Where places that are sorted beside keys that vary are typed as the same on every device: the report on the
    function with the cast that JAX leaves out. Of what has a cotangent JAX's gradient is wrong then, and so it stays
    refused."""
    source = report.source
    refusals = source.checker.refusals if source is not None else []
    sorts = [(one, at) for one, at in refusals if one.code == "mixed-variation" and isinstance(at, Equation)]
    if source is None or source.words is None or not any(at.primitive == "sort" for _, at in sorts):
        return None
    for _, at in sorts:
        types = source.words.attribution.types_of(at) if at.primitive == "sort" else ()
        if any(isinstance(type, ArrayType) and not type.varying and type.dtype_class in "fc" for type in types):
            return None
    from verifier.with_jax.sorting import sorted_alike

    traced = sorted_alike(f, args, kwargs, mesh)
    if traced is None:
        return None
    found = _traced(f, args, traced, handed)
    found.notes.insert(
        0,
        "JAX types what it sorts beside keys that vary (jnp.argsort, lax.sort_key_val) as the same on every device, "
        "and it is not (difference 39 in proofs/differences.md); it was traced with both cast first, as lax.sort does",
    )
    return found


def _with_twin(report: FunctionReport, f: Any, args: Any, kwargs: Any, mesh: Any) -> None:
    """Where JAX has differentiated something inside a shard_map with check_vma=False, the same with check_vma=True; and
    a note where that communicates otherwise."""
    from verifier.execution.tracked import Twin, doubtful, first_apart, untracked
    from verifier.with_jax import meshes

    source = report.source
    if source is None or report.verdict != "ok":
        return
    found = [body for equation in untracked(source.program) for _, body in bodies(equation.parameters)]
    seen: set[int] = set()
    for body in found:  # grows while it is read
        if id(body) not in seen:
            seen.add(id(body))
            found += [inner for one in body.equations for _, inner in bodies(one.parameters)]
    if not any(source.lines.some_transposed(body.equations) for body in found):
        return
    around = mesh if mesh is not None else meshes.in_context()

    @cache
    def twin() -> Twin | None:
        from verifier.with_jax.tracked import tracked

        traced = tracked(f, args, kwargs, around)
        other = None if traced is None else _traced(f, args, traced, [])
        if other is None or other.source is None or other.verdict != "ok":
            return None
        there = other.source
        doubt = doubtful(there.charges, lambda equation: there.lines.transposed(equation.line))
        places = (lambda one: where(source.lines, one.line)[0], lambda one: where(there.lines, one.line)[0])
        return Twin(there.program, there.meshes, doubt, places)

    report.source = replace(source, twin=twin)
    said = "JAX differentiates inside a shard_map with check_vma=False, where no type says what devices share"
    other = twin()
    if other is None:
        report.notes.append(f"{said}: the gradient may be wrong; run shows what devices hold")
    elif differs := first_apart(source.program, other):
        unless = ", where equal copies are summed, so that this may be right" if other.doubtful else ""
        report.notes.append(f"{said}, and not as with check_vma=True{unless}{differs}; run compares what devices hold")


def _refused(
    f: Any, args: Any, kwargs: Any, mesh: Any, error: Exception, handed: list[Refusal]
) -> FunctionReport | None:
    """The report on a function that JAX refuses: without JAX's checks, else as traced at copies, else with what is
    known of it; `None` where nothing is. See `verifier.with_jax.unchecked` and `verifier.with_jax.untyped`."""
    from verifier.with_jax.cotangents import compared
    from verifier.with_jax.unchecked import unchecked

    with compared() as more:
        found = unchecked(f, args, kwargs, mesh)
    handed += [refusal for refusal in more.refusals if refusal not in handed]
    if found is None:
        return None if not handed else _untraced(f, error, handed)
    if found.trace is not None:
        report = _traced(f, args, found.trace, handed)
        said = (
            f"JAX refuses this ({_said(error)}); it was traced with JAX's checks put off, and judged by the rules here"
        )
        report.notes[:0] = [said, *dict.fromkeys(map(str, found.calls.typed))]
        number = next((one.number for one in found.calls.typed if one.number is not None), 0)
        if report.source is not None:
            report.source = replace(report.source, entry=number, refused=True)
        return report
    inferred = _inferred(f, args, kwargs, mesh, error, handed)
    if inferred is not None and (inferred.verdict != "ok" or not found.calls.refusals):
        return inferred  # it says more, where it refuses as well
    return _untraced(f, error, [*handed, *found.calls.refusals, *found.calls.elements])


def _untraced(f: Any, error: Exception, handed: list[Refusal]) -> FunctionReport | None:
    """The report on a function that hands in what it should not, and of which nothing else is known."""
    if not handed:
        return None
    return FunctionReport(_name(f), "refused", refusals=handed, notes=[f"JAX refuses this too ({_said(error)})"])


def _unruled(f: Any, args: Any, kwargs: Any, mesh: Any, error: Exception) -> FunctionReport | None:
    """The report on a function that calls what JAX has no rule for, or no gradient of, where nothing else tells."""
    from verifier.with_jax.unruled import told

    found = told(f, args, kwargs, mesh, error)
    return None if found is None else FunctionReport(_name(f), "refused", refusals=[found])


def _said(error: Exception) -> str:
    """The first line of what JAX says."""
    return ": ".join(filter(None, (type(error).__name__, str(error).strip().partition("\n")[0])))


def _inferred(
    f: Any, args: Any, kwargs: Any, mesh: Any, error: Exception, handed: list[Refusal]
) -> FunctionReport | None:
    """The report on a function as traced at copies of its arguments."""
    from verifier.with_jax.convert import Converted
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.listed import listed
    from verifier.with_jax.untyped import untyped

    found = untyped(f, args, kwargs, mesh)
    if found is None:
        return None
    examined = examine(found.program, Checker(found.trace.meshes))
    lines = Lines(Converted(Document((), found.program), found.conversion.origins))
    number = listed(found.error).number
    note = (
        f"JAX does not trace this at these types ({_said(error)}){number}; it was traced with copies for arguments, "
        "gradients inside included, and the types are inferred from the arguments on; it is assumed to do the same at "
        "both"
    )
    source = _source(f, args, found.trace, found.program, examined.checker, lines, note)
    return _report(replace(source, refused=True), examined, handed)


def _theirs(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without our own frames: what went wrong stands in the user's code, or in JAX's."""
    if traceback is None:
        return None
    rest = _theirs(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


_OURS: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _name(f: Any) -> str:
    found = getattr(f, "__name__", None) or getattr(f, "fun_name", None) or type(f).__name__
    return str(found)


def _report(source: Source, examined: Examined, handed: list[Refusal]) -> FunctionReport:
    """handed: the refusals of what is handed to derivatives, which were found before."""
    program = source.program
    words = Words(program, examined, source.known, source.outputs, source.lines)
    source = replace(source, words=words, charges=tuple(examined.charges))
    rows = [words.row(charge) for charge in examined.charges]
    refusals = [*handed, *(words.refusal(refusal, site) for refusal, site in examined.checker.refusals)]
    seen = (*program.input_types, *examined.checker.scope.chosen)
    explicit = any(axis.mode is AxisMode.EXPLICIT for mesh in source.meshes for axis in mesh.axes)
    unsharded = not explicit and all(getattr(type, "plain", True) for type in seen)
    said = notes(examined, lambda sizes: f"give mesh='{sizes}'", words.place)
    if unsharded:
        said.insert(
            0,
            "no array carries an explicit sharding, so this is read as auto mode: types are checked, and communication "
            "is chosen by the compiler",
        )
    if source.note:
        said.insert(0, source.note)
    types = {
        **{path: type for path, type in zip(source.inputs, program.input_types, strict=False) if type is not None},
        **{path: type for path, type in zip(source.outputs, words.types, strict=False) if type is not None},
    }
    verdict = verdict_on(refusals)
    wrong = known(examined.checker, source.lines.differentiated) if verdict == "ok" else []
    said += dict.fromkeys(f"{words.place(one.equation)}: {one.says}" for one in wrong)
    return FunctionReport(
        source.name, verdict, examined.checker.equations, counted(refusals), rows, said,
        examined.assumed + (bool(source.note) and verdict == "ok"),
        types, unsharded, source,
        known=[one.data(user_line(source.lines, one.equation.line), words.place(one.equation)) for one in wrong],
    )  # fmt: skip


def _shown(refusal: Refusal) -> list[str]:
    where = next((words.removeprefix("at ") for words in refusal.trail if words.startswith("at ")), "")
    found = [
        f"{where or 'somewhere'}: {refusal.family.value}: {refusal.message}",
        f"  rule: {refusal.rule} [{refusal.code}]",
    ]
    found += [f"  {label}: {words}" for label, words in (("because", refusal.because), ("help", refusal.help)) if words]
    return found
