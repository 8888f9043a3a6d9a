"""A program as Python that JAX runs: each equation binds its primitive, each form calls JAX's own function for it.

The file that comes out needs JAX alone. Under watch, every equation is evaluated by `step`, which is told its number,
so that what JAX says of each, in bodies too, can be held against what we say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import jax

from calculus.loops import scan_parts
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Braces, Call, Equation, Literal, Program, Programs, Value, body
from calculus.types import ArrayType, Axes, Type, array_type
from verifier.equation_cells import target
from verifier.with_jax.python_values import (
    Unwritten,
    asked,
    atom_of,
    mesh_text,
    name_of,
    number,
    spec_of,
    spec_text,
    value,
)

NEWER: Final = jax.__version_info__ >= (0, 12)
"""Whether this release has the parameters and casts of 0.12."""

Path: TypeAlias = "tuple[tuple[int, int], ...]"
"""Where an equation stands: of each equation around it, and then of itself, the number in its body, and the number of
the body that is gone into (0 for itself)."""

#: what is computed to an accuracy that may be asked for
_ACCURATE: Final = (
    "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "tanh",
    *(("erfc", "log2") if NEWER else ()),
)  # fmt: skip

#: parameters that programs do not print, as this release names them
_UNPRINTED: Final[dict[str, dict[str, str]]] = {
    **{key: {"accuracy": "None"} for key in _ACCURATE},
    "dot_general": {"precision": "None", "preferred_element_type": "None", "out_sharding": "None"},
    "convert_element_type": {"sharding": "None"},
    "broadcast_in_dim": {"broadcast_dimensions": "()"},
    "mul": {"out_dtype": "None"},
    **({key: {"out_sharding": "None"} for key in ("reduce_max", "reduce_min")} if NEWER else {}),
}

#: parameters that our programs may print, and the primitive does not have
_PRINTED_ALONE: Final = {
    "reduce_prod": ("out_sharding",),
    **({} if NEWER else {**dict.fromkeys(("reduce_max", "reduce_min"), ("out_sharding",)), "top_k": ("is_stable",)}),
    **dict.fromkeys(
        ("scatter", *(f"scatter-{name}" for name in ("add", "sub", "mul", "min", "max"))),
        ("update_jaxpr", "update_consts"),
    ),
    **dict.fromkeys(("all_gather_invariant", "all_gather_reduced", "unreduced_reduce_scatter"), ("axis_index_groups",)),
}


class Watched(NamedTuple):
    """An equation that is watched: where it stands, itself, and the mesh around it."""

    path: Path
    equation: Equation
    mesh: Mesh


@dataclass(slots=True)
class Python:
    """A program as Python: the text of its function, `program`, and what is watched in it, by number. others: meshes
    besides the one that it begins on."""

    lines: list[str] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)
    bodies: int = 0
    others: Sequence[Mesh] = ()

    @property
    def text(self) -> str:
        """The function alone."""
        return "\n".join(self.lines) + "\n"


def as_python(program: Program, mesh: Mesh, watch: bool = False, others: Sequence[Mesh] = ()) -> Python:
    """The function of a program. others: meshes over the same devices that it moves to. Raises `Unwritten`."""
    made = Python(others=others)
    _function(made, "program", program, mesh, 0, () if watch else None)
    return made


def _function(made: Python, name: str, program: Program, mesh: Mesh, depth: int, path: Path | None) -> None:
    indent = "    " * depth
    made.lines.append(f"{indent}def {name}({', '.join(map(name_of, (*program.constants, *program.inputs)))}):")
    types: dict[str, Type | None] = dict(
        zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
    )
    elsewhere: dict[str, Mesh] = {}
    for at, equation in enumerate(program.equations):
        here = None if path is None else (*path, (at, 0))
        lies = _mesh_of(equation, mesh, made.others, elsewhere) if made.others else mesh
        inside = _bodies(made, equation, lies, depth + 1, None if path is None else (*path, (at, 0)))
        text = _expression(equation, inside, types, lies)
        if lies is not mesh:
            elsewhere.update(dict.fromkeys(equation.binders, lies))
            text = f"under({mesh_text(lies)}, lambda: {text})"
        if here is not None:
            made.watched.append(Watched(here, equation, lies))
            text = f"step({len(made.watched) - 1}, lambda: {text})"
        binders = [name_of(one) for one in equation.binders]
        left = ", ".join(binders) + ("," if len(binders) == 1 and _several(equation) else "")
        comment = "" if path is not None else "  # " + ", ".join(map(str, equation.types))
        made.lines.append(f"{indent}    {left} = {text}{comment}" if binders else f"{indent}    {text}")
        types.update(zip(equation.binders, equation.types, strict=True))
    ends = ", ".join(atom_of(one) for one in program.outputs)
    made.lines.append(f"{indent}    return ({ends}{',' if len(program.outputs) == 1 else ''})")


def _mesh_of(equation: Equation, mesh: Mesh, others: Sequence[Mesh], elsewhere: Mapping[str, Mesh]) -> Mesh:
    """The mesh that an equation's results lie on: that of its operands, but where it moves them."""
    given = next((elsewhere[atom] for atom in equation.inputs if isinstance(atom, str) and atom in elsewhere), mesh)
    if equation.primitive != "reshard":
        return given
    said = [axis for type in equation.types if isinstance(type, ArrayType) for axis in type.mentioned]
    return next((one for one in (given, mesh, *others) if may_mention(one, said)), given)


