"""Gradients: what a derivation takes, beside JAX's tracing of `jax.grad`, on the same forward programs.

Everything is new in each run: the text is read again and has a checker of its own, the function and the program that
JAX differentiates are traced again. JAX's own caches stay; ours are cleared, except in the row that says otherwise.
A run is divided by the number of equations of the program that it made, bodies counted at every use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax._src import core

from bench.measure import Fresh, in_turn, ratios, spread, visited
from bench.programs import AXES, BATCH, TOKENS, Llama
from calculus.building import Workbench
from calculus.checking import Checker
from calculus.gradients import gradient
from calculus.linearization import differentiable
from calculus.meshes import Axis, Mesh
from calculus.naming import tidy
from calculus.programs import Program, bodies
from grammar.print import print_document
from grammar.read import read

PROGRAMS: Final = (
    "llama_dp_grad_unroll8",
    "llama_dpr_grad_unroll8",
    "llama_fsdp_grad_unroll8",
    "llama_tp_grad_unroll8",
    "llama_dp_grad_scan8",
    "llama_tp_grad_scan8",
)

UNROLLED: Final = PROGRAMS[:4]
"""Those whose layers are alike, and derived once: there the claim holds of checking and deriving together. Under a scan
there is but one layer."""
TIMES_FASTER: Final = 5.0

GRADIENT: Final = "gradient of a checked program"
CHECKED: Final = "check, and gradient"
AGAIN: Final = "the same, caches kept"
PRINTED: Final = "text to the gradient's text"
JAX_PROGRAM: Final = "make_jaxpr(jax.grad), of the program"
JAX_FUNCTION: Final = "make_jaxpr(jax.grad), of the function"

OURS: Final = (GRADIENT, CHECKED, AGAIN, PRINTED)
JAXES: Final = (JAX_PROGRAM, JAX_FUNCTION)


class Forward:
    """The loss of a Llama: as a Python function, as a program that JAX holds, and as the text of that."""

    def __init__(self, name: str) -> None:
        self.llama = Llama.named(name)
        self.devices = jax.make_mesh(tuple(AXES.values()), tuple(AXES))
        with jax.set_mesh(self.devices):
            sharding = jax.NamedSharding(self.devices, jax.P("data", None))
            text = jax.ShapeDtypeStruct((BATCH, TOKENS), jnp.int32, sharding=sharding)
            self.arguments = self.llama.weights(self.devices), text, text
        self.flat = jax.tree.leaves(self.arguments)
        self.mesh = Mesh(Axis(axis, size) for axis, size in AXES.items())
        self.text = f"{self.traced()}\n"
        types = read(self.text).program.input_types
        self.wrt = tuple(place for place, type in enumerate(types) if type is not None and differentiable(type))

    def traced(self) -> Any:
        """The program, traced anew."""
        with jax.set_mesh(self.devices):
            return jax.jit(self.function()).trace(*self.arguments).jaxpr

    def function(self) -> Callable[..., Any]:
        """The function, as one that JAX has not seen."""

        def loss(*given: Any) -> Any:
            return self.llama.loss(*given)

        return loss

    def of_the_program(self) -> Callable[[], Any]:
        """JAX's gradient of the program, which is new."""
        run = core.jaxpr_as_fun(self.traced())
        return lambda: self._gradient(lambda *given: run(*given)[0], self.wrt, self.flat)

    def of_the_function(self) -> Callable[[], Any]:
        """JAX's gradient of the function, which is new."""
        function = self.function()
        return lambda: self._gradient(function, 0, self.arguments)

    def _gradient(self, function: Callable[..., Any], wrt: int | tuple[int, ...], given: Sequence[Any]) -> Any:
        with jax.set_mesh(self.devices):
            return jax.make_jaxpr(jax.grad(function, wrt))(*given)

    def read(self) -> Program:
        """The program, read anew."""
        return read(self.text).program

    def checker(self, program: Program) -> Checker:
        """A checker that has checked the program. Raises `SystemExit` where it refuses it."""
        checker = Checker([self.mesh])
        checker.check(program)
        if checker.refusals:
            raise SystemExit(f"the forward program is refused: {checker.refusals[0][0]}")
        return checker

    def checked(self) -> Callable[[], Program]:
        """Our gradient of a program that is checked."""
        program = self.read()
        checker = self.checker(program)
        return lambda: _written_out(gradient(program, Workbench(checker), self.wrt))

    def unchecked(self) -> Callable[[], Program]:
        """Our gradient, the program checked first."""
        program = self.read()
        return lambda: _written_out(gradient(program, Workbench(self.checker(program)), self.wrt))

    def printed(self) -> Callable[[], str]:
        """The text of our gradient, from the text of the program."""

        def run() -> str:
            program = self.read()
            return print_document(tidy(gradient(program, Workbench(self.checker(program)), self.wrt)))

        return run


def _written_out(program: Program) -> Program:
    """A program, each of its equations made: copies of what was derived once become equations where they are looked
    at."""
    assert program.equations
    return program


def measured(name: str, rounds: int) -> dict[str, Any]:
    """All contestants on one forward program."""
    forward = Forward(name)
    theirs = [visited(make()().jaxpr, inside=True) for make in (forward.of_the_program, forward.of_the_function)]
    ours = equations(forward.unchecked()())
    made = {**dict.fromkeys(OURS, ours), **dict(zip(JAXES, theirs, strict=True))}
    runs = in_turn(
        {
            GRADIENT: Fresh(forward.checked),
            CHECKED: Fresh(forward.unchecked),
            AGAIN: Fresh(forward.unchecked),
            PRINTED: Fresh(forward.printed),
            JAX_PROGRAM: Fresh(forward.of_the_program),
            JAX_FUNCTION: Fresh(forward.of_the_function),
        },
        rounds,
        {AGAIN, *JAXES},
    )
    each = {who: [seconds / made[who] for seconds in times] for who, times in runs.items()}
    return {
        "program": name,
        "forward equations": equations(forward.read()),
        "equations": made,
        "rounds": rounds,
        "microseconds per equation": {
            who: {key: seconds * 1e6 for key, seconds in spread(times).items()} for who, times in each.items()
        },
        "times faster": {jaxs: {who: ratios(each, jaxs, who) for who in OURS} for jaxs in JAXES},
    }


def claims(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """That ours is so many times faster per equation, whichever way JAX is asked; of layers that are unrolled, checking
    included."""
    said = {
        GRADIENT: "to derive the gradient of the loss of {}",
        CHECKED: "to check the loss of {} and derive its gradient",
    }
    return [
        {
            "claim": f"{said[ours].format(result['program'])} takes at most 1/{TIMES_FASTER:g} of the time per "
            f"equation that {jaxs} takes",
            "found": f"1/{found:.1f}",
            "held": found >= TIMES_FASTER,
        }
        for result in results
        for ours in (CHECKED if result["program"] in UNROLLED else GRADIENT,)
        for jaxs in JAXES
        for found in (result["times faster"][jaxs][ours]["median"],)
    ]


def equations(program: Program) -> int:
    """The equations of a program, bodies at every use."""
    inside = (equations(body) for one in program.equations for _, body in bodies(one.parameters))
    return len(program.equations) + sum(inside)
