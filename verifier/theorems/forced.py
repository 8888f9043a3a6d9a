"""Theorem 7, unreduced is forced: the four premises of the page as formulas (seed A38, A39), which sharded and
replicated alone do not satisfy; which state does; and what it is, a hidden array axis that devices index.

The premises speak of one product: a scalar s times a vector x that is cut along an axis, whose cotangent c is cut
alike. Of the cotangent of s each device holds something, its *share*. Two runs are compared, in which device 0 is given
the same and device 1 something else; what all other devices give is `rest`, so that there may be any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from verifier.proving.obligations import Obligation
from verifier.solver import (
    INTEGERS,
    NUMBERS,
    TRUE,
    And,
    Constant,
    ForAll,
    Formula,
    Function,
    Implies,
    Integer,
    Not,
    Number,
    Numbers,
    Or,
    Query,
    Term,
    Truth,
    decide,
    enumeration,
)
from verifier.theorems.sums import Named, induction, total
from verifier.theorems.theorem import Theorem

NAME: Final = "forced"

COST: Final = "cost is preserved"
REPLICATION: Final = "replication is expressible"
PRODUCT: Final = "a scalar held in full multiplies a sharded vector"
SHAPE: Final = "cotangents have the shape of their primals"
ALONE: Final = "sharded and replicated are the only states"
PREMISES: Final = (COST, REPLICATION, PRODUCT, SHAPE, ALONE)


class Setting:
    """The product, its two runs, and the cotangent of its scalar.

    held: the state that the cotangent is in. axes: how many array dims it has. shares: what devices 0 and 1 hold of it,
    in each run. truths: its value in each run. scalar_in_full: whether a scalar may be held in full on every device.
    product_free: whether its product with a sharded vector can be written, free as it is.
    """

    def __init__(self) -> None:
        made, (self.sharded, self.replicated, _) = _states()
        self.held = Constant("the state of the cotangent", made)
        self.axes = Integer("array dims of the cotangent")
        self.scalar_in_full, self.product_free = Truth("a scalar is held in full"), Truth("the product is expressible")
        self.x = Numbers("x[0] x[1]"), Numbers("x[0] x′[1]")
        self.c = Numbers("c[0] c[1]"), Numbers("c[0] c′[1]")
        self.shares = Numbers("share[0] share[1]"), Numbers("share′[0] share′[1]")
        self.rest = Number("rest")
        self.truths = tuple(x[0] * c[0] + x[1] * c[1] + self.rest for x, c in zip(self.x, self.c, strict=True))

    def definitions(self) -> tuple[Named, ...]:
        """What the two states mean, and that the two runs differ. A copy is the value, on every device. What is sharded
        has a dim that is cut: its entries are the shares, and adding the device-indexed dim up gives the cotangent."""
        copies = [share == truth for shares, truth in zip(self.shares, self.truths, strict=True) for share in shares]
        return (
            ("a copy is the value on every device", Implies(self.held == self.replicated, And(*copies))),
            ("what is sharded has a dim that is cut", Implies(self.held == self.sharded, self.axes > 0)),
            ("the runs differ", self.truths[0] != self.truths[1]),
            ("a number of dims", self.axes >= 0),
        )

    def premises(self) -> dict[str, Formula]:
        """The premises, by name."""
        local = self.shares[0][0] == self.shares[1][0]  # device 0 is given the same in both runs
        return {
            COST: Implies(self.product_free, local),
            REPLICATION: self.scalar_in_full,
            PRODUCT: Implies(self.scalar_in_full, self.product_free),
            SHAPE: self.axes == 0,
            ALONE: Or(self.held == self.sharded, self.held == self.replicated),
        }


@cache
def _states() -> tuple[Term, Sequence[Term]]:
    found: tuple[Term, Sequence[Term]] = enumeration("HeldAs", ["sharded", "replicated", "a third state"])
    return found


def _given(setting: Setting, *left_out: str) -> tuple[Named, ...]:
    premises = setting.premises()
    return (*setting.definitions(), *((name, premises[name]) for name in PREMISES if name not in left_out))


def _core() -> Sequence[Query]:
    setting = Setting()
    return (Query("a third state", _given(setting, ALONE), Not(setting.premises()[ALONE])),)


def _core_is_all() -> str:
    """All five together contradict each other, and the solver needs each of them to see it."""
    answer = decide(Query("all premises", _given(Setting()), TRUE, possible=True), core=True)
    if answer.verdict != "refuted":
        return f"the premises together are {answer.verdict}"
    missing = [name for name in PREMISES if name not in answer.core]
    return f"the contradiction does not need that {missing[0]}" if missing else ""


_DROPPED: Final = {
    COST: "the transpose communicates: an all-reduce gives every device the sum",
    REPLICATION: "no scalar is held in full, so there is no such product",
    PRODUCT: "the product cannot be written",
    SHAPE: "the cotangent has a dim more, indexed by devices and cut",
    ALONE: "a third state",
}


def _models() -> Sequence[Query]:
    """Without one of them the others have a model."""
    found = []
    for name, words in _DROPPED.items():
        setting = Setting()
        others = _given(setting, name)
        found.append(Query(f"without that {name}: {words}", others, Not(setting.premises()[name]), possible=True))
    return found


UNSCALED: Final = "the pairing is unscaled"
PAIRED: Final = "the cotangent is what the pairing says"


def _reads_as_sum() -> Sequence[Query]:
    """⟨s, y⟩ is s times what y reads back as; unscaled, it is Σ_d s·y_d, which is s·Σ_d y_d. At s = 1 that says what y
    reads back as. A scaled pairing, Σ_d w·s·y_d, would have it read back as w times the sum."""
    scalar, weight, reads, sum_, paired, scaled = Numbers("s w value sum paired Σsy")
    piece = Function("y", INTEGERS, NUMBERS)
    pieces, products = total("Σy", piece), total("Σsy_d", lambda d: scalar * piece(d))
    pulled = ("s comes out of the sum", scaled == scalar * sum_)
    return (
        *induction("s comes out", (pieces, products), lambda n: products(n) == scalar * pieces(n)),
        Query(
            "it reads back as the sum",
            (
                pulled,
                ("at s = 1", scalar == 1),
                ("each device adds its share", paired == weight * scaled),
                (UNSCALED, weight == 1),
                (PAIRED, paired == scalar * reads),
            ),
            reads == sum_,
        ),
    )


def _separable() -> Sequence[Query]:
    """Whatever the state, what it reads back as is a sum of what each device contributes: exchanging device 1's inputs
    between two runs changes the value by an amount that does not depend on device 0."""
    reads = Function("reads", NUMBERS, NUMBERS, NUMBERS)
    mine, theirs = (Function(f"share[{d}]", NUMBERS, NUMBERS, NUMBERS) for d in (0, 1))
    x0, c0, x1, c1, a0, b0, a1, b1, rest = Numbers("x[0] c[0] x[1] c[1] x′[0] c′[0] x′[1] c′[1] rest")
    runs = [(x0, c0, x1, c1), (a0, b0, a1, b1), (x0, c0, a1, b1), (a0, b0, x1, c1)]
    values = [reads(mine(p, q), theirs(r, s)) for p, q, r, s in runs]
    transposes: list[Named] = [
        (f"run {number}: the transpose of the product", found == p * q + r * s + rest)
        for number, (found, (p, q, r, s)) in enumerate(zip(values, runs, strict=True))
    ]
    return (Query("contributions add up", tuple(transposes), values[0] + values[1] == values[2] + values[3]),)


def _isomorphism() -> Sequence[Query]:
    """A family of pieces is an array with one dim more, over devices, cut along the axis: y_d = A[d, :]. There and
    back is nothing; finishing the sum is summing that dim; a linear operation acts on each row; the cotangent of a sum
    over a dim is a broadcast along it, each device's part of which is the same: reduced."""
    family, array = Function("y", INTEGERS, INTEGERS, NUMBERS), Function("A", INTEGERS, INTEGERS, NUMBERS)
    device, index, n = Integer("d"), Integer("i"), Integer("n")
    linear = Function("f", NUMBERS, NUMBERS)
    again = Function("y′", INTEGERS, INTEGERS, NUMBERS)
    stacked: Named = (
        "row d is what device d holds",
        ForAll([device, index], array(device, index) == family(device, index)),
    )
    taken: Named = (
        "device d holds row d",
        ForAll([device, index], again(device, index) == array(device, index)),
    )
    pieces = total("Σ_d y_d", lambda d: family(d, index))
    column = total("Σ_d A[d]", lambda d: array(d, index))
    mapped = total("Σ_d f(y_d)", lambda d: linear(family(d, index)))
    cotangent = Number("c")
    broadcast = total("⟨A, broadcast c⟩", lambda d: array(d, index) * cotangent)

    def row(count: Term) -> tuple[Named, ...]:
        return (("row n is what device n holds", array(count, index) == family(count, index)),)

    additive: Named = (
        "f is additive",
        linear(pieces(n) + family(n, index)) == linear(pieces(n)) + linear(family(n, index)),
    )
    block, size = Integer("block"), Integer("rows of a block")
    return (
        Query(
            "a block of the array is one row",
            (
                ("n devices cut n rows", size == 1),
                ("the row is in device d's block", And(device * size <= block, block < (device + 1) * size)),
            ),
            block == device,
        ),
        *induction("finishing is summing the dim", (pieces, column), lambda m: pieces(m) == column(m), beside=row),
        *induction(
            "a linear operation acts row by row",
            (pieces, mapped),
            lambda m: mapped(m) == linear(pieces(m)),
            (("f(0) is 0", linear(0) == 0),),
            lambda m: (additive,),
        ),
        *induction(
            "the cotangent is broadcast along the dim",
            (pieces, broadcast),
            lambda m: broadcast(m) == pieces(m) * cotangent,
            beside=row,
        ),
        Query("there and back", (stacked, taken), again(device, index) == family(device, index)),
    )


