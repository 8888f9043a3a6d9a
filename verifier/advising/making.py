"""A proposal, and everybody's word on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from calculus.loops import slice_type
from calculus.programs import Program
from calculus.types import ArrayType
from verifier.advising.advice import Price, advise, further, priced
from verifier.advising.choices import moving
from verifier.advising.equality import Counted, NotRun, Original
from verifier.advising.proposals import Checks, Proposal
from verifier.advising.subjects import Again, Subject
from verifier.advising.taken import Taken
from verifier.report import count

SECONDS: Final = 15.0
"""How long is thought about one program, of this process's own time: what is found until then is proposed."""


def propose(
    subject: Subject, axes: Sequence[str] = (), with_jax: bool = True, confirm: bool = False,
    show: Callable[[str], None] = lambda what: None,
) -> Proposal:  # fmt: skip
    """Advice about a subject. with_jax: whether the installed JAX must take what is proposed. confirm: whether XLA
    compiles both programs. Raises what `advise` raises."""
    taken = None
    if with_jax:
        from verifier.with_jax.advising import says

        mesh = subject.meshes[0]
        taken = Taken(lambda program, wrt: says(program, mesh, subject.results(program), wrt))
    started = time.process_time()
    plain = advise(
        subject.program, subject.meshes, subject.wrt, axes, taken, True, transposed=subject.transposed, show=show
    )
    best = plain
    for cut in (False, True):  # the first is quick, and finds most
        left = SECONDS - (time.process_time() - started)
        if left <= 0:
            best.proved = False
        else:
            more = advise(
                best.changed,
                subject.meshes,
                subject.wrt,
                axes,
                taken,
                cut=cut,
                transposed=subject.transposed,
                seconds=left / 2,
                show=show,
            )
            best = further(best, more)
    changed = [axis for axes, _ in best.steps for axis in axes]
    original = Original(best.program, subject.meshes, subject.wrt, changed, microbatches=subject.microbatches)
    found = Proposal(subject, plain if plain.after.wire <= best.after.wire else best)
    if found.advice is best and plain.better:
        found.plain = Proposal(subject, plain)
        found.plain.checks = _checked(found.plain, original, with_jax, confirm, show)
    if found.advice.better:
        show("running both programs")
        found.checks = _checked(found, original, with_jax, confirm, show)
    elif confirm:
        show("compiling the program")
        found.checks.compiled = _compiled(found, original)
    return found


def _checked(
    found: Proposal, original: Original, with_jax: bool, confirm: bool, show: Callable[[str], None]
) -> Checks:  # fmt: skip
    subject, advice = found.subject, found.advice
    checks = Checks()
    try:
        apart = original.difference(advice.changed)
        checks.equal = (
            f"NOT EQUAL in value: {apart}"
            if apart
            else f"equal in value, run by the reference executor on ({original.meshes[0]})"
        )
        checks.failed = bool(apart)
    except NotRun as error:
        checks.equal = f"not run by the reference executor: {error}"
    if with_jax:
        from verifier.with_jax.advising import UNKNOWN, VERSION, says

        show("asking JAX about the proposal")
        against = says(advice.changed, subject.meshes[0], subject.results(advice.changed), advice.wrt)
        back = ", and its gradient" if advice.wrt else ""
        checks.jax = (
            f"JAX {VERSION} takes it{back}" if not against
            else f"JAX {VERSION} was asked about each new equation alone: {against}" if against.startswith(UNKNOWN)
            else f"JAX {VERSION} does not take it: {against}"
        )  # fmt: skip
        if subject.again is not None and not (found.casts or found.asked or found.widened):
            show("tracing your function at these PartitionSpecs")
            checks.own = _traced(found, subject.again)
    if confirm:
        show("compiling both programs")
        checks.compiled = _compiled(found, original)
    return checks


def _traced(found: Proposal, again: Again) -> str:
    """What becomes of the author's own function, with nothing changed but the specs of its inputs."""
    subject, advice = found.subject, found.advice
    active = {subject.inputs[at] for at in advice.wrt}
    own = dict(zip(subject.inputs, advice.program.input_types, strict=True))
    types = {path: type for path, type in found.types.items() if isinstance(type, ArrayType)}
    each = subject.microbatches > 1
    try:
        report = again({path: slice_of(type) if each and path not in active else type for path, type in types.items()})
        if report.verdict != "ok" or report.source is None:
            return f"at these PartitionSpecs your function is {report.verdict}"
        price = priced(report.source.program, subject.meshes, advice.wrt)
    except Exception as error:  # noqa: BLE001  # somebody else's code, traced by somebody else's
        said = " ".join(str(error).partition("\n---")[0].split())[:200]
        return f"at these PartitionSpecs your function cannot be traced: {type(error).__name__}: {said}"
    casts = sum(moving(own[path], type, subject.meshes[0], path in active) for path, type in types.items())
    total = price.wire * subject.microbatches + casts
    same = "as priced" if abs(total - advice.after.wire) <= 1e-6 * max(total, 1) else f"NOT {advice.after.wire:,.0f}"
    return f"your function, traced at these PartitionSpecs: {total:,.0f} bytes on the wire in all, {same}"


def slice_of(type: ArrayType) -> ArrayType:
    """The type of what one microbatch takes of an input."""
    found = slice_type(type)
    assert isinstance(found, ArrayType)
    return found


def _compiled(found: Proposal, original: Original) -> str:
    """What XLA makes of both programs, or of the one that nothing cheaper is found for."""
    from verifier.compiled.agreement import NotCompiled
    from verifier.compiled.targets import NoCompiler
    from verifier.with_jax.advising import compiled, counted
    from verifier.with_jax.python_values import Unwritten

    subject, advice = found.subject, found.advice

    def one(program: Program, price: Price) -> Counted:
        seen = compiled(subject.name, program, subject.meshes[0], subject.results(program), advice.wrt)
        runs, classes = counted(seen)
        return Counted(price.runs, runs, classes, seen.unexplained)

    try:
        original.compiled = original.compiled or one(advice.program, advice.before)
        both = [original.compiled, *([one(advice.changed, advice.after)] if advice.better else [])]
    except (NotCompiled, NoCompiler, Unwritten) as error:
        return f"not compiled: {error}"
    found.checks.failed = found.checks.failed or any(one.wrong for one in both)
    first = count(both[0].compiled, "collective") + both[0].differs
    said = f"{first} before, {both[1].compiled:,}{both[1].differs} after" if advice.better else first
    priced = " and ".join(f"{one.priced:,}" for one in both)
    how = (
        f"NOT {priced}, as priced" if any(one.wrong for one in both)
        else "as priced" if all(one.compiled == one.priced for one in both)
        else f"where {priced} are priced, and these classes are the difference"
    )  # fmt: skip
    return f"compiled by XLA for CPU: {said}, {how}"
