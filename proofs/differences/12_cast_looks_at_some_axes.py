"""Casts and collectives look at some of the axes that they name, and at some states."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
cast = jax._src.lax.parallel.vary_unreduced_cast_p
f = lambda v: cast.bind(v, axes=("X", "Y"))  # v varies over X alone
run = jax.shard_map(f, in_specs=P("X"), out_specs=P(unreduced={"X", "Y"}))
y = jax.jit(run)(jnp.array([1.0, 2], out_sharding=P("X")))
got = jax.reshard(y, P()).tolist()
right = [1.0 + 2.0]
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
