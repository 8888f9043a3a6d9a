"""What is taken out of a reduced array has no gradient in per-device code."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
R, U = P(reduced={"X"}), P(unreduced={"X"})
x, pending = jax.reshard(jnp.array([2.0, 1.0, 3.0]), R), jax.reshard(jnp.ones(3), U)
found = {}
for name, f in {"sort": lax.sort, "slice": lambda x: lax.dynamic_slice(x, (0,), (3,)), "neg": lax.neg}.items():
    region = jax.shard_map(f, in_specs=R, out_specs=R)
    try:
        back = lambda x, c, region=region: jax.vjp(region, x)[1](c)[0]
        found[name] = jax.reshard(jax.jit(back)(x, pending), P()).tolist()
    except jax._src.core.ShardingTypeError as error:
        found[name] = repr(error)[:110]
    print(name, "JAX:", found[name])
print("right: sort and slice [1.0, 1.0, 1.0], as neg [-1.0, -1.0, -1.0]")
raise SystemExit(int("unreduced along the same axes" not in found["sort"] or found["neg"] != [-1.0] * 3))
