"""One of several processes that share a mesh: it runs the seeds' gradient examples, and says what its own devices hold.

Given its number, how many there are, and the address of the first. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.pop("JAX_NUM_CPU_DEVICES", None)
os.environ["XLA_FLAGS"] = ""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

number, count, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
try:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 1)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
except (AttributeError, ValueError) as error:
    print(f"no collectives between processes: {error}", file=sys.stderr)
    sys.exit(77)
jax.distributed.initialize(address, count, number)

MESH = jax.make_mesh((count,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,))
jax.set_mesh(MESH)
REDUCED = P(None, None, reduced={"X"})


def array(spec: P, *shape: int) -> jax.Array:
    """Small numbers, of which this process makes only its own block."""
    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) % 7 / 8 - 0.25
    return jax.make_array_from_callback(shape, NamedSharding(MESH, spec), lambda index: values[index])


def loss(w: Any, x: Any) -> Any:
    """Seeds A7: data parallel."""
    return jnp.sum(jnp.tanh(x @ w))


def loss_of_reduced(w: Any, x: Any) -> Any:
    """A28: the weight is reduced first."""
    return loss(jax.reshard(w, REDUCED), x)


def used_twice(w: Any, x: Any) -> Any:
    """A29: and used by two products, whose gradients are added before they are summed."""
    w = jax.reshard(w, REDUCED)
    return loss(w, x) + loss(w, 2 * x)


def per_device(w: Any, x: Any) -> Any:
    """A48: a layer in a shard_map, with a reduced weight."""
    layer: Any = jax.shard_map(lambda w, x: jnp.tanh(x @ w), in_specs=(REDUCED, P("X", None)), out_specs=P("X", None))
    return jnp.sum(layer(jax.reshard(w, REDUCED), x))


found: dict[str, Any] = {}
w, x = array(P(None, None), 4, 2), array(P("X", None), 8, 4)
for function in (loss, loss_of_reduced, used_twice, per_device):
    try:
        gradients = jax.jit(jax.grad(function, (0, 1)))(w, x)
    except NotImplementedError as error:
        found[function.__name__] = str(error)
        continue
    found[function.__name__] = [
        (str(jax.typeof(one)), np.asarray(one.addressable_shards[0].data).tolist()) for one in gradients
    ]
print(json.dumps({"devices": jax.device_count(), "own": jax.local_device_count(), "found": found}))
