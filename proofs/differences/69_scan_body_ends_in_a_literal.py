"""A scan whose body returns a literal for what is pending does not compile."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
zero = lambda: jax.reshard(jnp.float32(0), P(unreduced={"X"}))
scan = lambda: lax.scan(lambda c, _: (jnp.float32(1), None), zero(), length=2)[0]
jax._src.core.check_jaxpr(jax.make_jaxpr(scan)().jaxpr)
try:
    found = jax.jit(scan)()
except (AssertionError, TypeError) as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", "refused by its type")
raise SystemExit(int("OpSharding" not in repr(found)))
