"""A generator whose words are cut unlike is typed and does not compile."""

import jax
import jax.numpy as jnp
from jax import P
from jax.extend.random import threefry2x32_p

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))

words = [jnp.arange(8, dtype=jnp.uint32, out_sharding=spec) for spec in (P("X"), P(), P(), P())]
right = [one.tolist() for one in jax.jit(threefry2x32_p.bind)(*(jax.reshard(word, P()) for word in words))]
typed = jax.jit(threefry2x32_p.bind).trace(*words).jaxpr.out_avals
try:
    found = [one.tolist() for one in jax.jit(threefry2x32_p.bind)(*words)]
except TypeError as error:
    found = str(error)[:80]
print("JAX types it", typed, "and says", found)
print("right:", right)
raise SystemExit(int(found == right))
