"""Programs that have no backward pass: why there is none, and where that is decided."""

from __future__ import annotations

from typing import Final

from calculus.programs import Equation, Program, bodies
from calculus.refusals import Refusal

NO_DERIVATIVE: Final = {
    **{f"the derivative of {name}": f"Differentiation rule for '{name}' not implemented" for name in ("pmax", "pmin")},
    "the derivative of a while loop, in reverse": (
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values"
    ),
}
"""What JAX says where nobody has a derivative, by what is refused here; of a function JAX itself is asked."""


def sentence(refusal: Refusal) -> str:
    """What has no derivative, and why."""
    what = refusal.message.removeprefix("the ").removesuffix(" is not written")
    return f"there is no {what}: {refusal.because}"


def equation_at(program: Program, line: int) -> Equation | None:
    """The equation of a program, or of a body in it, with this place."""
    seen: set[int] = set()
    waiting = [program]
    for one in waiting:  # grows while it is read
        for equation in one.equations:
            if line and equation.line == line:
                return equation
            for _, inner in bodies(equation.parameters) if equation.parameters.holding else ():
                if id(inner) not in seen:
                    seen.add(id(inner))
                    waiting.append(inner)
    return None
