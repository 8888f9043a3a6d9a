"""What is written to a cell may lie otherwise than the cell."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))


def write(x):
    cell = jax.new_ref(jnp.ones(4))
    cell[...] = x
    return jax.freeze(cell)


x = jnp.arange(4.0, out_sharding=P("X"))
jax._src.core.check_jaxpr(jax.make_jaxpr(write)(x).jaxpr)
right = str(jax.make_jaxpr(write)(x).out_avals[0])
got = str(jax.typeof(jax.jit(write)(x)))
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
