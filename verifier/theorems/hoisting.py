"""Theorem 8, hoisting: gradients of M microbatches through L layers, summed unreduced and reduced once, are what they
are when each is reduced where it is made; and what that saves. Seeds A34 to A36.

Launches and bytes are counted as the loops run: once more for each iteration. So they are for every L and M.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from calculus.communication import ALL_REDUCE
from verifier.proving.obligations import BOUNDED, Obligation
from verifier.solver import (
    INTEGERS,
    NUMBERS,
    Function,
    Integer,
    Integers,
    Number,
    Numbers,
    Query,
    Term,
    as_number,
    number,
)
from verifier.theorems.prices import wire
from verifier.theorems.sums import Named, Sum, induction, total
from verifier.theorems.theorem import Theorem

NAME: Final = "hoisting"
EACH: Final = "each contribution is reduced where it is made"
ADDS: Final = "an all-reduce adds"
ACCUMULATES: Final = "devices accumulate by adding"
OWN: Final = "each layer has a weight of its own"
SHARED: Final = "all layers share one weight"

TRIED: Final = ((1, 4), (2, 1), (3, 5))
"""Numbers of layers and of microbatches of the programs that the calculus prices."""


def _counted(name: str, each: Term) -> Sequence[Query]:
    """What two loops add up to, when the body of the inner one counts for `each`."""
    layers = Integer("L")
    inner, outer = total(f"{name} of a microbatch", lambda layer: each), total(name, lambda batch: layers * each)
    return (
        *induction(f"{name}: over layers", (inner,), lambda n: inner(n) == n * each),
        *induction(f"{name}: over microbatches", (outer,), lambda n: outer(n) == n * layers * each),
    )


def _launches() -> Sequence[Query]:
    layers, batches, eager, hoisted = Integers("L M eager hoisted")
    queries = _counted("launches", number(1))
    given = ((EACH, eager == batches * layers), ("one reduction in the end", hoisted == 1))
    return (*queries, Query("launches fall by L·M", given, eager == layers * batches * hoisted))


def _bytes() -> Sequence[Query]:
    """eager: M·L times w bytes. Hoisted: once, and L·w bytes where each layer has its own weight, w where one is
    shared. The wire price is the calculus', and falls alike."""
    weight, eager, hoisted = Numbers("w eager hoisted")
    layers, batches, n = Integers("L M n")
    many = as_number(layers) * as_number(batches)
    queries = _counted("bytes", weight)
    each: Named = (EACH, eager == many * weight)
    own, shared = (OWN, hoisted == as_number(layers) * weight), (SHARED, hoisted == weight)
    devices: Named = ("there are devices", n >= 1)
    sent = wire(ALL_REDUCE, eager, n), wire(ALL_REDUCE, hoisted, n)
    return (
        *queries,
        Query("by M, where each layer has its weight", (each, own), eager == as_number(batches) * hoisted),
        Query("by L·M, where one is shared", (each, shared), eager == many * hoisted),
        Query("on the wire by M", (each, own, devices), sent[0] == as_number(batches) * sent[1]),
        Query("on the wire by L·M", (each, shared, devices), sent[0] == many * sent[1]),
    )


def _value() -> Sequence[Query]:
    """Eagerly, the sum over contributions (m, l) of the sum over devices; hoisted, the sum over devices of their own
    sums over contributions. Contributions are numbered in the order in which they are made."""
    gradient = Function("g", INTEGERS, INTEGERS, NUMBERS)  # of a device, a contribution
    summed = Function("G", INTEGERS, INTEGERS, NUMBERS)  # (n, m) -> Σ_{d<n} g(d, m)
    accumulated = Function("A", INTEGERS, INTEGERS, NUMBERS)  # (d, m) -> Σ_{k<m} g(d, k)
    once = Function("once", INTEGERS, INTEGERS, NUMBERS)  # (n, m) -> Σ_{d<n} A(d, m)
    n, m = Integers("n m")
    eager = Sum("each reduced", Function("each", INTEGERS, NUMBERS), lambda k: summed(n, k))
    sums = (
        ("once adds a device", once(n + 1, m + 1) == once(n, m + 1) + accumulated(n, m + 1)),
        ("once added a device", once(n + 1, m) == once(n, m) + accumulated(n, m)),
        ("G adds a device", summed(n + 1, m) == summed(n, m) + gradient(n, m)),
        (ACCUMULATES, accumulated(n, m + 1) == accumulated(n, m) + gradient(n, m)),
    )
    grows = once(n, m + 1) == once(n, m) + summed(n, m)
    none = (
        ("sums over no devices are 0", once(0, m + 1) == 0),
        ("and before", once(0, m) == 0),
        ("and of G", summed(0, m) == 0),
    )
    more = once(n + 1, m + 1) == once(n + 1, m) + summed(n + 1, m)
    empty = (eager.start, ("of no contributions all is 0", once(n, 0) == 0))
    return (
        Query("one more contribution, no devices", none, once(0, m + 1) == once(0, m) + summed(0, m)),
        Query("one more contribution, one more device", (*sums, ("it holds for n", grows)), more),
        Query("reduced once, of none", empty, eager(0) == once(n, 0)),
        Query(
            "reduced once, of one more",
            (eager.step(m), ("one more contribution", grows), ("it holds for m", eager(m) == once(n, m))),
            eager(m + 1) == once(n, m + 1),
        ),
        _on_two(),
    )


