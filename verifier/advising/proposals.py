"""Advice in words: what to write, what it saves, and who has agreed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from calculus.communication import Collective, move
from calculus.effects import Charge
from calculus.meshes import Mesh
from calculus.repairs import priced
from calculus.types import ArrayType, Type
from verifier.advising.advice import Advice, Price
from verifier.advising.rewriting import Asked, Cast, Widened
from verifier.advising.subjects import Subject
from verifier.advising.tangents import closed
from verifier.explaining.entries import plain
from verifier.report import count

MOST: Final = 20
"""The most edits of one kind that are shown; `--json` lists all."""


@dataclass(slots=True)
class Checks:
    """What became of a proposal elsewhere, in words; empty where nobody was asked. equal: by the executor. jax: by
    JAX. compiled: by XLA. own: by JAX, which traced the author's function at the new types."""

    equal: str = ""
    jax: str = ""
    compiled: str = ""
    own: str = ""
    failed: bool = False


@dataclass(slots=True)
class Proposal:
    """Advice about a subject, with what was found out about it. plain: what saves less, and needs nothing but other
    types of inputs, accumulators and results."""

    subject: Subject
    advice: Advice
    checks: Checks = field(default_factory=Checks)
    plain: Proposal | None = None

    @property
    def inputs(self) -> dict[str, str]:
        """The PartitionSpec of each input that gets another, by its path."""
        return {path: spec(type) for path, type in self.types.items()}

    @property
    def types(self) -> dict[str, Type | None]:
        """The type of each input that gets another, by its path."""
        names = dict(zip(self.advice.program.inputs, self.subject.inputs, strict=True))
        found: dict[str, Type | None] = {}
        for _, made in self.advice.steps:
            found.update(made.inputs)
        return {names.get(name, name): type for name, type in found.items()}

    @property
    def casts(self) -> list[tuple[str, Cast]]:
        """The casts to write, those of inputs that have another spec aside: along which axis, and which."""
        return [
            (",".join(axes), cast)
            for axes, made in self.advice.steps
            for cast in made.casts
            if not (cast.first and made.inputs.get(cast.name) is cast.target)
        ]

    @property
    def asked(self) -> list[tuple[str, Asked]]:
        """The results that are to be asked for otherwise."""
        return [(",".join(axes), one) for axes, made in self.advice.steps for one in made.asked]

    @property
    def widened(self) -> list[tuple[str, Widened]]:
        """The equations whose operands are broadcast first."""
        return [(",".join(axes), one) for axes, made in self.advice.steps for one in made.widened]

    def label(self, cast: Cast) -> str:
        """What a value that is cast is called: by its path, its name in the text, or by what uses it."""
        names = dict(zip(self.advice.program.inputs, self.subject.inputs, strict=True))
        if cast.depth == 0 and cast.name in names:
            return names[cast.name]
        if self.subject.named:
            return cast.name if not cast.name.startswith("%") else "its result"
        return f"<operand of {cast.user}>" if cast.user else "<result>"

    def lines(self) -> Iterator[str]:
        """As people read it."""
        advice, before, after = self.advice, self.advice.before, self.advice.after
        name = self.subject.name
        pass_ = "forward and backward" if advice.wrt else "as it stands"
        if not advice.better:
            yield f"{name}: nothing cheaper found · {_cost(before)}, {pass_}"
            yield from self._refused()
            yield from _table("it communicates", before, self.subject)
            yield from _closed(before, self.subject)
            yield from self._unproved()
            if self.checks.compiled:
                yield f"  checked: {self.checks.compiled}"
            return
        if self.plain is not None:
            yield from self.plain.lines()
            yield ""
            name = f"{name}, written anew inside"
        share = 1 - after.wire / before.wire if before.wire else 0
        yield (
            f"{name}: {_bytes(before.wire)} on the wire per device become {_bytes(after.wire)} ({share:.0%} less), "
            f"{count(before.runs, 'collective')} become {after.runs:,}, {pass_}"
        )
        if self.inputs:
            yield "  inputs, what each is used as; the cast is free, and its gradient comes back as its cotangent type"
            pairs = list(self.inputs.items())
            yield "    {" + f"{pairs[0][0]!r}: {pairs[0][1]}" + ("," if len(pairs) > 1 else "}")
            for at, (path, said) in enumerate(pairs[1:], 2):
                yield f"     {path!r}: {said}" + ("," if at < len(pairs) else "}")
        yield from self._edits()
        yield from self._refused()
        yield from _table("before", before, self.subject)
        yield from _table("after", after, self.subject)
        yield from _each(after, self.subject)
        yield from _closed(after, self.subject)
        yield from self._unproved()
        yield f"  checked: typed again, and priced{' with the backward pass that is derived' if advice.wrt else ''}"
        for said in (self.checks.equal, self.checks.jax, self.checks.own, self.checks.compiled):
            if said:
                yield f"           {said}"

    def _edits(self) -> Iterator[str]:
        mesh = self.subject.meshes[0]
        accumulators = [pair for pair in self.casts if pair[1].carried]
        written = [pair for pair in self.casts if not pair[1].carried]
        others = [pair for pair in written if not self.subject.transposed(pair[1].line)]
        for title, pairs in (("accumulators: begin the loop with", accumulators), ("casts", others)):
            if pairs:
                yield f"  {title}"
            for _, cast in pairs[:MOST]:
                price = _moves(cast, mesh)
                inside = f", {count(cast.depth, 'level')} deep" if cast.depth else ""
                yield (
                    f"    {self.subject.where(cast.line)}{inside}: jax.reshard({self.label(cast)}, {spec(cast.target)})"
                    f"  # {cast.source} to {cast.target}, {price}"
                )
            if len(pairs) > MOST:
                yield f"    and {len(pairs) - MOST} more: --json lists all"
        widened = self.widened
        if widened:
            yield "  broadcast, then reshard: JAX does not take a reduced operand beside a sharded one (XLA fuses it)"
        for _, use in widened[:MOST]:
            for wide in filter(None, use.wide):
                where, name = self.subject.where(use.equation.line), use.equation.primitive
                yield (
                    f"    {where}: {name} of jax.reshard(jnp.broadcast_to(..., {list(wide.cut.shape)}), "
                    f"{spec(wide.cut)})  # {wide.whole} to {wide.cut}"
                )
        if len(others) < len(written):
            yield f"  and {count(len(written) - len(others), 'cast')} that follow in the backward pass"
        if self.asked:
            yield "  targets"
        for _, one in self.asked[:MOST]:
            where, name = self.subject.where(one.equation.line), one.equation.primitive
            call = "jax.reshard(..., " if name == "reshard" else f"{name}(..., out_sharding="
            yield f"    {where}: {call}{spec(one.after)})  # {one.after} instead of {one.before}"
        if len(self.asked) > MOST:
            yield f"    and {len(self.asked) - MOST} more: --json lists all"

    def _unproved(self) -> Iterator[str]:
        if not self.advice.proved:
            yield "  the solver had no time left: there may be something cheaper (--axes asks about fewer)"

    def _refused(self) -> Iterator[str]:
        refused, advice = self.advice.refused, self.advice
        if not refused:
            return
        ideal = "" if advice.ideal is None or advice.ideal >= advice.after.wire else (
            f"; with all that is sound, {_bytes(advice.ideal)} would do"
        )  # fmt: skip
        yield f"  sound, but not taken by JAX{ideal}"
        for one in refused[:MOST]:
            yield f"    {self.subject.where(one.line)}: {one.cell}: {one.reason[:160]}"

    def data(self) -> dict[str, object]:
        """As plain data."""
        from grammar.print import print_document

        advice = self.advice
        mesh = self.subject.meshes[0]
        return {
            "file": self.subject.name,
            "mesh": str(mesh),
            "differentiated": [self.subject.inputs[at] for at in advice.wrt],
            "better": advice.better,
            "proved": advice.proved,
            "before": _price(advice.before, self.subject),
            "after": _price(advice.after, self.subject),
            "inputs": self.inputs,
            "casts": [
                {
                    "axis": axis, "where": self.subject.where(cast.line), "line": cast.line, "depth": cast.depth,
                    "value": self.label(cast), "accumulator": cast.carried, "from": str(cast.source),
                    "to": str(cast.target), "spec": spec(cast.target), "price": _moves(cast, mesh),
                    "follows": self.subject.transposed(cast.line),
                }
                for axis, cast in self.casts
            ],
            "targets": [
                {
                    "axis": axis, "where": self.subject.where(one.equation.line), "line": one.equation.line,
                    "primitive": one.equation.primitive, "from": str(one.before), "to": str(one.after),
                    "out_sharding": spec(one.after),
                }
                for axis, one in self.asked
            ],
            "broadcasts": [
                {
                    "axis": axis, "where": self.subject.where(use.equation.line), "line": use.equation.line,
                    "primitive": use.equation.primitive, "operand": index, "broadcast": str(wide.whole),
                    "to": str(wide.cut), "spec": spec(wide.cut),
                }
                for axis, use in self.widened
                for index, wide in enumerate(use.wide)
                if wide is not None
            ],
            "not_taken": [
                {"where": self.subject.where(one.line), "cell": one.cell, "reason": one.reason}
                for one in advice.refused
            ],
            "with_all_that_is_sound": None if advice.ideal is None else plain(advice.ideal),
            "specs_alone": None if self.plain is None else self.plain.data(),
            "checks": {
                "equal": self.checks.equal, "jax": self.checks.jax, "own": self.checks.own,
                "compiled": self.checks.compiled,
            },
            "program": print_document(advice.document) if advice.better else "",
        }  # fmt: skip


