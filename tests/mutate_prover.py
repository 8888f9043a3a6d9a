"""Wrong rules, and who sees them: the prover, or else a law.

    python -m tests.mutate_prover [names...]     (make mutate-prover)

* *Declarations*, as `tests/mutate.py` makes them: linearity marks, joins, roles of factors. Of what a wrong one says
  otherwise the prover is asked: a typing that it newly allows has to be proved, and one that it refuses must not be.
* *Transposes* that are written into declarations, with the sign of each turned.
* *Rows* of per-device code: reduced and replicated exchanged, a collective lost, added or another one, another
  transpose. *The cotangent map*: other maps of the states.

Who sees it is counted: *solver*, a query that is refuted, or proved of what is refused; *run*, the prover's own runs
and bounded checks, where it rests on declared properties or is refused; *reading*, it contradicts itself, or its
definition; *law*, only a law of `tests/laws`, or what
tests/spec says. What nothing sees is listed, and makes the exit status 1.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from calculus import cotangents
from calculus.collectives import COLLECTIVES, Row
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site
from calculus.refusals import Refused
from calculus.schemes import Scheme
from tests import mutate
from tests.laws.test_collectives_against_jax import unexplained
from tests.spec.document import read_document
from tests.spec.engines import run_section
from verifier import solver
from verifier.proving.judgments import Judgment, accepted
from verifier.proving.obligations import DEFINITION, OPEN, REFUTED, Obligation, discharge
from verifier.proving.setting import PIECES
from verifier.proving.soundness import judged, shown
from verifier.proving.tried import objection, reads_back_right
from verifier.samples import Sample, samples
from verifier.solver import IllSorted, decide
from verifier.theorems import THEOREMS, transposes
from verifier.trials.cases import runs

_SPEC: Final = Path(__file__).parent / "spec"
MANY: Final = 100
FEW: Final = 4
"""Of more refused typings of one call than this, so few are tried to be proved."""
WORK: Final = 300_000
"""What a query about a wrong declaration may cost: more than any that is right. What the solver does not know then is
not shown, but run."""
SOLVER, RUN, READING, LAW, NOBODY = "solver", "run", "reading", "law", "nobody"


class Seen(NamedTuple):
    """A mutant, who saw it, and what was said."""

    what: str
    by: str
    says: str = ""


# declarations


@cache
def _accepted(name: str, sample: Sample, number: int) -> frozenset[Judgment]:
    return frozenset(accepted(sample, number, TABLE[name]))


def declaration(mutant: mutate.Mutant) -> Seen:
    """Who sees a wrong declaration."""
    what = f"{mutant.primitive.name}: {mutant.what}"
    try:
        found = list(_refuted(mutant.primitive, [mutant.sample] if mutant.sample else samples(mutant.primitive.name)))
    except (ValueError, Refused) as error:  # it contradicts itself
        return Seen(what, READING, str(error))
    for by in (SOLVER, RUN, READING):
        for one, says in found:
            if one == by:
                return Seen(what, by, says)
    return Seen(what, LAW if mutate.objects(mutant) else NOBODY)


def _refuted(primitive: Primitive, calls: Sequence[Sample]) -> Iterator[tuple[str, str]]:
    """What the prover objects to, where the declaration says something else than the table's: the solver's objection
    ends it."""
    missing: list[tuple[Sample, int, Judgment]] = []
    for sample in calls:
        for number in range(len(primitive.scheme(sample.site).results)):
            said, true = frozenset(accepted(sample, number, primitive)), _accepted(primitive.name, sample, number)
            for judgment in sorted(said - true, key=str):
                one = Obligation(f"{sample}.{judgment}", "soundness", str(judgment))
                outcome = discharge(replace(judged(one, primitive, sample, number, judgment), blocks=tuple))
                if outcome.status == REFUTED:
                    asked = [answer.proved for _, answer in outcome.answers]
                    by = READING if not asked else RUN if all(asked) else SOLVER
                    yield by, f"{sample} takes {judgment}: {outcome.objection}"
                    if by == SOLVER:
                        return
                if outcome.status == OPEN and runs(sample) and objection(primitive, sample, number, judgment):
                    yield RUN, f"{sample} takes {judgment}, which the solver cannot show, and a run refutes"
                    return
            refused = sorted(true - said, key=str)
            missing += [(sample, number, judgment) for judgment in refused]
            for judgment in refused[: FEW if len(refused) > MANY else None]:
                if _provable(primitive, sample, number, judgment):
                    yield SOLVER, f"{sample} refuses {judgment}, which is proved"
                    return
    for sample, number, judgment in missing:
        if runs(sample) and _reads_back_right(primitive.name, sample, number, judgment):
            yield RUN, f"{sample} refuses {judgment}, which no run refutes"
            return


@cache
def _reads_back_right(name: str, sample: Sample, number: int, judgment: Judgment) -> bool:
    return reads_back_right(TABLE[name], sample, number, judgment)


def _provable(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> bool:
    """Whether a judgment follows from what the kernel computes, and from nothing that is declared of it: of what is cut
    the role is not believed."""
    scheme = primitive.scheme(sample.site)
    roles = {factor: role for factor, role in scheme.roles.items() if factor != judgment.cut}
    pending = PIECES.get(judgment.result) if isinstance(judgment.result, str) else None
    schemes = [scheme]
    if judgment.cut is not None:
        freed = {**roles, judgment.cut: pending} if pending else roles
        schemes.append(Scheme(scheme.operands, scheme.results, scheme.sizes, freed, scheme.along, scheme.accumulator))
    for one in schemes:
        try:
            found = shown(replace(primitive, scheme=partial(_constant, one)), sample, number, judgment)
        except (IllSorted, TypeError, ValueError, KeyError):
            continue
        if found.basis == DEFINITION and found.queries and all(decide(query).proved for query in found.queries):
            return True
    return False


def _constant(scheme: Scheme, site: Site) -> Scheme:
    return scheme


def declarations(name: str) -> list[Seen]:
    """Of all wrong declarations of one primitive."""
    vars(solver)["WORK"] = WORK
    return [declaration(mutant) for mutant in mutate.mutants(name)]


# written transposes


def _signs(text: str) -> list[str]:
    """A row with the sign of one of its formulas turned, for each of them."""
    parts = [part.strip() for part in text.split(";")]
    found = []
    for at, part in enumerate(parts):
        if re.match(r"\w+ *=[^=]", part) or not part:
            continue
        name, colon, formula = part.partition(":") if re.match(r"\w+ *:", part) else ("", "", part)
        if formula.strip() != "0":
            found.append("; ".join([*parts[:at], f"{name}{colon} -({formula.strip()})", *parts[at + 1 :]]))
    return found


def _turned(primitive: Primitive, which: int) -> Primitive:
    row = primitive.adjoint

    def adjoint(site: Site, position: int) -> str:
        text = row(site, position) if callable(row) else row
        signs = _signs(text)
        return signs[which] if which < len(signs) else text

    return replace(primitive, adjoint=adjoint)


@contextmanager
def _declared(primitive: Primitive) -> Iterator[None]:
    true = TABLE[primitive.name]
    TABLE[primitive.name] = primitive
    transposes._derived.cache_clear()
    try:
        yield
    finally:
        TABLE[primitive.name] = true
        transposes._derived.cache_clear()


def signs(name: str) -> list[Seen]:
    """Of all written transposes of one primitive, each with its sign turned."""
    primitive, calls = TABLE[name], transposes.linear_samples().get(name, ())
    most = 0
    for sample in calls:
        for position, _ in primitive.read(sample.site).linear_operands():
            row = primitive.adjoint
            most = max(most, len(_signs(row(sample.site, position) if callable(row) else row)))
    found = []
    for which in range(most):
        with _declared(_turned(primitive, which)):
            check = transposes.entries_disagree if name in transposes.ALONE else transposes.disagreement
            said = next(filter(None, map(check, calls)), "")
        found.append(Seen(f"{name}: the sign of its transpose {which}", RUN if said else NOBODY, said))
    return found


# rows, and the cotangent map


def _rows() -> Iterator[tuple[str, Row]]:
    """Every row of per-device code that adds or moves, wrong in every way."""
    other = {"N": "R", "R": "N"}
    kinds = sorted({row.kind for row in COLLECTIVES.values()})
    for name, row in COLLECTIVES.items():
        if not row.before or row.future:
            continue
        if row.before in other:
            yield f"{name}: before {row.before} -> {other[row.before]}", row._replace(before=other[row.before])
        if row.after in other:
            yield f"{name}: after {row.after} -> {other[row.after]}", row._replace(after=other[row.after])
        if row.joined == "sum":
            for kind in kinds:
                if kind != row.kind:
                    yield f"{name}: {row.kind or 'free'} -> {kind or 'free'}", row._replace(kind=kind)
            for transpose in dict.fromkeys(each.transpose for each in COLLECTIVES.values()):
                if row.transpose and transpose and _differ(transpose, row.transpose):
                    yield f"{name}: transpose {row.transpose} -> {transpose}", row._replace(transpose=transpose)


def _differ(one: str, other: str) -> bool:
    """Whether two rows do something else: some are one row by two names."""
    return COLLECTIVES[one]._replace(transpose="") != COLLECTIVES[other]._replace(transpose="")


_MAPS: Final = {
    f"cotangents: {', '.join(f'{a} -> {b}' for a, b in swapped.items()) or 'nothing is exchanged'}": swapped
    for swapped in (
        {},
        {"N": "U", "U": "N"},
        {"N": "R", "R": "N"},
        {"R": "U"},
        {"U": "R"},
        {"R": "U", "U": "R", "N": "R"},
        {"R": "U", "U": "N", "N": "R"},
    )
}
"""Other maps of the states, that leave what is sharded where it is."""

_OF_RULES: Final = ("adjointness", "modes", "cotangents", "communication", "reshards", "fan_out", "relation")
"""The theorems that speak of rows and of the map."""


def rules() -> list[str]:
    """The names of all wrong rows and maps."""
    return [what for what, _ in _rows()] + list(_MAPS)


def rule(what: str) -> Seen:
    """Who sees a wrong row, or a wrong map. To be run in a process of its own: what was found out before stays."""
    name = what.partition(":")[0]
    if what in _MAPS:
        cotangents._SWAPPED.clear()
        cotangents._SWAPPED.update(_MAPS[what])
    else:
        COLLECTIVES[name] = dict(_rows())[what]
    for theorem in sorted(THEOREMS, key=lambda one: _OF_RULES.index(one.name) if one.name in _OF_RULES else -1):
        if theorem.name not in _OF_RULES:
            continue
        try:
            for one in theorem.obligations():
                if one.name.startswith(("adjointness.of.", "adjointness.programs", "relation.iterated")):
                    continue
                outcome = discharge(one)
                if not outcome.holds:
                    by = SOLVER if any(not answer.proved for _, answer in outcome.answers) else RUN
                    return Seen(what, by, f"{one.name}: {outcome.objection}")
        except (ValueError, KeyError, Refused, AssertionError) as error:
            return Seen(what, RUN, f"{theorem.name}: {error!r}")
    return Seen(what, LAW if what not in _MAPS and (unexplained(name) or _misdocumented(name)) else NOBODY)


def _misdocumented(name: str) -> bool:
    """Whether what tests/spec says of programs that use a row, what they send for one, is not so."""
    sections = [section for path in sorted(_SPEC.glob("*.md")) for section in read_document(path)]
    about = [one for one in sections if any(name in block.text for block in one.blocks)]
    return any(run_section(one).problems for one in about)


# the score

_GROUPS: Final[dict[str, tuple[Callable[[], list[str]], Callable[[str], list[Seen]]]]] = {
    "declarations": (lambda: list(TABLE), declarations),
    "transposes": (lambda: [name for name in transposes.linear_samples() if TABLE[name].adjoint], signs),
    "rules": (rules, lambda what: [rule(what)]),
}


def everything(tasks: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], list[Seen]]]:
    """Of all tasks. A rule that was changed stays so in its process, which ends with it."""
    of_rules = [task for task in tasks if task[0] == "rules"]
    context = get_context("forkserver")  # JAX has threads, which a fork of this process would lose
    context.set_forkserver_preload(["tests.mutate_prover"])
    with context.Pool(2, maxtasksperchild=1) as alone:
        yield from zip(of_rules, alone.imap(_of, of_rules), strict=True)
    others = [task for task in tasks if task[0] != "rules"]
    with ProcessPoolExecutor(2) as pool:
        yield from zip(others, pool.map(_of, others), strict=True)


def _of(task: tuple[str, str]) -> list[Seen]:
    return _GROUPS[task[0]][1](task[1])


def main(names: list[str]) -> int:
    """Print who saw how many, and what nobody saw. names: primitives, or rows."""
    start = time.perf_counter()
    tasks = [(group, name) for group, (all_of, _) in _GROUPS.items() for name in all_of()]
    tasks = [task for task in tasks if not names or task[1].partition(":")[0] in names]
    counts: dict[str, Counter[str]] = {group: Counter() for group in _GROUPS}
    by_law: Counter[str] = Counter()
    alive: list[str] = []
    for done, (task, found) in enumerate(everything(tasks), 1):
        for one in found:
            counts[task[0]][one.by] += 1
            by_law[_kind(one.what)] += one.by == LAW
            alive += [f"{one.what} {one.says}"] if one.by == NOBODY else []
        said = ", ".join(f"{count} {by}" for by, count in Counter(one.by for one in found).items())
        print(f"{done} of {len(tasks)}: {task[1]}: {said or 'nothing to change'}", flush=True)
    for group, count in counts.items():
        total, prover = sum(count.values()), count[SOLVER] + count[RUN] + count[READING]
        if total:
            print(
                f"{group}: {total} wrong ones; the prover refutes {prover} ({_percent(prover, total)}): "
                f"{count[SOLVER]} by the solver, {count[RUN]} by runs, {count[READING]} in reading; "
                f"{count[LAW]} are seen by a law alone, {count[NOBODY]} by nothing"
            )
    print("seen by a law alone:", *(f"{count} {kind}" for kind, count in by_law.most_common() if count), sep="\n    ")
    print("seen by nothing:", *(alive or ["none"]), sep="\n    ")
    print(f"{time.perf_counter() - start:.0f} s")
    return int(bool(alive))


def _kind(what: str) -> str:
    """What kind of change it is, without names and numbers."""
    return re.sub(r"\d+", "k", re.sub(r"factor (\d+) of .*?: ", "factor: ", what.partition(": ")[2]))


def _percent(part: int, total: int) -> str:
    return f"{math.floor(1000 * part / total) / 10} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