def may_mention(mesh: Mesh, axes: Sequence[str]) -> bool:
    """Whether types on a mesh may speak of these axes."""
    return all(axis in mesh and mesh.mode(axis) is not AxisMode.AUTO for axis in axes)


def _bodies(made: Python, equation: Equation, mesh: Mesh, depth: int, path: Path | None) -> list[str]:
    """The names of the functions that the bodies of an equation are, after they are written."""
    names = []
    inner = mesh_within(equation, mesh)
    for at, program in enumerate(bodies_of(equation)):
        made.bodies += 1
        names.append(f"body{made.bodies}")
        deeper = None if path is None else (*path[:-1], (path[-1][0], at))
        _function(made, names[-1], program, inner, depth, deeper)
    return names


def bodies_of(equation: Equation) -> list[Program]:
    """The bodies of an equation that run as such, in the order of its parameters."""
    if equation.primitive not in FORMS:
        return []
    found = []
    for _, held in equation.parameters.items_in_order:
        for item in held.items if isinstance(held, Programs) else (held,):
            inner = body(item)
            if inner is not None:
                found.append(inner)
    return found


def mesh_within(equation: Equation, mesh: Mesh) -> Mesh:
    """The mesh around the bodies of an equation."""
    if equation.primitive != "shard_map":
        return mesh
    tracked = equation.parameters.get("check_vma") is not False
    return mesh.with_modes(dict.fromkeys(_axes(equation.parameters["newly_manual_axes"]), AxisMode.MANUAL), tracked)


def _axes(value: Value) -> Axes:
    (braces,) = value.arguments if isinstance(value, Call) else (value,)
    assert isinstance(braces, Braces)
    return tuple(str(axis) for axis in braces.items)


OPAQUE: Final = {
    "ffi_call": "a function that the text only names",
    "pallas_call": "of which the text does not say where blocks begin",
    "check": "which JAX runs only within checkify.checkify",
}
"""What a text does not say enough of."""
CALLS: Final = frozenset(
    {"jit", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "closed_call", "core_call"}
)
"""Forms that call their body; what a text does not say of them, the rules of one's own, JAX is not told, but that a jvp
rule is that of the body."""
FORMS: Final = CALLS | {"checkpoint", "remat2", "scan", "while", "cond", "shard_map", "compute_on"}


def _several(equation: Equation) -> bool:
    return equation.primitive in FORMS


def _expression(equation: Equation, inside: Sequence[str], types: Mapping[str, Type | None], mesh: Mesh) -> str:
    name, rows = equation.primitive, equation.parameters
    if name in OPAQUE:
        raise Unwritten(f"{name}, {OPAQUE[name]}")
    operands = _operands(equation, types)
    if name in FORMS:
        return _WRITTEN[name](equation, list(inside), operands)
    if name == "device_put":
        return _device_put(equation, operands)
    if name == "sharding_constraint":
        return f"lax.with_sharding_constraint({operands[0]}, {value(rows['sharding'], 'sharding')})"
    if name == "layout_constraint":
        return f"with_layout_constraint({operands[0]}, {value(rows['layout'], 'layout')})"
    if name == "reshard":
        return f"jax.sharding.reshard({operands[0]}, {asked(equation.types[0], mesh)})"
    left = _PRINTED_ALONE.get(name, ())
    said = {key: value(one, key) for key, one in rows.items_in_order if key not in left}
    said = {**_UNPRINTED.get(name, {}), **said}
    result = equation.types[0] if equation.types else None
    goal = target(equation, types, mesh)
    if name == "broadcast_in_dim":
        assert isinstance(result, ArrayType)
        if isinstance(equation.inputs[0], Literal):
            return _full(number(equation.inputs[0]), result, mesh)
        said["shape"] = repr(tuple(result.shape))
        said["sharding"] = "None" if goal is None else f"on({asked(goal, mesh)})"
    if name == "dot_general" and goal is not None:
        said["out_sharding"] = f"on({asked(goal, mesh)})"
    name = name.removesuffix("_p")  # as the older release prints some
    tool = "scatter" if name.startswith("scatter") else "bind"
    return f"{tool}({', '.join([repr(name), *operands, *(f'{key}={text}' for key, text in said.items())])})"


def _operands(equation: Equation, types: Mapping[str, Type | None]) -> list[str]:
    """The operands of an equation. A literal beside what varies is told to vary, as JAX's functions do for it."""
    given = [types.get(atom) for atom in equation.inputs if not isinstance(atom, Literal)]
    axes = tuple(dict.fromkeys(axis for type in given if isinstance(type, ArrayType) for axis in type.varying))
    if not axes or equation.primitive in FORMS:
        return [atom_of(one) for one in equation.inputs]
    return [
        f"bind('pvary', {atom_of(one)}, axes={axes})" if isinstance(one, Literal) else atom_of(one)
        for one in equation.inputs
    ]


