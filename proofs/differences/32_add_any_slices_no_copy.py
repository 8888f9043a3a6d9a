"""add_any takes operands of one type only."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P
from jax.extend.core import primitives

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
add = jax.jit(primitives.add_jaxvals_p.bind)
try:
    found = add(jnp.ones(4), jnp.arange(4.0, out_sharding=P("X"))).tolist()
except (AssertionError, ValueError, TypeError, jax._src.core.ShardingTypeError) as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", (1 + np.arange(4.0)).tolist())
raise SystemExit(int("ShapedArray" not in repr(found)))
