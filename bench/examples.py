"""How much of the examples' programs is inferred, and how much is taken on trust."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from bench.measure import ROOT
from calculus.refusals import Family

FOLDER: Final = ROOT / "examples"


class Inferred(NamedTuple):
    """One program. equations: of all its bodies, each body once. assumed: kernels' types, and claims that no type
    backs. unmodelled: equations whose primitive nobody has declared."""

    name: str
    equations: int
    assumed: int
    unmodelled: int

    @property
    def share(self) -> float:
        """The part of the equations whose types are inferred, from 0 to 1."""
        return 1 - (self.assumed + self.unmodelled) / self.equations


def factories(name: str) -> Iterator[tuple[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]]]:
    """The functions of an example that take nothing and return a function with its arguments."""
    module = importlib.import_module(f"{FOLDER.name}.{name}")
    for key, value in vars(module).items():
        if (
            inspect.isfunction(value)
            and value.__module__ == module.__name__
            and not inspect.signature(value).parameters
            and value.__annotations__.get("return") == "tuple[Callable[..., Any], tuple[Any, ...]]"
        ):
            yield key, value


def inferred() -> list[Inferred]:
    """All examples' programs, checked."""
    from verifier.with_jax.objects import check_objects
    from verifier.with_jax.trace import trace

    found = []
    for path in sorted(FOLDER.glob("*.py")):
        for key, factory in factories(path.stem):
            step, arguments = factory()
            traced = trace(step, *arguments)
            checker, _ = check_objects(traced.program, traced.meshes)
            assumed = checker.assumptions + sum(checker.assumed.values())
            unmodelled = sum(refusal.family is Family.UNMODELLED for refusal, _ in checker.refusals)
            found.append(Inferred(f"{path.stem}:{key}", checker.equations, assumed, unmodelled))
    return found
