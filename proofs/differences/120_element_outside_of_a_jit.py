"""An element at a known place is a lookup outside of a jit, and a slice inside."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jax.jit(lambda: jax.reshard(jnp.arange(4.0), P(None, unreduced={"X"})))()
second = lambda x: x.at[1].get()
right = jax.reshard(jax.jit(second)(x), P()).tolist()
try:
    found = jax.reshard(second(x), P()).tolist()
except NotImplementedError as error:
    found = str(error)[:80]
print("JAX:", found, "and under jit", right, "right: 1.0 both times")
raise SystemExit(int(found == right))
