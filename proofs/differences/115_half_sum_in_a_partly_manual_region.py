"""A sum of bfloat16 over devices in a partly manual region kills the process."""

import subprocess
import sys

PROGRAM = """
import jax, jax.numpy as jnp
from jax import P
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))
f = jax.shard_map(lambda x: jax.lax.psum(x, "X"), axis_names={"X"}, in_specs=P("X"), out_specs=P())
print(jax.jit(f)(jax.device_put(jnp.ones(4, jnp.bfloat16), P("X"))))
"""
run = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True)
said = [line for line in run.stderr.splitlines() if "opcode" in line]
print("JAX: exit status", run.returncode, *said, "right: [2 2]")
raise SystemExit(int(run.returncode >= 0))
