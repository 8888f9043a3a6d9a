"""The gradient of a pooling has no gradient where the cotangent is cut."""

import jax
import jax.numpy as jnp
from jax import P, lax
from jax.extend.core import primitives

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
window = {"select_prim": lax.ge_p, "window_dimensions": (2,), "window_strides": (2,), "padding": ((0, 0),)}
scatter = lambda t: primitives.select_and_scatter_add_p.bind(t, jnp.arange(8.0), **window)
loss = lambda t: (scatter(t) * jnp.arange(8.0)).sum()
x = jnp.array([1.0, 2, 3, 4], out_sharding=P("X"))
right = jax.jit(jax.grad(loss))(jax.reshard(x, P())).tolist()
try:
    found = jax.jit(jax.grad(loss))(x)
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("Expected cotangent type" not in repr(found)))
