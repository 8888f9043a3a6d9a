"""A pending sum moved to another axis kills the process."""

import subprocess
import sys

PROGRAM = """
import jax, jax.numpy as jnp
from jax import P
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
x = jnp.einsum("i->", jnp.array([1.0, 2.0], out_sharding=P("X")), out_sharding=P(unreduced={"X"}))
y = jax.jit(lambda x: jax.reshard(x, P(unreduced={"Y"})))(x)
print(jax.reshard(y, P()))
"""
run = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True)
print("JAX: exit status", run.returncode, run.stderr[-300:-200], "right: 3.0")
raise SystemExit(int(run.returncode >= 0))
