"""The gradient of a choice that devices make apart sums over them in its branches."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))


def loss(w, x):
    chosen = lax.cond(lax.axis_index("X") == 0, lambda w, x: (x * w).sum(), lambda w, x: x.sum(), w, x)
    return lax.psum(chosen, "X")


run = jax.shard_map(loss, in_specs=(P(), P("X")), out_specs=P())
made = jax.make_jaxpr(jax.grad(run))(jnp.float32(2), jnp.arange(4.0, out_sharding=P("X")))
regions = [eqn.params["jaxpr"].eqns for eqn in made.eqns if eqn.primitive.name == "shard_map"]
branches = [branch for eqns in regions for eqn in eqns for branch in eqn.params.get("branches", ())]
inside = any("psum" in eqn.primitive.name for branch in branches for eqn in branch.eqns)
print("JAX: a psum over X", "inside" if inside else "outside", "of a branch that one device takes; right: outside")
raise SystemExit(int(not inside))
