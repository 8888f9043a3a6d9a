"""Functions by name: `package.module:factory`, where the factory takes nothing and returns `(f, args)`."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from verifier.functions import FunctionReport

_TARGET: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class BadFactory(ValueError):
    """A name that leads to nothing to check. The message says why, and the repair."""


def is_target(name: str) -> bool:
    """Whether a name is `package.module:factory` rather than a file."""
    return _TARGET.fullmatch(name) is not None and not os.path.exists(name)


def report_on(target: str, mesh: str | None = None) -> FunctionReport:
    """The report on the function that a factory returns. Modules are found from the current folder too.

    Raises `BadFactory` where the name, the factory, or JAX's tracing of the function fails.
    """
    from verifier.functions import check

    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    factory = _factory(target)
    made = _run(f"{target} raised", factory)
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], (tuple, list)):
        raise BadFactory(f"{target} returned a {type(made).__name__}; it should return (f, args) or (f, args, kwargs)")
    function, args, kwargs = (*made, {})[:3]
    keywords: dict[str, Any] = dict(kwargs)
    if mesh is not None:
        keywords["mesh"] = mesh
    report: FunctionReport = _run(f"{target} cannot be traced:", lambda: check(function, *args, **keywords))
    report.file = target
    return report


def _factory(target: str) -> Callable[[], Any]:
    module_name, _, path = target.partition(":")
    found: Any = _run(f"module {module_name} cannot be imported:", lambda: importlib.import_module(module_name))
    for name in path.split("."):
        if not hasattr(found, name):
            raise BadFactory(f"{module_name} has no {name}; name a function in it that returns (f, args)")
        found = getattr(found, name)
    if not callable(found):
        raise BadFactory(f"{target} is a {type(found).__name__}; it should be a function that returns (f, args)")
    made: Callable[[], Any] = found
    return made


def _run(what: str, call: Callable[[], Any]) -> Any:
    """Run somebody else's code. What it raises is shown in their words, with their innermost line."""
    try:
        return call()
    except Exception as error:
        ours = os.path.dirname(os.path.abspath(__file__))
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
        own = [frame for frame in frames if "site-packages" not in frame.filename and os.path.exists(frame.filename)]
        place = f"\n  at {own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""
        raise BadFactory(f"{what} {_words(error)}{place}") from error


def _words(error: Exception) -> str:
    """What an exception says, with the notes on it; without JAX's about frames, which are not shown here."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        words = "".join(traceback.format_exception_only(error)).strip()
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("-----")]
    return "\n  ".join([words, *notes])
