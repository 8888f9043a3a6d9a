"""The derivative of eigenvalues reads a triangle that the values do not."""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
f = lambda a: jnp.linalg.eigh(jnp.array(a, jnp.float32), symmetrize_input=False)[0]
a, above = np.array([[2.0, 1], [5, 3]], np.float32), np.array([[0.0, 1], [0, 0]], np.float32)
right = ((f(a + above) - f(a - above)) / 2).tolist()
got = jax.jvp(lambda a: jnp.linalg.eigh(a, symmetrize_input=False)[0], (jnp.array(a),), (jnp.array(above),))[1].tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
