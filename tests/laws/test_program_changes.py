"""Other changes of one step: an operand, a result, an equation, a parameter. Never an exception; a change of the arity
or of scope never accepted; a change of type accepted only where numpy's shapes allow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from calculus.programs import Braces, Call, Equation, Literal, Pair, Parameters, Program, Reference, Value, Word
from calculus.types import ArrayType, Type, array_type
from tests.laws.changes import Source, load, name_of, programs, replaced, sources, verdict

FILES = sources("seed_", "shmap_")

Item = TypeVar("Item")

#: parameters that no type depends on, or whose absence means their usual value
NOT_NEEDED = {
    "axis_index_groups", "axis_size", "context_mesh", "ctx_mesh", "ft_out", "layout", "name", "out_sharding",
    "preferred_element_type", "reverse", "unconstrained_dims", "unroll", "weak_type", "y",
}  # fmt: skip
ELEMENTWISE = ("add", "add_any", "max", "mul", "or", "shift_right_logical", "sub")


@pytest.fixture(params=FILES, ids=name_of)
def source(request: pytest.FixtureRequest) -> Source:
    path: Path = request.param
    return load(path)


def scopes(source: Source) -> Iterator[tuple[Program, bool, int, Equation, dict[str, Type | None]]]:
    """Every equation with its body, whether that is the main program, its number, and the types in scope before it."""
    for program, callers in programs(source.document):
        names, types = (*program.constants, *program.inputs), (*program.constant_types, *program.input_types)
        scope = dict(zip(names, types, strict=True))
        for number, equation in enumerate(program.equations):
            yield program, not callers, number, equation, dict(scope)
            scope.update(zip(equation.binders, equation.types, strict=True))


def accepted(source: Source) -> bool:
    return verdict(source) == []


def test_an_operand_of_the_same_type_is_as_good(source: Source) -> None:
    for _, _, _, equation, scope in scopes(source):
        for at, atom in enumerate(equation.inputs):
            if isinstance(atom, Literal):
                continue
            for name, type in scope.items():
                if type is scope[atom] and name != "_":
                    with replaced(equation, "inputs", _put(equation.inputs, at, name)):
                        assert accepted(source), (equation, at, name)


def test_an_operand_of_another_type_is_refused_where_numpy_refuses_it(source: Source) -> None:
    for _, _, _, equation, scope in scopes(source):
        for at, atom in enumerate(equation.inputs):
            before = atom.type if isinstance(atom, Literal) else scope[atom]
            others: list[tuple[str | Literal, Type | None]] = [item for item in scope.items() if item[0] != "_"]
            others += [(Literal("1.0", type), type) for type in (array_type("f32"), array_type("i32"))]
            for name, type in others:
                if type is before:
                    continue
                inputs = _put(equation.inputs, at, name)
                with replaced(equation, "inputs", inputs):
                    if accepted(source):
                        given = [one.type if isinstance(one, Literal) else scope[one] for one in inputs]
                        assert sensible(equation, given), (equation, at, type)


def sensible(equation: Equation, given: list[Type | None]) -> bool:
    """By shapes and dtypes alone: whether the primitive can make its printed result of these operands."""
    result = equation.types[0]
    arrays = [type for type in given if isinstance(type, ArrayType)]
    if len(arrays) != len(given) or not isinstance(result, ArrayType) or any(type.memory for type in arrays):
        return False
    zeros = [np.zeros([int(size) for size in type.shape], bool) for type in arrays]
    if any(type.dtype != result.dtype for type in arrays):
        return False
    shape = tuple(int(size) for size in result.shape)
    match equation.primitive:
        case name if name in ELEMENTWISE:
            cut = {axis for type in arrays for axis in type.sharded}
            return np.broadcast_shapes(*(zero.shape for zero in zeros)) == shape and cut <= set(result.sharded)
        case "reshard" | "psum_invariant" | "pmax":
            return zeros[0].shape == shape
        case "broadcast_in_dim":
            return np.broadcast_to(zeros[0], shape).shape == shape
        case "reduce_sum" | "reduce_max":
            axes = equation.parameters["axes"]
            return isinstance(axes, tuple) and np.any(zeros[0], axis=tuple(map(int, map(str, axes)))).shape == shape
        case "dot_general":
            numbers: Any = equation.parameters["dimension_numbers"]
            assert numbers[1] == ([], [])
            pending = set(result.unreduced)
            alike = all(
                {axis for dim in dims for axis in type.axes[dim]} >= pending
                for type, dims in zip(arrays, numbers[0], strict=True)
                if pending & set(type.sharded)
            )
            return alike and np.tensordot(zeros[0], zeros[1], axes=numbers[0]).shape == shape
    return False


def test_arity_is_kept(source: Source) -> None:
    for _, _, _, equation, _ in scopes(source):
        inputs, binders, types = equation.inputs, equation.binders, equation.types
        for at in range(len(inputs)):
            for changed in (inputs[:at] + inputs[at + 1 :], inputs[: at + 1] + inputs[at:]):
                with replaced(equation, "inputs", changed):
                    assert not accepted(source), (equation, changed)
        for names, printed in ((binders[:-1], types[:-1]), ((*binders, "zz"), (*types, array_type("f32")))):
            with replaced(equation, "binders", names), replaced(equation, "types", printed):
                assert not accepted(source), (equation, names)
    for program, callers in programs(source.document):
        for at in range(len(program.inputs)):
            without = [(*row[:at], *row[at + 1 :]) for row in (program.inputs, program.input_types)]
            with replaced(program, "inputs", without[0]), replaced(program, "input_types", without[1]):
                assert not accepted(source) or (not callers and not _read(program, program.inputs[at])), program
        for at in range(len(program.outputs)):
            with replaced(program, "outputs", program.outputs[:at] + program.outputs[at + 1 :]):
                assert accepted(source) == (not callers)


def _read(program: Program, name: str) -> bool:
    return name in program.outputs or any(name in equation.inputs for equation in program.equations)


def test_scope_is_kept(source: Source) -> None:
    """An equation left out leaves its variables unbound; an equation twice binds them twice."""
    for program, _, number, equation, _ in list(scopes(source)):
        equations = program.equations
        with replaced(program, "equations", equations[:number] + equations[number + 1 :]):
            needed = any(_read(program, name) for name in equation.binders if name != "_")
            codes = {refusal.code for refusal, _ in verdict(source)}
        assert codes >= {"unbound-variable"} if needed else not codes, equation
        with replaced(program, "equations", equations[: number + 1] + equations[number:]):
            codes = {refusal.code for refusal, _ in verdict(source)}
        assert codes == (set() if set(equation.binders) <= {"_"} else {"rebound-variable"}), equation


def test_results_in_another_order(source: Source) -> None:
    """Two results of different types that change places are refused, unless only the program's caller sees them."""
    for program, main, _, equation, _ in scopes(source):
        binders, types = equation.binders, equation.types
        if len(set(types)) < 2:
            continue
        read = any(name in other.inputs for other in program.equations for name in binders)
        with replaced(equation, "binders", binders[::-1]):
            assert accepted(source) == (main and not read), equation


