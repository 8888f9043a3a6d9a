"""Declarations of one's own: files that the project at hand names, whose primitives join the table.

    # pyproject.toml
    [tool.shardproof]
    rules = ["sharding/kernels.py"]

    # sharding/kernels.py
    from calculus.primitives.declaration import Primitive, same_dtype
    from calculus.primitives.elementwise import aligned

    PRIMITIVES = [
        Primitive("fused_gelu", ("x",), "/ x", aligned, same_dtype),  # a primitive of one's own
        Primitive("pallas_call:gelu_kernel", ("x",), "/ x", aligned, same_dtype),  # one kernel that Pallas calls
        Primitive("ffi_call:my_gelu", ("x",), "/ x", aligned, same_dtype),  # one target of foreign calls
    ]

A kernel that is declared so is judged like any other, where without it its printed types would be assumed.
"""

from __future__ import annotations

import dataclasses
import functools
import runpy
import tomllib
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site
from calculus.refusals import Refused, refuse
from calculus.schemes import Scheme
from calculus.signatures import Signature


class BadRules(ValueError):
    """A rules file, or the place that names it, that cannot be used. The message says which, why, and the repair."""


_loaded: dict[Path, tuple[str, ...]] = {}


def load_rules(folder: Path | None = None) -> tuple[str, ...]:
    """Load the rules files that the nearest `pyproject.toml` names, from a folder (by default the current one) upwards,
    once each. The names of the primitives that they declare.

    Raises `BadRules`.
    """
    project = _project(folder or Path.cwd())
    if project is None:
        return ()
    found: list[str] = []
    for path in _named_by(project):
        if path not in _loaded:
            _loaded[path] = _load(path)
        found += _loaded[path]
    return tuple(found)


def _project(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        if (place / "pyproject.toml").is_file():
            return place / "pyproject.toml"
    return None


def _named_by(project: Path) -> Iterable[Path]:
    try:
        rules = _parsed(project.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return ()  # somebody else's business: a broken project file is for its own tools to report
    for key, otherwise in (("tool", {}), ("shardproof", {}), ("rules", [])):
        rules = rules.get(key, otherwise) if isinstance(rules, dict) else None
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise BadRules(f'{project}: [tool.shardproof] rules should be a list of file names, as in rules = ["rules.py"]')
    return [(project.parent / rule).resolve() for rule in rules]


@functools.lru_cache(maxsize=1)
def _parsed(text: str) -> Any:
    return tomllib.loads(text)


def _load(path: Path) -> tuple[str, ...]:
    primitives = declared(path)
    names = [primitive.name for primitive in primitives]
    for name in names:
        if name in TABLE or names.count(name) > 1:
            raise BadRules(f"{path}: {name} is declared already; a rules file adds primitives, it replaces none")
    TABLE.update((primitive.name, primitive) for primitive in primitives)
    return tuple(names)


def declared(path: Path) -> list[Primitive]:
    """The declarations of a rules file, which join no table. Raises `BadRules`."""
    if not path.is_file():
        raise BadRules(f"{path}: there is no such rules file; [tool.shardproof] rules names it")
    try:
        found = runpy.run_path(str(path)).get("PRIMITIVES")
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}:{lines[-1]}" if lines else str(path)
        raise BadRules(f"{place}: {type(error).__name__} while it ran: {error}") from error
    if found is None or isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise BadRules(f"{path}: defines no PRIMITIVES; list your declarations there")
    return [_usable(primitive, path) for primitive in found]


def _usable(primitive: object, path: Path) -> Primitive:
    """The declaration, checked as far as it can be before its first use, and watched from there on."""
    if not isinstance(primitive, Primitive):
        raise BadRules(f"{path}: PRIMITIVES holds a {type(primitive).__name__}; each should be a Primitive(...)")
    name: object = primitive.name  # what it is declared to be is what is in doubt
    operands: object = primitive.operands
    if not isinstance(name, str) or not name:
        raise BadRules(f"{path}: a primitive is called {name!r}; its name should be text")
    if not isinstance(operands, tuple) or not all(isinstance(operand, str) for operand in operands):
        raise BadRules(f'{path}: {name}: operands should be a tuple of names, as in ("x", "y"); it is {operands!r}')
    for field in (
        "scheme",
        "dtypes",
        *(one for one in ("linearity", "joins") if not isinstance(getattr(primitive, one), str)),
    ):
        if not callable(getattr(primitive, field)):
            raise BadRules(f"{path}: {name}: {field} should be a function of a Site")

    def linear(text: str) -> None:
        Signature.parse(text, operands)

    def joined(text: str) -> None:
        Signature.parse(f"; {' '.join(operands)}", operands, text)

    try:
        if isinstance(primitive.linearity, str):
            linear(primitive.linearity)
        if isinstance(primitive.joins, str):
            joined(primitive.joins)
    except ValueError as error:
        raise BadRules(f"{path}: {name}: {error}") from error
    return dataclasses.replace(
        primitive,
        scheme=_watched(primitive.scheme, "scheme", name, path, Scheme),
        dtypes=_watched(primitive.dtypes, "dtypes", name, path, tuple),
        linearity=primitive.linearity
        if isinstance(primitive.linearity, str)
        else _watched(primitive.linearity, "linearity", name, path, str, linear),
        joins=primitive.joins
        if isinstance(primitive.joins, str)
        else _watched(primitive.joins, "joins", name, path, str, joined),
    )


def _watched(
    function: Callable[[Site], Any],
    field: str,
    name: object,
    path: Path,
    wanted: type,
    check: Callable[[Any], None] = lambda found: None,
) -> Callable[[Site], Any]:
    """Somebody's function of a site. What it raises, or returns wrongly, is refused where it is used; `check` raises
    on what reads wrongly."""

    @functools.wraps(function)
    def watched(site: Site) -> Any:
        wrong = ""
        try:
            found = function(site)
            if not isinstance(found, wanted):
                wrong = f"returned {type(found).__name__}, not {wanted.__name__}"
            else:
                check(found)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001  # it becomes a refusal
            wrong = f"raised {type(error).__name__}: {error}"
        if wrong:
            raise refuse(
                "unmodelled-construct",
                f"the {field} of {name} that {path} declares {wrong}",
                because="what a declaration does not say cannot be judged",
                help="correct the declaration, or take it out: then the printed types are assumed",
            )
        return found

    return watched
