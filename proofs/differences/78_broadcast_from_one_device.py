"""The transpose of a broadcast from one device chooses by a number of no shape."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
send = jax.shard_map(lambda v: lax.pbroadcast(v, "X", 1), in_specs=P("X"), out_specs=P("X"))
loss = lambda x: send(x).sum()
x = jnp.arange(4.0, out_sharding=P("X"))
right = [0.0, 0.0, 2.0, 2.0]
try:
    found = jax.make_jaxpr(jax.grad(loss))(x)
except TypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("scalar fill_value" not in repr(found)))
