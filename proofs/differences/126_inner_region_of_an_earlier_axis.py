"""A region inside a region, over an axis that stands before that of the outer one, kills the process."""

import subprocess
import sys

PROGRAM = """
import jax
import jax.numpy as jnp
from jax import P
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2, 2), ("X", "Y", "Z"), axis_types=(jax.sharding.AxisType.Explicit,) * 3))
region = lambda f, axis: jax.shard_map(f, in_specs=P(None), out_specs=P(None), axis_names={axis})
print(jax.jit(region(lambda x: region(jnp.sin, "INNER")(x), "OUTER"))(jnp.arange(2.0)).tolist())
"""
codes = {}
for inner, outer in (("Z", "Y"), ("Y", "Z")):
    text = PROGRAM.replace("INNER", inner).replace("OUTER", outer)
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    codes[inner + " inside " + outer] = ran.returncode
    print(inner, "inside", outer, "JAX:", ran.stdout.strip() or ran.stderr.strip()[:150], "right: [0.0, 0.841...]")
raise SystemExit(int(codes != {"Z inside Y": 0, "Y inside Z": -6}))