def _on_two() -> Query:
    """The same on two devices with two contributions each, small enough to be looked at."""
    first, second = Numbers("g[0] g[1]"), Numbers("g′[0] g′[1]")
    reduced, held, each, once = Numbers("r r′"), Numbers("sum[0] sum[1]"), Number("each"), Number("once")
    adds = (reduced[0] == first[0] + first[1]), (reduced[1] == second[0] + second[1]), once == held[0] + held[1]
    accumulates = (held[0] == first[0] + second[0]), (held[1] == first[1] + second[1])
    return Query(
        "two devices, two contributions",
        (
            (ADDS, adds[0] & adds[1] & adds[2]),
            (ACCUMULATES, accumulates[0] & accumulates[1]),
            (EACH, each == reduced[0] + reduced[1]),
        ),
        each == once,
    )


_OWN_WEIGHTS: Final = """
{ lambda ; x:f32[<M>,8@X,4]. let
    z:f32[<L>,4,4]<U> = broadcast_in_dim 0.0:f32[]
    g:f32[<L>,4,4]<U> = scan[
      jaxpr={ lambda ; s:f32[<L>,4,4]<U> b:f32[8@X,4]. let
          e:f32[8@X,4] d:f32[<L>,4,4]<U> = scan[
            jaxpr={ lambda ; c:f32[8@X,4]. let
                d:f32[4,4]<U> = dot_general[dimension_numbers=(([0], [0]), ([], [])) preferred_element_type=float32] c c
                e:f32[8@X,4] = tanh c
              in (e, d) }
            length=<L>
            num_carry=1
            num_consts=0
          ] b
          t:f32[<L>,4,4]<U> = add s d
        in (t,) }
      length=<M>
      num_carry=1
      num_consts=0
    ] z x
    r:f32[<L>,4,4] = reshard g
  in (r,) }
"""

_ONE_WEIGHT: Final = """
{ lambda ; x:f32[<M>,8@X,4]. let
    z:f32[4,4]<U> = broadcast_in_dim 0.0:f32[]
    g:f32[4,4]<U> = scan[
      jaxpr={ lambda ; s:f32[4,4]<U> b:f32[8@X,4]. let
          e:f32[8@X,4] t:f32[4,4]<U> = scan[
            jaxpr={ lambda ; c:f32[8@X,4] s:f32[4,4]<U>. let
                d:f32[4,4]<U> = dot_general[dimension_numbers=(([0], [0]), ([], [])) preferred_element_type=float32] c c
                e:f32[8@X,4] = tanh c
                t:f32[4,4]<U> = add s d
              in (e, t) }
            length=<L>
            num_carry=2
            num_consts=0
          ] b s
        in (t,) }
      length=<M>
      num_carry=1
      num_consts=0
    ] z x
    r:f32[4,4] = reshard g
  in (r,) }
"""


def sends(program: str, state: str, layers: int, batches: int, count: int) -> tuple[int, int, int | float | Fraction]:
    """Launches, payload and wire bytes of a program's all-reduces, as the calculus prices it. state: of the sums,
    nothing for replicated."""
    from calculus.meshes import Axis, Mesh
    from verifier.texts import check_text

    text = program.replace("<L>", str(layers)).replace("<M>", str(batches)).replace("<U>", state)
    report = check_text(text, (Mesh((Axis("X", count),)),), "hoisting")
    rows = report.communication
    if report.refusals or any(row.kind != ALL_REDUCE or row.exactness != "exact" for row in rows):
        raise ValueError(f"{report.refusals or rows}")
    return (
        sum(row.times or 0 for row in rows),
        sum(row.total or 0 for row in rows),
        sum(row.wire_total or 0 for row in rows),
    )


def _programs() -> str:
    """The calculus' own count, of programs with two loops."""
    weight = 4 * 4 * 4
    for layers, batches in TRIED:
        for program, factor in ((_OWN_WEIGHTS, batches), (_ONE_WEIGHT, layers * batches)):
            eager, hoisted = (sends(program, state, layers, batches, 4) for state in ("", "{U:X}"))
            if eager[0] != layers * batches or eager[1] != layers * batches * weight or hoisted[0] != 1:
                return f"with {layers} layers and {batches} microbatches the calculus counts {eager} and {hoisted}"
            if any(one != factor * other for one, other in zip(eager[1:], hoisted[1:], strict=True)):
                return f"with {layers} layers and {batches} microbatches bytes fall from {eager} to {hoisted}"
    return ""


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation("hoisting.value", NAME, "Σ_m AR(g_m) = AR(Σ_m g_m), for every number of devices and sums", _value),
        Obligation("hoisting.launches", NAME, "L·M all-reduces become 1", _launches),
        Obligation("hoisting.bytes", NAME, "bytes fall by M, by L·M where a weight is shared; on the wire too", _bytes),
        Obligation(
            "hoisting.programs", NAME, "the calculus counts the same in programs with two loops", check=_programs,
            basis=BOUNDED, bound="(L, M) in " + ", ".join(map(str, TRIED)),
        ),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "Accumulating unreduced gradients over M microbatches and L layers and reducing once equals reducing each. "
    "Launches fall by L·M; bytes by M where each layer has a weight of its own, and by L·M where all share one.",
    "Σ_{m,l} AR(g_{m,l}) = AR(Σ_{m,l} g_{m,l});  L·M → 1 launches;  L·M·w → L·w bytes, or w",
    (
        (EACH, "eagerly, each layer of each microbatch reduces its contribution"),
        (ADDS, "what devices reduce is the sum of what they hold"),
        (ACCUMULATES, "a device's accumulator is the sum of its contributions"),
        (OWN, "the gradient that is reduced once has L weights"),
        (SHARED, "the gradient that is reduced once is one weight"),
    ),
    "proofs/hoisting.md",
    obligations,
)
