"""Rules of one's own: what of a declaration is proved, which claims are refuted, and which sound typings it leaves out.

# gelu.py
from calculus.primitives.declaration import Primitive, same_dtype
from calculus.primitives.elementwise import aligned

def kernel(np, parameters, x):
    return x / (1 + np.exp(-1.702 * x))

PRIMITIVES = [Primitive("gelu", ("x",), "/ x", aligned, same_dtype, kernel=kernel)]
CLAIMS = ["gelu f32[4@X] -> f32[4@X]", "gelu f32[4]{U:X} -> f32[4]{U:X}"]  # optional: behaviour that is claimed
CALLS = {"gelu": ["f32[4,8]"]}     # optional: operands of a call; of one with parameters "[axis=1] f32[4,8]"
"""

from __future__ import annotations

import itertools
import re
import runpy
import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calculus.linearity import PENDING
from calculus.meshes import Axis, Mesh
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.primitives.elementwise import aligned
from calculus.programs import NO_PARAMETERS, Parameters
from calculus.refusals import Refused
from calculus.types import SHORT_NAMES, ArrayType, array_type
from grammar.read import read, read_type
from verifier.devices import numpy_dtype
from verifier.kernels import compute
from verifier.proving.blocks import counterexample
from verifier.proving.judgments import Judgment, accepted, of_declaration
from verifier.proving.magnitudes import wrong
from verifier.proving.obligations import Outcome, discharge
from verifier.proving.soundness import obligations
from verifier.proving.tried import unsound_unrefuted
from verifier.proving.watched import Watched, raised
from verifier.rules_files import BadRules, declared
from verifier.samples import Sample
from verifier.trials.executions import DimState

PROVED, REFUTED, ONE_WAY, LEFT_OUT = "proved", "refuted", "one-way", "not declared"


class Claim(NamedTuple):
    """One claimed behaviour, and what came of it. because: a sentence. blocks: of a counterexample, what devices hold,
    line by line."""

    text: str
    verdict: str
    because: str = ""
    blocks: tuple[str, ...] = ()


class _Call(NamedTuple):
    """The types of the operands, and the parameters."""

    operands: tuple[ArrayType, ...]
    parameters: Parameters

    @property
    def plain(self) -> _Call:
        """The same, of arrays that are not placed."""
        return self._replace(operands=tuple(array_type(one.dtype, one.shape) for one in self.operands))


class Proven(NamedTuple):
    """What came of one declaration. outcomes: of each typing that it allows. left_out: typings of the runs that read
    back right every time, and that it does not allow. calls: the operands of which all of this is said. failed: why
    nothing can be said of it, a sentence."""

    name: str
    outcomes: tuple[Outcome, ...]
    claims: tuple[Claim, ...]
    left_out: tuple[str, ...]
    can_run: bool
    calls: tuple[str, ...] = ()
    failed: str = ""


def prove_rules(path: Path) -> list[Proven]:
    """Each declaration of a file; of one that cannot be judged, why. Raises `BadRules` where the file says nothing."""
    primitives = declared(path)
    said = runpy.run_path(str(path))
    claims = [_parsed(path, text) for text in said.get("CLAIMS", ())]
    calls: dict[str, list[str]] = dict(said.get("CALLS", {}))
    names = {primitive.name for primitive in primitives}
    for name, *_ in claims:
        if name not in names:
            raise BadRules(f"{path}: CLAIMS speaks of {name}, which PRIMITIVES does not declare")
    found = []
    for primitive in primitives:
        own = [(call, result, text) for name, call, result, text in claims if name == primitive.name]
        shadowed = TABLE.get(primitive.name)
        kernel = None if primitive.kernel is None else Watched(primitive.name, primitive.kernel)
        TABLE[primitive.name] = watched = replace(primitive, kernel=kernel)
        try:
            found.append(_proven(path, watched, own, calls.get(primitive.name, [])))
        except BadRules as error:
            found.append(_failed(primitive, str(error)))
        except Refused as refused:
            why = f"{refused.refusal.message}: {refused.refusal.because}"
            found.append(_failed(primitive, f"{path}: {primitive.name}: {why}"))
        except Exception as error:
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
            if kernel is not None and error is kernel.failure and kernel.said:
                found.append(_failed(primitive, f"{path}: {kernel.said}"))
            elif lines:
                found.append(_failed(primitive, f"{path}:{lines[-1]}: {primitive.name} fails: {raised(error)}"))
            else:
                raise
        finally:
            if shadowed is None:
                del TABLE[primitive.name]
            else:
                TABLE[primitive.name] = shadowed
    return found


