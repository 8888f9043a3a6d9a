"""add_any adds pending maxima."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax
from jax.extend.core import primitives

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U_MAX = P(None, unreduced={"X"}, unreduced_kind=jax.sharding.UnreducedKind.max)
pending = lambda pieces: lax.reduce_max(jnp.array(pieces, out_sharding=P("X")), (0,), out_sharding=U_MAX)
x, y = [[1.0, 5], [3, 2]], [[10.0, 0], [0, 10]]
y_, x_ = pending(y), pending(x)
total = jax.jit(primitives.add_jaxvals_p.bind)(x_, y_)
got = jax.reshard(total, P()).tolist()
right = (np.max(x, 0) + np.max(y, 0)).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
