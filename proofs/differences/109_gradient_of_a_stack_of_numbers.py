"""The gradient of what a loop stacks does not compile where it is a reduced number."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
stack = lambda x: lax.scan(lambda c, _: (c, x), 0.0, None, length=4)[1]
x = jax.reshard(jnp.float32(3), P(reduced={"X"}))
try:
    back = jax.jit(lambda x, u: jax.vjp(stack, x)[1](u)[0])
    u = jax.reshard(jnp.ones(4), P(None, unreduced={"X"}))
    found = jax.reshard(back(x, u), P()).tolist()
except NotImplementedError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", 4.0)
raise SystemExit(int("rule for dynamic_slice is not implemented" not in repr(found)))
