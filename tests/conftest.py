"""What every test may count on: eight CPU devices wherever JAX is imported, here or in a child process."""

import gc
import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

gc.set_threshold(100_000, 20, 50)  # what JAX and the tests hold is much, and walking it again and again is a twentieth
