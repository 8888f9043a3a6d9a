"""Checking again what was judged as it was made: of a derived program, only what may communicate is looked at."""

from __future__ import annotations

from calculus.checking import Bound, Checked, Checker, Scope
from calculus.copied import Copied, items_of, size_of, typed_names
from calculus.effects import Effect
from calculus.pieces import Steps
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
        self.equations += size_of(program)
        loud: list[int] = []
        of_pieces: dict[Steps, list[int]] = {}
        end = 0
        for item in items_of(program):
            start = end
            if isinstance(item, Copied):
                places = of_pieces.get(item.steps)
                if places is None:
                    places = of_pieces[item.steps] = [
                        at
                        for at, step in enumerate(item.steps.steps)
                        if (step.primitive, step.parameters, step.types) not in silent
                    ]
                loud += [start + at for at in places]
                end += len(item)
            else:
                if (item.primitive, item.parameters, item.types) not in silent:
                    loud.append(start)
                end += 1
        env = {**typed_names(program), **env}
        effects: list[Effect] = []
        for at in loud:
            equation = program.equation(at)
            operands = [atom if isinstance(atom, Literal) else env[atom] for atom in equation.inputs]
            key = (equation.primitive, equation.parameters, equation.types, *operands)
            typing, inner = judged.get(key) or self._judge(equation, operands, scope, key)
            if inner or typing.collectives:
                effects.append(Effect(at, typing.collectives, inner))
        return Checked(program, self._outputs(program, env), tuple(effects))
