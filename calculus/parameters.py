"""What parameters mean: decoded values read as numbers, dims, specs and meshes.

Every reader raises `Refused` (`bad-parameter`) where a value has another form, so that no rule guesses.
"""

from __future__ import annotations

from typing import NamedTuple

from calculus.meshes import Axis, AxisMode, Mesh
from calculus.programs import Braces, Call, Pair, Parameters, Real, Value, Word
from calculus.refusals import Place, refuse
from calculus.types import Axes, Dim


class Spec(NamedTuple):
    """A partition spec: per dim the ordered axes (`None` where the spec leaves the dim to the compiler), and the axes
    that are unreduced (of a kind) and reduced. `P('X', None, unreduced={'Y'})`."""

    dims: tuple[Axes | None, ...]
    unreduced: Axes = ()
    reduced: Axes = ()
    kind: str = "sum"


def bad(name: str, value: object, expected: str) -> Exception:
    """The refusal for a parameter of the wrong form."""
    return refuse(
        "bad-parameter",
        f"parameter {name} should be {expected}; it is {value if isinstance(value, str) else repr(value)}",
        because="the rule of this primitive reads it",
        help=f"print {name} as JAX does",
        place=Place("parameter", name=name),
    )


def required(parameters: Parameters, name: str) -> Value:
    """A parameter that the primitive always prints."""
    if name not in parameters:
        raise refuse(
            "bad-parameter",
            f"parameter {name} is missing",
            because="the rule of this primitive reads it",
            help=f"add {name}=... between the brackets",
        )
    return parameters[name]


def integer(value: Value, name: str) -> int:
    """An integer, printed plainly or as `np.int64(4)`."""
    if type(value) is int:
        return value
    if isinstance(value, Call) and value.name.startswith("np.") and len(value.arguments) == 1:
        return integer(value.arguments[0], name)
    raise bad(name, value, "an integer")


def dim(value: Value, name: str) -> Dim:
    """A dim's size: an integer, or the text of a symbolic size."""
    if isinstance(value, Word):
        return str(value)
    return integer(value, name)


def sequence(value: Value, name: str) -> tuple[Value, ...]:
    """The items of a tuple or list."""
    if isinstance(value, (tuple, list)):
        return tuple(value)
    raise bad(name, value, "a tuple")


def whole_numbers(value: Value, name: str) -> tuple[int, ...]:
    """The items of a tuple or list of integers."""
    return tuple([item if type(item) is int else integer(item, name) for item in sequence(value, name)])


def integers(parameters: Parameters, name: str) -> tuple[int, ...]:
    """A required parameter that is a tuple of integers."""
    return whole_numbers(required(parameters, name), name)


def dims(parameters: Parameters, name: str) -> tuple[Dim, ...]:
    """A required parameter that is a shape."""
    return tuple(dim(item, name) for item in sequence(required(parameters, name), name))


def sizes(parameters: Parameters, name: str) -> tuple[Dim, ...]:
    """A required parameter that is the shape of an array: no size is negative."""
    found = dims(parameters, name)
    if any(isinstance(size, int) and size < 0 for size in found):
        raise bad(name, str(list(found)), "sizes, none of them negative")
    return found


def dim_number(parameters: Parameters, name: str, rank: int) -> int:
    """A required parameter that names a dim of an array of this rank, counted from 0."""
    found = integer(required(parameters, name), name)
    if not 0 <= found < rank:
        raise bad(name, str(found), _one_of(rank))
    return found


def dim_numbers(parameters: Parameters, name: str, rank: int) -> tuple[int, ...]:
    """A required parameter that names dims of an array of this rank, each once, counted from 0."""
    return distinct_dims(integers(parameters, name), name, rank)


def distinct_dims(numbers: tuple[int, ...], name: str, rank: int) -> tuple[int, ...]:
    """The numbers themselves. Refuses `bad-parameter` unless each is a dim of an array of this rank, named once."""
    if len(set(numbers)) != len(numbers) or any(not 0 <= number < rank for number in numbers):
        raise bad(name, str(numbers), f"dims, each named once, each {_one_of(rank)}")
    return numbers


def _one_of(rank: int) -> str:
    return f"a dim, 0 to {rank - 1}" if rank else "a dim, of which there are none"


def flag(parameters: Parameters, name: str) -> bool:
    """A required parameter that is True or False."""
    value = required(parameters, name)
    if isinstance(value, bool):
        return value
    raise bad(name, value, "True or False")


def names(value: Value, name: str) -> Axes:
    """Mesh axes: one name, quoted or bare, or a tuple or set of them. Positional (vmapped) axes are refused."""
    if isinstance(value, Call) and value.name in ("frozenset", "set") and len(value.arguments) <= 1:
        value = value.arguments[0] if value.arguments else ()
    if isinstance(value, Braces):
        value = value.items
    items = value if isinstance(value, (tuple, list)) else (value,)
    if all(isinstance(item, str) and not isinstance(item, Real) for item in items):
        return tuple(str(item) for item in items)
    raise bad(name, value, "mesh axis names")


def axis_names(parameters: Parameters, name: str) -> Axes:
    """A required parameter that names mesh axes."""
    return names(required(parameters, name), name)


def spec(value: Value, name: str) -> Spec | None:
    """A `P(...)`, alone or inside a `NamedSharding(mesh=..., spec=P(...))`; `None` where nothing is asked for."""
    if value is None or (isinstance(value, Word) and value == "UnspecifiedValue"):
        return None
    if isinstance(value, Call) and value.name == "NamedSharding":
        return spec(value.keyword("spec"), name)
    if not isinstance(value, Call) or value.name not in ("P", "PartitionSpec"):
        raise bad(name, value, "a partition spec P(...)")
    found: list[Axes | None] = []
    for item in value.arguments:
        if item is None:
            found.append(())
        elif isinstance(item, Word) and "UNCONSTRAINED" in item:
            found.append(None)
        else:
            found.append(names(item, name))
    kind = value.keyword("unreduced_kind")
    unreduced, reduced = value.keyword("unreduced"), value.keyword("reduced")
    return Spec(
        tuple(found),
        () if unreduced is None else names(unreduced, name),
        () if reduced is None else names(reduced, name),
        str(kind).rpartition(".")[2] if isinstance(kind, str) else "sum",
    )


_MODES = {mode.value: mode for mode in AxisMode}


def mesh(value: Value, name: str) -> Mesh | None:
    """A `Mesh('X': 4, axis_types=(Explicit,))` or `AbstractMesh(...)`; `None` where the value is none."""
    if not isinstance(value, Call) or value.name not in ("Mesh", "AbstractMesh"):
        return None
    pairs: list[tuple[str, int]] = []
    for item in value.arguments:
        if not isinstance(item, Pair) or not isinstance(item.key, str):
            raise bad(name, value, "a mesh of 'axis': size pairs")
        pairs.append((str(item.key), integer(item.value, name)))
    types = value.keyword("axis_types")
    words = types if isinstance(types, (tuple, list)) else ()
    modes = [_MODES.get(str(word).rpartition(".")[2].lower(), AxisMode.AUTO) for word in words]
    if len(modes) < len(pairs):
        modes += [AxisMode.AUTO] * (len(pairs) - len(modes))
    return Mesh(Axis(axis, size, mode) for (axis, size), mode in zip(pairs, modes, strict=False))
