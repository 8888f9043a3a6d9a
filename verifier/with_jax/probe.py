"""What JAX says of a call whose operands have given types: its abstract evaluation, on meshes without devices.

A sample call is traced once, unsharded. Then its primitive is bound, with the parameters of that trace, to operands of
each combination of types, all in one trace: that is what `jax.jit` does with the call, at a fraction of the price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
from jax import lax
from jax.extend.core import Literal
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from calculus.meshes import AxisMode, Mesh
from calculus.programs import Equation, Parameters, Program
from calculus.types import DTYPES, ArrayType, Type, array_type
from grammar.leaves import type_of
from verifier.cells import Call, Cell, Refusal, Verdict
from verifier.with_jax.calls import Sample, samples
from verifier.with_jax.convert import Conversion
from verifier.with_jax.meshes import abstract
from verifier.with_jax.shared import PROGRAM, opened

VERSION: Final = jax.__version__

#: how JAX refuses on purpose; the first has no public name. Anything else is a leak
REFUSALS: Final = frozenset({"ShardingTypeError", "ValueError", "NotImplementedError", "TypeError"})

#: the parameters by which a caller asks for a sharding
TARGETS: Final = ("out_sharding", "sharding", "dst_sharding")

KINDS: Final = hasattr(jax.sharding, "UnreducedKind")
"""Whether this release has pending maxima and minima."""


@dataclass(frozen=True)
class Traced:
    """A sample call as JAX has it: its equation, and the call in our terms."""

    eqn: Any
    call: Call
    conversion: Conversion
    function: Callable[..., Any] | None = None

    def asked(self, target: ArrayType | None, mesh: Mesh) -> dict[str, Any]:
        """JAX's parameters, with the target put in."""
        if target is None:
            return dict(self.eqn.params)
        sharding = NamedSharding(abstract(mesh), spec(target))
        several = isinstance(self.eqn.params[self.call.target], tuple)
        return {**self.eqn.params, self.call.target: (sharding,) if several else sharding}


def traced(sample: Sample) -> Traced | None:
    """A sample's equation; `None` if the installed release does not have the primitive."""
    program = _program(sample)
    eqn = _find(program, sample.primitive) or _find(program, f"{sample.primitive}_p")  # so called in release 0.10.2
    if eqn is None:
        return None
    conversion = Conversion(None, printed=False)
    (equation,) = conversion.equations((eqn,))
    target = sample.handed or ("" if sample.axes else next((name for name in TARGETS if name in eqn.params), ""))
    operands = tuple(
        array_type(type.dtype, type.shape) if isinstance(type, ArrayType) else type
        for type in (conversion.type(atom) for atom in eqn.invars if type_of_atom(atom) is not Literal)
    )
    literal = len(operands) < len(eqn.invars) and len(program.eqns) == 1
    handed = bool(sample.handed)
    call = Call(eqn.primitive.name, sample.note, equation, operands, target, sample.asked, sample.axes, handed)
    return Traced(eqn, call, conversion, sample.function if literal or handed else None)


type_of_atom: Final = type


