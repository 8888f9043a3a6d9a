"""An update of a Cholesky factor that varies is typed and does not compile."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
right = np.linalg.cholesky(np.eye(4) + np.ones((4, 4))).T.tolist()
update = lambda a, v: lax.linalg.cholesky_update(a[0], v[0])[None]
a, v = (jax.reshard(jnp.stack([one] * 2), P("X")) for one in (jnp.eye(4), jnp.ones(4)))
mapped = jax.jit(jax.shard_map(update, in_specs=P("X"), out_specs=P("X")))
print("JAX types it", mapped.trace(a, v).jaxpr.out_avals)
try:
    found = mapped(a, v)[0]
except TypeError as error:
    found = str(error)[:80]
print("JAX:", found, "right:", right)
raise SystemExit(int(np.shape(found) == (4, 4) and np.allclose(found, right)))
