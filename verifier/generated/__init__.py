"""Well-typed programs, drawn at random: for laws about all programs, and for comparisons with other engines.

A program grows equation by equation. Each is proposed by a move, for values that are there, and judged by the rules;
what is refused is dropped, and counted. So a program is well typed because the rules say so, and a move knows no more
than what is likely. The same seed draws the same program. Rooms: `growing` (values,
types, proposals), `moves` (operations), `guests` (operations by their sample calls), `casts` (reshards; casts and
collectives of per-device code), `nesting` (bodies), `shrinking` and `pruning` (programs made smaller).
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
from verifier.generated.guests import move, shapes, some
from verifier.generated.moves import MOVES
from verifier.generated.nesting import ENDLESS, NESTING

MESHES: Final = ("X=2", "X=2, Y=2")
"""What programs are drawn on."""
MANY_MESHES: Final = ("X=2", "X=2, Y=2", "X=2, Y=2", "X=2, Y=2, Z=2", "X=2, Y=1", "X=1, Y=2, Z=2", "X=4", "X=4, Y=2")
"""The same, of one to three axes, some of one device, for comparisons with other engines."""

Move = Callable[[Grower], None]


def drawn(
    seed: int, length: int = 12, mesh: str | None = None, nesting: int = 2, moves: Sequence[Move] | None = None,
    states: str = STATES, guests: int = 0,
) -> Grown:  # fmt: skip
    """The program of a seed. length: how many proposals its own body sees; a body inside sees fewer. nesting: how deep
    bodies may nest. moves: what may come, all of them without it. states: what an array may be in along an explicit
    axis, each letter as often as it is likely. guests: how many operations come by their sample calls. The
    names of values are the builder's; `calculus.naming` gives others.
    """
    random = Random(seed)
    (found,) = parse_meshes(mesh or random.choice(MESHES))
    checker = Checker([found])
    visiting = some(random, seed, guests)
    more = [move(one) for one in visiting for _ in range(12 // guests)]
    more += ENDLESS if guests and random.random() < 0.25 else ()
    chosen = (
        (lambda grower: [*_moves(grower), *(more if grower.nesting else more[:12])])
        if moves is None
        else lambda _: moves
    )
    grower = Grower(random, Workbench(checker), checker.scope, Tally(), nesting, chosen, states)
    inputs = [grower.builder.input(grower.any_type()) for _ in range(random.randint(2, 4))]
    inputs += [grower.builder.input(grower.placed(shape)) for shape in shapes(visiting)[:4]]
    grower.grow(inputs, length)
    for one in visiting:
        move(one)(grower)
    program = grower.builder.program(inputs, grower.ends(), keep=len(grower.builder.items))
    return Grown(program, found, grower.tally)


def _moves(grower: Grower) -> Sequence[Move]:
    """What may come next: operations mostly, and what the place allows."""
    here: list[Move] = [*MOVES, *(PER_DEVICE if grower.manual else CASTS)]
    return [*here, *NESTING] if grower.nesting else here
