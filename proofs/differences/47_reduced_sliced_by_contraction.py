"""A reduced operand that a contraction slices has no gradient."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jax.reshard(jnp.arange(8.0).reshape(4, 2), P("X"))
loss = lambda y: jnp.einsum("bi,bj->ij", x, y, out_sharding=P()).sum()
y = jax.reshard(jnp.arange(8.0).reshape(4, 2), P(reduced={"X"}))
right = jax.grad(loss)(jax.reshard(y, P())).tolist()
print("forward:", jax.jit(loss).trace(y).jaxpr.out_avals)
try:
    found = jax.grad(loss)(y)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("unreduced axes should be equal" not in repr(found)))
