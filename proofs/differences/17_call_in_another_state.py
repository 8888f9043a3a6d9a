"""A call that asks for another state of a pending operand finishes it, and takes it for pending still."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([2.0, 2], out_sharding=P("X")))
doubled = jax.jit(lambda w: w + w, in_shardings=P())
y = jax.jit(doubled)(x)
got = jax.reshard(y, P()).tolist()
right = 2 * (2.0 + 2.0)
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
