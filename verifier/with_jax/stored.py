"""Arrays of JAX as they are stored, in the language of types. Seeds B11, B33, B37."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding

from calculus.meshes import Mesh
from calculus.types import ArrayType, array_type
from grammar.leaves import type_of
from verifier.with_jax import meshes


def stored(array: Any) -> tuple[ArrayType, Mesh]:
    """How a concrete array is stored, and the mesh that it lies on: its own sharding, auto axes included, where
    `jax.typeof` says explicit ones only. An array that lies on no mesh is on one device, or on some of no names.
    `calculus.concrete.refines` compares it with a type."""
    aval = jax.typeof(array)
    plain = type_of(aval.str_short(short_dtypes=True))
    if not isinstance(plain, ArrayType):
        raise TypeError(f"{plain} is not the type of an array")
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding):
        return array_type(plain.dtype, plain.shape), Mesh(())
    mesh, spec = meshes.ours(sharding.mesh), sharding.spec
    cuts = [() if names is None else (names,) if isinstance(names, str) else tuple(names) for names in spec.partitions]
    cuts += [()] * (len(plain.shape) - len(cuts))
    kind = getattr(getattr(spec, "unreduced_kind", None), "name", "sum")
    states = (mesh.in_order(spec.unreduced), mesh.in_order(spec.reduced))
    return array_type(plain.dtype, plain.shape, tuple(cuts), (), *states, kind), mesh