def _on_devices() -> str:
    """The same on arrays: stacking the blocks of an unreduced array gives an array whose first dim is cut, with those
    blocks; its sum over that dim is what the unreduced array reads back as."""
    import numpy as np

    from calculus.meshes import Axis, Mesh
    from calculus.types import array_type
    from verifier.devices import devices, place, read_back

    random = np.random.default_rng(0)
    for count in (2, 3, 5):
        mesh = Mesh((Axis("X", count),))
        pending, hidden = array_type("i64", (4,), unreduced=("X",)), array_type("i64", (count, 4), (("X",), ()))
        value = random.integers(-99, 99, (4,))
        family = place(value, pending, mesh, random)
        array = read_back({device: family[device][None] for device in devices(mesh)}, hidden, mesh)
        again = {device: block[0] for device, block in place(array, hidden, mesh, random).items()}
        same = all(np.array_equal(again[device], family[device]) for device in family)
        if not (
            same and np.array_equal(array.sum(0), value) and np.array_equal(read_back(again, pending, mesh), value)
        ):
            return f"on {count} devices the stacked blocks {array} are not those of {value}"
    return ""


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation(
            "forced.core", NAME, "the premises, with S and N alone, contradict each other, and each is needed",
            _core, _core_is_all,
        ),
        Obligation("forced.models", NAME, "without any one of them the others have a model", _models),
        Obligation(
            "forced.separable", NAME, "what the cotangent reads back as is a sum of what each device contributes",
            _separable,
        ),
        Obligation(
            "forced.reads_as_sum", NAME, "⟨s, y⟩ = Σ_d s·y_d for all s ⟹ y reads back as Σ_d y_d", _reads_as_sum,
            uses=("sums.scaled",),
        ),
        Obligation(
            "forced.hidden_axis", NAME, "unreduced families are arrays with a dim more, over devices, A[d, :] = y_d: "
            "the sum, linear operations and cotangents correspond", _isomorphism, _on_devices, uses=("sums.scaled",),
        ),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "If free operations have free transposes, replication can be expressed, a scalar that is held in full multiplies a "
    "sharded vector, and cotangents have their primals' shape, then there is a state beside sharded and replicated. In "
    "the unscaled pairing it reads back as the sum of what devices hold. It is a hidden array axis that devices index.",
    "cost ∧ replication ∧ (replication ⟹ product) ∧ shape ⟹ ¬(CT(scalar) ∈ {S, N});  "
    "∀s. s·y = Σ_d s·y_d ⟹ y = Σ_d y_d;  U(τ) ≅ S₀([n] τ)",
    (
        (COST, "premise 1: an operation that needs no communication has a transpose that needs none"),
        (REPLICATION, "premise 2: a scalar may be held in full on every device"),
        (PRODUCT, "premise 3: if so, its product with a sharded vector can be written, free as it is"),
        (SHAPE, "premise 4: the cotangent of a scalar is a scalar"),
        (UNSCALED, "devices' shares of the pairing count once each"),
        (PAIRED, "the cotangent of s is the y with ⟨s, y⟩ the change of the result"),
    ),
    "proofs/forced.md",
    obligations,
)
