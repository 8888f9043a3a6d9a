"""A contraction is pending along all the axes that it sums over, or along none."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
x = jax.reshard(jnp.arange(16.0).reshape(8, 2), P(("X", "Y")))
over = (((0,), (0,)), ((), ()))
both = jax.jit(lambda x: lax.dot_general(x, x, over, out_sharding=P(None, None, unreduced={"X", "Y"})))
try:
    found = jax.jit(lambda x: lax.dot_general(x, x, over, out_sharding=P(None, None, unreduced={"Y"})))(x)
except Exception as error:  # noqa: BLE001  # its class has no public name
    found = error
print("JAX:", repr(found)[:200])
print("right:", jax.typeof(jax.reshard(both(x), P(None, None, unreduced={"Y"}))))
raise SystemExit(int("should be equal to the contracting specs" not in repr(found)))
