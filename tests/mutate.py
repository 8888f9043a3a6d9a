"""Wrong declarations: each line of the table is changed in every way there is, one at a time, and some law must object.

    python -m tests.mutate [names...]     (make mutate)

* Each operand moves to every other place of the linearity signature: alone, jointly with a group, nonlinear, without a
  derivative.
* Each join is dropped, turned round, or kept for one kind only; each operand that has none gets one.
* Each factor of the index scheme gets every other role.

The laws run on the one declaration that was changed, and only on what it says otherwise than the true one: local
soundness in these states of these calls, derivatives, monoids; the first objection ends it. A mutant that says the same
as the declaration in every sample call is none, and is not counted: two signatures are compared by what they say (their
groups as sets, and what every set of pending operands commutes into, but for complex numbers, which have no order). A
factor that two devices cannot cut in the sample is not mutated there, nor is the minor part of a grouped dim, which is
cut only where the parts before it are cut entirely. Of what leaves, `whole` and no role are one, and so is a role that
is no monoid. No line of the table is left out: what has no kernel, JAX computes. Exit status 1 where a mutant survives.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import tests.laws.drawn  # noqa: F401  (JAX computes what keys are for)
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site
from calculus.refusals import Refused
from calculus.schemes import Scheme
from calculus.signatures import Join, Signature
from calculus.types import dtype_class
from tests.laws.test_derivatives import wrong
from tests.laws.test_local import differences
from tests.laws.test_monoids import unlike
from verifier.samples import Sample, samples
from verifier.trials.cases import DRAWN, RUN
from verifier.trials.executions import combinations

ROLES: Final = ("", "whole", "sum", "max", "min", "prod", "and", "or", "xor")


class Mutant(NamedTuple):
    """A changed declaration, and what was changed. sample: the one call that it is changed for, or `None` for all."""

    primitive: Primitive
    what: str
    sample: Sample | None = None


_RUN: Final = frozenset([*RUN, *DRAWN])


@cache
def _samples(name: str) -> tuple[Sample, ...]:
    """The sample calls, those whose laws are quickly run first."""
    return tuple(sorted(samples(name), key=lambda sample: len(combinations(sample))))


def objects(mutant: Mutant) -> bool:
    """Whether some law objects, of what the declaration says otherwise."""
    primitive, only = mutant.primitive, mutant.sample
    true = TABLE[primitive.name]
    try:
        for sample in [only] if only else _samples(primitive.name):
            if sample in _RUN and (any(differences(primitive, sample, true)) or (only and unlike(primitive, sample))):
                return True
        return not only and bool(wrong(primitive))
    except (ValueError, Refused):  # a declaration that cannot be read, or cannot be true
        return True


def mutants(name: str) -> Iterator[Mutant]:
    """Every wrong declaration of one primitive."""
    yield from _signatures(TABLE[name])
    yield from _joins(TABLE[name])
    yield from _roles(TABLE[name])


def _differ(primitive: Primitive, other: Primitive) -> bool:
    """Whether two declarations of linearity and joins say something else in some sample call."""
    return any(_said_of(primitive.name, sample) != _said(other, sample) for sample in _samples(primitive.name))


@cache
def _said_of(name: str, sample: Sample) -> object:
    return _said(TABLE[name], sample)


def _said(primitive: Primitive, sample: Sample) -> object:
    found = []
    for number in range(len(primitive.scheme(sample.site).results)):
        one = primitive.read(sample.site._replace(number=number))
        places = range(one.arity)
        sets = [set(several) for count in places for several in itertools.combinations(places, count + 1)]
        joined = [frozenset(one.joined(several, kind)) for several in sets for kind in ("max", "min")]
        groups = {frozenset(group) for group in one.groups}
        classes = {dtype_class(dtype) for dtype in (*primitive.dtypes(sample.site), *sample.site.dtypes) if dtype}
        found.append((groups, set(one.nonlinear), set(one.index), "c" not in classes and joined))
    return found


def _most(primitive: Primitive, count: Callable[[Signature], int]) -> int:
    return max(count(primitive.read(sample.site)) for sample in _samples(primitive.name))


def _signatures(primitive: Primitive) -> Iterator[Mutant]:
    for position in range(_most(primitive, lambda found: found.arity)):
        for place in (*range(_most(primitive, lambda found: len(found.groups))), "alone", "/", ";"):
            changed = _changed(primitive, _moved(position, place))
            if _differ(primitive, changed):
                yield Mutant(changed, f"operand {position} -> {place if isinstance(place, str) else f'group {place}'}")


def _changed(primitive: Primitive, change: Callable[[Signature], Signature]) -> Primitive:
    """The declaration whose signatures are changed so, written out again."""
    return replace(
        primitive,
        linearity=lambda site: _text(change(primitive.read(site))),
        joins=lambda site: " | ".join(
            _join(change(primitive.read(site)), join) for join in change(primitive.read(site)).joins
        ),
    )


def _text(found: Signature) -> str:
    def named(positions: Iterable[int]) -> str:
        return " ".join(found.names[one] for one in positions)

    linear = " | ".join(named(group) for group in found.groups if group)
    return f"{linear} / {named(found.nonlinear)} ; {named(found.index)} ~ {named(found.unseen)}"


def _join(found: Signature, join: Join) -> str:
    names = " ".join(found.names[one] for one in join.operands)
    return ("-" if join.antitone else "") + (names if len(join.kinds) == 2 else f"{join.kinds[0]}({names})")


def _moved(position: int, place: int | str) -> Callable[[Signature], Signature]:
    """An operand goes to a numbered group, to one of its own, to the nonlinear ones or to those with no derivative."""

    def change(old: Signature) -> Signature:
        if position >= old.arity or position in old.unseen or (isinstance(place, int) and place >= len(old.groups)):
            return old
        groups = [[one for one in group if one != position] for group in old.groups]
        if place == "alone":
            groups.append([])
        if place not in ("/", ";"):
            groups[place if isinstance(place, int) else -1].append(position)
        others = [[one for one in part if one != position] for part in (old.nonlinear, old.index)]
        if place in ("/", ";"):
            others[place == ";"].append(position)
        return replace(
            old,
            groups=tuple(tuple(sorted(group)) for group in groups if group),
            nonlinear=tuple(others[0]),
            index=tuple(others[1]),
        )

    return change


def _joins(primitive: Primitive) -> Iterator[Mutant]:
    most = _most(primitive, lambda found: len(found.joins))
    for number, what in itertools.product(range(most), ("drop", "turn", "max", "min", "both")):
        changed = _changed(primitive, _rejoined(number, what))
        if _differ(primitive, changed):
            yield Mutant(changed, f"join {number}: {what}")
    for position, antitone in itertools.product(range(_most(primitive, lambda found: found.arity)), (False, True)):
        changed = _changed(primitive, _added(position, antitone))
        if _differ(primitive, changed):
            yield Mutant(changed, f"join added: {'-' if antitone else ''}operand {position}")


def _rejoined(number: int, what: str) -> Callable[[Signature], Signature]:
    def change(old: Signature) -> Signature:
        found = list(old.joins)
        if number < len(found):
            join = found[number]
            match what:
                case "drop":
                    del found[number]
                case "turn" if len(join.operands) == 1:
                    found[number] = replace(join, antitone=not join.antitone)
                case "both":
                    found[number] = replace(join, kinds=("max", "min"))
                case "max" | "min":
                    found[number] = replace(join, kinds=(what,))
        return replace(old, joins=tuple(found))

    return change


def _added(position: int, antitone: bool) -> Callable[[Signature], Signature]:
    def change(old: Signature) -> Signature:
        if position >= old.arity or position in old.unseen:
            return old
        return replace(old, joins=(*old.joins, Join((position,), antitone=antitone)))

    return change


def _roles(primitive: Primitive) -> Iterator[Mutant]:
    rows: dict[int, Sample] = {}
    for sample in _samples(primitive.name):
        if sample in _RUN and (sample.number not in rows or sample.kind == "f"):
            rows[sample.number] = sample
    for sample in rows.values():
        scheme = primitive.scheme(sample.site)
        arrays = [*scheme.operands, *scheme.results]
        for factor in sorted({factor for indices in arrays for dim in indices for factor in dim}):
            size, now = scheme.sizes[factor], scheme.roles.get(factor, "")
            made = any(factor in dim for indices in scheme.results for dim in indices)
            minor = any(factor in dim[1:] for indices in arrays for dim in indices)
            whole = ("", "whole")
            for role in ROLES if not made else whole:
                unknown = now not in ROLES and role in whole  # neither says that blocks can be merged
                alike = not made and {now, role} <= set(whole)  # what leaves by no monoid is needed whole
                if role == now or unknown or alike or minor or not isinstance(size, int) or size % 2:
                    continue
                roles = (
                    {**scheme.roles, factor: role} if role else {k: v for k, v in scheme.roles.items() if k != factor}
                )
                changed = Scheme(scheme.operands, scheme.results, scheme.sizes, roles, scheme.along, scheme.accumulator)
                what = f"{sample}: factor {factor} of {scheme}: {now or 'passing'} -> {role or 'passing'}"
                yield Mutant(replace(primitive, scheme=_scheme(primitive, sample, changed)), what, sample)


def _scheme(primitive: Primitive, sample: Sample, changed: Scheme) -> Callable[[Site], Scheme]:
    return lambda site: changed if site == sample.site else primitive.scheme(site)


def score(name: str) -> tuple[int, list[str]]:
    """How many mutants a declaration has, and which of them no law objects to."""
    found = list(mutants(name))
    return len(found), [f"{name}: {mutant.what}" for mutant in found if not objects(mutant)]


def main(names: list[str]) -> int:
    """Print the score of all declarations, and what survives."""
    start = time.perf_counter()
    total, alive = 0, []
    chosen = names or list(TABLE)
    with ProcessPoolExecutor(2) as pool:
        for name, (count, survivors) in zip(chosen, pool.map(score, chosen), strict=True):
            total += count
            alive += survivors
            print(f"{name:32} {count - len(survivors)} of {count}", *survivors, sep="\n    ", flush=True)
    caught, seconds = total - len(alive), time.perf_counter() - start
    share = math.floor(1000 * caught / total) / 10 if total else 0
    print(
        f"{caught} of {total} wrong declarations of {len(chosen)} primitives are seen: {share:.1f} %, {seconds:.0f} s"
    )
    return int(bool(alive) or not total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
