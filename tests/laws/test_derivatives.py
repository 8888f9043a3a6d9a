"""What has a derivative and what has none: declarations against JAX's own differentiation rules.

An operand has a derivative if JAX's tangent of a result depends on the tangent of the operand; it has none if JAX's
tangent is zero whatever that is. Where JAX has no rule, differences of the kernel's results decide: a derivative is
where quotients for two steps agree, and are not 0. It belongs to the primitive, not to the dtype at hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache

import jax
import numpy as np
import pytest

from calculus.primitives import TABLE
from calculus.primitives.declaration import INEXACT, Primitive
from calculus.types import dtype_class
from tests.laws.bound import bound, operands_of
from verifier.samples import Sample, samples
from verifier.trials.cases import RUN, Case, numbers


def _inexact(sample: Sample, position: int, number: int | None = None) -> bool:
    """Whether the operand has tangents, and some result too, or that one."""
    results = TABLE[sample.primitive].dtypes(sample.site)
    results = results if number is None else (results[number],)
    return dtype_class(sample.operands[position].dtype) in INEXACT and any(
        dtype_class(dtype) in INEXACT for dtype in results
    )


@cache
def asked(sample: Sample, position: int) -> frozenset[int] | None:
    """The results whose tangents, by JAX, depend on that of an operand; `None` where this JAX cannot say."""
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function, operands = bound(sample), operands_of(sample)

            def tangent(whole: list[object], step: object) -> object:
                def alone(x: object) -> object:
                    return function(*whole[:position], x, *whole[position + 1 :])

                return jax.jvp(alone, (whole[position],), (step,))[1]

            program = jax.make_jaxpr(tangent)(operands, operands[position]).jaxpr
        except (NotImplementedError, ValueError, TypeError, LookupError, AttributeError, AssertionError):
            return None
    reached = {id(program.invars[-1])}
    for equation in program.eqns:
        if any(id(atom) in reached for atom in equation.invars):
            reached.update(map(id, equation.outvars))
    return frozenset(number for number, atom in enumerate(program.outvars) if id(atom) in reached)


@cache
def measured(sample: Sample, position: int) -> frozenset[int]:
    """The results for which quotients of differences settle down to something that is not 0."""
    found: set[int] = set()
    case = Case(sample)
    for _ in range(4):
        operands = [case.draw(each) for each in range(len(case.shapes))]
        step = case.random.uniform(0.5, 1, case.shapes[position])
        before = case.run(operands)
        quotients = []
        for size in (1e-5, 5e-6):
            moved = [operand + size * step if at == position else operand for at, operand in enumerate(operands)]
            with np.errstate(all="ignore"):
                quotients.append([(a - b) / size if b.dtype.kind in "fc" else None
                                  for a, b in zip(case.run(moved), before, strict=True)])  # fmt: skip
        for number, (one, other) in enumerate(zip(*quotients, strict=True)):
            if one is None or other is None:
                continue
            with np.errstate(all="ignore"):
                settled = (abs(one - other) < 0.01 * abs(one)) & (abs(one) > 1e-4) & (abs(one) < 1e4)
            if settled.any():
                found.add(number)
    return frozenset(found)


@cache
def derivatives(name: str) -> dict[str, bool]:
    """The operands of a primitive that have tangents, beside a result that has some, and whether there is a derivative
    with respect to each. All others have none: integers, keys, what only truth values come of."""
    primitive = TABLE[name]
    said: dict[str, set[bool]] = {}
    doubtful: dict[str, list[tuple[Sample, int]]] = {}
    for sample in samples(name):
        names = primitive.read(sample.site).names
        for position, operand in enumerate(names):
            if _inexact(sample, position):
                plain = operand if operand in primitive.operands else operand.rstrip("0123456789")
                found = asked(sample, position)
                if found is None:
                    doubtful.setdefault(plain, []).append((sample, position))
                else:
                    said.setdefault(plain, set()).add(bool(found))
    for plain, calls in doubtful.items():
        if plain not in said:
            runs = [call for call in calls if call[0] in RUN][:1]
            said[plain] = {bool(measured(*call)) for call in runs}
    return {plain: any(found) for plain, found in said.items()}


#: what has no derivative here, whatever quotients do: JAX refuses a derivative in the order, which is a whole number;
#: and of a function of one's own that windows are scattered with nothing is declared
WITHOUT = {("polygamma", "n"), ("select_and_scatter", "source"), ("select_and_scatter", "start")}


def summed_truth(primitive: Primitive, sample: Sample) -> list[str]:
    """Operands that are said to be additive though truth values have no sum: what is, on them, only moves them, so that
    it commutes with both `or` and `and`. What adds up tangents is a sum by its meaning, theirs too."""
    found = []
    for number, dtype in enumerate(primitive.dtypes(sample.site) if primitive.name != "add_any" else ()):
        signature = primitive.read(sample.site._replace(number=number))
        found += [
            f"{sample}: truth values are added"
            for group in (signature.groups if dtype == "bool" and sample.kind == "b" else ())
            if any(kind not in signature.joined(set(group), kind) for kind in ("max", "min"))
        ]
    return found


def wrong(primitive: Primitive) -> list[str]:
    """The operands that are declared to have a derivative and have none, or the reverse."""
    found = [complaint for sample in samples(primitive.name) for complaint in summed_truth(primitive, sample)]
    for sample in samples(primitive.name):
        for number in numbers(sample):
            found += _wrong_of(primitive, sample, number)
    return found


def _wrong_of(primitive: Primitive, sample: Sample, number: int | None) -> Iterator[str]:
    """Of one result, or of all where they have one signature."""
    signature = primitive.read(sample.site._replace(number=number or 0))
    for position, operand in enumerate(signature.names):
        plain = operand if operand in primitive.operands else operand.rstrip("0123456789")
        section = signature.sections()[position]
        if section >= 0 and sample.operands[position].dtype.startswith("key<"):
            yield f"{sample}: {operand} is a key, and keys have no sum"
        if section >= 0 or position in signature.unseen:
            continue  # that it is additive is another law; a sum may have no derivative all the same
        one = derivatives(primitive.name).get(plain, False) and (primitive.name, plain) not in WITHOUT
        if one and number is not None and _inexact(sample, position, number):
            reached = asked(sample, position)
            one = number in (measured(sample, position) if reached is None else reached)
        if not one if section == -1 else one and _inexact(sample, position):
            yield f"{sample}: {operand} {'has none' if section == -1 else 'has one'}"


#: to which the newer release of JAX has given a tangent: that of complex numbers
LATER = frozenset({"sign"} if jax.__version_info__ < (0, 12) else ())


@pytest.mark.parametrize("name", [name for name in TABLE if name not in LATER])
def test_what_has_a_derivative(name: str) -> None:
    assert not wrong(TABLE[name])


def test_jax_was_asked() -> None:
    """Of most operands it is JAX that says; it names both those that have a derivative and those that have none."""
    answers = [asked(sample, 0) for sample in RUN if sample.operands and sample.kind == "f" and _inexact(sample, 0)]
    assert answers.count(None) < len(answers) / 3
    assert {True, False} <= {bool(answer) for answer in answers if answer is not None}
