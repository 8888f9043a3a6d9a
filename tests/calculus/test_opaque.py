"""Every primitive that the installed JAX defines is declared, a form, a collective, opaque, or on the visible list of
those without a declaration; and nothing on that list has one."""

from __future__ import annotations

import subprocess
import sys

from calculus.collectives import COLLECTIVES
from calculus.forms import FORMS
from calculus.opaque import KERNELS, UNDECLARED
from calculus.primitives import TABLE

#: run apart, so that primitives which other tests and libraries define do not count
_ENUMERATION = """
import gc, importlib, pkgutil
import jax._src
from jax.extend.core import Primitive

elsewhere = ("test", "pallas", "mosaic", "tpu", "cuda", "clusters", "cloud", "profiler", "triton")
for module in pkgutil.walk_packages(jax._src.__path__, "jax._src."):
    if not any(part in module.name for part in elsewhere):
        try:
            importlib.import_module(module.name)
        except ImportError:
            pass
print(*{one.name for one in gc.get_objects() if isinstance(one, Primitive)}, sep="\\n")
"""


def test_every_primitive_of_jax_has_its_place() -> None:
    run = subprocess.run([sys.executable, "-c", _ENUMERATION], capture_output=True, text=True, check=True)
    found = set(run.stdout.split())
    assert len(found) > 250
    placed = {*TABLE, *FORMS, *COLLECTIVES, *KERNELS, *UNDECLARED}
    assert {name for name in found - placed if not name.startswith("thunky.")} == set()


def test_what_has_a_rule_is_not_on_the_list_of_what_has_none() -> None:
    assert UNDECLARED.isdisjoint({*TABLE, *FORMS, *COLLECTIVES, *KERNELS})
