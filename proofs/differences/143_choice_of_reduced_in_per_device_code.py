"""In per-device code a choice between values that are pending or reduced has no gradient."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
R = P(reduced={"X"})
choice = lambda x: lax.select(jnp.array([True, False]), x, x + x)
x, seed = jax.reshard(jnp.ones(2), R), jax.reshard(jnp.ones(2), P(unreduced={"X"}))
try:
    found = jax.vjp(jax.shard_map(choice, in_specs=R, out_specs=R), x)[1](seed)[0]
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [1.0, 2.0], "of the type float32[2]{U:X}")
raise SystemExit(int("Expected cotangent type" not in repr(found)))
