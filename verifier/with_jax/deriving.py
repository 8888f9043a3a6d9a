"""The collectives that the types say of a traced program, with the lines that its equations come from."""

from __future__ import annotations

from typing import Any

from calculus.effects import Charge, charges
from calculus.refusals import Refused
from verifier.compiled.derived import Said, said
from verifier.compiled.module import Frame
from verifier.examine import examine
from verifier.with_jax.lines import Lines
from verifier.with_jax.objects import ObjectChecker, Objects
from verifier.with_jax.trace import trace
from verifier.wording import Words, user_line, where


def derived(traced: Any) -> list[Said]:
    """Of a `jax.stages.Traced`. Raises `Refused` where the program is not well typed."""
    made = trace(traced)
    objects = Objects(made.program)
    program = objects.program(objects.main)
    examined = examine(program, ObjectChecker(made.meshes, objects))
    if examined.refusals:
        raise Refused(examined.refusals[0])
    lines = Lines(objects.as_converted())
    known = [None] * len(program.constants) + list(made.inputs)
    words = Words(program, examined, known, made.outputs, lines)

    def place(charge: Charge) -> tuple[tuple[Frame, ...], str, str]:
        return (
            tuple((frame.file, frame.line) for frame in lines.frames(charge.equation.line)),
            where(lines, charge.equation.line)[0] if user_line(lines, charge.equation.line) else "",
            words.value(charge),
        )

    return said([] if examined.checked is None else charges(examined.checked, apart=True), made.mesh, place)
