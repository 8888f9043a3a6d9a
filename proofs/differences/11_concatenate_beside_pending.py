"""In manual mode, what stands beside a pending operand of a concatenation need not be pending."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1.0, 1], [2, 2]], out_sharding=P("X")))
join = jax.shard_map(lambda a, b: lax.concatenate([a, b], 0), in_specs=(P(), U), out_specs=U)
y = jax.jit(join)(jnp.ones(2), x)
got = jax.reshard(y, P()).tolist()
right = np.concatenate([[1.0, 1.0], [1.0 + 2, 1 + 2]]).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
