"""One primitive, for the author of its rule: what an importable JAX types, held against what follows of a declaration.

The declaration is the table's, or that of a file, or proposed from a numpy function. What JAX accepts and does not
follow is wrong; what follows and JAX refuses is missing; what it accepts has a transpose that types, or not.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from calculus.forms import FORMS
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.refusals import Refused
from calculus.types import ArrayType, array_type
from grammar.read import read_type
from verifier.audit import prepare_devices
from verifier.cells import Cell, cells, our_verdict
from verifier.counterexamples import counterexample
from verifier.ledger import Entry, ledger
from verifier.matrix import MESHES, applies
from verifier.patterns import Difference, agree
from verifier.report import count

if TYPE_CHECKING:
    from verifier.with_jax.probe import Traced

Progress = Callable[[str], None]

ALONE: Final = 500
BESIDE: Final = 80
"""The most cells of one call on a mesh of one axis, and of two."""

WRONG, MISSING, BACKWARD, RUNS = "wrong", "missing", "does not transpose", "runs wrong"
MEANS: Final = {
    WRONG: "JAX accepts, and it does not follow",
    MISSING: "it follows, and JAX refuses",
    BACKWARD: "JAX types it forward, and not backward",
    RUNS: "it is typed right, and does not run right on devices",
}


class Unusable(ValueError):
    """What the author names cannot be used. The message says why, and what to do."""


class Asked(NamedTuple):
    """What the author names: a primitive as `module:name`, and of its declaration and sample call what is not known."""

    name: str
    declaration: Path | None = None
    kernel: str | None = None
    operands: str | None = None
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One cell. kind: of `MEANS`. ours, theirs: the verdicts. numbers: a counterexample, where one is found. target,
    operands, mode: for a test."""

    kind: str
    cell: str
    mesh: str
    ours: str
    theirs: str
    numbers: str = ""
    operands: tuple[str, ...] = ()


@dataclass
class Found:
    """What is found of one primitive. elsewhere: cells on which no rule can say anything, by an entry of the ledger.
    proposed: whether the declaration was; undecided: cells of which it then says nothing. ran: cells and gradients that
    ran on devices, `None` where none was to; idle: why none did."""

    name: str
    primitive: str
    jax: str
    declaration: str
    compared: int = 0
    agreed: int = 0
    elsewhere: int = 0
    transposed: int = 0
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    since: str = ""
    repaired: int = 0
    proposed: bool = False
    undecided: int = 0
    ran: int | None = None
    idle: str = ""

    @property
    def clean(self) -> bool:
        """Whether nothing is found."""
        return not self.findings

    def only_since(self, before: Sequence[str], revision: str) -> None:
        """Leave out what an earlier run found too."""
        now = {_identity(one) for one in self.findings}
        self.findings = [one for one in self.findings if _identity(one) not in set(before)]
        self.since, self.repaired = revision, len(set(before) - now)

    def as_data(self) -> dict[str, Any]:
        """As plain data for `--json`."""
        return {
            "primitive": self.name,
            "jax": self.jax,
            "declaration": self.declaration,
            "cells": self.compared,
            "agree": self.agreed,
            "elsewhere": self.elsewhere,
            "undecided": self.undecided,
            "ran": self.ran,
            "transposed": self.transposed,
            "since": self.since,
            "repaired": self.repaired,
            "seconds": round(self.seconds, 1),
            "findings": [{**vars(one), "identity": _identity(one)} for one in self.findings],
        }


def _identity(one: Finding) -> str:
    return f"{one.kind}: {one.cell} on {one.mesh}"


def examine(asked: Asked, run: bool = False, progress: Progress = lambda what: None) -> Found:
    """Hold one primitive's rule against its declaration. Opens the door to JAX. Raises `Unusable`, `BadRules`."""
    if run:
        prepare_devices()
    try:
        from verifier.with_jax import own_primitive, probe
    except ImportError:
        raise
    except Exception as error:  # of a JAX that somebody is at work on
        last = traceback.extract_tb(error.__traceback__)[-1]
        says = f"{last.filename}:{last.lineno}: {type(error).__name__}: {error}"
        raise Unusable(f"JAX cannot be imported: {says}") from error

    started = time.monotonic()
    try:
        primitive = own_primitive.resolve(asked.name)
        given, parameters = _call(asked)
        declaration, source = _declaration(asked, primitive.name, given)
        operands = given
        _arity_fits(primitive.name, declaration or TABLE.get(primitive.name), given)
        if not operands and declaration is not None and primitive.name not in TABLE:
            operands = [array_type("f32", (8, 8)) for _ in declaration.operands]
        calls = own_primitive.calls(primitive, operands, parameters)
    except own_primitive.NotFound as error:
        raise Unusable(str(error)) from error
    found = Found(asked.name, primitive.name, own_primitive.where(), source, ran=0 if run else None)
    found.proposed = asked.kernel is not None
    with _declared(primitive.name, declaration):
        for call in calls:
            for mesh in MESHES:
                if applies(call.call.axes, call.call.asked, mesh) and probe.reaches(mesh):
                    progress(f"{call.call.name} on {mesh}")
                    _compare(call, mesh, found, run)
    found.seconds = time.monotonic() - started
    return found


