"""The transpose of an inverse real Fourier transform multiplies what is pending by a copy."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jax.reshard(jnp.arange(3.0) + 1j, P(reduced={"X"}))
loss = lambda x: lax.fft(x, "IRFFT", (4,)).sum()
right = jax.grad(loss)(jax.reshard(x, P())).tolist()
try:
    found = jax.grad(loss)(x)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("LHS should be reduced" not in repr(found)))