def test_parameters_are_read_or_not_needed(source: Source) -> None:
    for _, _, _, equation, _ in scopes(source):
        items = equation.parameters.items_in_order
        for at, (name, value) in enumerate(items):
            with replaced(equation, "parameters", Parameters(items[:at] + items[at + 1 :])):
                assert not accepted(source) or name in NOT_NEEDED, (equation.primitive, name)
            for other in values(value, source.axes):
                changed = Parameters((*items[:at], (name, other), *items[at + 1 :]))
                with replaced(equation, "parameters", changed):
                    verdict(source)  # a verdict, whichever: never an exception


def test_results_without_a_printed_type(source: Source) -> None:
    """Rules infer: what is not printed is found, or asked for."""
    for _, _, _, equation, _ in scopes(source):
        with replaced(equation, "types", (None,) * len(equation.types)):
            codes = {refusal.code for refusal, site in verdict(source) if site is equation}
        assert codes <= {"choose-type", "choose-state", "contraction-target", "axis-used-twice"}, (equation, codes)


def _put(items: tuple[Item, ...], at: int, item: Item) -> tuple[Item, ...]:
    return (*items[:at], item, *items[at + 1 :])


def values(value: Value, axes: tuple[str, ...]) -> Iterator[Value]:
    """Other values of a parameter, one step away."""
    if isinstance(value, bool):
        yield from (not value, None, 3)
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -1, 10**9, None, Word("x"))
    elif isinstance(value, Word):
        yield from (Word("int32"), Word("bfloat16"), Word("nonsense"), None, 7)
    elif isinstance(value, str):
        yield from axes
        yield 7
    elif isinstance(value, (tuple, list)):
        make = type(value)
        for at, item in enumerate(value):
            yield make((*value[:at], *value[at + 1 :]))
            yield make((*value[: at + 1], *value[at:]))
            for other in values(item, axes):
                yield make(_put(tuple(value), at, other))
        yield make(value[::-1])
        yield make((*value, 0))
        yield None
    elif isinstance(value, Braces):
        yield from (Braces(items) for items in values(value.items, axes) if isinstance(items, tuple))
    elif isinstance(value, Pair):
        yield from (Pair(key, value.value) for key in values(value.key, axes))
        yield from (Pair(value.key, other) for other in values(value.value, axes))
    elif isinstance(value, Call):
        for items in values(value.arguments, axes):
            yield Call(value.name, items if isinstance(items, tuple) else (items,), value.keywords)
        for at, (name, item) in enumerate(value.keywords):
            yield Call(value.name, value.arguments, value.keywords[:at] + value.keywords[at + 1 :])
            for other in values(item, axes):
                keywords = (*value.keywords[:at], (name, other), *value.keywords[at + 1 :])
                yield Call(value.name, value.arguments, keywords)
        yield Call("nonsense", value.arguments, value.keywords)
    elif isinstance(value, (Program, Reference)):
        yield from (None, 5, Reference("nowhere"))
    else:
        yield from (0, (0,), Word("float32"), True)
