"""A Fourier transform of partial sums is typed and does not compile."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1, 2], [3, 4]], jnp.complex64, out_sharding=P("X")))
try:
    found = jax.reshard(lax.fft(x, "fft", (2,)), P()).tolist()
except (AssertionError, NotImplementedError) as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.fft.fft([1 + 3, 2 + 4]).tolist())
raise SystemExit(int("Error(" not in repr(found)))
