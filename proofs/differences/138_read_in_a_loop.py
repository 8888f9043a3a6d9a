"""In the older release, what a scan reads and does not change is finished, and taken for pending still."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1.0, 2], [3, 4]], out_sharding=P("X")))
y, _ = jax.jit(lambda x: lax.scan(lambda c, _: (c + x, None), x, None, length=2))(x)
got = jax.reshard(y, P()).tolist()
right = [3 * (1.0 + 3), 3 * (2.0 + 4)]
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
