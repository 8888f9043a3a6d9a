"""What is found of one primitive, for the author of its rule: as text, and as a test to paste."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from calculus.types import ArrayType
from grammar.read import read_type
from verifier.author import BACKWARD, MEANS, MISSING, RUNS, WRONG, Found, of_every_rule
from verifier.matrix import MESHES
from verifier.report import count

MOST_SHOWN: Final = 8
"""The most findings of one kind that text shows; `--json` lists all."""


def lines(found: Found) -> Iterator[str]:
    """The report as text."""
    yield f"{found.name} ({found.primitive}), {found.jax}"
    yield f"  declaration: {found.declaration}"
    kinds = {kind: [one for one in found.findings if one.kind == kind] for kind in MEANS}
    yield (
        f"  {found.compared:,} cells, {found.seconds:.0f} seconds: {found.agreed:,} agree, "
        f"{len(kinds[WRONG]):,} wrong, {len(kinds[MISSING]):,} missing; "
        f"{found.transposed:,} transposes type, {len(kinds[BACKWARD]):,} do not"
    )
    if found.ran is not None:
        right = found.ran - len(kinds[RUNS])
        yield f"  on devices: {right:,} cells and gradients right, {len(kinds[RUNS]):,} wrong" + (
            f"; not all were run: {found.idle}" if found.idle else ""
        )
    if found.undecided:
        yield f"  beside {count(found.undecided, 'cell')} with a pending maximum, of which a proposal says nothing"
    if found.elsewhere:
        entries = ", ".join(str(entry.number) for entry in of_every_rule())
        yield f"  beside {count(found.elsewhere, 'cell')} that no rule can help: entry {entries} of the ledger"
    if found.since:
        yield f"  since {found.since}: only what is new; gone since then: {count(found.repaired, 'finding')}"
    for kind, chosen in kinds.items():
        shown = sorted(chosen, key=lambda one: (not one.numbers, len(one.mesh), chosen.index(one)))
        if not shown:
            continue
        yield ""
        yield f"  {kind}: {MEANS[kind]}"
        for one in shown[:MOST_SHOWN]:
            yield f"    {one.cell} on {one.mesh}"
            yield f"      JAX says {one.theirs}"
            yield f"      we say   {one.ours}"
            if one.numbers:
                yield f"      {one.numbers}"
        if len(shown) > MOST_SHOWN:
            yield f"    and {len(shown) - MOST_SHOWN:,} more: --json lists all"


def test_method(found: Found) -> Iterator[str]:
    """A test method for JAX's own tests: what is wrong must be refused, what is missing typed so."""
    module, _, name = found.name.partition(":")
    cases = [
        one for one in found.findings
        if one.kind in (WRONG, MISSING) and one.mesh == str(MESHES[0]) and " -> " not in one.cell
    ]  # fmt: skip
    yield f"  def test_sharding_of_{found.primitive.replace('-', '_').replace(':', '_')}(self):"
    if not cases:
        yield "    self.skipTest('nothing is wrong and nothing is missing along one explicit axis')"
        return
    yield f"    from {module} import {name}"
    yield "    mesh = jax.sharding.AbstractMesh((2,), ('X',), axis_types=(jax.sharding.AxisType.Explicit,))"
    yield "    def typed(*operands, **params):"
    yield "      with jax.sharding.use_abstract_mesh(mesh):"
    yield "        structs = [jax.ShapeDtypeStruct(s, d, sharding=jax.NamedSharding(mesh, p)) for d, s, p in operands]"
    yield f"        avals = jax.jit(lambda *xs: {name}.bind(*xs, **params)).trace(*structs).jaxpr.out_avals"
    yield "        return ', '.join(aval.str_short(short_dtypes=True) for aval in avals)"
    for one in cases[: 2 * MOST_SHOWN]:
        said = ", ".join(map(_struct, one.operands))
        if one.kind == WRONG:
            yield f"    # {one.numbers or one.ours}"
            yield f"    with self.assertRaises(Exception, msg={one.cell!r}):"
            yield f"      typed({said})"
        else:
            yield f"    self.assertEqual({one.ours!r}, typed({said}))"


def _struct(text: str) -> str:
    """A type as a test writes it: dtype, shape, partition spec."""
    from calculus.types import DTYPES

    type = read_type(text)
    assert isinstance(type, ArrayType)
    dims = [repr(axes[0] if len(axes) == 1 else axes or None) for axes in type.axes]
    said = [f"unreduced={set(type.unreduced)!r}"] if type.unreduced else []
    said += [f"unreduced_kind=jax.sharding.UnreducedKind.{type.kind}"] if type.unreduced and type.kind != "sum" else []
    said += [f"reduced={set(type.reduced)!r}"] if type.reduced else []
    return f"('{DTYPES[type.dtype][0]}', {type.shape!r}, jax.P({', '.join([*dims, *said])}))"
