"""The house itself: our packages are ours, imports stay in their layers, files are rooms, the command starts fast."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import verifier

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("calculus", "grammar", "verifier")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST = 450

#: layer -> the layers it may import
BELOW = {"calculus": {"calculus"}, "grammar": {"calculus", "grammar"}, "verifier": set(PACKAGES)}

#: engine -> the doors through which shipped code may reach it, as path prefixes
DOORS = {
    "lark": ("grammar/",),
    "z3": ("verifier/solver.py",),
    "cvc5": ("verifier/proving/second.py",),
    "jax": ("verifier/with_jax/",),
    "ml_dtypes": ("verifier/execution/", "verifier/trials/cases.py"),
    "jaxlib": ("verifier/with_jax/",),
    "hypothesis": ("verifier/generate.py",),
    "click": ("verifier/cli.py", "verifier/commands/"),
    "scipy": ("verifier/advising/solving.py",),
    "rich": ("verifier/progress.py",),
    "numpy": ("calculus/", "verifier/"),
}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module imported in a file, by its top name, and whether it is imported when the file is."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], id(node) not in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module).partition(".")[0], id(node) not in inside


def breaches(path: Path, name: str) -> list[str]:
    """What a file, counted as standing at `name` in the project, imports although its layer or its door forbids it."""
    layer = name.partition("/")[0]
    found = []
    for module, at_once in imports(path):
        if module in PACKAGES and module not in BELOW[layer]:
            found.append(f"{name} imports {module}, which is above it")
        elif module in DOORS and not name.startswith(DOORS[module]):
            found.append(f"{name} imports {module}, whose door is {' or '.join(DOORS[module])}")
        elif module == "numpy" and layer == "calculus" and at_once:
            found.append(f"{name} imports numpy before a kernel runs")
        elif module not in (*PACKAGES, *DOORS) and module not in sys.stdlib_module_names:
            found.append(f"{name} imports {module}, which has no door")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_the_packages_are_ours(package: str) -> None:
    """Their names are common words: make sure that no other distribution answers to them."""
    module = importlib.import_module(package)
    assert Path(str(module.__file__)).resolve() == ROOT / package / "__init__.py"
    assert set(importlib.metadata.packages_distributions()[package]) == {"shardproof"}


def test_the_version_is_one() -> None:
    assert importlib.metadata.version("shardproof") == verifier.__version__
    assert f"\nversion: {verifier.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {verifier.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_types_are_published(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_layers_and_doors() -> None:
    assert [line for path in SOURCES for line in breaches(path, path.relative_to(ROOT).as_posix())] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("calculus/rules.py", "from grammar.read import read"),
        ("calculus/rules.py", "import numpy as np"),
        ("calculus/rules.py", "def f():\n    from z3 import Int"),
        ("grammar/read.py", "import verifier.texts"),
        ("grammar/read.py", "import rich.table"),
        ("verifier/texts.py", "import lark"),
        ("verifier/solver.py", "import jax.numpy"),
        ("verifier/cli.py", "import requests"),
    ],
)
def test_a_breach_is_seen(name: str, source: str, tmp_path: Path) -> None:
    """The walk can fail: each of these imports is one that the project forbids."""
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    assert len(breaches(path, name)) == 1


def test_a_kernel_may_use_numpy(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def kernel(x):\n    import numpy as np\n    return np.cos(x)\n", encoding="utf-8")
    assert breaches(path, "calculus/primitives/elementwise.py") == []


def test_files_are_rooms() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES + TESTS}
    assert {name: lines for name, lines in long.items() if lines > LONGEST} == {}


SEED = ROOT / "examples" / "seeds" / "seed_microbatch.jaxpr"


LOSS = ROOT / "examples" / "loss.jaxpr"


@pytest.mark.parametrize("arguments", [["check", str(SEED)], ["grad", str(LOSS)], ["check", "--backward", str(LOSS)]])
def test_text_loads_neither_jax_nor_z3(arguments: list[str]) -> None:
    """Nor numpy, nor rich, where the output is no terminal, nor lark on text that the fast reader understands."""
    code = (
        "import sys; from verifier.cli import main\n"
        f"status = main({arguments!r}, standalone_mode=False)\n"
        "print('LOADED', status, *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    status, *loaded = run.stdout.splitlines()[-1].removeprefix("LOADED ").split()
    assert status == "0"
    assert {"calculus", "grammar", "verifier", "click"} <= set(loaded)
    assert set(loaded) & {"jax", "jaxlib", "z3", "numpy", "rich", "lark", "hypothesis"} == set()


def test_check_starts_fast() -> None:
    """A seed file is checked in under 0.6 seconds of CPU, the start of Python included: median of three."""

    def cpu() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "verifier", "check", str(SEED)],
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            check=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert statistics.median(cpu() for _ in range(3)) < 0.6
