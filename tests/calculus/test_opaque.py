"""Every primitive that the installed JAX defines is declared, a form, a collective, opaque, or on the visible list of
those without a declaration; and nothing on that list has one."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import jax._src
from jax.extend.core import Primitive

from calculus.collectives import COLLECTIVES
from calculus.forms import FORMS
from calculus.opaque import KERNELS, UNDECLARED
from calculus.primitives import TABLE

_ELSEWHERE = ("test", "pallas", "mosaic", "tpu", "cuda", "clusters", "cloud", "profiler", "triton")


def _defined_by_jax() -> set[str]:
    for module in pkgutil.walk_packages(jax._src.__path__, "jax._src."):
        if not any(part in module.name for part in _ELSEWHERE):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue
    return {one.name for one in gc.get_objects() if isinstance(one, Primitive)}


def test_every_primitive_of_jax_has_its_place() -> None:
    found = _defined_by_jax()
    assert len(found) > 250
    placed = {*TABLE, *FORMS, *COLLECTIVES, *KERNELS, *UNDECLARED}
    assert {name for name in found - placed if not name.startswith("thunky.")} == set()


def test_what_has_a_rule_is_not_on_the_list_of_what_has_none() -> None:
    assert UNDECLARED.isdisjoint({*TABLE, *FORMS, *COLLECTIVES, *KERNELS})
