"""A product into places that may repeat has no gradient."""

import jax
import jax.numpy as jnp

jax.config.update("jax_platforms", "cpu")
try:
    found = jax.grad(lambda y: jnp.ones(4).at[jnp.array([1])].multiply(y).sum())(3.0).tolist()
except NotImplementedError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", 1.0)
raise SystemExit(int("only implemented if" not in repr(found)))
