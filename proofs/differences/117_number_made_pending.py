"""A number of Python that is made pending outside of a jit kills the process."""

import subprocess
import sys

PROGRAM = """
import jax
from jax import P
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
print(jax.reshard(jax.reshard(1.0, P(unreduced={"X"})), P()))
"""
run = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True)
says = next((line for line in run.stderr.splitlines() if "Check failed" in line), "")
print("JAX: exit status", run.returncode, says[-120:], "right: 1.0")
raise SystemExit(int(run.returncode >= 0))
