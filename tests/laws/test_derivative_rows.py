"""Rows against the kernels they stand beside: a wrong derivative or adjoint in the table must not survive.

A derivative: the linear program that is made of one equation, evaluated, against the difference quotient of the kernel.
An adjoint: transposed, it is the transpose, ⟨c, J t⟩ = ⟨Jᵀ c, t⟩, for random t and c; transposed twice, it is itself.
Neither looks at JAX, and neither looks at the rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.collectives import COLLECTIVES
from calculus.cotangents import cotangent_state
from calculus.linearization import Linearized, differentiable, linearize
from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.primitives.declaration import operand_names
from calculus.primitives.differentials import ADJOINTS, DERIVATIVES
from calculus.programs import Equation, Program
from calculus.refusals import Refused
from calculus.transposition import Transposed, transpose
from calculus.types import ArrayType
from tests.laws.evaluation import evaluate, run
from verifier.devices import Array
from verifier.samples import Sample
from verifier.trials.cases import RUN, Case


class Derived:
    """One sample call as a program, linearized in every operand that can change."""

    def __init__(self, sample: Sample) -> None:
        self.case = Case(sample)
        count = len(sample.results)
        names = tuple(f"x{number}" for number in range(len(sample.operands)))
        binders = tuple(f"y{number}" for number in range(count))
        self.equation = Equation(sample.primitive, sample.parameters, names, binders, sample.results)
        self.program = Program((), (), names, sample.operands, (self.equation,), binders)
        self.checker = Checker([Mesh(())])
        checked = self.checker.check(self.program)
        assert not self.checker.refusals, self.checker.refusals[0][0].message
        self.equation.types = tuple(one for one in checked.types if isinstance(one, ArrayType))
        self.bench = Workbench(self.checker)
        self.flows = [differentiable(type) and self.written(position) for position, type in enumerate(sample.operands)]
        self.operands: list[Array] = [self.case.draw(position) for position in range(len(names))]
        if sample.primitive == "clamp":  # bounds in order: between bounds that are not there is nothing
            low, _, high = self.operands
            self.operands[0], self.operands[2] = np.minimum(low, high), np.maximum(low, high)
        if sample.primitive == "cholesky":  # positive definite
            (x,) = self.operands
            self.operands[0] = x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])

    def written(self, position: int) -> bool:
        """Whether there is a derivative in an operand, and it is written; where there is in none, that is the
        derivation's to say."""
        primitive, site = self.case.primitive, self.case.sample.site
        names, rows = operand_names(primitive, len(site.shapes)), primitive.derivatives_at(site)
        signature = primitive.read(site)
        linear = [one for one, _ in signature.linear_operands()]
        some = bool(linear) or any(names[one] in rows for one in signature.nonlinear)
        known = position in linear or names[position] in rows or position in signature.unseen
        return not some or known

    def linearized(self) -> Linearized:
        return linearize(self.bench, self.checker.scope, self.program, self.flows)

    def transposed(self) -> Transposed:
        """Its linear program, transposed."""
        found = self.linearized()
        held = len(found.residuals)
        linear = [False] * held + [True] * (len(found.linear.inputs) - held)
        return transpose(self.bench, self.checker.scope, found.linear, linear, [True] * len(found.linear.outputs))

    def tangents(self) -> list[Array]:
        return [self.draw(one) for one, flows in zip(self.operands, self.flows, strict=True) if flows]

    def draw(self, like: Array) -> Array:
        real = self.case.random.normal(size=like.shape)
        return real + 1j * self.case.random.normal(size=like.shape) if like.dtype.kind == "c" else real


def _written(sample: Sample) -> bool:
    if not any(map(differentiable, sample.operands)):
        return False
    try:
        return any(Derived(sample).linearized().nonzero)
    except Refused:
        return False


def _turns(sample: Sample) -> bool:
    """Whether the transpose is written as well."""
    try:
        Derived(sample).transposed()
    except Refused as refused:
        assert refused.refusal.message.startswith("the transpose of"), refused
        return False
    return True


TRIED = [sample for sample in RUN if _written(sample)]
TURNED = [sample for sample in TRIED if _turns(sample)]

#: the derivative is not that of the function, on purpose: rounding is passed through
STRAIGHT = {"reduce_precision"}


#: of these results each is as good as with its vectors turned by a phase: which one comes is the library's choice
UP_TO_PHASE = {"eigh": (0,), "svd": (1, 2)}


def turned(sample: Sample, number: int, vectors: Array, mine: Array, theirs: Array) -> Array:
    """Their derivative of complex unit vectors without what turns them: the part along each, times i."""
    if sample.kind != "c" or number not in UP_TO_PHASE.get(sample.primitive, ()):
        return theirs
    dim = -1 if number == 2 else -2
    along = np.sum(np.conj(vectors) * (theirs - mine), axis=dim, keepdims=True)
    found: Array = theirs - vectors * 1j * np.imag(along)
    return found


def quotient(derived: Derived, tangents: list[Array], step: float = 2.0**-18) -> list[Array]:
    """The difference quotients of the kernel along these tangents, of the results that have one."""

    def moved(by: float) -> list[Array]:
        given = iter(tangents)
        return run(
            derived.equation,
            [
                one + by * next(given) if flows else one
                for one, flows in zip(derived.operands, derived.flows, strict=True)
            ],
        )

    return [
        (right - left) / (2 * step)
        for left, right, type in zip(moved(-step), moved(step), derived.equation.types, strict=True)
        if type is not None and differentiable(type)
    ]


