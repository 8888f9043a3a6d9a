"""What stands for arrays: their types alone, also of those that JAX is tracing."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax

from verifier.with_jax.names import is_array


def structs(tree: Any) -> Any:
    """A tree with what stands for each array in its place. Everything else stays what it is."""
    return jax.tree.map(lambda leaf: _struct(leaf) if is_array(leaf) else leaf, tree)


def key_of(tree: Any) -> Hashable:
    """What tells trees of other types apart; arrays count by their type and the mesh in context."""
    leaves, shape = jax.tree.flatten(tree)
    seen = tuple(str(jax.typeof(leaf)) if is_array(leaf) else repr(leaf) for leaf in leaves)
    return shape, seen, jax.sharding.get_abstract_mesh()


def _struct(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    type = jax.typeof(leaf)
    sharding = None if type.sharding.mesh.empty else type.sharding
    varying = getattr(type, "vma", None)
    more = {"vma": varying} if varying else {}
    return jax.ShapeDtypeStruct(type.shape, type.dtype, sharding=sharding, **more)
