"""A target of a conversion is not held against the operand."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P
from jax.extend.core import primitives

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
target = jax.NamedSharding(jax.sharding.get_abstract_mesh(), P(None, reduced={"X"}))
bind = primitives.convert_element_type_p.bind
loss = lambda x: bind(x, new_dtype=np.dtype("float32"), weak_type=False, sharding=target).sum()
print("forward:", jax.eval_shape(loss, jnp.ones(2)).sharding.spec)
try:
    found = jax.jit(jax.grad(loss))(jnp.ones(2))
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [1.0, 1.0])
raise SystemExit(int("Expected cotangent type" not in repr(found)))
