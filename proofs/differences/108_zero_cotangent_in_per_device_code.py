"""In per-device code, the zero that differentiation makes for what is unused forgets that it is pending or reduced."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
zero = lambda x: lax.pcast(jnp.float32(0), "X", to="reduced")
choice = lambda i, x: lax.cond(i > 0, lax.neg, zero, x)
f = jax.shard_map(choice, in_specs=(P(), P(reduced={"X"})), out_specs=P(reduced={"X"}))
x = jax.reshard(jnp.float32(3), P(reduced={"X"}))
try:
    found = jax.jit(jax.grad(lambda x: jax.reshard(f(jnp.float32(1), x), P())))(x)
except Exception as error:  # noqa: BLE001  # it is raised as Exception
    found = error
print("JAX:", repr(found)[:200])
print("right:", -1.0)
raise SystemExit(int("mismatched varying manual axes" not in repr(found)))
