"""A maximum over one axis is taken of sums that are pending along another."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))


def greatest(v):  # v varies over X and Y; along Y its pieces are summed
    return lax.pmax(lax.pcast(v, "Y", to="unreduced"), "X")


pieces = np.array([[5.0, -4], [-2, 2]])
run = jax.shard_map(greatest, in_specs=P("X", "Y"), out_specs=P(None, None, unreduced={"Y"}))
y = jax.jit(run)(jnp.array(pieces, jnp.float32, out_sharding=P("X", "Y")))
got = jax.reshard(y, P()).tolist()
right = [[pieces.sum(1).max().tolist()]]
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
