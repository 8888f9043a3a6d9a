"""A backward rule that returns a literal for what is pending is accepted."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
f = jax.custom_vjp(lambda r: r * 2.0)
f.defvjp(lambda r: (r * 2.0, None), lambda _, g: (jnp.float32(1),))
r = jax.reshard(jnp.float32(3), P(reduced={"X"}))
jax._src.core.check_jaxpr(jax.make_jaxpr(jax.grad(f))(r).jaxpr)
got = str(jax.typeof(jax.jit(jax.grad(f))(r)))
right = "float32[]{U:X}"
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
