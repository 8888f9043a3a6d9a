"""Declarations of one's own: files that the project at hand names, whose primitives join the table.

    # pyproject.toml
    [tool.shardproof]
    rules = ["sharding/kernels.py"]

    # sharding/kernels.py
    from calculus.primitives.declaration import Primitive, same_dtype
    from calculus.primitives.elementwise import aligned

    PRIMITIVES = [Primitive("fused_gelu", ("x",), "/ x", aligned, same_dtype)]

A kernel that is declared so is judged like any other, where without it its printed types would be assumed.
"""

from __future__ import annotations

import runpy
import tomllib
from collections.abc import Iterable
from pathlib import Path

from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
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
        table = tomllib.loads(project.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return ()  # somebody else's business: a broken project file is for its own tools to report
    rules = table.get("tool", {}).get("shardproof", {}).get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise BadRules(f'{project}: [tool.shardproof] rules should be a list of file names, as in rules = ["rules.py"]')
    return [(project.parent / rule).resolve() for rule in rules]


def _load(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        raise BadRules(f"{path}: there is no such rules file; [tool.shardproof] rules names it")
    try:
        declared = runpy.run_path(str(path)).get("PRIMITIVES")
    except Exception as error:
        raise BadRules(f"{path}: {type(error).__name__} while it ran: {error}") from error
    if declared is None or isinstance(declared, (str, bytes)) or not isinstance(declared, Iterable):
        raise BadRules(f"{path}: defines no PRIMITIVES; list your declarations there")
    primitives = list(declared)
    for primitive in primitives:
        _usable(primitive, path)
    TABLE.update((primitive.name, primitive) for primitive in primitives)
    return tuple(primitive.name for primitive in primitives)


def _usable(primitive: object, path: Path) -> None:
    if not isinstance(primitive, Primitive):
        raise BadRules(f"{path}: PRIMITIVES holds a {type(primitive).__name__}; each should be a Primitive(...)")
    if primitive.name in TABLE:
        raise BadRules(f"{path}: {primitive.name} is declared already; a rules file adds primitives, it replaces none")
    try:
        if isinstance(primitive.linearity, str):
            Signature.parse(primitive.linearity, primitive.operands, primitive.joins)
    except ValueError as error:
        raise BadRules(f"{path}: {primitive.name}: {error}") from error
