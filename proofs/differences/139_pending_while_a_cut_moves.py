"""What is pending while its cut moves from one axis to another across that one is piled up wrongly."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2, 2), ("X", "Y", "Z"), axis_types=(jax.sharding.AxisType.Explicit,) * 3))
pend = jax.shard_map(
    lambda v: lax.pcast(v[0], "Y", to="unreduced"), in_specs=P("Y", "X"), out_specs=P("X", unreduced={"Y"})
)
x = pend(jnp.array([[1.0, 2.0], [10.0, 20.0]], out_sharding=P("Y", "X")))
y = jax.jit(lambda x: jax.reshard(x, P("Z", unreduced={"Y"})))(x)
got = jax.reshard(y, P()).tolist()
right = [1.0 + 10.0, 2.0 + 20.0]
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
