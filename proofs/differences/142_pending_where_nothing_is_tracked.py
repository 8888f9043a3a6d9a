"""At the edge of a region with check_vma=False what is pending has a wrong gradient."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
pending, x = P(unreduced={"X"}), jax.reshard(jnp.arange(4.0), P("X"))


def region(f, ins, outs, check_vma):
    return jax.shard_map(f, in_specs=ins, out_specs=outs, check_vma=check_vma)


leaves = region(lambda x: x.sum(), P("X"), pending, False)
enters = region(lambda u: lax.psum(u, "X"), pending, P(), False)
small = jax.grad(lambda x: jax.reshard(leaves(x), P()))(x)
large = jax.grad(lambda x: enters(jax.reshard(x.sum(), pending)))(x)
right = jax.grad(jnp.sum)(x)
print("JAX: leaving", small, "entering", large, "right", right)
raise SystemExit(int(small.tolist() != [0.5] * 4 or large.tolist() != [2.0] * 4 or right.tolist() != [1.0] * 4))
