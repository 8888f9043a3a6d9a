"""A QR factorization of a cut batch is typed and does not compile."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jnp.reshape(jnp.arange(16.0), (4, 2, 2))
cut = jax.reshard(x, P("X"))
print("typed:", jax.eval_shape(jnp.linalg.qr, cut)[0].sharding.spec)
try:
    found = np.abs(jnp.linalg.qr(cut)[1][0]).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.abs(np.linalg.qr(np.asarray(x[0]))[1]).tolist())
raise SystemExit(int("select `which`" not in repr(found)))
