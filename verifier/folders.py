"""What stands in a folder to be compared: printed programs, on the meshes that its `index.json` says, and functions."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = ("tests/golden/corpus", "examples")
"""The folders of a checkout: programs that JAX printed, and functions of the libraries that people use."""


class Named(NamedTuple):
    """A program by name, `FILE.jaxpr` or `PATH.py:factory`, and the mesh that is said of it, as text; empty where none
    is."""

    name: str
    mesh: str = ""


def of_checkout() -> list[str]:
    """The folders of this checkout; none where this is none."""
    return [folder for folder in CHECKOUT if Path(folder).is_dir()]


def programs_in(folder: str) -> Iterator[Named]:
    """The programs of a folder: each `*.jaxpr`, those of its folder `seeds` too, and each function of a `*.py` that
    takes nothing and is declared to return `tuple[Callable[...], ...]`."""
    root = Path(folder)
    for place in (root, root / "seeds"):
        meshes = _meshes(place / "index.json")
        for file in sorted(place.glob("*.jaxpr")):
            yield Named(str(file), meshes.get(file.stem, ""))
    for file in sorted(root.glob("*.py")):
        for name in _factories(file):
            yield Named(f"{file}:{name}")


def _meshes(index: Path) -> dict[str, str]:
    """The mesh of each text, where an index says one."""
    if not index.is_file():
        return {}
    said = json.loads(index.read_text(encoding="utf-8"))
    return {
        name: ",".join(f"{axis}={size}" for axis, size in about["mesh"].items())
        for name, about in said.items()
        if about.get("mesh")
    }


def _factories(file: Path) -> Iterator[str]:
    """The names of the factories in a module, which is not imported."""
    functions = [one for one in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(one, ast.FunctionDef)]
    for one in functions:
        if not ast.unparse(one.args) and ast.unparse(one.returns or ast.Constant(None)).startswith("tuple[Callable["):
            yield one.name
