"""In per-device code a loop does not stack what is pending or reduced."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
R = P(reduced={"X"})
x = jax.reshard(jnp.arange(3.0), R)
stack = lambda x: lax.scan(lambda carry, _: (carry, -x), 0.0, None, length=2)[1]
found = {}
region = jax.shard_map(stack, in_specs=R, out_specs=P(None, None, reduced={"X"}))
for name, f in (("explicit", stack), ("per device", region)):
    try:
        found[name] = jax.reshard(jax.jit(f)(x), P()).tolist()
    except jax._src.core.ShardingTypeError as error:
        found[name] = repr(error)[:130]
    print(name, "JAX:", found[name], "right: [[-0.0, -1.0, -2.0]] twice")
raise SystemExit(int("along the same axes" not in str(found["per device"])))
