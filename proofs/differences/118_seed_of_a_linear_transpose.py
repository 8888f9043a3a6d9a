"""A linear transpose takes a seed of no type where its function's result is pending."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U, R = P(unreduced={"X"}), P(reduced={"X"})
f = lambda x: jnp.einsum("i->", jax.reshard(x, P("X")), out_sharding=U)
x = jnp.arange(4.0)
found = []
for spec in (R, U, P()):
    seed = jax.jit(lambda spec=spec: jax.reshard(jnp.float32(1), spec))()
    try:
        found.append(jax.linear_transpose(f, x)(seed)[0].tolist())
    except (TypeError, ValueError) as error:
        found.append(str(error)[:60])
right = [1.0] * 4
print("JAX:", found, "right:", right, "of the first, which is reduced")
raise SystemExit(int(found[0] == right))
