"""The transpose of a linear call is traced at the type of its result, not of the cotangent."""

import jax
import jax.numpy as jnp
from jax import P, lax
from jax.custom_derivatives import linear_call

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))

U, R = P(unreduced={"X"}), P(reduced={"X"})
total = lambda _, x: jnp.einsum("i->", jax.reshard(x, P("X")), out_sharding=U)
spread = jax.shard_map(lambda t: jnp.broadcast_to(lax.pcast(t, "X", to="varying"), 2), in_specs=R, out_specs=P("X"))
back = lambda _, t: jax.reshard(spread(t), P())
loss = lambda x: jax.reshard(linear_call(total, back, (), x), P())
try:
    found = jax.jit(jax.grad(loss))(jnp.arange(4.0)).tolist()
except (ValueError, TypeError) as error:
    found = str(error)[:150]
right = [1.0] * 4
print("JAX:", found, "right:", right)
raise SystemExit(int(found == right))
