"""Every cast and collective of manual mode, on every pair of states of its operand, as JAX's abstract evaluation has it
inside a shard_map on an abstract mesh. Where the two differ, one of four reasons holds, and each reason is met."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from calculus.collectives import COLLECTIVES, collective
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.programs import Equation, Parameters
from calculus.refusals import Refused
from grammar.leaves import type_of

parallel = pytest.importorskip("jax._src.lax.parallel")
from jax._src import core  # noqa: E402

pytestmark = pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="0.10.2 has other primitives in manual mode")

_PRIMITIVES: Final = {
    one.name: one for one in (*vars(parallel).values(), *vars(core).values()) if isinstance(one, Primitive)
}
_MESH: Final = Mesh([Axis("X", 2, AxisMode.MANUAL), Axis("Y", 2, AxisMode.MANUAL)])
_STATES: Final = ("N", "V", "R", "U", "Umax", "Umin")

#: `psum` is for code whose variation is not tracked: it drops every axis. `axis_index` has no operand.
_NOT_COMPARED: Final = ("psum", "axis_index")


class Cell(NamedTuple):
    """A primitive over some axes, on an operand with these states along X and Y: the operand's type, and the type of
    the result in JAX and in the calculus, `None` where it is refused."""

    name: str
    axes: tuple[str, ...]
    states: tuple[str, str]
    operand: str
    theirs: str | None
    ours: str | None

    def along(self) -> set[str]:
        """The states along the axes that the primitive names."""
        return {state for axis, state in zip("XY", self.states, strict=True) if axis in self.axes}

    def beside(self) -> set[str]:
        """The states along the others."""
        return {state for axis, state in zip("XY", self.states, strict=True) if axis not in self.axes}


class _Seen(Exception):
    pass


def _spec(states: tuple[str, str]) -> P:
    cut = tuple(axis for axis, state in zip("XY", states, strict=True) if state == "V")
    unreduced = {axis for axis, state in zip("XY", states, strict=True) if state[0] == "U"}
    reduced = {axis for axis, state in zip("XY", states, strict=True) if state == "R"}
    said: dict[str, Any] = {}
    if unreduced:
        kind = next(state for state in states if state[0] == "U")[1:] or "sum"
        said = {"unreduced": unreduced, "unreduced_kind": jax.sharding.UnreducedKind[kind]}
    return P(cut or None, None, **said, **({"reduced": reduced} if reduced else {}))


def _parameters(name: str, axes: tuple[str, ...]) -> dict[str, Any]:
    row, sync = COLLECTIVES[name], name.removesuffix("_start")
    found: dict[str, Any] = {row.axes: axes}
    if row.move in ("gather", "scatter"):
        dim = "all_gather_dimension" if row.move == "gather" else "scatter_dimension"
        found.update({"axis_size": 2 ** len(axes), "tiled": True, dim: 1})
    elif row.move == "exchange":
        found.update(split_axis=1, concat_axis=0, tiled=True)
    if sync in ("pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all"):
        found["axis_index_groups"] = None
    if sync == "ppermute":
        found["perm"] = ((0, 1), (1, 0))
    if sync == "pbroadcast":
        found["source"] = 0
    return found


def _theirs(name: str, axes: tuple[str, ...], states: tuple[str, str]) -> tuple[str, str | None]:
    seen: list[str | None] = []

    def body(x: Any) -> Any:
        seen.append(jax.typeof(x).str_short(True))
        try:
            result = _PRIMITIVES[name].bind(x, **_parameters(name, axes))
        except (ValueError, TypeError, AssertionError, NotImplementedError):
            seen.append(None)
        else:
            seen.append(jax.typeof(result[0] if isinstance(result, (list, tuple)) else result).str_short(True))
        raise _Seen

    mesh, spec = AbstractMesh((2, 2), ("X", "Y"), axis_types=(AxisType.Explicit,) * 2), _spec(states)
    operand = jax.ShapeDtypeStruct((16, 8), jnp.float32, sharding=NamedSharding(mesh, spec))
    with jax.sharding.use_abstract_mesh(mesh), pytest.raises(_Seen):
        jax.eval_shape(jax.shard_map(body, in_specs=(spec,), out_specs=P()), operand)
    operand_type, result = seen
    assert operand_type is not None
    kind = next((state[1:] for state in states if state in ("Umax", "Umin")), "")
    return operand_type.replace("U:", f"U_{kind}:") if kind else operand_type, result


def _ours(name: str, axes: tuple[str, ...], operand: str) -> str | None:
    equation = Equation(name, Parameters(tuple(_parameters(name, axes).items())), ("a",), ("b",), (None,))
    try:
        return str(collective(equation, [type_of(operand)], _MESH).types[0])
    except Refused:
        return None


@cache
def cells() -> tuple[Cell, ...]:
    """Each primitive over one axis and over two, on each pair of states."""
    return tuple(cell for name in COLLECTIVES for cell in cells_of(name))


def cells_of(name: str) -> Iterator[Cell]:
    """Those of one primitive; none where JAX has no such one, or another."""
    if name in _PRIMITIVES and name not in _NOT_COMPARED:
        for axes in (("X",), ("X", "Y")):
            for states in itertools.product(_STATES, _STATES):
                if len({state for state in states if state[0] == "U"}) <= 1:
                    operand, theirs = _theirs(name, axes, states)
                    yield Cell(name, axes, states, operand, theirs, _ours(name, axes, operand))


@cache
def differing() -> tuple[Cell, ...]:
    """The cells in which JAX and the calculus differ."""
    return tuple(filter(_differs, cells()))


def _differs(cell: Cell) -> bool:
    """In manual mode JAX prints no kind."""
    return cell.theirs != (cell.ours and cell.ours.replace("U_max", "U").replace("U_min", "U"))


def unexplained(name: str) -> list[Cell]:
    """The cells of one primitive in which the two differ for no reason."""
    return [cell for cell in cells_of(name) if _differs(cell) and not any(reason(cell) for reason in REASONS)]


def partly(cell: Cell) -> bool:
    """JAX looks whether some of the named axes are in the right state: the others are summed, gathered or cast as if
    they were."""
    row = COLLECTIVES[cell.name]
    before = row.before if row.joined == "sum" or row.before == "V" else f"U{row.joined}"
    some = before in cell.along() or cell.name == "all_gather_invariant"
    return cell.ours is None and some and cell.along() != {before}


def both_reduced_and_unreduced(cell: Cell) -> bool:
    """JAX makes what is pending reduced along the same axis, a type that its own grammar has no meaning for."""
    return cell.ours is None and cell.name == "preduced" and "U" in cell.along()


def maximum_of_pieces(cell: Cell) -> bool:
    """JAX takes the maximum of pieces of a sum."""
    return cell.ours is None and COLLECTIVES[cell.name].joined != "sum" and "U" in cell.beside()


def beside_a_maximum(cell: Cell) -> bool:
    """JAX refuses whatever stands beside a pending maximum or minimum. What moves elements, or takes a maximum of its
    own kind, commutes with it."""
    return cell.theirs is None and bool(cell.beside() & {"Umax", "Umin"})


REASONS: Final = (partly, both_reduced_and_unreduced, maximum_of_pieces, beside_a_maximum)


def test_every_difference_has_a_reason() -> None:
    assert [cell for name in COLLECTIVES for cell in unexplained(name)] == []


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.__name__)
def test_every_reason_is_met(reason: Any) -> None:
    assert any(map(reason, differing()))


def test_what_is_accepted_by_both_is_most() -> None:
    agreed = [cell for cell in cells() if cell.theirs is not None and cell.ours is not None]
    assert {cell.name for cell in agreed} == {
        name for name in COLLECTIVES if name in _PRIMITIVES and name not in _NOT_COMPARED
    }
