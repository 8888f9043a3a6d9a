"""What leaves a region of automatic axes pending is whole on every device."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
U = P(None, unreduced={"X"})
f = jax.sharding.auto_axes(jnp.sin, out_sharding=U)
x = jnp.arange(4.0)
got = jax.reshard(jax.jit(f)(x), P(None)).tolist()
right = jnp.sin(x).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
