"""A proposal, and everybody's word on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calculus.programs import Program
from verifier.advising.advice import advise
from verifier.advising.equality import NotRun, Original
from verifier.advising.proposals import Checks, Proposal
from verifier.advising.subjects import Subject
from verifier.advising.taken import Taken


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
    best = advise(subject.program, subject.meshes, subject.wrt, axes, taken, show=show)
    plain = advise(subject.program, subject.meshes, subject.wrt, axes, taken, plain=True, show=show)
    changed = [axis for axis, _ in (*best.steps, *plain.steps)]
    original = Original(best.program, subject.meshes, subject.wrt, changed)
    found = Proposal(subject, plain if plain.after.wire <= best.after.wire else best)
    if found.advice is best and plain.better:
        found.plain = Proposal(subject, plain)
        found.plain.checks = _checked(found.plain, original, with_jax, confirm, show)
    if found.advice.better:
        show("running both programs")
        found.checks = _checked(found, original, with_jax, confirm, show)
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
        from verifier.with_jax.advising import VERSION, says

        show("asking JAX about the proposal")
        against = says(advice.changed, subject.meshes[0], subject.results(advice.changed), advice.wrt)
        back = ", and its gradient" if advice.wrt else ""
        checks.jax = f"JAX {VERSION} takes it{back}" if not against else f"JAX {VERSION} does not take it: {against}"
    if confirm:
        show("compiling both programs")
        checks.compiled = _compiled(found, original)
    return checks


def _compiled(found: Proposal, original: Original) -> str:
    from verifier.compiled.agreement import NotCompiled
    from verifier.compiled.targets import NoCompiler
    from verifier.with_jax.advising import compiled, made_by
    from verifier.with_jax.python_values import Unwritten

    subject, advice = found.subject, found.advice

    def one(program: Program) -> str:
        seen = compiled(subject.name, program, subject.meshes[0], subject.results(program), advice.wrt)
        runs = made_by(seen)
        return f"{runs:,}" if not seen.unexplained else f"{runs:,} ({seen.unexplained} of them unexplained)"

    try:
        original.compiled = original.compiled or one(advice.program)
        return f"compiled by XLA for CPU: {original.compiled} collectives before, {one(advice.changed)} after"
    except (NotCompiled, NoCompiler, Unwritten) as error:
        return f"not compiled: {error}"
