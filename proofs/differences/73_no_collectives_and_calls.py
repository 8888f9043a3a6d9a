"""`no_collectives` does not look at what a call hands out."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))


def double(x):
    with jax.sharding.no_collectives({"X"}):
        return jax.jit(lambda v: v * 2, out_shardings=P())(x)


gathers = "all-gather" in jax.jit(double).lower(jnp.ones(4, out_sharding=P("X"))).compile().as_text()
print("JAX: accepted, and", "gathers" if gathers else "moves nothing", "right: refused, or moves nothing")
raise SystemExit(int(not gathers))
