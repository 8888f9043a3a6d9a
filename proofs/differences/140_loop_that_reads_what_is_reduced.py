"""In per-device code a loop has no gradient at what it reads and does not change, where that is pending or reduced."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
R = P(reduced={"X"})
loop = lambda e: lax.scan(lambda c, _: (c + e, None), e, None, length=3)[0]
e, seed = jax.reshard(jnp.ones(2), R), jax.reshard(jnp.ones(2), P(unreduced={"X"}))
try:
    found = jax.vjp(jax.shard_map(loop, in_specs=R, out_specs=R), e)[1](seed)[0]
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [4.0, 4.0], "of the type float32[2]{U:X}, for the loop adds e three times to e")
raise SystemExit(int("Expected cotangent type" not in repr(found)))
