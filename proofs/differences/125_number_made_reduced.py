"""A number cannot be made reduced in a partially manual region."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))
two = lambda: lax.pcast(jnp.float32(2), "X", to="reduced")
found = {}
for axes in ({"X"}, {"X", "Y"}):
    h = jax.shard_map(two, in_specs=(), out_specs=P(reduced={"X"}), axis_names=axes)
    try:
        found[len(axes)] = jax.jit(h)().tolist()
    except AssertionError as error:
        found[len(axes)] = repr(error)
print("JAX:", found, "right: 2.0 in either")
raise SystemExit(int(found[1] == 2.0))
