"""A gamma sample is typed in the state of its concentration."""

import jax
import jax.numpy as jnp
from jax import P, lax
from jax.extend.core import primitives

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1.0], [1.0]], out_sharding=P("X")))
keys = jax.random.split(jax.random.key(0), 1)
sample = lambda keys, x: primitives.random_gamma_p.bind(keys, x, log_space=False)
typed = jax.eval_shape(sample, keys, x)
gamma = jax.jit(lambda a: jax.random.gamma(jax.random.key(0), a))
one, two = gamma(1.0).item(), gamma(2.0).item()
print("a sample of 1 + 1 is", two, "and twice a sample of 1 is", 2 * one)
print("JAX:", typed.sharding.spec, "right: refused")
raise SystemExit(int("unreduced" not in str(typed)))
