"""On several devices the angle of zeros that the compiler knows is no number."""

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))


def angles(zeros):
    twice = lax.concatenate([zeros, zeros], 1)
    return lax.atan2(zeros, lax.slice(twice, (0, 5), (4, 13)))


known = jax.jit(lambda: angles(jnp.zeros((4, 8))))().ravel()[:3].tolist()
given = jax.jit(angles)(jnp.zeros((4, 8))).ravel()[:3].tolist()
print("JAX:", known, "where the zeros are given:", given, "right: [0.0, 0.0, 0.0]")
raise SystemExit(int(known == given))
