"""What leaves a partially manual region pending along an axis of one device does not compile."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
zero = lambda: lax.pcast(lax.pcast(jnp.zeros(4), "X", to="varying"), "X", to="unreduced")
found = {}
for size in (2, 1):
    mesh = jax.make_mesh((size, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        region = jax.shard_map(zero, in_specs=(), out_specs=P(unreduced={"X"}), axis_names={"X"})
        try:
            found[size] = jax.reshard(jax.jit(region)(), P()).tolist()
        except AssertionError as error:
            found[size] = repr(error)[:120]
    print("devices along X:", size, "JAX:", found[size], "right: zeros")
raise SystemExit(int(found[1] == [0.0] * 4 or found[2] != [0.0] * 4))
