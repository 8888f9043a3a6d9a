"""The greatest number along a cut dim forgets what is no number."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
found = {}
for place in range(4):
    x = jnp.arange(4.0).at[place].set(jnp.nan)
    whole, cut = jnp.max(x), jax.jit(jnp.max)(jax.reshard(x, P("X")))
    found[place] = bool(jnp.isnan(cut))
    print("of", x.tolist(), "JAX:", cut.tolist(), "of a copy, and right:", whole.tolist())
raise SystemExit(int(all(found.values())))
