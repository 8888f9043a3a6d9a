"""What people call values: the path of each input and output, `params['layers'][3]['wi']`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jax.tree_util import keystr, tree_flatten_with_path


class Leaf(NamedTuple):
    """One leaf of a call's arguments. path: as people write it; printed: as JAX does, which differs inside the
    variables of flax, whose `.value` people leave out."""

    path: str
    value: Any
    printed: str


def leaves(function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Leaf]:
    """Every leaf of a call's arguments, the name of the function's parameter in front; in JAX's order."""
    found: list[Leaf] = []
    for name, tree in zip(parameter_names(function, len(arguments)), arguments, strict=True):
        found += paths(name, tree)
    for name in sorted(keywords):
        found += paths(name, keywords[name])
    return found


def paths(name: str, tree: Any) -> list[Leaf]:
    """Every leaf of a tree that has this name."""
    found: list[Leaf] = []
    for path, leaf in tree_flatten_with_path(tree, is_leaf=_is_variable)[0]:
        whole = name + keystr(path)
        inside = tree_flatten_with_path(leaf)[0] if _is_variable(leaf) else [((), leaf)]
        for inner, value in inside:
            printed = whole + keystr(inner)
            found.append(Leaf(whole if len(inside) == 1 else printed, value, printed))
    return found


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's first parameters; `args[0]`, ... where it does not say."""
    names: list[str] = []
    rest = "args"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # it has no signature
        parameters = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter.name
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names = names[:count]
    return [*names, *(f"{rest}[{index}]" for index in range(count - len(names)))]


def called(printed: Sequence[str], types: Sequence[Any], known: Sequence[Leaf]) -> tuple[str, ...]:
    """What people call the inputs of a traced program: JAX's names for them, put in terms of the known leaves.

    types: the inputs' shapes and dtypes. Where JAX's names are not those of the leaves (a library flattened the
    arguments its own way), the leaves' are taken if shapes and dtypes agree one by one.
    """
    by_printed = {leaf.printed: leaf.path for leaf in known}
    if not all(name in by_printed for name in printed):
        arrays = [leaf for leaf in known if is_array(leaf.value)]
        if [(leaf.value.shape, leaf.value.dtype) for leaf in arrays] == [(type.shape, type.dtype) for type in types]:
            return tuple(leaf.path for leaf in arrays)
    return tuple(by_printed.get(name, name) for name in printed)


def is_array(value: Any) -> bool:
    """Whether a leaf is an array or stands for one."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_variable(value: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, nnx.Variable)
