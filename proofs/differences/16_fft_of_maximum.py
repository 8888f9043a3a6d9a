"""A Fourier transform keeps a pending maximum pending."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U_MAX = P(unreduced={"X"}, unreduced_kind=jax.sharding.UnreducedKind.max)
x = jax.ShapeDtypeStruct((8,), jnp.complex64, sharding=jax.NamedSharding(jax.sharding.get_mesh(), U_MAX))
typed = jax.eval_shape(lambda x: lax.fft(x, "fft", (8,)), x).sharding.spec
a, b = np.array([1.0, 5]), np.array([3.0, 2])
print("the transform of a maximum", np.fft.fft(np.maximum(a, b)).real, "is no maximum of", np.fft.fft([a, b]).real)
print("JAX:", typed, "right: refused")
raise SystemExit(int(typed.unreduced_kind is not jax.sharding.UnreducedKind.max))
