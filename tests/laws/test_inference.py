"""What is inferred is what is checked: an equation whose types are not printed has a judgment, and the same equation
with those types printed has the same one, what it communicates included. So a derivation may take the one for the other
(`Builder.emit`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from calculus.building import Workbench
from calculus.checking import Checker, Scope
from calculus.effects import Inner
from calculus.gradients import vjp
from calculus.linearization import differentiable
from calculus.meshes import Mesh
from calculus.programs import Equation
from calculus.refusals import Refused
from calculus.rules import Typing
from calculus.uses import Operand
from tests.laws.changes import load, name_of, sources

FILES = [path for path in sources("seed_", "shmap_", "llama_", "feat_") if path.stem != "feat_check_p.eff"]


class Inferring(Checker):
    """A checker that judges every equation twice."""

    def __init__(self, meshes: Sequence[Mesh]) -> None:
        super().__init__(meshes)
        self.compared = Counter[str]()
        self.differing: list[str] = []

    def judge(
        self, equation: Equation, operands: Sequence[Operand], scope: Scope, key: tuple[object, ...]
    ) -> tuple[Typing, tuple[Inner, ...]]:
        """As it stands; then with its types left out, and with those put in that follow."""
        found = super().judge(equation, operands, scope, key)
        rows = equation.primitive, equation.parameters, equation.inputs, equation.binders
        try:
            inferred, _ = super().judge(Equation(*rows, (None,) * len(equation.types)), operands, scope, (object(),))
        except Refused:
            return found
        checked, _ = super().judge(Equation(*rows, inferred.types), operands, scope, (object(),))
        self.compared[equation.primitive] += 1
        if inferred != checked:
            self.differing.append(f"{equation.primitive} of {[*map(str, operands)]}: {inferred}, {checked}")
        return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_what_is_inferred_is_what_is_checked(path: Path) -> None:
    """Of every equation of a program; where it has a backward program, of every one that is derived."""
    source = load(path)
    checker = Inferring(source.meshes)
    program = source.document.program
    checker.check(program)
    assert checker.differing == []
    if checker.refusals or "llama" not in path.stem:
        return
    before = checker.compared.total()
    wrt = [place for place, type in enumerate(program.input_types) if type is not None and differentiable(type)]
    vjp(program, Workbench(checker), wrt)
    assert checker.differing == []
    assert checker.compared.total() > before + 50
