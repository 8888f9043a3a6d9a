"""Well-typed programs, drawn at random: for laws about all programs, and for comparisons with other engines.

A program grows equation by equation. Each is proposed by a move, for values that are there, and judged by the rules;
what is refused is dropped, and counted. So a program is well typed because the rules say so, and a move knows no more
than what is likely. The same seed draws the same program. Rooms: `growing` (values, types, proposals), `moves`
(operations), `casts` (reshards; casts and collectives of per-device code), `nesting` (bodies).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from calculus.building import Workbench
from calculus.checking import Checker
from grammar.meshes import parse_meshes
from verifier.generated.casts import CASTS, PER_DEVICE
from verifier.generated.growing import STATES, Grower, Grown, Tally
from verifier.generated.moves import MOVES
from verifier.generated.nesting import NESTING

MESHES: Final = ("X=2", "X=2, Y=2")
"""What programs are drawn on."""

Move = Callable[[Grower], None]


def drawn(
    seed: int, length: int = 12, mesh: str | None = None, nesting: int = 2, moves: Sequence[Move] | None = None,
    states: str = STATES,
) -> Grown:  # fmt: skip
    """The program of a seed. length: how many proposals its own body sees; a body inside sees fewer. nesting: how deep
    bodies may nest. moves: what may come, all of them without it. states: what an array may be in along an explicit
    axis, each letter as often as it is likely. The names of values are the builder's; `calculus.naming` gives others.
    """
    random = Random(seed)
    (found,) = parse_meshes(mesh or random.choice(MESHES))
    checker = Checker([found])
    chosen = _moves if moves is None else lambda _: moves
    grower = Grower(random, Workbench(checker), checker.scope, Tally(), nesting, chosen, states)
    inputs = [grower.builder.input(grower.any_type()) for _ in range(random.randint(2, 4))]
    grower.grow(inputs, length)
    program = grower.builder.program(inputs, grower.ends(), keep=len(grower.builder.equations))
    return Grown(program, found, grower.tally)


def _moves(grower: Grower) -> Sequence[Move]:
    """What may come next: operations mostly, and what the place allows."""
    here: list[Move] = [*MOVES, *(PER_DEVICE if grower.manual else CASTS)]
    return [*here, *NESTING] if grower.nesting else here
