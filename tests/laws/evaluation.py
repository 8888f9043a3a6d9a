"""What a program computes, for laws about derived programs: on whole arrays, and device by device in per-device code.

Outside a shard_map a value is one array. Inside there is one for each device along the manual axes, and each equation
runs on each device's own; a collective exchanges. Pieces of a pending sum are drawn at random where they enter; what
claims to be the same on all devices is asserted to be where it leaves. Numbers are computed at twice the width that
the types say, so that differences of them mean something.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calculus.boundaries import frame
from calculus.checking import Checker, Scope
from calculus.collectives import COLLECTIVES
from calculus.loops import scan_parts
from calculus.meshes import Mesh
from calculus.parameters import integer, names, sequence, spec
from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Atom, Equation, Literal, Parameters, Program, Programs, Word, body
from calculus.types import DTYPES, SHORT_NAMES, ArrayType, Axes
from verifier.devices import Array
from verifier.kernels import compute

Device = tuple[tuple[str, int], ...]
"""A coordinate along each manual axis."""
Family = Mapping[Device, Array]
WHOLE: Final[Device] = ()

_WIDE: Final = {"float32": Word("float64"), "complex64": Word("complex128")}


class Place(NamedTuple):
    """Where a body runs: its scope, and the devices."""

    scope: Scope
    devices: tuple[Device, ...]


def evaluate(program: Program, inputs: Sequence[Any], mesh: Mesh | None = None) -> list[Array]:
    """The results of a program on these arrays, constants first."""
    scope = Checker([mesh] if mesh is not None else []).scope
    families = [{WHOLE: np.asarray(one)} for one in inputs]
    return [one[WHOLE] for one in _results(program, families, Place(scope, (WHOLE,)))]


def _results(program: Program, inputs: Sequence[Family], place: Place) -> list[Family]:
    env: dict[Atom, Family] = dict(zip((*program.constants, *program.inputs), inputs, strict=True))

    def read(atom: Atom) -> Family:
        return dict.fromkeys(place.devices, _number(atom)) if isinstance(atom, Literal) else env[atom]

    for equation in program.equations:
        found = _run(equation, [read(atom) for atom in equation.inputs], place)
        env.update(zip(equation.binders, found, strict=True))
    return [read(atom) for atom in program.outputs]


def _number(literal: Literal) -> Array:
    assert isinstance(literal.type, ArrayType)
    dtype = np.dtype(_wide(DTYPES[literal.type.dtype][0]))
    if dtype.kind == "b":
        return np.asarray(literal.text == "True")
    return np.asarray(complex(literal.text) if dtype.kind == "c" else float(literal.text), dtype)


def _wide(dtype: str) -> str:
    return str(_WIDE.get(dtype, dtype))


def run(equation: Equation, operands: Sequence[Array]) -> list[Array]:
    """The results of one equation of the table on whole arrays."""
    return _computed(equation, list(operands))


def _run(equation: Equation, operands: Sequence[Family], place: Place) -> list[Family]:
    form = _FORMS.get(equation.primitive)
    if form is not None:
        return form(equation, operands, place)
    if equation.primitive in COLLECTIVES:
        return [_exchanged(equation, one, place) for one in operands]
    return _each(place, lambda device: _computed(equation, [one[device] for one in operands]))


def _each(place: Place, run: Callable[[Device], list[Array]]) -> list[Family]:
    found = {device: run(device) for device in place.devices}
    count = len(next(iter(found.values())))
    return [{device: found[device][number] for device in place.devices} for number in range(count)]


def _computed(equation: Equation, operands: list[Array]) -> list[Array]:
    dtypes = tuple(SHORT_NAMES[one.dtype.name] if one.dtype != bool else "bool" for one in operands)
    rows = ((name, _WIDE.get(str(value), value)) for name, value in equation.parameters.items_in_order)
    site = Site(Parameters(tuple(rows)), tuple(one.shape for one in operands), dtypes, equation.types)
    return compute(TABLE[equation.primitive], site, operands)


# --- forms ---


def _itself(equation: Equation, operands: Sequence[Family], place: Place) -> list[Family]:
    return list(operands)


def _call(equation: Equation, operands: Sequence[Family], place: Place) -> list[Family]:
    return _results(_body(equation, "jaxpr", "call_jaxpr"), operands, place)


def _body(equation: Equation, *keys: str) -> Program:
    return next(found for key in keys if (found := body(equation.parameters.get(key))) is not None)


def _scan(equation: Equation, operands: Sequence[Family], place: Place) -> list[Family]:
    inner = _body(equation, "jaxpr")
    held, count = scan_parts(equation.parameters, len(operands), len(equation.binders))
    length = integer(equation.parameters["length"], "length")
    carries, stacks = list(operands[held : held + count]), []
    steps = range(length)
    for step in reversed(steps) if equation.parameters.get("reverse") else steps:
        slices = [{device: one[device][step] for device in place.devices} for one in operands[held + count :]]
        found = _results(inner, [*operands[:held], *carries, *slices], place)
        carries = found[:count]
        stacks.append(found[count:])
    if equation.parameters.get("reverse"):
        stacks.reverse()
    return [*carries, *({device: np.stack([one[device] for one in ys]) for device in place.devices}
                        for ys in zip(*stacks, strict=True))]  # fmt: skip


def _cond(equation: Equation, operands: Sequence[Family], place: Place) -> list[Family]:
    branches = equation.parameters["branches"]
    assert isinstance(branches, Programs)
    last = len(branches.items) - 1
    taken = {device: min(max(int(operands[0][device]), 0), last) for device in place.devices}
    found: list[dict[Device, Array]] = [{} for _ in equation.binders]
    for index in sorted(set(taken.values())):
        inner = body(branches.items[index])
        assert inner is not None
        there = place._replace(devices=tuple(device for device in place.devices if taken[device] == index))
        for result, part in zip(found, _results(inner, operands[1:], there), strict=True):
            result.update((device, part[device]) for device in there.devices)
    return [*found]


def _shard_map(equation: Equation, operands: Sequence[Family], place: Place) -> list[Family]:
    inner = _body(equation, "jaxpr")
    _, manual, _, mesh = frame(equation, place.scope)
    scope = Checker([mesh]).scope
    scope = Scope(mesh, scope.others)
    sizes = {axis.name: axis.size for axis in mesh.axes}
    new = [
        tuple(zip(manual, at, strict=True)) for at in itertools.product(*(range(sizes[axis] or 0) for axis in manual))
    ]
    within = Place(scope, tuple((*device, *one) for device in place.devices for one in new))
    ins, outs = (sequence(equation.parameters[key], key) for key in ("in_specs", "out_specs"))
    random = np.random.default_rng(7)
    entered = [
        _entering(one, _lists(value, "in_specs"), place, new, sizes, random)
        for one, value in zip(operands, ins, strict=True)
    ]
    found = _results(inner, entered, within)
    return [
        _leaving(one, _lists(value, "out_specs"), place, new, sizes)
        for one, value in zip(found, outs, strict=True)
    ]  # fmt: skip


class _Lists(NamedTuple):
    dims: Sequence[Axes]
    unreduced: Axes


def _lists(value: Any, name: str) -> _Lists:
    found = spec(value, name)
    assert found is not None
    return _Lists([axes or () for axes in found.dims], found.unreduced)


def _entering(
    value: Family, lists: _Lists, place: Place, new: Sequence[Device], sizes: Mapping[str, int | None],
    random: np.random.Generator,
) -> Family:  # fmt: skip
    made: dict[Device, Array] = {}
    for device in place.devices:
        whole = value[device]
        pieces: dict[Device, Array] = {}
        for one in new:
            where = tuple((axis, at) for axis, at in one if axis in lists.unreduced)
            if where not in pieces:
                pieces[where] = random.normal(size=whole.shape) if whole.dtype.kind == "f" else np.zeros_like(whole)
        if lists.unreduced:  # the last piece makes the sum right
            *rest, last = pieces
            pieces[last] = whole - sum((pieces[one] for one in rest), np.zeros_like(whole))
        for one in new:
            where = tuple((axis, at) for axis, at in one if axis in lists.unreduced)
            made[*device, *one] = (pieces[where] if lists.unreduced else whole)[_part(whole, lists, one, sizes)]
    return made


def _part(whole: Array, lists: _Lists, device: Device, sizes: Mapping[str, int | None]) -> tuple[slice, ...]:
    at = dict(device)
    found = []
    for size, axes in itertools.zip_longest(whole.shape, lists.dims, fillvalue=()):
        index, count = 0, 1
        for axis in axes:
            index, count = index * (sizes[axis] or 0) + at[axis], count * (sizes[axis] or 0)
        assert isinstance(size, int)
        found.append(slice(index * size // count, (index + 1) * size // count))
    return tuple(found)


def _leaving(
    value: Family, lists: _Lists, place: Place, new: Sequence[Device], sizes: Mapping[str, int | None]
) -> Family:
    made: dict[Device, Array] = {}
    named = {axis for axes in lists.dims for axis in axes}
    for device in place.devices:
        block = value[*device, *new[0]]
        shape = list(block.shape)
        for dim, axes in enumerate(lists.dims):
            for axis in axes:
                shape[dim] *= sizes[axis] or 0
        whole = np.zeros(shape, block.dtype)
        filled: dict[Device, Array] = {}
        for one in new:
            here = value[*device, *one]
            copy = tuple((axis, at) for axis, at in one if axis in named or axis in lists.unreduced)
            if copy in filled:  # the same along the axes that the spec does not name
                assert np.allclose(filled[copy], here, 1e-6, 1e-9, equal_nan=True), (
                    "devices disagree about what is the same on all"
                )
                continue
            filled[copy] = here
            whole[_part(whole, lists, one, sizes)] += here
        made[device] = whole
    return made


# --- collectives ---


def _coordinate(equation: Equation, operands: Sequence[Family], place: Place) -> list[Family]:
    """Where a device is along these axes, counted with the last as the minor one."""
    axes = names(equation.parameters["axis_name"], "axis_name")
    found: dict[Device, Array] = {}
    for device in place.devices:
        number = 0
        for axis in axes:
            number = number * (place.scope.mesh.size((axis,)) or 0) + dict(device)[axis]
        found[device] = np.asarray(number, np.int32)
    return [found]


def _exchanged(equation: Equation, value: Family, place: Place) -> Family:
    name, row = equation.primitive, COLLECTIVES[equation.primitive]
    if not row.kind:
        return value
    axes = names(equation.parameters[row.axes], row.axes)
    made: dict[Device, Array] = {}
    for group in _groups(place.devices, axes):
        assert len(group) == place.scope.mesh.size(axes), "some devices wait for others that went another way"
        blocks = [value[device] for device in group]
        made.update(zip(group, _EXCHANGES[name](blocks, equation.parameters), strict=True))
    return made


def _groups(devices: Sequence[Device], axes: Axes) -> Iterator[list[Device]]:
    """Devices that differ along these axes only, the last axis the minor one."""
    found: dict[Device, list[Device]] = {}
    for device in devices:
        found.setdefault(tuple(one for one in device if one[0] not in axes), []).append(device)
    for group in found.values():
        yield sorted(group, key=lambda device: [dict(device)[axis] for axis in axes])


def _summed(blocks: list[Array], rows: Parameters) -> list[Array]:
    return [np.sum(blocks, axis=0)] * len(blocks)


def _scattered(blocks: list[Array], rows: Parameters) -> list[Array]:
    at = integer(rows["scatter_dimension"], "scatter_dimension")
    return np.split(np.sum(blocks, axis=0), len(blocks), at)


def _gathered(blocks: list[Array], rows: Parameters) -> list[Array]:
    at = integer(rows["all_gather_dimension"], "all_gather_dimension")
    return [np.concatenate(blocks, at)] * len(blocks)


def _traded(blocks: list[Array], rows: Parameters) -> list[Array]:
    source, target = (integer(rows[name], name) for name in ("split_axis", "concat_axis"))
    parts = [np.split(block, len(blocks), source) for block in blocks]
    return [np.concatenate([part[place] for part in parts], target) for place in range(len(blocks))]


def _permuted(blocks: list[Array], rows: Parameters) -> list[Array]:
    found = [np.zeros_like(block) for block in blocks]
    for pair in sequence(rows["perm"], "perm"):
        source, target = (integer(one, "perm") for one in sequence(pair, "perm"))
        found[target] = blocks[source]
    return found


_EXCHANGES: Final[dict[str, Callable[[list[Array], Parameters], list[Array]]]] = {
    "psum": _summed, "psum_invariant": _summed, "unreduced_psum": _summed,
    "reduce_scatter": _scattered, "unreduced_reduce_scatter": _scattered,
    "all_gather": _gathered, "all_gather_invariant": _gathered, "all_gather_reduced": _gathered,
    "all_to_all": _traded, "ppermute": _permuted,
}  # fmt: skip

_FORMS: Final[dict[str, Callable[[Equation, Sequence[Family], Place], list[Family]]]] = {
    "axis_index": _coordinate,
    "reshard": _itself, "sharding_constraint": _itself, "scan": _scan, "cond": _cond, "shard_map": _shard_map,
    **dict.fromkeys(("jit", "pjit", "checkpoint", "remat2", "custom_jvp_call", "closed_call"), _call),
}  # fmt: skip
