"""A power of two, a square, a sign or a logarithm to base 2 that becomes pending is whole on every device."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
U = P(None, unreduced={"X"})
x = jnp.arange(1.0, 5.0)
found = {}
for f in (lax.exp2, lax.square, lax.sign, jnp.log2, lax.exp):
    got = jax.reshard(jax.jit(lambda x, f=f: jax.reshard(f(x), U))(x), P(None))
    found[f.__name__] = (got.tolist(), f(x).tolist())
    print(f.__name__, "JAX:", got.tolist(), "right:", f(x).tolist())
raise SystemExit(int(all(got == right for got, right in found.values())))