def _failed(primitive: Primitive, why: str) -> Proven:
    return Proven(primitive.name, (), (), (), primitive.kernel is not None, failed=why)


def _parsed(path: Path, text: str) -> tuple[str, _Call, ArrayType, str]:
    """A claim: whose, of which call, what comes out, and how it was written."""
    head, arrow, result = str(text).rpartition("->")
    name = re.match(r"\s*[\w-]+", head)
    call = _call(path, head[name.end() :]) if name else None
    if not arrow or name is None or call is None:
        raise BadRules(
            f"{path}: {text!r} is no claim; write one as in 'mul f32[8]{{U:X}} f32[8] -> f32[8]{{U:X}}', or, of a "
            f"call with parameters, 'scaled[factor=2.0] f32[8] -> f32[8]'"
        )
    return name.group().strip(), call, _type(path, result.strip()), str(text)


def _call(path: Path, text: str) -> _Call:
    """`[axis=1] f32[4,8] f32[8]`: the parameters as JAX prints them, if there are any, and the operands' types."""
    text, parameters = text.strip(), NO_PARAMETERS
    if text.startswith("["):
        depths = itertools.accumulate((letter in "[({") - (letter in "])}") for letter in text)
        end = next((at for at, depth in enumerate(depths, 1) if not depth), len(text))
        said, text = text[:end], text[end:]
        try:
            parameters = _parameters(said)
        except (Refused, ValueError) as error:
            why = error.refusal.message if isinstance(error, Refused) else "they are not of one call"
            raise BadRules(f"{path}: {said!r} are no parameters: {why}") from None
    return _Call(tuple(_type(path, word) for word in text.split()), parameters)


@cache
def _parameters(text: str) -> Parameters:
    """Those of one text are one object, so that calls with them are one call."""
    (equation,) = read(f"{{ lambda ; . let y:f32[] = p{text} in (y,) }}").program.equations
    return equation.parameters


def _type(path: Path, text: str) -> ArrayType:
    try:
        found = read_type(text)
    except Refused as error:
        raise BadRules(f"{path}: {text!r} is no type: {error.refusal.message}") from None
    if not isinstance(found, ArrayType):
        raise BadRules(f"{path}: {text!r} is not the type of an array")
    return found


def _proven(
    path: Path, primitive: Primitive, claims: Sequence[tuple[_Call, ArrayType, str]], calls: list[str]
) -> Proven:
    made = [_call(path, text) for text in calls] + [call.plain for call, *_ in claims]
    if not made:
        if primitive.scheme.__wrapped__ is not aligned:  # type: ignore[attr-defined]
            raise BadRules(
                f"{path}: {primitive.name} needs a call: CALLS = {{{primitive.name!r}: ['f32[4,8] f32[8]']}}"
            )
        kind = {"f": "f32", "i": "i32", "u": "u32", "b": "bool", "c": "c64"}
        dtype = next((kind[letter] for letter in primitive.accepts if letter in kind), "f32")
        made = [_Call((_type(path, f"{dtype}[4,8]"),) * len(primitive.operands), Parameters(()))]
    samples = {call: _sample(primitive, call, number) for number, call in enumerate(dict.fromkeys(made))}
    for sample in samples.values() if primitive.kernel is not None else ():
        _tried(path, primitive, sample)
    outcomes = [discharge(one) for sample in samples.values() for one in obligations(sample, primitive, run=True)]
    left_out: list[str] = []
    if primitive.kernel is not None:
        for sample in samples.values():
            left_out += unsound_unrefuted(primitive, sample, partial(_only_there, primitive, sample))[1]
    judged = tuple(
        _claim(primitive, samples[call.plain], (*call.operands, result), text, outcomes)
        for call, result, text in claims
    )
    said = tuple(dict.fromkeys(" ".join(map(str, call.operands)) for call in samples))
    runs = primitive.kernel is not None
    return Proven(primitive.name, tuple(outcomes), judged, tuple(dict.fromkeys(left_out)), runs, said)


