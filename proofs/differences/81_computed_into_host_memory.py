"""What is computed into the host's memory has no gradient."""

import jax
import jax.numpy as jnp
from jax.experimental.compute_on import compute_on

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))

on_host = compute_on(lambda v: v * 2, compute_type="device_host", out_memory_spaces=jax.memory.Space.Host)
loss = lambda x: jax.device_put(on_host(x), jax.memory.Space.Device).sum()
x = jnp.ones(2)
right = [2.0, 2.0]
try:
    found = jax.jit(jax.grad(loss))(x)
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("Expected cotangent type" not in repr(found)))
