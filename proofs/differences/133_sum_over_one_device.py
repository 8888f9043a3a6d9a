"""In a partially manual region a sum over an axis of one device does not compile where another axis cuts the array."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
found = {}
for size in (2, 1):
    with jax.set_mesh(jax.make_mesh((size, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)):
        x = jax.reshard(jnp.arange(4.0), P("Y"))
        add = lambda x: lax.psum(lax.pcast(x, "X", to="varying"), "X")
        region = jax.shard_map(add, in_specs=P(None), out_specs=P(None), axis_names={"X"})
        try:
            found[size] = jax.reshard(jax.jit(region)(x), P(None)).tolist()
        except jax.errors.JaxRuntimeError as error:
            found[size] = repr(error)[:200]
    print("devices along X:", size, "JAX:", found[size], "right:", [size * each for each in range(4)])
raise SystemExit(int("IsManualSubgroup" not in str(found[1])))