def _program(sample: Sample) -> Any:
    """The jaxpr of a sample: without a mesh, but for what names one."""
    types = [array_type(name, shape) for name, shape in sample.operands]
    if sample.handed:
        hint = NamedSharding(AbstractMesh((1,), ("X",), axis_types=(jax.sharding.AxisType.Auto,)), PartitionSpec())
        structs = [jax.ShapeDtypeStruct(*one) for one in _shaped(sample)]
        return opened(jax.make_jaxpr(lambda x: sample.function(x, hint))(*structs))
    if not sample.axes and not sample.asked:
        return opened(jax.make_jaxpr(sample.function)(*(jax.ShapeDtypeStruct(*one) for one in _shaped(sample))))
    where = AbstractMesh((2, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.sharding.use_abstract_mesh(where):
        if sample.asked:
            return opened(jax.jit(sample.function).trace(*(struct(type, where) for type in types)).jaxpr)
        state, _, kind = sample.state.partition("_")
        unreduced, reduced = (sample.axes if state == letter else () for letter in "UR")
        inside = spec(array_type("f32", (), (), (), unreduced, reduced, kind or "sum"))
        structs = [
            jax.ShapeDtypeStruct(shape, _dtype(name), sharding=NamedSharding(where, inside))
            for name, shape in sample.operands
        ]

        def inner(*values: Any) -> Any:
            sample.function(
                *(lax.pcast(value, sample.axes, to="varying") if sample.state == "V" else value for value in values)
            )
            return ()

        mapped = jax.shard_map(inner, mesh=where, in_specs=(inside,) * len(structs), out_specs=())
        return opened(jax.jit(mapped).trace(*structs).jaxpr)


def _shaped(sample: Sample) -> list[tuple[tuple[int, ...], Any]]:
    return [(shape, _dtype(name)) for name, shape in sample.operands]


def calls() -> list[Traced]:
    """Every sample call that the installed release has."""
    return [found for found in map(traced, samples()) if found is not None]


def _find(program: Any, name: str) -> Any:
    for eqn in program.eqns:
        if eqn.primitive.name == name:
            return eqn
        for held in eqn.params.values():
            for value in held if isinstance(held, tuple) else (held,):
                found = _find(opened(value), name) if isinstance(value, PROGRAM) else None
                if found is not None:
                    return found
    return None


def _dtype(name: str) -> Any:
    if name == "float0":
        return jax.dtypes.float0
    return _KEY if name.startswith("key") else np.dtype(name)


_KEY: Final = jax.eval_shape(lambda: jax.random.key(0)).dtype


def spec(type: ArrayType) -> PartitionSpec:
    """The partition spec of a type."""
    dims = [axes[0] if len(axes) == 1 else axes or None for axes in type.axes]
    said: dict[str, Any] = {}
    if type.unreduced:
        said["unreduced"] = set(type.unreduced)
        if type.kind != "sum":
            said["unreduced_kind"] = jax.sharding.UnreducedKind[type.kind]
    if type.reduced:
        said["reduced"] = set(type.reduced)
    return PartitionSpec(*dims, **said)


def ours(value: Any) -> Type:
    """The type of a traced value in our terms."""
    return of_aval(jax.typeof(value))


def of_aval(aval: Any) -> Type:
    """A type of JAX's in our terms. Manual types do not print the kind of what is pending."""
    found = _READ.get(aval)
    if found is None:
        found = type_of(aval.str_short(short_dtypes=True))
        kind = getattr(getattr(aval, "mat", None), "unreduced_kind", None)
        if isinstance(found, ArrayType) and kind is not None:
            t = found
            found = array_type(t.dtype, t.shape, t.axes, t.varying, t.unreduced, t.reduced, kind.name, t.memory)
        _READ[aval] = found
    return found


_READ: Final[dict[Any, Type]] = {}


def evaluate(call: Traced, cells: Sequence[Cell], mesh: Mesh) -> list[Verdict]:
    """JAX's verdict on each cell: the result types, or the refusal."""
    return _traced(call, cells, mesh)[0]


def program(call: Traced, cells: Sequence[Cell], mesh: Mesh) -> Any:
    """The program in which JAX has typed cells."""
    return _traced(call, cells, mesh)[1]


def _traced(call: Traced, cells: Sequence[Cell], mesh: Mesh) -> tuple[list[Verdict], Any]:
    found: list[Verdict] = []
    inputs = list(dict.fromkeys(type for cell in cells for type in cell.operands))

    def body(*values: Any) -> Any:
        known = dict(zip(inputs, values, strict=True))
        found.extend(_bind(call, cell, known, mesh) for cell in cells)
        return ()

    manual = any(axis.mode is AxisMode.MANUAL for axis in mesh.axes)
    return found, (evaluate_manual if manual else _evaluate_explicit)(body, inputs, mesh)


def reaches(mesh: Mesh) -> bool:
    """Whether values of every type can be made on a mesh: the older release lets nothing into a partially manual region
    that is pending or reduced along another axis."""
    return KINDS or len({axis.mode for axis in mesh.axes}) == 1


def _evaluate_explicit(body: Callable[..., Any], inputs: Sequence[ArrayType], mesh: Mesh) -> Any:
    where = abstract(mesh)
    with jax.sharding.use_abstract_mesh(where):
        return opened(jax.jit(body).trace(*(struct(type, where) for type in inputs)).jaxpr)


def evaluate_manual(body: Callable[..., Any], inputs: Sequence[ArrayType], mesh: Mesh) -> Any:
    """In a shard_map over the manual axes. What varies comes in cut on its first dim; a scalar is cast."""
    where = abstract(mesh.with_modes(dict.fromkeys(mesh.by_name, AxisMode.EXPLICIT)))
    manual = frozenset(axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL)
    around = [outside(type, mesh) for type in inputs]

    def inner(*values: Any) -> Any:
        return body(*(_varying(value, type) for value, type in zip(values, inputs, strict=True)))

    with jax.sharding.use_abstract_mesh(where):
        said = tuple(spec(entering(type, manual)) for type in around)
        mapped = jax.shard_map(inner, mesh=where, in_specs=said, out_specs=(), axis_names=manual)
        return opened(jax.jit(mapped).trace(*(struct(type, where) for type in around)).jaxpr)


def entering(type: ArrayType, manual: frozenset[str]) -> ArrayType:
    """What the specs of a shard_map say of an operand: they are about the manual axes alone."""
    lists = tuple(tuple(axis for axis in axes if axis in manual) for axes in type.axes)
    unreduced, reduced = (tuple(axis for axis in axes if axis in manual) for axes in (type.unreduced, type.reduced))
    return array_type(type.dtype, type.shape, lists, (), unreduced, reduced, type.kind if unreduced else "sum")


def outside(type: ArrayType, mesh: Mesh) -> ArrayType:
    """The type outside a shard_map of what has this type inside; of a scalar that varies, of what it is cast from."""
    shape, lists = type.shape, type.axes
    if type.varying and shape:
        count = mesh.size(type.varying)
        assert isinstance(shape[0], int)
        assert count is not None
        shape, lists = (shape[0] * count, *shape[1:]), ((*type.varying, *lists[0]), *lists[1:])
    return array_type(type.dtype, shape, lists, (), type.unreduced, type.reduced, type.kind)


def _varying(value: Any, type: ArrayType) -> Any:
    """A scalar that varies, or the exception with which JAX refuses to make it."""
    if type.shape or not type.varying:
        return value
    try:
        return lax.pcast(value, type.varying, to="varying")
    except ValueError as error:
        return error


def struct(type: ArrayType, mesh: Any) -> Any:
    """What stands for an array of a type on a mesh where JAX traces."""
    name = type.dtype if type.dtype.startswith("key") else DTYPES[type.dtype][0]
    return jax.ShapeDtypeStruct(type.shape, _dtype(name), sharding=sharding_of(type, mesh))


def sharding_of(type: ArrayType, mesh: Any) -> NamedSharding:
    """Where an array of a type is."""
    kind = {"memory_kind": f"pinned_{type.memory}"} if type.memory else {}
    return NamedSharding(mesh, spec(type), **kind)


def _bind(call: Traced, cell: Cell, known: dict[ArrayType, Any], mesh: Mesh) -> Verdict:
    values = iter(cell.operands)
    operands = [atom.val if type(atom) is Literal else known[next(values)] for atom in call.eqn.invars]
    try:
        for operand in operands:
            if isinstance(operand, Exception):
                raise operand
        if call.function is not None:  # what becomes of a literal is decided by the function around the primitive
            handed = (NamedSharding(abstract(mesh), spec(cell.target)),) if cell.target is not None else ()
            result = call.function(*(known[type] for type in cell.operands), *handed)
        else:
            result = call.eqn.primitive.bind(*operands, **call.asked(cell.target, mesh))
    except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
        name = type(error).__name__
        return Verdict(None, Refusal(name, str(error).partition("\n")[0][:400], crash=name not in REFUSALS))
    results = result if call.eqn.primitive.multiple_results and not call.call.handed else [result]
    return Verdict(tuple(map(ours, results)))


def equations(call: Traced, cells: Sequence[Cell], mesh: Mesh) -> list[Equation]:
    """The call's equation for each cell in our terms: with its target among the parameters, where that is printed; and
    of a call with a body, that body at the cell's types."""
    made: dict[Any, Equation] = {}
    for cell in cells:
        key = cell if call.call.handed else cell.target
        if key not in made:
            made[key] = _equation(call, cell, mesh)
    return [made[cell if call.call.handed else cell.target] for cell in cells]


def _equation(call: Traced, cell: Cell, mesh: Mesh) -> Equation:
    equation, name = call.call.equation, call.call.target
    held = dict(equation.parameters.items_in_order)
    if call.call.handed:
        (type,) = cell.operands
        held = {key: _at(value, type) if isinstance(value, Program) else value for key, value in held.items()}
    if cell.target is not None and (name in held or call.call.handed):
        held[name] = call.conversion.value(name, call.asked(cell.target, mesh)[name])
    return Equation(
        equation.primitive, Parameters(tuple(held.items())), equation.inputs, equation.binders, equation.types
    )


def _at(body: Program, type: ArrayType) -> Program:
    """A body that copies its operand, at another type."""
    copies = tuple(Equation(one.primitive, one.parameters, one.inputs, one.binders, (type,)) for one in body.equations)
    return Program((), (), body.inputs, (type,), copies, body.outputs)
