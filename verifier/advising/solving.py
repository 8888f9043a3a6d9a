"""The door to scipy's solver of mixed integer linear programs (HiGHS): what is to be as small as possible, under rows
of inequalities. An answer is checked by those who asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

SURE: Final = 1e-9
"""By how much the price may differ, relative to itself, where weights are compared."""

NEAR: Final = 1e-4
"""By how much, relative to the price, an answer may be dearer than the best."""

TIDY: Final = 0.01
"""By how much, relative to the weight, an answer may be more to write than the least."""


class NoSolver(ImportError):
    """scipy is not installed."""


class Unsolved(Exception):
    """The solver gave up: it had no time left, or there is no answer."""


@dataclass(slots=True)
class Model:
    """Variables between 0 and 1, numbered in order, each with a price, and a weight that counts where prices tie; and
    rows `lower <= sum of coefficient * variable <= upper`. proved: whether the last answer is known to be the best."""

    prices: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    integral: list[bool] = field(default_factory=list)
    rows: list[tuple[Mapping[int, float], float, float]] = field(default_factory=list)
    proved: bool = True

    def variable(self, price: float = 0.0, weight: float = 0.0, integral: bool = True) -> int:
        """A new variable."""
        self.prices.append(price)
        self.weights.append(weight)
        self.integral.append(integral)
        return len(self.prices) - 1

    def row(self, coefficients: Mapping[int, float], lower: float, upper: float) -> None:
        """A new row."""
        self.rows.append((coefficients, lower, upper))

    def solved(self, seconds: float, enough: float = 0.0) -> list[float] | None:
        """The values at which the price is least, and among those the weight; `None` where the price is no less than
        `enough`. seconds: for the first of the two questions, and half of that for the second. Raises `Unsolved` and
        `NoSolver`."""
        scale = max(map(abs, self.prices), default=0.0) or 1.0
        prices = [price / scale for price in self.prices]
        first, self.proved = _milp(self, prices, None, seconds, NEAR)
        best = sum(price * value for price, value in zip(prices, first, strict=True))
        if best * scale >= enough * (1 - SURE):
            return None
        try:
            return _milp(self, self.weights, (prices, best + SURE * max(best, 1.0)), seconds / 2, TIDY)[0]
        except Unsolved:
            return first


def _milp(
    model: Model, objective: Sequence[float], bound: tuple[Sequence[float], float] | None, seconds: float,
    gap: float,
) -> tuple[list[float], bool]:  # fmt: skip
    try:
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError as error:
        raise NoSolver(str(error)) from error
    data: list[float] = []
    columns: list[int] = []
    ends = [0]
    lower: list[float] = []
    upper: list[float] = []
    for coefficients, low, high in model.rows:
        columns += coefficients
        data += coefficients.values()
        ends.append(len(data))
        lower.append(low)
        upper.append(high)
    if bound is not None:
        used = [(index, price) for index, price in enumerate(bound[0]) if price]
        columns += [index for index, _ in used]
        data += [price for _, price in used]
        ends.append(len(data))
        lower.append(-np.inf)
        upper.append(bound[1])
    count = len(model.prices)
    matrix = csr_array((data, columns, ends), shape=(len(ends) - 1, count))
    found = milp(
        np.asarray(objective),
        integrality=np.asarray(model.integral, dtype=int),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, np.asarray(lower), np.asarray(upper)),
        options={"time_limit": seconds, "mip_rel_gap": gap},
    )
    if found.x is None:
        raise Unsolved(str(found.message))
    return [float(value) for value in found.x], found.status == 0
