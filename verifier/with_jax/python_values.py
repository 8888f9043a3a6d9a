"""Names, literals, parameters, specs and meshes of our terms as Python that JAX runs."""

from __future__ import annotations

import keyword
from typing import Final

import numpy as np

from calculus.meshes import AxisMode, Mesh
from calculus.parameters import mesh as mesh_of
from calculus.programs import Atom, Braces, Call, Literal, Real, Value, Word
from calculus.types import DTYPES, ArrayType, Type


class Unwritten(Exception):
    """A construct that is not written as Python here. The message names it."""


_RESERVED: Final = frozenset(
    {
        *keyword.kwlist,
        "np",
        "on",
        "bind",
        "compute_on",
        "under",
        "Layout",
        "AxisType",
        "scan",
        "full",
        "scatter",
        "while_loop",
        "ruled",
        "program",
        "lax",
        "jax",
        "jnp",
        "step",
        "P",
    }
)

_DTYPE: Final = frozenset({"new_dtype", "dtype", "index_dtype", "preferred_element_type"})
_NAMES: Final = frozenset({"axis_name", "compute_type"})
"""Parameters whose words are text."""


def name_of(name: str) -> str:
    """A variable as Python calls it."""
    return f"{name}_" if name in _RESERVED else name.replace("%", "v")


def atom_of(atom: Atom) -> str:
    """An atom: a number, or a name."""
    return number(atom) if isinstance(atom, Literal) else name_of(atom)


def number(literal: Literal) -> str:
    """A literal as a number of its dtype."""
    dtype = literal.type.dtype if isinstance(literal.type, ArrayType) else "f32"
    text = literal.text if literal.text not in ("inf", "-inf", "nan") else f"float({literal.text!r})"
    if dtype == "float0":
        return "np.zeros((), jax.dtypes.float0)"
    if text.startswith("["):
        raise Unwritten(f"the array {text}, which is printed as a literal")
    name = DTYPES[dtype][0]
    if not hasattr(np, name):
        return f"jnp.{name}({text})"
    return f"np.{name if name != 'bool' else 'bool_'}({text})"


def value(value: Value, key: str = "") -> str:
    """A parameter as a Python expression. Raises `Unwritten`."""
    if isinstance(value, Word):
        if key in _DTYPE:
            return f"jnp.dtype({str(value)!r})"
        if value.startswith(("GatherScatterMode.", "Precision.")):
            return f"lax.{value}"
        if value.startswith("MemorySpace."):
            return f"jax.memory.Space.{value.rpartition('.')[2]}"
        if key in _NAMES:
            return repr(str(value))
        if value == "UNCONSTRAINED":
            return "P.UNCONSTRAINED"
        raise Unwritten(f"{key}={value}")
    if isinstance(value, Real):
        return f"float({str(value)!r})"
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({''.join(f'{_inner(one)}, ' for one in value)})"
    if isinstance(value, Call):
        if value.name == "NamedSharding":
            return f"on({spec_text(value.keyword('spec'))})"
        if value.name == "P":
            return spec_text(value)
        if value.name == "Layout":
            return f"Layout({_inner(value.keyword('major_to_minor'))})"
        if value.name == "frozenset":
            return f"frozenset({list(_items(value))})"
        mesh = mesh_of(value, key)
        if mesh is not None:
            return mesh_text(mesh)
        parts = [_inner(one) for one in value.arguments]
        parts += [f"{name}={_inner(one)}" for name, one in value.keywords]
        return f"{'' if value.name.startswith('np.') else 'lax.'}{value.name}({', '.join(parts)})"
    raise Unwritten(f"{key}={value}")


def _inner(one: Value) -> str:
    return value(one)


def _items(value: Call) -> tuple[Value, ...]:
    (braces,) = value.arguments or (Braces(()),)
    return braces.items if isinstance(braces, Braces) else ()


def mesh_text(mesh: Mesh) -> str:
    """A mesh without devices."""
    sizes, modes = tuple(axis.size for axis in mesh.axes), (axis.mode.value.capitalize() for axis in mesh.axes)
    types = "".join(f"AxisType.{mode}, " for mode in modes)
    return f"jax.sharding.AbstractMesh({sizes}, {tuple(mesh.by_name)}, axis_types=({types}))"


def spec_text(spec: Value) -> str:
    """A spec. Raises `Unwritten`."""
    assert isinstance(spec, Call)
    parts = [value(one) for one in spec.arguments]
    for key, one in spec.keywords:
        if isinstance(one, Braces):
            parts.append(f"{key}={{{', '.join(map(repr, one.items))}}}")
        elif one != "sum":
            raise Unwritten(f"{key}={one}")
    return f"P({', '.join(parts)})"


def spec_of(type: Type | None) -> str:
    """The spec of a type."""
    from calculus.building import partition_spec

    assert isinstance(type, ArrayType)
    return spec_text(partition_spec(type.axes, type.unreduced, type.reduced))


def asked(type: Type | None, mesh: Mesh) -> str:
    """The spec that asks for a type: of manual axes there is nothing to ask."""
    assert isinstance(type, ArrayType)
    return spec_of(type.without([axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL]))
