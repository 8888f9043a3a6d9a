"""The examples at sizes that run on one machine: `shardproof run --jax tests.examples.small:llama__gather_once`.

Types do not depend on sizes, and a run needs small ones. The source is that of the example, layer for layer, but for
the numbers at its top and the sizes of its mesh; of the Llama's 32 layers there are 8.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"

#: of each example: the most devices along the axes of its mesh, and the numbers at its top
AXES: Final = {"data": 4, "model": 2, "X": 8}
SIZES: Final[dict[str, tuple[dict[str, int], dict[str, int]]]] = {
    "equinox_zero": ({"data": 4}, {"BATCH": 8, "WIDTH": 8, "CLASSES": 8}),
    "linen_transformer": (AXES, {"BATCH": 8, "LENGTH": 8, "VOCABULARY": 16, "WIDTH": 16, "HEADS": 2}),
    "llama": (
        AXES,
        {
            "LAYERS": 8, "WIDTH": 16, "GROUPS": 2, "QUERIES": 2, "HEAD": 8, "HIDDEN": 32, "VOCABULARY": 32,
            "MICROBATCHES": 2, "BATCH": 4, "LENGTH": 4,
        },
    ),
    "loss": (AXES, {}),
    "microbatches": (AXES, {"BATCH": 16}),
    "mixture_of_experts": (
        {"data": 2, "expert": 4}, {"EXPERTS": 4, "CAPACITY": 4, "TOKENS": 64, "WIDTH": 8, "HIDDEN": 16},
    ),
    "nnx_mlp": (AXES, {"BATCH": 16, "WIDTH": 8, "HIDDEN": 16, "CLASSES": 8}),
    "pallas_attention": (
        AXES, {"BATCH": 4, "LENGTH": 8, "WIDTH": 16, "HEADS": 2, "HEAD": 8, "HIDDEN": 16, "TILE": 4},
    ),
    "ring_attention": ({"data": 2, "context": 4}, {"BATCH": 2, "LENGTH": 16, "WIDTH": 8, "HEADS": 2, "HEAD": 4}),
    "size_one_axes": ({"data": 2, "fsdp": 2, "model": 2}, {"BATCH": 8, "WIDTH": 8, "HIDDEN": 16}),
    "three_modes": ({"pod": 2, "data": 2, "model": 2}, {"BATCH": 8, "WIDTH": 8, "HIDDEN": 16}),
}  # fmt: skip


#: steps that have no optimizer's state
WITHOUT_STATE: Final = frozenset({"loss", "microbatches", "three_modes"})


class _Numbers(ast.NodeTransformer):
    """Sets the numbers at the top of a module."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers = numbers

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """What stands in a function stays."""
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`A = 1`, or `A, B = 1, 2`."""
        (target,) = node.targets
        several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
        names, values = (target.elts, node.value.elts) if several else ([target], [node.value])  # type: ignore[attr-defined]
        made = [
            ast.copy_location(ast.Constant(self.numbers[name.id]), value)
            if isinstance(name, ast.Name) and name.id in self.numbers
            else value
            for name, value in zip(names, values, strict=True)
        ]
        node.value = ast.copy_location(ast.Tuple(made, ast.Load()), node.value) if several else made[0]
        return node


class _Meshes(ast.NodeTransformer):
    """Makes meshes by another function."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`AbstractMesh(...)`."""
        if isinstance(node.func, ast.Name) and node.func.id == "AbstractMesh":
            node.func = ast.copy_location(ast.Name("smaller", ast.Load()), node.func)
        return self.generic_visit(node)


@functools.cache
def module(name: str) -> types.ModuleType:
    """An example, small."""
    axes, numbers = SIZES[name]
    path = EXAMPLES / f"{name}.py"
    tree = _Meshes().visit(_Numbers(numbers).visit(ast.parse(path.read_text(encoding="utf-8"))))
    found = types.ModuleType(f"{__name__}.{name}")
    sys.modules[found.__name__] = found

    def smaller(sizes: tuple[int, ...], names: tuple[str, ...], **how: Any) -> jax.sharding.AbstractMesh:
        return jax.sharding.AbstractMesh(
            tuple(min(size, axes[axis]) for size, axis in zip(sizes, names, strict=True)), names, **how
        )

    vars(found)["smaller"] = smaller
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), vars(found))
    return found


def __getattr__(name: str) -> Callable[[], tuple[Any, ...]]:
    """`example__factory`."""
    example, _, factory = name.partition("__")
    if example not in SIZES or not factory:
        raise AttributeError(name)
    found: Callable[[], tuple[Any, ...]] = getattr(module(example), factory)
    return found if example in WITHOUT_STATE else functools.partial(_with_squares, found)


def _with_squares(factory: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """A step that squares the floats of its optimizer's state: those that are drawn have both signs, and an optimizer
    takes roots of second moments."""
    step, arguments = factory()

    def squared(params: Any, state: Any, *rest: Any) -> Any:
        def square(one: jax.Array) -> jax.Array:
            return one * one if jnp.issubdtype(one.dtype, jnp.floating) else one

        positive = jax.tree.map(square, state)
        return step(params, positive, *rest)

    return squared, arguments