def _full(number: str, type: ArrayType, mesh: Mesh) -> str:
    """A number everywhere, at a type."""
    if type.dtype == "float0":
        return f"bind('broadcast_in_dim', {number}, shape={tuple(type.shape)}, broadcast_dimensions=(), sharding=None)"
    manual = {axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL}
    (unreduced, free), (reduced, kept) = (
        tuple(tuple(axis for axis in axes if (axis in manual) is inside) for inside in (True, False))
        for axes in (type.unreduced, type.reduced)
    )
    lies = array_type(type.dtype, type.shape, type.axes, (), free, kept)
    spec = spec_of(lies) if lies.sharded or free or kept else "None"
    return f"full({number}, {tuple(type.shape)}, {spec}, {type.varying}, {unreduced}, {reduced})"


# --- forms ------------------------------------------------------------------------------------------------------------


def _jit(equation: Equation, inside: list[str], operands: list[str]) -> str:
    return f"jax.jit({inside[0]})({', '.join(operands)})"


def _compute_on(equation: Equation, inside: list[str], operands: list[str]) -> str:
    rows = {key: value(equation.parameters[key], key) for key in ("compute_type", "out_memory_spaces")}
    how = ", ".join(f"{key}={text}" for key, text in rows.items())
    return f"compute_on({inside[0]}, {how})({', '.join(operands)})"


def _device_put(equation: Equation, operands: list[str]) -> str:
    """An array or several, each where it is asked to be; by JAX's own function, since the copy is of no interest."""
    devices = equation.parameters["devices"]
    assert isinstance(devices, (tuple, list))
    put = [
        f"jax.device_put({operand}{'' if goal is None else f', {value(goal)}'})"
        for operand, goal in zip(operands, devices, strict=True)
    ]
    return put[0] if len(put) == 1 else f"({', '.join(put)})"


def _checkpoint(equation: Equation, inside: list[str], operands: list[str]) -> str:
    policy = equation.parameters["policy"]
    how = "" if policy is None else f", policy={_policy(policy)}"
    return f"jax.checkpoint({inside[0]}{how})({', '.join(operands)})"


def _policy(policy: Value) -> str:
    """A policy of JAX's own, by its name, and of what it keeps or does not, by theirs."""
    names = policy.arguments if isinstance(policy, Call) and not policy.keywords else ()
    name = policy.name if isinstance(policy, Call) and names else str(policy)
    if not hasattr(jax.checkpoint_policies, name) or not all(isinstance(one, str) for one in names):
        raise Unwritten(f"a policy of checkpoint, {name}")
    return f"jax.checkpoint_policies.{name}" + (f"({', '.join(map(repr, names))})" if names else "")


def _ruled(equation: Equation, inside: list[str], operands: list[str]) -> str:
    return f"ruled({inside[0]})({', '.join(operands)})"


def _scan(equation: Equation, inside: list[str], operands: list[str]) -> str:
    rows = equation.parameters
    held, carries = scan_parts(rows, len(operands), len(equation.binders))
    parts = [operands[:held], operands[held : held + carries], operands[held + carries :]]
    lists = ", ".join(f"[{', '.join(part)}]" for part in parts)
    how = ", ".join(
        f"{name}={rows.get(name, plain)}" for name, plain in (("length", None), ("reverse", False), ("unroll", 1))
    )
    return f"scan({inside[0]}, {lists}, {how})"


def _while(equation: Equation, inside: list[str], operands: list[str]) -> str:
    rows = equation.parameters
    known, held = int(rows["cond_nconsts"]), int(rows["body_nconsts"])  # type: ignore[arg-type]
    order = [key for key, one in rows.items_in_order if body(one) is not None]
    until, each = (inside[order.index(key)] for key in ("cond_jaxpr", "body_jaxpr"))
    parts = [operands[:known], operands[known : known + held], operands[known + held :]]
    lists = [f"[{', '.join(part)}]" for part in parts]
    return f"while_loop({until}, {lists[0]}, {each}, {lists[1]}, {lists[2]})"


def _cond(equation: Equation, inside: list[str], operands: list[str]) -> str:
    return f"lax.switch({operands[0]}, [{', '.join(inside)}], {', '.join(operands[1:])})"


def _shard_map(equation: Equation, inside: list[str], operands: list[str]) -> str:
    rows = equation.parameters
    ins, outs = (f"({''.join(f'{spec_text(one)}, ' for one in rows[key])})" for key in ("in_specs", "out_specs"))  # type: ignore[union-attr]
    axes = _axes(rows["newly_manual_axes"])
    how = f"in_specs={ins}, out_specs={outs}, axis_names={set(axes)!r}, check_vma={rows.get('check_vma', True)}"
    return f"jax.shard_map({inside[0]}, {how})({', '.join(operands)})"


_WRITTEN: Final = {
    **dict.fromkeys(CALLS, _jit),
    "custom_jvp_call": _ruled,
    **dict.fromkeys(("checkpoint", "remat2"), _checkpoint),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "shard_map": _shard_map,
    "compute_on": _compute_on,
}
