"""Checking again what was judged as it was made: of a derived program, only what may communicate is looked at."""

from __future__ import annotations

from calculus.checking import Bound, Checked, Checker, Scope
from calculus.effects import Effect
from calculus.programs import Literal, Program


class Recalling(Checker):
    """A checker of a program that a builder has made in the checker's scope: each of its equations has been judged
    there, at the types that it prints. What has been judged to communicate nothing, and to hold no body, at whatever
    operands it was judged, is not judged again."""

    def _walk(self, program: Program, scope: Scope) -> Checked:
        if self._depth > 1:  # bodies are made in scopes of their own
            return super()._walk(program, scope)
        env: dict[str, Bound] = {}
        self._bind_inputs(program, scope, env)
        judged = scope.judged
        silent = {key[:3] for key in judged}
        silent.difference_update([key[:3] for key, (typing, inner) in judged.items() if inner or typing.collectives])
        effects: list[Effect] = []
        equations = program.equations
        self.equations += len(equations)
        for index, equation in enumerate(equations):
            if len(equation.binders) == 1:  # nearly all have one result
                env[equation.binders[0]] = equation.types[0]
            else:
                env.update(zip(equation.binders, equation.types, strict=True))
            if (equation.primitive, equation.parameters, equation.types) in silent:
                continue
            operands = [atom if isinstance(atom, Literal) else env[atom] for atom in equation.inputs]
            key = (equation.primitive, equation.parameters, equation.types, *operands)
            typing, inner = judged.get(key) or self._judge(equation, operands, scope, key)
            if inner or typing.collectives:
                effects.append(Effect(index, typing.collectives, inner))
        return Checked(program, self._outputs(program, env), tuple(effects))
