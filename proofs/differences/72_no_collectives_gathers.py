"""`no_collectives` compares sets of axes, and lets a contraction gather."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))


def product(x, w):
    with jax.sharding.no_collectives({"X"}):
        return x @ w


x, w = jnp.ones((4, 4), out_sharding=P("X")), jnp.ones((4, 2), out_sharding=P("X"))
gathers = "all-gather" in jax.jit(product).lower(x, w).compile().as_text()
print("JAX: accepted, and", "gathers w" if gathers else "moves nothing", "right: refused, or moves nothing")
raise SystemExit(int(not gathers))
