"""Theorem 11, fan-out: the contributions that a value's uses make to its cotangent agree in type, and adding them takes
no communication. Seed A11."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.cotangents import State, cotangent
from calculus.meshes import Axis, AxisMode, Mesh
from verifier.proving.obligations import Obligation
from verifier.solver import (
    INTEGERS,
    NUMBERS,
    And,
    Constant,
    ForAll,
    Formula,
    Function,
    If,
    Integers,
    Numbers,
    Query,
    Term,
    Truth,
)
from verifier.theorems.cotangents import sort
from verifier.theorems.prices import in_state
from verifier.theorems.sums import Named, induction, total
from verifier.theorems.theorem import Theorem

NAME: Final = "fan_out"
DETERMINED: Final = "a contribution's type is determined by the primal's"
KEPT: Final = "adding what is in one state keeps it"


def _agree() -> Sequence[Query]:
    """The contributions are numbered by use; `comes(k)` is the type of the k-th, `sums(k)` that of the sum of k."""
    made, _ = sort()
    primal, state = Constant("the primal's type", made), Constant("s", made)
    ct, adds = Function("CT", made, made), Function("add", made, made, made)
    comes, sums = Function("comes", INTEGERS, made), Function("sums", INTEGERS, made)
    one, other, k = Integers("one other k")
    determined: Named = (DETERMINED, ForAll([one], comes(one) == ct(primal)))
    kept: Named = (KEPT, ForAll([state], adds(state, state) == state))
    added: Named = ("one more is added", sums(k + 1) == adds(sums(k), comes(k)))
    return (
        Query("any two agree", (determined,), comes(one) == comes(other)),
        Query("of one", (determined, ("the sum of one is that one", sums(1) == comes(0))), sums(1) == ct(primal)),
        Query(
            "of one more",
            (determined, kept, added, ("it holds for k", sums(k) == ct(primal))),
            sums(k + 1) == ct(primal),
        ),
        _on_two(),
    )


def _on_two() -> Query:
    """Two contributions a and b to one cotangent, on two devices, each a copy or pieces. Each device adds its own. If
    one were copies and the other pieces, what devices hold then would be neither."""
    a, b, both = Numbers("a[0] a[1]"), Numbers("b[0] b[1]"), Numbers("sum[0] sum[1]")
    of_a, of_b = Truth("a is a copy"), Truth("b is a copy")
    value_a, value_b = Numbers("value⸳a value⸳b")

    def reads(held: Sequence[Term], copy: Term, value: Term) -> Formula:
        return If(copy, And(held[0] == value, held[1] == value), held[0] + held[1] == value)

    given = (
        (DETERMINED, of_a == of_b),
        ("a reads back", reads(a, of_a, value_a)),
        ("b reads back", reads(b, of_b, value_b)),
        ("each device adds", And(both[0] == a[0] + b[0], both[1] == a[1] + b[1])),
    )
    return Query("two contributions on two devices", given, reads(both, of_a, value_a + value_b))


def _free() -> Sequence[Query]:
    """Each device adds its own blocks. The result is in the same state and reads back as the sum: for every n."""
    d, m, j = Integers("d m j")
    first, second = (Function(name, INTEGERS, NUMBERS) for name in ("x", "y"))
    ours, theirs, adds = (Function(name, INTEGERS, INTEGERS, NUMBERS) for name in ("x_d", "y_d", "x_d + y_d"))
    pieces = total("Σx", first), total("Σy", second), total("Σ(x + y)", lambda device: first(device) + second(device))
    added: Named = ("each device adds", adds(d, j) == ours(d, j) + theirs(d, j))
    copies: Named = ("copies", And(ours(d, j) == first(j), theirs(d, j) == second(j)))
    blocks: Named = ("blocks", And(ours(d, j) == first(d * m + j), theirs(d, j) == second(d * m + j)))
    return (
        Query("replicated, reduced", (added, copies), adds(d, j) == first(j) + second(j)),
        Query("sharded, varying", (added, blocks), adds(d, j) == first(d * m + j) + second(d * m + j)),
        *induction("unreduced", pieces, lambda n: pieces[2](n) == pieces[0](n) + pieces[1](n)),
    )


def _written() -> str:
    """The calculus, of a value in each state that is used twice: it adds two cotangents of the one type that CT gives,
    at that type, and what it adds communicates nothing."""
    from calculus.building import Workbench
    from calculus.checking import Checker
    from calculus.programs import Equation, Parameters, Program
    from calculus.transposition import transpose

    states: tuple[State, ...] = ("N", "R", "U", ("S", 0), "V")
    for state in states:
        mesh = Mesh((Axis("X", None, AxisMode.MANUAL if state == "V" else AxisMode.EXPLICIT),))
        type = in_state(state, (4, 4, 4), "f32")
        uses = tuple(Equation("neg", Parameters(()), ("x",), (name,), (type,)) for name in "yz")
        program = Program((), (), ("x",), (type,), uses, ("y", "z"))
        checker = Checker([mesh])
        checker.check(program)
        found = transpose(Workbench(checker), checker.scope, program, [True], [True, True]).program
        types = dict(zip(found.inputs, found.input_types, strict=True))
        for equation in found.equations:
            types.update(zip(equation.binders, equation.types, strict=True))
        sums = [equation for equation in found.equations if equation.primitive == "add_any"]
        if len(sums) != 1 or {types[str(atom)] for atom in (*sums[0].inputs, *sums[0].binders)} != {cotangent(type)}:
            return f"the contributions to the cotangent of {type} are added by {sums}"
        effects = [one for effect in Checker([mesh]).check(found).effects for one in effect.collectives]
        if effects:
            return f"the contributions to the cotangent of {type} are added by {effects}"
    return ""


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation("fan_out.agree", NAME, "all contributions have the type CT τ, and so does their sum", _agree),
        Obligation(
            "fan_out.free", NAME, "s + s is s, each device adding its own, for s in N, R, S, V, U", _free, _written,
            uses=("sums.added",),
        ),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "The contributions of a value's uses to its cotangent agree in type, and adding them takes no communication.",
    "τ_k = CT τ for every use k;  κ(add_any : (s, s) → s) = 0",
    (
        (DETERMINED, "the type of a cotangent is a function of the primal's type, whatever uses it"),
        (KEPT, "the sum of two values in one state is in that state"),
    ),
    "proofs/fan_out.md",
    obligations,
)
