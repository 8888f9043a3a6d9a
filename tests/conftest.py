"""What every test may count on: eight CPU devices wherever JAX is imported, here or in a child process."""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
