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
        equations = program.equations
        self.equations += len(equations)
        loud = [at for at, one in enumerate(equations) if (one.primitive, one.parameters, one.types) not in silent]
        env.update({one.binders[0]: one.types[0] for one in equations if len(one.binders) == 1})
        for one in equations:
            if len(one.binders) != 1:  # few have several results
                env.update(zip(one.binders, one.types, strict=True))
        effects: list[Effect] = []
        for at in loud:
            equation = equations[at]
            operands = [atom if isinstance(atom, Literal) else env[atom] for atom in equation.inputs]
            key = (equation.primitive, equation.parameters, equation.types, *operands)
            typing, inner = judged.get(key) or self._judge(equation, operands, scope, key)
            if inner or typing.collectives:
                effects.append(Effect(at, typing.collectives, inner))
        return Checked(program, self._outputs(program, env), tuple(effects))
