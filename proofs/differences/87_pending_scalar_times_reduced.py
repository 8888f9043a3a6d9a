"""What is pending and meets an array of another shape is typed and does not compile."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = jax.reshard(jnp.array([1.0, 2]), P(reduced={"X"}))
y = pend(jnp.array([3.0, 4], out_sharding=P("X")))
print("typed:", jax.eval_shape(lax.mul, x, y).sharding.spec)
try:
    found = jax.reshard(lax.mul(x, y), P()).tolist()
except NotImplementedError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [1.0 * (3 + 4), 2.0 * (3 + 4)])
raise SystemExit(int("NotImplementedError" not in repr(found)))