def _call(asked: Asked) -> tuple[list[ArrayType], dict[str, Any]]:
    given: list[ArrayType] = []
    for text in (asked.operands or "").split():
        try:
            type = read_type(text)
        except Refused as refused:
            raise Unusable(f"--operands {text}: {refused.refusal.message}") from refused
        if not isinstance(type, ArrayType) or type != array_type(type.dtype, type.shape):
            raise Unusable(f"--operands {text}: name arrays without shardings, as f32[8,8]; all states are tried")
        if not all(isinstance(size, int) for size in type.shape):
            raise Unusable(f"--operands {text}: give its dims sizes, as f32[8,8]")
        given.append(type)
    parameters = {}
    for text in asked.parameters:
        name, _, value = map(str.strip, text.partition("="))
        if name in parameters:
            raise Unusable(f"--parameter {text}: {name} is given twice")
        try:
            parameters[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise Unusable(f"--parameter {text}: write NAME=VALUE with a Python literal, as axis=0") from None
        if not name.isidentifier():
            raise Unusable(f"--parameter {text}: {name!r} is no name of a parameter")
    return given, parameters


def _arity_fits(name: str, declaration: Primitive | None, given: Sequence[ArrayType]) -> None:
    """Whether as many operands are given as are declared; where a number is declared."""
    takes = declaration.operands if declaration is not None else ()
    if given and takes and not any(one.endswith("...") for one in takes) and len(given) != len(takes):
        raise Unusable(
            f"--operands names {count(len(given), 'type')}, and {name} takes {len(takes)}: {', '.join(takes)}"
        )


def _declaration(asked: Asked, name: str, given: Sequence[ArrayType]) -> tuple[Primitive | None, str]:
    """The declaration, and where it is from; `None` where it is the table's, or a form's."""
    from verifier.proposing import NoProposal, propose
    from verifier.rules_files import declared
    from verifier.with_jax import own_primitive

    if asked.declaration is not None:
        written = declared(asked.declaration)
        chosen = [one for one in written if one.name == name] or (written if len(written) == 1 else [])
        if not chosen:
            raise Unusable(f"{asked.declaration} declares {', '.join(one.name for one in written)}, and no {name}")
        return replace(chosen[0], name=name), str(asked.declaration)
    if asked.kernel is not None:
        function = own_primitive.function(asked.kernel)
        types = list(given) or [array_type("f32", (8, 8)) for _ in range(_arity(function))]
        try:
            made = propose(name, function, types)
        except NoProposal as error:
            raise Unusable(str(error)) from error
        return made, f"proposed from {asked.kernel} by sampling: elementwise, {made.linearity!r}"
    if name in TABLE or name in FORMS:
        return None, "the table's"
    raise Unusable(
        f"the table declares no {name}: give a file with --declaration, or a numpy function with --kernel MODULE:NAME"
    )


def _arity(function: Callable[..., Any]) -> int:
    import inspect

    try:
        return len([one for one in inspect.signature(function).parameters.values() if one.default is one.empty])
    except (TypeError, ValueError):
        return int(getattr(function, "nin", 1))


@contextlib.contextmanager
def _declared(name: str, declaration: Primitive | None) -> Iterator[None]:
    """The table with this declaration in it."""
    before = TABLE.get(name)
    if declaration is not None:
        TABLE[name] = declaration
    try:
        yield
    finally:
        if declaration is not None:
            TABLE.pop(name, None)
            if before is not None:
                TABLE[name] = before


def _of_a_maximum(cell: Cell) -> bool:
    """Whether a maximum or minimum is pending in a cell: a proposal says nothing of them."""
    return any(type.unreduced and type.kind != "sum" for type in cell.operands)


def of_every_rule() -> list[Entry]:
    """Entries about what no rule of one primitive can help: partially manual regions."""
    return [entry for entry in ledger() if entry.patterns and all(one.mode == "partial" for one in entry.patterns)]


def _compare(call: Traced, mesh: Any, found: Found, run: bool) -> None:
    from verifier.with_jax import on_devices, own_primitive, probe

    chosen = cells(call.call, mesh, probe.KINDS, ALONE if len(mesh.axes) == 1 else BESIDE)
    theirs = probe.evaluate(call, chosen, mesh)
    equations = probe.equations(call, chosen, mesh)
    alike = []
    for cell, verdict, equation in zip(chosen, theirs, equations, strict=True):
        ours = our_verdict(call.call, equation, cell, verdict, mesh)
        if ours.refusal is not None and ours.refusal.code.startswith("unmodelled"):
            continue
        found.compared += 1
        if agree(ours, verdict):
            found.agreed += 1
            alike.append((cell, verdict))
            continue
        if any(entry.covers(Difference(call.call, mesh, cell, ours, verdict)) for entry in of_every_rule()):
            found.elsewhere += 1
            continue
        kind = MISSING if verdict.types is None else WRONG
        numbers = counterexample(equation, cell, verdict.types, mesh) if verdict.types is not None else ""
        if kind == WRONG and not numbers and found.proposed and _of_a_maximum(cell):
            found.undecided += 1
            continue
        said = f"{call.call.name} {cell}"
        found.findings.append(
            Finding(kind, said, str(mesh), str(ours), str(verdict), numbers, tuple(map(str, cell.operands)))
        )
    explicit = all(axis.mode.value == "explicit" for axis in mesh.axes)
    if explicit and len(mesh.axes) == 1 and alike:
        of, verdicts = [cell for cell, _ in alike], [verdict for _, verdict in alike]
        bad = {one.cell: one for one in own_primitive.untransposed(call, of, verdicts, mesh)}
        found.transposed += sum(verdict.types is not None for verdict in verdicts) - len(bad)
        for cell, verdict in alike:
            if cell in bad:
                said, operands = f"{call.call.name} {cell}", tuple(map(str, cell.operands))
                found.findings.append(
                    Finding(BACKWARD, said, str(mesh), str(verdict), bad[cell].says, operands=operands)
                )
    if run and len(mesh.axes) == 1 and on_devices.enough(mesh):
        of, verdicts = [cell for cell, _ in alike], [verdict for _, verdict in alike]
        ran = [
            *on_devices.run(call, of, verdicts, mesh),
            *(on_devices.run(call, of, verdicts, mesh, pulled=True) if explicit else ()),
        ]
        found.ran = (found.ran or 0) + len(ran)
        found.idle = found.idle or ("" if ran else on_devices.why_not(call, mesh))
        for one in ran:
            if not one.right:
                said, operands = f"{call.call.name} {one.cell}", tuple(map(str, one.cell.operands))
                found.findings.append(Finding(RUNS, said, str(mesh), str(one.verdict), one.says, operands=operands))


def checkout(revision: str) -> tuple[Path, str]:
    """The package of the JAX that is asked, and the git checkout that it lies in. Raises `Unusable` where it lies in
    none, or the revision is not there."""
    spec = importlib.util.find_spec("jax")
    if spec is None or spec.origin is None:
        raise ImportError("no module named jax")
    package = Path(spec.origin).parent
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py") is not None  # not an environment inside one
    root = _git(package, "rev-parse", "--show-toplevel") if tracked else None
    if root is None:
        raise Unusable(f"--since needs JAX from a git checkout; {package} is none")
    if (
        revision.startswith("-")
        or _git(Path(root), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is None
    ):
        raise Unusable(f"--since {revision}: there is no such revision in {root}")
    return package, root


def at_revision(asked: Asked, revision: str, progress: Progress = lambda what: None) -> list[str]:
    """What the same run finds in JAX at a git revision of the checkout that is imported. Raises `Unusable` where JAX is
    not imported from a checkout, or the revision is not there."""
    package, root = checkout(revision)
    progress(f"the same in {revision}")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "jax"
        if _git(Path(root), "worktree", "add", "--detach", str(tree), revision) is None:
            raise Unusable(f"--since {revision}: there is no such revision in {root}")
        try:
            relative = package.resolve().parent.relative_to(Path(root).resolve())
            paths = [str(tree / relative), str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
            run = subprocess.run(
                [sys.executable, "-m", "verifier", "audit", "--json", *_arguments(asked)],
                check=False, capture_output=True, text=True, env=environment,
            )  # fmt: skip
        finally:
            _git(Path(root), "worktree", "remove", "--force", str(tree))
    try:
        return [one["identity"] for one in json.loads(run.stdout)["findings"]]
    except (ValueError, KeyError) as error:
        raise Unusable(f"--since {revision}: the audit does not run there: {run.stderr.strip()[-300:]}") from error


def _arguments(asked: Asked) -> list[str]:
    found = ["--primitive", asked.name]
    for option, value in (
        ("--declaration", asked.declaration),
        ("--kernel", asked.kernel),
        ("--operands", asked.operands),
    ):
        found += [option, str(value)] if value is not None else []
    return found + [part for text in asked.parameters for part in ("--parameter", text)]


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says; `None` where it fails."""
    try:
        run = subprocess.run(["git", "-C", str(folder), *arguments], check=False, capture_output=True, text=True)
    except OSError:
        return None
    return run.stdout.strip() if run.returncode == 0 else None
