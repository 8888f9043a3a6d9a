"""A tangent may lie otherwise than what it is a tangent of."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jnp.einsum("i->", jnp.array([1.0, 2.0], out_sharding=P("X")), out_sharding=P(unreduced={"X"}))
double = lambda x: jax.jvp(lambda x: x + x, (x,), (jnp.float32(1),))[1]
got = jax.reshard(double(x), P()).tolist(), jax.reshard(jax.jit(double)(x), P()).tolist()
right = 2.0
print("JAX:", got[0], "and under jit", got[1], "right:", right, "or to refuse it")
raise SystemExit(int(got == (right, right)))