def spec(type: Type | None) -> str:
    """The PartitionSpec of a type, as one writes it."""
    if not isinstance(type, ArrayType):
        return "P()"
    dims = [repr(axes[0]) if len(axes) == 1 else repr(axes) if axes else "None" for axes in type.axes]
    while dims and dims[-1] == "None":
        dims.pop()
    dims += [f"unreduced={{{', '.join(map(repr, type.unreduced))}}}"] if type.unreduced else []
    dims += [f"reduced={{{', '.join(map(repr, type.reduced))}}}"] if type.reduced else []
    return f"P({', '.join(dims)})"


def _moves(cast: Cast, mesh: Mesh) -> str:
    if not isinstance(cast.source, ArrayType) or not isinstance(cast.target, ArrayType):
        return "free"
    found: Sequence[Collective] = move(cast.source, cast.target, mesh)
    return priced(found)


def _cost(price: Price) -> str:
    more = " and what the data decide" if price.unknown else ""
    return f"{count(price.runs, 'collective')}, {_bytes(price.wire)} on the wire per device{more}"


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:,.2f} {unit}"
    return f"{round(number):,} bytes"


def _price(price: Price, subject: Subject) -> dict[str, object]:
    return {
        "wire_bytes": plain(price.wire),
        "bytes": price.payload,
        "collectives": price.runs,
        "communication": [
            {
                "where": subject.where(charge.equation.line), "line": charge.equation.line,
                "primitive": charge.equation.primitive, "kind": charge.collective.kind,
                "axes": list(charge.collective.axes), "bytes": charge.collective.payload, "times": charge.times,
                "inside": list(charge.inside),
            }
            for charge in price.charges
        ],
    }  # fmt: skip