def _tried(path: Path, primitive: Primitive, sample: Sample) -> None:
    """Raises `BadRules` where the kernel does not run on a call that the file speaks of, or makes something else of it
    than is declared. It may fail in any way."""
    values = [np.ones([int(str(size)) for size in one.shape], numpy_dtype(one.dtype)) for one in sample.operands]
    try:
        found = compute(primitive, sample.site, values)
    except Exception as error:  # noqa: BLE001  # whatever it raises, it is the file's
        help = ". What a parameter is that is printed with a point, float() reads" if len(sample.parameters) else ""
        raise BadRules(
            f"{path}: the kernel of {primitive.name} fails on {' '.join(map(str, sample.operands))}: "
            f"{raised(error)}{help}"
        ) from None
    scheme = primitive.scheme(sample.site)
    said = [
        array_type(dtype, scheme.shape(indices))
        for dtype, indices in zip(primitive.dtypes(sample.site), scheme.results, strict=True)
    ]
    made = [array_type(SHORT_NAMES.get(one.dtype.name, "?"), one.shape) for one in found]
    if [(one.dtype_class, one.shape) for one in made] != [(one.dtype_class, one.shape) for one in said]:
        raise BadRules(
            f"{path}: the kernel of {primitive.name} makes {', '.join(map(str, made))} of "
            f"{' '.join(map(str, sample.operands))}, and the declaration says {', '.join(map(str, said))}"
        )


def _only_there(primitive: Primitive, sample: Sample, number: int, given: Sequence[DimState], state: DimState) -> bool:
    """Whether what reads back right of small numbers reads back wrong at some magnitude."""
    return bool(wrong(primitive, sample, number, given, state))


def _sample(primitive: Primitive, call: _Call, number: int) -> Sample:
    kind = call.operands[0].dtype_class if call.operands else "f"
    ranges = (None,) * len(call.operands)
    return Sample(primitive.name, call.operands, call.parameters, (None,), ranges, kind, number)


def _claim(
    primitive: Primitive, sample: Sample, types: Sequence[ArrayType], text: str, outcomes: Sequence[Outcome]
) -> Claim:
    operands, result = types[:-1], types[-1]
    axes = sorted({axis for one in types for dim in one.axes for axis in dim} | {
        axis for one in types for axis in (*one.unreduced, *one.reduced)
    })  # fmt: skip
    mesh = Mesh([Axis(axis, 2) for axis in axes] or [Axis("X", 2)])
    if primitive.kernel is not None and (said := counterexample(primitive, sample.site, operands, result, mesh)):
        return Claim(text, REFUTED, said[0], said[1:])
    scheme, q = of_declaration(primitive, sample, 0)
    allowed = {(one.given, one.result) for one in accepted(sample, 0, primitive)}
    start = f"soundness.{sample}."
    refuted = {one.obligation.name.removeprefix(start): one for one in outcomes if one.blocks}
    proved = {one.obligation.name.removeprefix(start) for one in outcomes if one.holds}
    for axis in axes:
        given = tuple(_state(scheme.operands[at], one, axis) for at, one in enumerate(operands))
        target = _state(scheme.results[0], result, axis)
        plain = tuple("C" if state in ("N", "R") else state for state in given)
        ours = "C" if target in ("N", "R") else target
        if (plain, ours) not in allowed:
            return Claim(text, LEFT_OUT, f"along {axis} it does not follow from the declaration; no run refutes it")
        if no := refuted.get(str(Judgment(plain, ours, 1))):
            return Claim(text, REFUTED, no.blocks[0], no.blocks[1:])
        if str(Judgment(plain, ours, 1)) not in proved:
            return Claim(text, LEFT_OUT, f"along {axis} nothing was proved")
        if not q.contains(given, target):
            return Claim(text, ONE_WAY, f"along {axis} it is right forward, and its transpose would communicate")
    return Claim(text, PROVED)


def _state(indices: Any, type: ArrayType, axis: str) -> Any:
    state = type.state(axis)
    if state == "U":
        return PENDING[type.kind]
    if state == "S":
        (dim,) = (dim for dim, axes in enumerate(type.axes) if axis in axes)
        return ("S", indices[dim][0] if indices[dim] else -1)
    return state
