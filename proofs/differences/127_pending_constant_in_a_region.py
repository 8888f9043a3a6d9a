"""A constant that is pending along an explicit axis kills the process in a partially manual region."""

import subprocess
import sys

PROGRAM = """
import jax
import jax.numpy as jnp
from jax import P
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))
zero = lambda: jnp.zeros((), out_sharding=P(unreduced={"Y"}))
print(jax.reshard(jax.jit(jax.shard_map(zero, in_specs=(), out_specs=P(), axis_names={"X"}))(), P()).tolist())
"""
ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
print("JAX:", ran.stdout.strip() or ran.stderr.strip()[:200], "right: 0.0")
raise SystemExit(int(ran.returncode >= 0))
