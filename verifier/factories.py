"""Functions by name: `package.module:factory`, or `PATH.py:factory`, where the factory takes nothing and returns
`(f, args)`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from inspect import Parameter
from math import prod
from types import ModuleType
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

_NAME: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_TARGET: Final = re.compile(rf"(?:{_NAME}|.+\.py):{_NAME}")


class BadFactory(ValueError):
    """A name that leads to nothing to check. The message says why, and the repair."""


def is_target(name: str) -> bool:
    """Whether a name is `package.module:factory` or `PATH.py:factory` rather than a file."""
    return _TARGET.fullmatch(name) is not None and not os.path.exists(name)


def report_on(target: str, mesh: str | None = None, moved: bool = False) -> FunctionReport:
    """The report on the function that a factory returns. moved: with its arguments on the mesh that is given, whose
    axes are those of theirs, in other sizes.

    Raises `BadFactory` where the name, the factory, or JAX's tracing of the function fails.
    """
    from verifier.functions import check

    function, args, kwargs = made_by(target)
    keywords: dict[str, Any] = dict(kwargs)
    if mesh is not None and moved:
        from verifier.with_jax.compiling import placed
        from verifier.with_jax.meshes import abstract

        args, keywords = placed((tuple(args), keywords), abstract(mesh))
    if mesh is not None:
        keywords["mesh"] = mesh
    report: FunctionReport = _run(
        target, "traced", f"{target} cannot be traced:", lambda: check(function, *args, **keywords)
    )
    report.file = target
    return report


def made_by(target: str) -> tuple[Any, Any, Any]:
    """The function that a factory returns, its arguments, and those by name. Raises `BadFactory`."""
    factory = _factory(target)
    made = _run(target, "called", f"{target} raised", factory)
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], (tuple, list)):
        raise BadFactory(f"{target} returned a {type(made).__name__}; it should return (f, args) or (f, args, kwargs)")
    function, args, kwargs = (*made, {})[:3]
    return function, args, kwargs


def module(name: str) -> ModuleType:
    """The module of this name, or the one that stands in this file. Modules are found from the current folder too.
    Raises `ImportError`, and whatever the module raises."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return _of_file(name) if name.endswith(".py") else importlib.import_module(name)


def _factory(target: str) -> Callable[[], Any]:
    name, _, path = target.rpartition(":")
    is_file = name.endswith(".py")
    if is_file and not os.path.isfile(name):
        raise BadFactory(f"there is no file {name}\n  help: write a file with its folder, or package.module:{path}")
    what = f"{name if is_file else f'module {name}'} cannot be imported:"
    found: Any = _run(target, "imported", what, lambda: module(name))
    for part in path.split("."):
        if not hasattr(found, part):
            raise BadFactory(f"{name} has no {part}; name a function in it that returns (f, args){_candidates(found)}")
        found = getattr(found, part)
    if not callable(found):
        raise BadFactory(f"{target} is a {type(found).__name__}; it should be a function that returns (f, args)")
    made: Callable[[], Any] = found
    return made


def _candidates(found: Any) -> str:
    """The functions of a module that can be called with nothing, the first few, as a suggestion."""
    functions = {
        name: one
        for name, one in inspect.getmembers_static(found)
        if inspect.isfunction(one) and one.__module__ == getattr(found, "__name__", "") and not name.startswith("_")
    }
    named = [name for name, one in functions.items() if _asks_nothing(one)]
    return f": {', '.join(named[:8])}" if isinstance(found, ModuleType) and named else ""


def _asks_nothing(function: Callable[..., Any]) -> bool:
    must = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    asked = inspect.signature(function).parameters.values()
    return not any(one.default is Parameter.empty and one.kind in must for one in asked)


def _of_file(file: str) -> ModuleType:
    """The module that stands in a file. It finds what lies beside it, as a script does; inside a package, what it
    imports from there. Where another module has its name already, it takes its path for one."""
    file = os.path.abspath(file)
    folder, name = os.path.split(file.removesuffix(".py"))
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    if folder not in sys.path:
        sys.path.insert(0, folder)
    there = sys.modules.get(name)
    if there is not None and os.path.realpath(getattr(there, "__file__", None) or "") == os.path.realpath(file):
        return there
    spec = importlib.util.spec_from_file_location(name if there is None else file, file)
    if spec is None or spec.loader is None or not os.path.isfile(file):
        raise ImportError(f"there is no file {file}")
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    try:
        spec.loader.exec_module(found)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return found


def _run(target: str, doing: str, what: str, call: Callable[[], Any]) -> Any:
    """Run somebody else's code. What it raises is shown in their words, with their innermost line. An interrupt is
    nobody's mistake and goes on, also where a library has made another error of it."""
    try:
        with _their_surroundings(target.rpartition(":")[0]):
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


_FEW_DEVICES: Final = re.compile(r"Number of devices \d+ must be >= the product of mesh_shape \(([\d, ]+)\)")


def _help(error: BaseException, target: str) -> str:
    """The repair for a module, or devices, that are not there."""
    few = _FEW_DEVICES.search(str(error))
    if few is not None:
        count = prod(int(size) for size in few[1].split(",") if size.strip())
        return (
            f"\n  help: start it with JAX_PLATFORMS=cpu JAX_NUM_CPU_DEVICES={count}, or make the mesh a "
            "jax.sharding.AbstractMesh, which needs no devices"
        )
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    module = target.rpartition(":")[0]
    extra = _INSTALLED_WITH.get(error.name.partition(".")[0])
    if extra:
        return f"\n  help: pip install -e '.[{extra}]'"
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