def _table(title: str, price: Price, subject: Subject) -> Iterator[str]:
    rows: dict[tuple[str, str, str, str], tuple[int, float]] = {}
    for one in price.charges:
        key = _key(one, subject)
        runs, sent = rows.get(key, (0, 0.0))
        rows[key] = runs + (one.times or 1), sent + float(one.collective.wire or 0) * (one.times or 1)
    yield f"  {title}: {_cost(price)}"
    shown = sorted(rows.items(), key=lambda item: -item[1][1])
    for key, (runs, sent) in shown[:MOST]:
        where, kind, axes, payload = key
        each = f"{where:<28} {kind:<14} {axes:<12} {payload:>12} bytes"
        yield f"    {each}  {f'{runs:,}x':>7}  {round(sent):>14,} on the wire"
    if len(shown) > MOST:
        rest = sum(sent for _, (_, sent) in shown[MOST:])
        yield f"    and {len(shown) - MOST} more rows, {_bytes(rest)}"


def _each(price: Price, subject: Subject) -> Iterator[str]:
    """What is left in each microbatch."""
    many = subject.microbatches
    if many > 1:
        left = [one for one in price.charges if one.inside and one.inside[0] == f"scan x{many}"]
        runs = sum((one.times or 1) // many for one in left)
        sent = sum(float(one.collective.wire or 0) * (one.times or 1) / many for one in left)
        rest = f"{count(runs, 'collective')}, {_bytes(sent)} on the wire per device" if left else "nothing"
        yield f"    in each of the {many} microbatches: {rest}"


def _closed(price: Price, subject: Subject) -> Iterator[str]:
    """What stands where nothing is changed."""
    found: dict[tuple[str, str], list[Charge]] = {}
    for one in price.charges:
        primitive = closed(one.sites)
        if primitive:
            found.setdefault((primitive, subject.where(one.equation.line)), []).append(one)
    for (primitive, where), those in found.items():
        sent = sum(float(one.collective.wire or 0) * (one.times or 1) for one in those)
        runs = count(sum(one.times or 1 for one in those), "collective")
        left = f"{runs}, {_bytes(sent)} on the wire, as before"
        yield f"  not looked into: the body of {primitive}, {where}: {left}"


def _key(charge: Charge, subject: Subject) -> tuple[str, str, str, str]:
    collective = charge.collective
    payload = "?" if collective.payload is None else f"{collective.payload:,}"
    return subject.where(charge.equation.line), collective.kind, ",".join(collective.axes), payload
