"""What the types say is moved, beside what a compiler for a target moves: of functions by name, or of a fixed set of
programs. The door to JAX and its compilers is `verifier.with_jax.compiling`."""

from __future__ import annotations

import functools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from calculus.communication import ESTIMATE
from calculus.meshes import Axis, Mesh
from verifier.compiled.classes import CLASSES, SEARCHED
from verifier.compiled.derived import Said
from verifier.compiled.matching import matched
from verifier.compiled.pairs import Matching, Pair
from verifier.compiled.reading import Moved, read
from verifier.compiled.targets import CPU, PARTITIONED, NoCompiler, Target
from verifier.factories import made_by
from verifier.report import count

LLAMAS: Final = ("examples.llama:gather_each_time", "examples.llama:gather_once")
STEPS: Final = ("examples.microbatches:accumulated", "examples.microbatches:summed_each_time")
ROOMS: Final = ("documented", "manual", "transformer")
"""What is compared where nothing is named: the examples, where this is a checkout, and these rooms of derivatives."""

MOST_SHOWN: Final = 20


@dataclass
class Compared:
    """One program. stages: what agrees at each stage that the compiler shows. problem: why it was not compiled to the
    end. chosen_mesh: the mesh that it was compiled for."""

    name: str
    mesh: Mesh
    stages: dict[str, Matching] = field(default_factory=dict)
    problem: str = ""

    @property
    def unexplained(self) -> int:
        """How many collectives no class explains."""
        return sum(one.unexplained for one in self.stages.values())


@dataclass
class Agreement:
    """What a run finds. left_out: the programs that JAX or our checker refuses, or the compiler, with what it says."""

    target: Target
    version: str
    compared: list[Compared] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def unexplained(self) -> list[Compared]:
        """The programs with something that no class explains."""
        return [one for one in self.compared if one.unexplained]

    @property
    def stages(self) -> list[str]:
        """The stages that some program was seen at, the earliest first."""
        found = {stage for one in self.compared for stage in one.stages}
        return sorted(found, key=lambda stage: stage != PARTITIONED)

    def at(self, stage: str) -> list[Matching]:
        """Of every program that was seen at a stage."""
        return [one.stages[stage] for one in self.compared if stage in one.stages]


