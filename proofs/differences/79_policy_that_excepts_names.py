"""The policy that saves anything except what is named saves that too."""

import contextlib
import io

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name, print_saved_residuals

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))

policy = jax.checkpoint_policies.save_anything_except_these_names("a")
square = lambda y: (y * y).sum()
f = jax.checkpoint(lambda x: square(checkpoint_name(jnp.sin(x), "a")), policy=policy)
said = io.StringIO()
with contextlib.redirect_stdout(said):
    print_saved_residuals(f, jnp.ones(4))
print(said.getvalue(), "right: nothing that is named a")
raise SystemExit(int("named 'a'" not in said.getvalue()))
