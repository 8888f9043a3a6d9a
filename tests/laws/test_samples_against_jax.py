"""The derivative of a sample, beside JAX's: a sampler rejects, so its difference quotients say nothing."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.linearization import linearize
from calculus.meshes import Mesh
from calculus.programs import Equation, Program
from tests.laws.bound import primitive
from tests.laws.evaluation import evaluate
from verifier.samples import Sample, samples
from verifier.trials.cases import Case


@pytest.mark.parametrize("sample", samples("random_gamma"), ids=str)
def test_a_sample_moves_with_its_parameter(sample: Sample) -> None:
    case = Case(sample)
    keys = jax.random.wrap_key_data(case.draw(0), impl="threefry2x32")
    a = np.abs(case.draw(1)) + np.float32(0.25)
    tangent = case.random.normal(size=a.shape).astype(a.dtype)

    def function(a: Any) -> Any:
        return primitive("random_gamma").bind(keys, a, log_space=sample.parameters["log_space"])

    drawn, theirs = jax.jvp(function, (a,), (tangent,))
    equation = Equation("random_gamma", sample.parameters, ("k", "a"), ("y",), (None,))
    program = Program((), (), ("k", "a"), sample.operands, (equation,), ("y",))
    checker = Checker([Mesh(())])
    found = linearize(Workbench(checker), checker.scope, program, (False, True))
    draw, *rest = found.forward.equations
    values = {found.forward.inputs[1]: a, draw.binders[0]: np.asarray(drawn)}
    slope = Program((), (), tuple(values), (None,) * len(values), tuple(rest), found.residuals)
    residuals = evaluate(slope, list(values.values()))
    (ours,) = evaluate(found.linear, [*residuals, tangent])
    np.testing.assert_allclose(ours, np.asarray(theirs), rtol=2e-4)
