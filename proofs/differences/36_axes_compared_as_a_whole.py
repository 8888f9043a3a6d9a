"""Reduced axes are compared as a whole, also where an operand is unreduced along one of them."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
pieces = jax.reshard(jnp.array([1.0, 2]), P("X", reduced={"Y"}))
x = jnp.einsum("i->", pieces, out_sharding=P(unreduced={"X"}))
y = jax.reshard(jnp.float32(3), P(reduced={"X", "Y"}))
try:
    found = jax.reshard(x * y, P()).item()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", 3.0 * (1 + 2))
raise SystemExit(int("same mesh axes" not in repr(found)))
