"""How things are measured: CPU time of this process, contestants in turn within each round, and nothing
remembered unless it is said."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import calculus
import grammar
import verifier
from grammar.read import clear_leaf_caches

ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Fresh:
    """A contestant that is given something new for each of its runs: `make` makes it, and that does not count."""

    make: Callable[[], Callable[[], object]]


Contestant: TypeAlias = "Callable[[], object] | Fresh"

Runs: TypeAlias = "dict[str, list[float]]"
"""CPU seconds of each run, by contestant; the n-th runs of all are of one round."""

#: caches that belong to what is built once per process, not to a text: they are reported apart, and not cleared
KEPT: Final = {
    "calculus.linearity.relation": "the table",
    "calculus.primitives.declaration._signature": "the table",
    "calculus.primitives.declaration._spread_out": "the table",
    "calculus.formulas.read_formula": "the table",
    "calculus.formulas.read_row": "the table",
    "grammar.layout.terminals": "the grammar",
    "grammar.parse._type_language": "the grammar",
    "grammar.parse._value_language": "the grammar",
    "grammar.parse._program_language": "the grammar",
    "grammar.source._pattern": "the grammar",
}


def forget() -> None:
    """Clear everything that a process that has read no text would not know: interned types and literals, decoded
    parameters, and the cache of every function that is not among `KEPT`."""
    for cache in _caches():
        cache()
    clear_leaf_caches()


def _caches() -> Iterator[Callable[[], None]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("calculus", "grammar", "verifier"):
            for attribute, value in vars(module).items():
                clear = getattr(value, "cache_clear", None)
                if clear is not None and value.__module__ == name and f"{name}.{attribute}" not in KEPT:
                    yield clear


def load() -> None:
    """Import every module of the packages, so that no round pays for an import."""
    for package in (calculus, grammar, verifier):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(("verifier.with_jax", "verifier.__main__", "verifier.solver")):
                importlib.import_module(found.name)


def in_turn(contestants: Mapping[str, Contestant], rounds: int, remembering: Container[str] = ()) -> Runs:
    """Run all contestants once per round, in an order that moves on by one each round, with the garbage collector off
    for all, and from cleared caches, except for those that are `remembering`."""
    names = list(contestants)
    runs: Runs = {name: [] for name in names}
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            runs[name].append(_once(contestants[name], name in remembering))
    return runs


def _once(contestant: Contestant, remembering: bool) -> float:
    """CPU seconds of one run, right after one that does not count: what others, and the collector's walk over all that
    they hold, have left in the processor's caches is nobody's business."""
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        _run_of(contestant)()
        if not remembering:
            forget()
        run = _run_of(contestant)
        start = time.process_time()
        run()
        return time.process_time() - start
    finally:
        if collecting:
            gc.enable()


def _run_of(contestant: Contestant) -> Callable[[], object]:
    return contestant.make() if isinstance(contestant, Fresh) else contestant


def child(*arguments: str) -> float:
    """CPU seconds of one child process of this Python, its start included. Raises `CalledProcessError` if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def apart(steps: Mapping[str, str], times: int) -> dict[str, float]:
    """CPU seconds of each step of Python code, run one after the other in one new process: medians of several."""
    code = ["import json, time", "taken = []"]
    for step in steps.values():
        code += ["start = time.process_time()", step, "taken.append(time.process_time() - start)"]
    code.append("print(json.dumps(taken))")
    found: list[list[float]] = []
    for _ in range(times):
        run = subprocess.run(
            [sys.executable, "-c", "\n".join(code)], cwd=ROOT, check=True, capture_output=True, text=True
        )
        found.append(json.loads(run.stdout))
    return dict(zip(steps, map(statistics.median, zip(*found, strict=True)), strict=True))


def spread(values: list[float]) -> dict[str, float]:
    """Least, median and greatest."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def ratios(runs: Runs, over: str, under: str) -> dict[str, float]:
    """How many times as long the one took as the other, round by round."""
    return spread([a / b for a, b in zip(runs[over], runs[under], strict=True)])


def visited(jaxpr: Any, inside: bool) -> int:
    """Equations that JAX's checker walks, a shared body at every use. `inside`: those in the bodies of loops,
    branches and custom rules too, which it does not walk."""
    from jax._src import core

    unseen = () if inside else ("scan", "while", "cond", "custom_jvp_call", "custom_vjp_call")
    return len(jaxpr.eqns) + sum(
        visited(getattr(body, "jaxpr", body), inside)
        for equation in jaxpr.eqns
        if equation.primitive.name not in unseen
        for body in core.jaxprs_in_params(equation.params)
    )
