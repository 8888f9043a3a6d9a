"""The checker of programs accepts a loop whose body returns a literal for what is pending."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
step = lambda c: (c[0] + 1, jnp.float32(1), c[2] + c[1])
zero = lambda: jax.reshard(jnp.float32(0), P(unreduced={"X"}))
loop = lambda steps: lax.while_loop(lambda c: c[0] < steps, step, (0, zero(), zero()))[2]
jax._src.core.check_jaxpr(jax.make_jaxpr(loop)(3).jaxpr)
y = jax.jit(loop)(3)
got = jax.reshard(y, P()).tolist()
right = 0.0 + 1 + 1
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
