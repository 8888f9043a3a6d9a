"""A dynamic slice or update does not look at the state of its indices."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
start = pend(jnp.array([1, 2], out_sharding=P("X")))
slicing = lambda x, i: lax.dynamic_slice_p.bind(x, i, slice_sizes=(1,))
y = jax.jit(jax.shard_map(slicing, in_specs=(P(), U), out_specs=P()))(jnp.arange(8.0), start)
got = [shard.data.tolist() for shard in y.addressable_shards]
right = [np.arange(8.0)[1 + 2 :][:1].tolist()] * 2
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
