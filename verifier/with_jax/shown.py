"""Which parameters of an equation JAX prints, as data.

Most equations print all their parameters, sorted by name. Some leave out what the type of the result says already, or
what has its usual value; some print another value than they hold. Each primitive that differs has a row here. The rows
hold for both releases that are read, 0.12.0.1 and 0.10.2; a parameter that a release lacks is simply not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Final


def missing(value: Any) -> bool:
    """Whether a parameter holds nothing: `None`."""
    return value is None


def empty(value: Any) -> bool:
    """Whether a parameter holds nothing, zero or an empty sequence."""
    return not value


def all_missing(values: Any) -> bool:
    """Whether every item is `None`."""
    return all(value is None for value in values)


def none_set(values: Any) -> bool:
    """Whether no item is set."""
    return not any(values)


def unspecified(values: Any) -> bool:
    """Whether every sharding is left to be inferred."""
    return all(type(value).__name__ == "UnspecifiedValue" for value in values)


def no_mesh(mesh: Any) -> bool:
    """Whether a mesh has no axes."""
    return bool(mesh.empty)


def function_name(value: Any) -> str:
    """The name under which a function, or the program traced from it, was defined."""
    return str(getattr(value, "jaxpr", value).debug_info.func_name)


def dims_in_lists(numbers: Any) -> Any:
    """The contracted and batched dims of a `dot_general`, each list of dims a list."""
    (left, right), (left_batch, right_batch) = numbers
    return (list(left), list(right)), (list(left_batch), list(right_batch))


@dataclass(frozen=True)
class Shown:
    """How one primitive prints its parameters.

    never: parameters that are left out. unless: parameters that are left out where the test is true; the test under
    `""` is for all others. renamed: printed name -> (parameter, what is printed of it). first: printed before the
    sorted ones; it may be one of `renamed`.
    """

    never: frozenset[str] = frozenset()
    unless: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    renamed: Mapping[str, tuple[str, Callable[[Any], Any]]] = field(default_factory=dict)
    first: str = ""


PLAIN: Final = Shown()
_ACCURATE: Final = Shown(unless={"accuracy": missing})

#: primitive -> how it prints its parameters, where that is not `PLAIN`
SHOWN: Final[Mapping[str, Shown]] = {
    "broadcast_in_dim": Shown(frozenset({"shape", "sharding"}), {"broadcast_dimensions": empty}),
    "check": Shown(frozenset({"err_tree"})),
    "convert_element_type": Shown(frozenset({"sharding"})),
    "custom_jvp_call": Shown(
        frozenset({"jvp_jaxpr_fun"}),
        unless={"num_consts": empty},
        renamed={"jvp": ("jvp_jaxpr_fun", function_name), "name": ("call_jaxpr", function_name)},
        first="name",
    ),
    "custom_lin": Shown(frozenset({"out_avals"}), renamed={"bwd": ("bwd", function_name)}),
    "custom_vjp_call": Shown(
        frozenset({"fwd_jaxpr_thunk", "out_trees"}),
        unless={"num_consts": empty},
        renamed={
            "bwd": ("bwd", function_name),
            "fwd": ("fwd_jaxpr_thunk", function_name),
            "name": ("call_jaxpr", function_name),
        },
        first="name",
    ),
    "dot_general": Shown(
        frozenset({"out_sharding"}),
        unless={"": missing},
        renamed={"dimension_numbers": ("dimension_numbers", dims_in_lists)},
    ),
    "jit": Shown(
        frozenset({"inline"}),
        unless={
            "compiler_options_kvs": empty,
            "ctx_mesh": no_mesh,
            "donated_invars": none_set,
            "in_layouts": all_missing,
            "in_shardings": unspecified,
            "keep_unused": empty,
            "out_layouts": all_missing,
            "out_shardings": unspecified,
        },
        first="name",
    ),
    "mul": Shown(unless={"out_dtype": missing}),
    **dict.fromkeys(
        (
            "cbrt", "cos", "erfc", "exp", "exp2", "expm1", "log", "log1p", "log2", "logistic", "rsqrt", "sin", "sqrt",
            "tan", "tanh",
        ),
        _ACCURATE,
    ),
}  # fmt: skip

#: primitives that print no parameters
SILENT: Final = frozenset({"reshard"})


@dataclass(frozen=True, slots=True)
class Row:
    """One parameter as it is printed: its printed name, the parameter, what is printed of it, and when it is not."""

    name: str
    key: str
    convert: Callable[[Any], Any] | None
    unless: Callable[[Any], bool] | None


def rows(primitive: str, parameters: tuple[str, ...]) -> tuple[Row, ...]:
    """The parameters that a primitive may print, in the order printed."""
    if primitive in SILENT:
        return ()
    shown = SHOWN.get(primitive, PLAIN)
    others = shown.unless.get("")
    found: dict[str, Row] = {}
    for key in parameters:
        if key not in shown.never:
            found[key] = Row(key, key, None, shown.unless.get(key, others))
    for name, (key, convert) in shown.renamed.items():
        if key in parameters:
            found[name] = Row(name, key, convert, shown.unless.get(name, others))
    ordered = sorted(found)
    if shown.first in found:
        ordered.remove(shown.first)
        ordered.insert(0, shown.first)
    return tuple(found[name] for name in ordered)


def identical(values: Collection[Any], others: Collection[Any]) -> bool:
    """Whether equal values also print the same: `1`, `True` and `np.int64(1)` are equal, and print differently."""
    if all(map(is_, values, others)):  # nearly always
        return True
    for value, other in zip(values, others):  # noqa: B905  # as long, since they are equal
        if value is other:
            continue
        kind = type(value)
        if kind is not type(other):
            return False
        if isinstance(value, tuple):
            if not identical(value, other):
                return False
        elif kind is float and str(value) != str(other):  # 0.0 and -0.0
            return False
    return True