@pytest.mark.parametrize("sample", TRIED, ids=str)
def test_a_row_is_the_derivative_of_its_kernel(sample: Sample) -> None:
    derived = Derived(sample)
    found = derived.linearized()
    tangents = derived.tangents()
    count = len(derived.equation.types)
    everything = evaluate(found.forward, derived.operands)
    results, residuals = everything[:count], everything[count:]
    if TABLE[sample.primitive].unfold is not None:  # it is computed anew
        for one, other in zip(results, run(derived.equation, derived.operands), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4 if one.dtype.itemsize == 4 else 1e-9)
    pushed = evaluate(found.linear, [*residuals, *tangents])
    if sample.primitive in STRAIGHT:
        np.testing.assert_array_equal(pushed, tangents)
        return
    quotients = quotient(derived, tangents)
    narrow = any(one.dtype in (np.float32, np.complex64) for one in quotients)  # the kernel rounds: steps must be large
    if narrow:
        quotients = quotient(derived, tangents, 2.0**-6)
    changing = [number for number, type in enumerate(derived.equation.types) if type and differentiable(type)]
    mine = dict(zip([number for number in changing if found.nonzero[number]], pushed, strict=True))
    for number, theirs in zip(changing, quotients, strict=True):
        if number not in mine:
            assert not np.any(theirs)
            continue
        theirs = turned(sample, number, results[number], mine[number], theirs)
        defined = np.isfinite(theirs)
        assert np.any(defined)
        np.testing.assert_allclose(
            mine[number][defined], theirs[defined], rtol=1e-3 if narrow else 1e-5, atol=1e-2 if narrow else 1e-5
        )


@pytest.mark.parametrize("sample", TURNED, ids=str)
def test_a_transpose_is_the_transpose(sample: Sample) -> None:
    """Without conjugation, as JAX transposes."""
    derived = Derived(sample)
    found = derived.linearized()
    residuals = evaluate(found.forward, derived.operands)[len(derived.equation.types) :]
    tangents = derived.tangents()
    pushed = evaluate(found.linear, [*residuals, *tangents])
    cts = [derived.draw(one) for one in pushed]
    bench, scope = derived.bench, derived.checker.scope
    held = [False] * len(residuals)
    turned = derived.transposed()
    pulled = evaluate(turned.program, [*residuals, *cts])
    reached = [tangent for tangent, came in zip(tangents, turned.nonzero, strict=True) if came]
    left = sum(np.sum(ct * one) for ct, one in zip(cts, pushed, strict=True))
    right = sum(np.sum(one * tangent) for one, tangent in zip(pulled, reached, strict=True))
    tolerance = 1e-4 if any(one.dtype in (np.float32, np.complex64) for one in (*pushed, *pulled)) else 1e-9
    np.testing.assert_allclose(np.real(left), np.real(right), rtol=tolerance, atol=tolerance)

    again = transpose(bench, scope, turned.program, [*held, *[True] * len(cts)], [True] * len(pulled))
    for one, other in zip(pushed, evaluate(again.program, [*residuals, *reached]), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_the_laws_cover_every_row() -> None:
    """A row that no law tries could be wrong. A derivative that is zero is tried below."""
    assert {*DERIVATIVES, *ADJOINTS} <= set(TABLE)
    tried = {sample.primitive for sample in TURNED}
    written = {name for name, one in TABLE.items() if one.derivative or one.adjoint or one.unfold}
    assert written - tried - ZERO - SAMPLED == set()


#: held against JAX, in test_samples_against_jax.py
SAMPLED = {"random_gamma"}

ZERO = {"sign", "floor", "ceil", "round", "stop_gradient"}


@pytest.mark.parametrize("sample", [one for one in RUN if one.primitive in ZERO and one.kind == "f"], ids=str)
def test_what_has_no_slope_has_no_tangent(sample: Sample) -> None:
    derived = Derived(sample)
    assert derived.linearized().nonzero == (False,)
    if sample.primitive != "stop_gradient":
        assert not np.any(quotient(derived, derived.tangents()))


def test_a_wrong_row_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws can fail: the derivative of the cosine without its sign, and a slice put back one place off."""
    cosine, slicing = (next(one for one in TRIED if one.primitive == name) for name in ("cos", "slice"))
    monkeypatch.setitem(TABLE, "cos", replace(TABLE["cos"], derivative="g * sin(x)"))
    with pytest.raises(AssertionError):
        test_a_row_is_the_derivative_of_its_kernel(cosine)
    honest = TABLE["slice"].adjoint
    assert callable(honest)
    wrong = replace(TABLE["slice"], adjoint=lambda site, position: f"neg({honest(site, position)})")
    monkeypatch.setitem(TABLE, "slice", wrong)
    with pytest.raises(AssertionError):
        test_a_transpose_is_the_transpose(slicing)


@pytest.mark.parametrize("name", [name for name, row in COLLECTIVES.items() if row.transpose])
def test_a_cast_transposes_between_the_cotangents_states(name: str) -> None:
    """Statement A47: from the cotangent of what it makes to that of what it takes; back again, and it is the first, or
    goes as it does."""
    row = COLLECTIVES[name]
    back = COLLECTIVES[row.transpose]
    assert (back.before, back.after) == (cotangent_state(row.after), cotangent_state(row.before))
    again = COLLECTIVES[back.transpose]
    assert (again.before, again.after, again.kind, again.move) == (row.before, row.after, row.kind, row.move)


def test_what_has_no_transpose_is_no_sum() -> None:
    """The others: maxima, what tells a device where it is, and two whose transposes are not written."""
    without = {name for name, row in COLLECTIVES.items() if not row.transpose and not row.future}
    assert without == {
        "pmax", "pmin", "unreduced_pmax", "unreduced_pmin", "axis_index", "all_gather_invariant", "pbroadcast",
    }  # fmt: skip
