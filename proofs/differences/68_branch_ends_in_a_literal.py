"""A branch that returns a literal is taken for pending."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
choose = lambda p, v: lax.cond(p, lambda v: jnp.float32(1), lambda v: jnp.einsum("i,i->", v, v, out_sharding=U), v)
args = jnp.bool_(True), jnp.arange(4.0, out_sharding=P("X"))
jax._src.core.check_jaxpr(jax.make_jaxpr(choose)(*args).jaxpr)
y = jax.jit(choose)(*args)
got = jax.reshard(y, P()).tolist()
right = 1.0
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
