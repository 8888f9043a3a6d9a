"""Functions by name: `package.module:factory`, where the factory takes nothing and returns `(f, args)`."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from verifier.functions import FunctionReport

_INSTALLED_WITH: Final = {
    "jax": "jax",
    "jaxlib": "jax",
    "flax": "examples",
    "optax": "examples",
    "equinox": "examples",
}
"""The extra of this project that installs a library."""

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

    function, args, kwargs = made_by(target)
    keywords: dict[str, Any] = dict(kwargs)
    if mesh is not None:
        keywords["mesh"] = mesh
    report: FunctionReport = _run(
        target, "traced", f"{target} cannot be traced:", lambda: check(function, *args, **keywords)
    )
    report.file = target
    return report


def made_by(target: str) -> tuple[Any, Any, Any]:
    """The function that a factory returns, its arguments, and those by name. Raises `BadFactory`."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    factory = _factory(target)
    made = _run(target, "called", f"{target} raised", factory)
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], (tuple, list)):
        raise BadFactory(f"{target} returned a {type(made).__name__}; it should return (f, args) or (f, args, kwargs)")
    function, args, kwargs = (*made, {})[:3]
    return function, args, kwargs


def _factory(target: str) -> Callable[[], Any]:
    module_name, _, path = target.partition(":")
    if module_name.endswith(".py") and os.path.isfile(module_name):
        raise BadFactory(f"{module_name} is a file, not a module\n  help: {_without_suffix(target)}")
    what = f"module {module_name} cannot be imported:"
    found: Any = _run(target, "imported", what, lambda: importlib.import_module(module_name))
    for name in path.split("."):
        if not hasattr(found, name):
            raise BadFactory(f"{module_name} has no {name}; name a function in it that returns (f, args)")
        found = getattr(found, name)
    if not callable(found):
        raise BadFactory(f"{target} is a {type(found).__name__}; it should be a function that returns (f, args)")
    made: Callable[[], Any] = found
    return made


def _without_suffix(target: str) -> str:
    return f"write {target.replace('.py:', ':')}"


def _run(target: str, doing: str, what: str, call: Callable[[], Any]) -> Any:
    """Run somebody else's code. What it raises is shown in their words, with their innermost line. An interrupt is
    nobody's mistake and goes on, also where a library has made another error of it."""
    try:
        with _their_surroundings(target.partition(":")[0]):
            return call()
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        raise BadFactory(
            f"{target} called sys.exit({'' if error.code is None else repr(error.code)}) while it was {doing}"
            f"{_place(error)}\n"
            '  help: put what the module runs as a script under `if __name__ == "__main__":`'
        ) from error
    except BaseException as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise BadFactory(f"{what} {_words(error)}{_place(error)}{_help(error, target)}") from error


@contextlib.contextmanager
def _their_surroundings(module: str) -> Iterator[None]:
    """While somebody else's code runs, what it prints goes to standard error, where it spoils no JSON, and it does not
    see our arguments."""
    arguments, sys.argv = sys.argv, [module]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv = arguments


def is_interrupt(error: BaseException | None) -> bool:
    """Whether this is an interrupt, or something that an interrupt led to: libraries make other errors of it."""
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if isinstance(found, KeyboardInterrupt):
            return True
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            waiting += (found.__cause__, found.__context__)
    return False


def _place(error: BaseException) -> str:
    """The user's innermost line; nothing where all lines are ours, Python's or a library's."""
    others = [os.path.join(path, "") for path in (os.path.dirname(os.path.abspath(__file__)), *_PYTHONS)]
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(tuple(others))
        and "site-packages" not in frame.filename
        and os.path.exists(frame.filename)
    ]
    return f"\n  at {own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""


_PYTHONS: Final = {
    os.path.dirname(os.path.abspath(os.__file__)),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
}
"""The folders of Python's own library."""


def _help(error: BaseException, target: str) -> str:
    """The repair for a module that is not there."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    module = target.partition(":")[0]
    extra = _INSTALLED_WITH.get(error.name.partition(".")[0])
    if extra:
        return f"\n  help: pip install -e '.[{extra}]'"
    if module.endswith(".py") and error.name == module:
        return f"\n  help: {_without_suffix(target)}"
    if f"{module}.".startswith(f"{error.name}."):
        return "\n  help: run it from the folder that holds the module, or put that on PYTHONPATH"
    return ""


def _words(error: BaseException) -> str:
    """What an exception says, with the notes on it; without JAX's about frames, which are not shown here."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        words = "".join(traceback.format_exception_only(error)).strip()
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("-----")]
    return "\n  ".join([words, *notes])
