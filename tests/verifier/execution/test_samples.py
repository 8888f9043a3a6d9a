"""Every primitive of the table runs on devices, at each placement of its sample calls that is well typed."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from calculus.checking import Checker
from calculus.meshes import Axis, Mesh
from calculus.primitives import TABLE
from calculus.programs import Equation, Program
from calculus.refusals import Refused
from calculus.types import ArrayType, Type, array_type
from verifier.execution.run import run
from verifier.samples import NARROW, NoSample, Sample, samples

MESH = Mesh([Axis("X", 2), Axis("Y", 2)])

#: no kernel: drawn by rejection, or the platform's own affair
WITHOUT_KERNEL = frozenset({"random_gamma"})


def types(type: ArrayType) -> list[ArrayType]:
    """A type in each state along X: replicated, reduced, pending, and cut on each dim that divides."""
    found = [
        type,
        array_type(type.dtype, type.shape, reduced=("X",)),
        array_type(type.dtype, type.shape, unreduced=("X",)),
    ]
    for dim, size in enumerate(type.shape):
        if isinstance(size, int) and size % 2 == 0:
            found.append(
                array_type(type.dtype, type.shape, tuple(("X",) if one == dim else () for one in range(type.rank)))
            )
    return found


def programs(sample: Sample) -> list[Program]:
    """The call at combinations of placements: all operands in every state where there are few, else one at a time and
    all that can be alike."""
    each = [types(type) for type in sample.operands]
    combinations = list(itertools.product(*each))
    if len(combinations) > 16:
        plain = tuple(one[0] for one in each)
        combinations = [plain]
        for position, states in enumerate(each):
            combinations += [(*plain[:position], state, *plain[position + 1 :]) for state in states[1:]]
        for state in range(max(map(len, each))):
            combinations.append(tuple(one[min(state, len(one) - 1)] for one in each))
    count = len(TABLE[sample.primitive].scheme(sample.site).results)
    found = []
    for given in combinations:
        names = tuple(f"a{number}" for number in range(len(given)))
        binders = tuple(f"b{number}" for number in range(count))
        for printed in results(sample, count):
            equation = Equation(sample.primitive, sample.parameters, names, binders, printed)
            found.append(Program((), (), names, given, (equation,), binders))
    return found


def results(sample: Sample, count: int) -> list[tuple[Type | None, ...]]:
    """What is printed of the results: nothing, or, where a sample prints them, that and its placements."""
    given = sample.results if len(sample.results) == count else (None,) * count
    found: list[tuple[Type | None, ...]] = [given]
    if count == 1 and given[0] is not None:
        found += [(type,) for type in types(given[0])[1:]]
    elif count == 1:
        with suppress(Refused, ValueError):
            primitive = TABLE[sample.primitive]
            scheme = primitive.scheme(sample.site)
            whole = array_type(primitive.dtypes(sample.site)[0], scheme.shape(scheme.results[0]))
            found += [(type,) for type in types(whole)]
    return found


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_primitive_on_devices(name: str) -> None:
    try:
        calls = samples(name, NARROW)
    except NoSample:
        pytest.fail(f"{name} has no sample call")
    ran = 0
    by_number = {sample.number: sample for sample in sorted(calls, key=lambda one: "coubif".index(one.kind))}
    for sample in by_number.values():  # how blocks lie does not depend on the dtype: floats, where they are accepted
        for program in programs(sample):
            checker = Checker([MESH])
            with suppress(Refused):
                checker.check(program)
                if checker.refusals:
                    continue
                outcome = run(program, [MESH], seed=ran)
                if name in WITHOUT_KERNEL:
                    assert all(problem.unrunnable for problem in outcome.problems)
                    return
                said = [problem.message for problem in outcome.problems]
                assert not said, (str(sample), program.input_types, program.equations[0].types, said)
                ran += 1
    assert ran