def compare(
    target: Target, names: Sequence[str] = (), mesh: Mesh | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Agreement:  # fmt: skip
    """Compare. names: `package.module:factory`, or `PATH.py:factory`; without any, the fixed set. mesh: to compile for
    instead of the one that the arguments lie on: the same axes, in other sizes.

    Raises `NoCompiler`, with the repair; `BadFactory` for a name that leads nowhere; and, for what is named, what JAX
    raises and what our checker refuses.
    """
    from verifier.with_jax.compiling import VERSION

    started = time.monotonic()
    found = Agreement(target, VERSION)
    if names:
        for name in names:
            progress(name)
            function, arguments, keywords = made_by(name)
            found.compared.append(_function(name, target, function, arguments, keywords, mesh))
    else:
        _fixed_set(found, mesh, progress)
    found.seconds = time.monotonic() - started
    return found


def _function(name: str, target: Target, function: Any, arguments: Any, keywords: Any, mesh: Mesh | None) -> Compared:
    from verifier.with_jax import compiling

    mesh = mesh or compiling.mesh_of((arguments, keywords))
    if mesh is None:
        raise NoCompiler(f"the arguments of {name} lie on no mesh, or on several", "say which: --mesh X=4,Y=2")
    on = compiling.mesh_on(target, mesh)
    arguments, keywords = compiling.placed((tuple(arguments), dict(keywords)), on)
    return compared(name, target, on, compiling.trace_on(on, function, arguments, keywords))


def compared(name: str, target: Target, mesh: Any, traced: Any) -> Compared:
    """Compare what was traced on a mesh with devices. Raises what the compiler raises, and what our checker refuses."""
    from verifier.with_jax import meshes
    from verifier.with_jax.compiling import compile_
    from verifier.with_jax.deriving import derived

    ours = meshes.ours(mesh)
    sizes = {axis.name: axis.size or 1 for axis in ours.axes}
    said = derived(traced)
    compiled = compile_(traced, target, mesh, quick=True)
    stages = {stage: matched(said, read(text, sizes), sizes, stage) for stage, text in compiled.texts.items()}
    return Compared(name, ours, stages, compiled.problem)


def _fixed_set(found: Agreement, mesh: Mesh | None, progress: Callable[[str], None]) -> None:
    """Compare the examples, where this is a checkout, and derivatives of programs of every kind."""
    from verifier.with_jax.backward_programs import programs

    for name in (*STEPS, *LLAMAS):
        if not os.path.isfile(f"{name.partition(':')[0].replace('.', os.sep)}.py"):
            found.left_out[name] = "this is no checkout"
            continue
        progress(name)
        example = functools.partial(_example, found, name, mesh)
        _tried(found, name, example)
    for name, make in programs().items():
        if name.partition("/")[0] in ROOMS:
            progress(name)
            _tried(found, name, functools.partial(_derivative, found.target, name, make))


def _example(found: Agreement, name: str, mesh: Mesh | None) -> Compared:
    return _function(name, found.target, *made_by(name), mesh or _size(found, name))


def _derivative(target: Target, name: str, make: Callable[[], Any]) -> Compared:
    from verifier.with_jax.compiling import derivative_on

    return compared(name, target, *derivative_on(target, make()))


def _tried(found: Agreement, name: str, call: Callable[[], Compared]) -> None:
    try:
        found.compared.append(call())
    except (ImportError, NoCompiler, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001  # whatever JAX, a compiler or our checker refuses is its answer
        found.left_out[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _size(found: Agreement, name: str) -> Mesh | None:
    """The mesh for an example, where its own needs more devices than a target has."""
    from verifier.with_jax.compiling import at_most

    most = at_most(found.target)
    if name in STEPS:
        return Mesh((Axis("X", min(most, 8)),)) if most < 4096 or found.target.name == CPU else None
    return None if most >= 4096 else Mesh((Axis("data", most // 2), Axis("model", 2)))


def lines(found: Agreement, beside: bool = False) -> Iterator[str]:
    """The report as text. beside: with both sides of every program."""
    yield (
        f"XLA for {found.target}, JAX {found.version}: {count(len(found.compared), 'program')} "
        f"in {found.seconds:.0f} seconds"
    )
    for stage in found.stages:
        yield from _stage(stage, found.at(stage))
    for name, problem in ((one.name, one.problem) for one in found.compared if one.problem):
        yield f"  note: {name} was partitioned, and not compiled: {problem}"
    if found.left_out:
        yield f"  left out      {len(found.left_out):>7,}  that JAX, the compiler or our checker refuses"
    shown = found.compared if beside else found.unexplained[:MOST_SHOWN]
    for one in shown:
        for stage, matching in one.stages.items():
            if beside or matching.unexplained:
                yield ""
                yield f"{one.name} on {one.mesh}, {stage}"
                yield from _beside(matching, everything=beside)


def _stage(stage: str, those: Sequence[Matching]) -> Iterator[str]:
    yield f"{stage}: {count(sum(len(_said(one)) for one in those), 'collective')} in {count(len(those), 'program')}"
    equal = [pair for one in those for pair in one.equal]
    placed = sum(pair.placed for pair in equal)
    yield f"  {'equal':<26} {len(equal):>7,}  {placed:,} of them by the line of the equation"
    classes = sum((one.classes for one in those), Counter[str]())
    for class_ in CLASSES:
        if classes[class_.name]:
            yield f"  {class_.name:<26} {classes[class_.name]:>7,}"
    yield f"  {'unexplained':<26} {sum(one.unexplained for one in those):>7,}"
    estimates = [one for matching in those for one in _said(matching) if one.exactness == ESTIMATE]
    if estimates and not classes[SEARCHED.name]:
        yield f"  {'priced by an estimate':<26} {len(estimates):>7,}"
    forms = Counter(form for matching in those for one in _moved(matching) for form in one.forms)
    if forms:
        yield f"  written as: {', '.join(f'{form} ({number:,})' for form, number in sorted(forms.items()))}"


def _said(matching: Matching) -> list[Said]:
    return [one for pair in matching.pairs for one in pair.said] + matching.said


def _moved(matching: Matching) -> list[Moved]:
    return [one for pair in matching.pairs for one in pair.moved] + matching.moved


def _beside(matching: Matching, everything: bool) -> Iterator[str]:
    """Both sides, one row for each collective that the types say, the compiled ones beside it."""
    rows: list[tuple[str, str, str]] = []
    if everything:
        for pair in sorted(matching.pairs, key=lambda pair: pair.class_ is not None):
            rows += _row(pair)
    rows += [(shown(one), "-", "unexplained") for one in matching.said]
    rows += [("-", shown(one), "unexplained") for one in matching.moved]
    heads = ("the types", "compiled", "")
    left, right = (max(len(row[side]) for row in (heads, *rows)) for side in (0, 1))
    for row in (heads, *rows):
        yield f"  {row[0]:<{left}}  {row[1]:<{right}}  {row[2]}".rstrip()


def _row(pair: Pair) -> Iterator[tuple[str, str, str]]:
    name = "" if pair.class_ is None else pair.class_.name
    most = max(len(pair.said), len(pair.moved))
    for index in range(most):
        said = shown(pair.said[index]) if index < len(pair.said) else "-"
        moved = shown(pair.moved[index]) if index < len(pair.moved) else "-"
        yield said, moved, name


def shown(one: Said | Moved) -> str:
    """A collective in one line."""
    size = "?" if one.payload is None else f"{one.payload:,}"
    loops = "".join(f" x{'?' if trips is None else trips}" for trips in one.loops)
    file, line = one.frames[0] if one.frames else ("", 0)
    place = one.where if isinstance(one, Said) and one.where else f"{os.path.basename(file)}:{line}" if file else ""
    return f"{one.kind} {','.join(one.axes)} {size}{loops}{f'  {place}' if place else ''}"


def as_data(found: Agreement) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "target": str(found.target),
        "jax": found.version,
        "stages": {
            stage: {
                "programs": len(those := found.at(stage)),
                "equal": sum(len(one.equal) for one in those),
                "same_line": sum(pair.placed for one in those for pair in one.equal),
                "classes": dict(sum((one.classes for one in those), Counter[str]())),
                "estimates": sum(one.exactness == ESTIMATE for matching in those for one in _said(matching)),
                "unexplained": sum(one.unexplained for one in those),
                "forms": dict(Counter(form for matching in those for one in _moved(matching) for form in one.forms)),
            }
            for stage in found.stages
        },
        "programs": [
            {
                "name": one.name,
                "mesh": str(one.mesh),
                **({"problem": one.problem} if one.problem else {}),
                "stages": {stage: _as_data(matching) for stage, matching in one.stages.items()},
            }
            for one in found.compared
        ],
        "left_out": found.left_out,
        "seconds": round(found.seconds, 1),
    }


def _as_data(matching: Matching) -> dict[str, Any]:
    return {
        "pairs": [
            {
                "class": None if pair.class_ is None else pair.class_.name,
                "types": [collective_as_data(one) for one in pair.said],
                "compiled": [collective_as_data(one) for one in pair.moved],
                "same_line": pair.placed,
            }
            for pair in matching.pairs
        ],
        "unexplained": {
            "types": [collective_as_data(one) for one in matching.said],
            "compiled": [collective_as_data(one) for one in matching.moved],
        },
    }


def collective_as_data(one: Said | Moved) -> dict[str, Any]:
    """A collective as plain data."""
    return {
        "kind": one.kind,
        "axes": list(one.axes),
        "bytes": one.payload,
        "times": one.times,
        "loops": list(one.loops),
        "lines": [f"{file}:{line}" for file, line in one.frames[:3]],
        **(
            {"exactness": one.exactness, "where": one.where, "value": one.value}
            if isinstance(one, Said)
            else {"forms": sorted(one.forms), "place": one.place}
        ),
    }
