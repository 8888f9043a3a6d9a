"""A choice among three pending sums is whole on every device."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
pending = [jax.reshard(jnp.arange(4.0) + 10 * k, P(unreduced={"X"})) for k in range(3)]
found = {}
for k in range(3):
    chosen = jax.jit(lax.select_n)(jnp.full(4, k), *pending)
    found[k] = jax.reshard(chosen, P()).tolist()
    print("case", k, "JAX:", found[k], "right:", (jnp.arange(4.0) + 10 * k).tolist())
raise SystemExit(int(all(got == (jnp.arange(4.0) + 10 * k).tolist() for k, got in found.items())))
