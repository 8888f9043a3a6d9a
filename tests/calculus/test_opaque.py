"""Every primitive that the installed JAX defines is declared, a form, a collective, a kernel to be assumed, or refused:
for a reason that the refusal says, or because it belongs into kernels. What is refused has no judgment."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from functools import cache

import jax

from calculus.collectives import COLLECTIVES
from calculus.forms import FORMS
from calculus.opaque import IN_KERNELS, KERNELS, UNDECLARED, UNMODELLED, in_kernels
from calculus.primitives import TABLE

#: run apart, so that primitives which other tests and libraries define do not count
_ENUMERATION = """
import gc, importlib, pkgutil, sys
import jax._src
from jax.extend.core import Primitive

elsewhere = ("test", "pallas", "mosaic", "tpu", "cuda", "clusters", "cloud", "profiler", "triton")
for module in pkgutil.walk_packages(jax._src.__path__, "jax._src."):
    if not any(part in module.name for part in elsewhere):
        try:
            importlib.import_module(module.name)
        except ImportError:
            pass
for one in gc.get_objects():
    if isinstance(one, Primitive):
        print(one.name, "?")
for name, module in list(sys.modules.items()):
    if name.startswith("jax") and module is not None:
        for one in list(vars(module).values()):
            if isinstance(one, Primitive):
                print(one.name, name)
"""


@cache
def found() -> dict[str, set[str]]:
    """The primitives by name, each with the modules that it stands in."""
    run = subprocess.run([sys.executable, "-c", _ENUMERATION], capture_output=True, text=True, check=True)
    where: dict[str, set[str]] = defaultdict(set)
    for line in run.stdout.splitlines():
        name, _, module = line.rpartition(" ")
        where[name].add(module)
    return where


def judged() -> set[str]:
    """What has a judgment, or is assumed."""
    return {*TABLE, *FORMS, *COLLECTIVES, *KERNELS}


def test_every_primitive_of_jax_has_its_place() -> None:
    assert len(found()) > 250
    assert {name for name in found() if name not in judged() | UNDECLARED and not in_kernels(name)} == set()


def test_what_has_a_judgment_is_not_on_the_list_of_what_has_none() -> None:
    assert UNDECLARED.isdisjoint(judged())


def test_few_are_unmodelled_and_each_for_a_reason() -> None:
    assert len(UNMODELLED) <= 10
    assert all(len(reason.split()) > 5 for reason in UNMODELLED.values())


def test_what_jax_offers_is_not_unmodelled() -> None:
    """Each primitive that stands in `jax.lax` and `jax.lax.linalg` has a judgment."""
    offered = {name for name, modules in found().items() if modules & {"jax.lax", "jax._src.lax.parallel"}}
    assert len(offered) > 150 if jax.__version_info__ >= (0, 12) else len(offered) > 100
    assert offered.isdisjoint({*UNMODELLED, *IN_KERNELS})


def test_the_language_of_kernels_stands_in_kernels() -> None:
    kernels = ("pallas", "mosaic", "thunky", "fuser")
    for name, modules in found().items():
        if in_kernels(name):
            assert all(any(word in module for word in kernels) for module in modules - {"?"}), (name, modules)
