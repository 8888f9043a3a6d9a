"""The kind of what is pending inside a shard_map. There JAX prints `{U:X}` for every kind, and the specs at the
boundary say which it is: where they name one, the body is read at it."""

from __future__ import annotations

from collections.abc import Sequence

from calculus.parameters import Spec
from calculus.programs import Equation, Parameters, Program, Programs, Reference, Value
from calculus.refusals import Place, refuse
from calculus.types import ArrayType, Axes, FutureType, RefType, Type, array_type


def kind_of(specs: Sequence[Spec], tracked: bool) -> str:
    """The one kind that the specs of a shard_map name. Refuses `unmodelled-construct` where they name several, and
    where the types inside say nothing."""
    kinds = sorted({one.kind for one in specs if one.unreduced})
    if len(kinds) > 1:
        raise refuse(
            "unmodelled-construct",
            f"the specs of the shard_map are unreduced of kind {' and '.join(kinds)}",
            because="inside a shard_map JAX prints {U} for every kind, so the text does not say which it is",
            help="finish one of them outside the shard_map, with a reshard",
            place=Place("parameter", name="in_specs"),
        )
    kind = kinds[0] if kinds else "sum"
    if kind != "sum" and not tracked:
        raise refuse(
            "unmodelled-construct",
            f"the specs of a shard_map with check_vma=False are unreduced of kind {kind}",
            because="its types say nothing of what is pending inside",
            help="finish the reduction outside the shard_map, with a reshard",
            place=Place("parameter", name="in_specs"),
        )
    return kind


def read_at(program: Program, kind: str, axes: Axes) -> Program:
    """The program in which everything that is printed as pending along some of these axes is of this kind, bodies
    inside included."""
    return _Reading(kind, frozenset(axes)).program(program)


class _Reading:
    def __init__(self, kind: str, axes: frozenset[str]) -> None:
        self._kind = kind
        self._axes = axes
        self._known: dict[int, Program] = {}

    def program(self, program: Program) -> Program:
        found = self._known.get(id(program))
        if found is None:
            found = self._known[id(program)] = Program(
                program.constants, self._types(program.constant_types), program.inputs,
                self._types(program.input_types), tuple(map(self._equation, program.equations)), program.outputs,
                program.effects, program.line,
            )  # fmt: skip
        return found

    def _equation(self, equation: Equation) -> Equation:
        values = tuple([(name, self._value(value)) for name, value in equation.parameters.items_in_order])
        same = all(new is old for (_, new), (_, old) in zip(values, equation.parameters.items_in_order, strict=True))
        parameters = equation.parameters if same else Parameters(values)
        return Equation(
            equation.primitive, parameters, equation.inputs, equation.binders, self._types(equation.types),
            equation.line, equation.comment, equation.cell,
        )  # fmt: skip

    def _value(self, value: Value) -> Value:
        if isinstance(value, Program):
            return self.program(value)
        if isinstance(value, Reference):
            return value if value.program is None else Reference(value.name, self.program(value.program))
        if isinstance(value, Programs):
            return Programs(tuple([self._value(one) for one in value.items]))  # type: ignore[misc]
        return value

    def _types(self, types: Sequence[Type | None]) -> tuple[Type | None, ...]:
        return tuple(map(self._type, types))

    def _type(self, type: Type | None) -> Type | None:
        if isinstance(type, (RefType, FutureType)):
            inner = self._type(type.inner)
            assert inner is not None
            return RefType(inner, type.space) if isinstance(type, RefType) else FutureType(inner)
        if not isinstance(type, ArrayType) or self._axes.isdisjoint(type.unreduced):
            return type
        return array_type(
            type.dtype, type.shape, type.axes, type.varying, type.unreduced, type.reduced, self._kind, type.memory,
            type.weak,
        )  # fmt: skip
