"""A reshape whose blocks stay where they are is refused where factors do not match."""

import jax
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jax.device_put(np.arange(120.0).reshape(4, 6, 5), P(None, "X"))
right = np.asarray(x).reshape(4, 10, 3)
try:
    found = np.asarray(jax.jit(lambda x: lax.reshape(x, (4, 10, 3)))(x)).tolist()
except Exception as error:  # noqa: BLE001  # its class has no public name
    found = f"{type(error).__name__}: {error}"
print("JAX:", str(found)[:200])
halves = [np.asarray(shard.data).ravel() for shard in x.addressable_shards]
print("right:", [np.array_equal(half, part.ravel()) for half, part in zip(halves, np.split(right, 2, 1), strict=True)])
raise SystemExit(int("This reshape is not supported" not in str(found)))
