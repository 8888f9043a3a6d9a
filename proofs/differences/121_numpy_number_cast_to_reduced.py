"""A number of numpy that is cast to reduced ends in an assertion."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
f = lambda number: jax.shard_map(
    lambda v: lax.pcast(number(), "X", to="reduced"), in_specs=P("X"), out_specs=P(reduced={"X"})
)(jnp.arange(2.0, out_sharding=P("X")))
right = f(lambda: jnp.float32(3)).tolist()
try:
    found = f(lambda: np.float32(3)).tolist()
except AssertionError as error:
    found = repr(error)[:120]
print("JAX:", found, "right:", right, "as it gives of a number of its own")
raise SystemExit(int(found == right))
