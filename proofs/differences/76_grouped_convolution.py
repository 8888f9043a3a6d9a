"""On a mesh of two axes the gradient of a grouped kernel is twice too large."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
random = np.random.default_rng(0)
x, k = (jnp.array(random.integers(-3, 4, shape), jnp.float32) for shape in ((4, 4, 6), (4, 2, 3)))
loss = lambda k, x: (lax.conv_general_dilated(x, k, (1,), [(0, 0)], feature_group_count=2) ** 2).sum()
got = np.asarray(jax.jit(jax.grad(loss))(k, jax.reshard(x, P("X")))).ravel()[:3].tolist()
right = np.asarray(jax.jit(jax.grad(loss))(k, x)).ravel()[:3].tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
