"""Where equations come from: the user's line, the library's beside it. The reference is this file's own text."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from verifier.with_jax.convert import Converted, convert_with_origins
from verifier.with_jax.lines import Lines, Site, kind, shown
from verifier.with_jax.trace import trace

HERE = Path(__file__)
TEXT = HERE.read_text(encoding="utf-8").splitlines()
X = np.ones((3, 4), np.float32)


def inner(x: Any) -> Any:
    return jnp.where(x > 0, x, 1.0)  # line: inner


def step(carry: Any, row: Any) -> Any:
    noise = jax.random.uniform(jax.random.key(0), (4,))  # line: noise
    return carry + noise, jax.jit(inner)(row)  # line: step


def program(x: Any) -> Any:
    first = jax.random.uniform(jax.random.key(1), (4,))  # line: first
    carry, rows = jax.lax.scan(step, first, x)  # line: scan
    return carry, jax.grad(lambda x: jnp.sum(jnp.var(x)))(rows)  # line: grad


def line(mark: str) -> int:
    return 1 + next(index for index, text in enumerate(TEXT) if text.endswith(f"# line: {mark}"))


@pytest.fixture(scope="module")
def converted() -> Converted:
    return convert_with_origins(trace(program, X).program)


def sites(converted: Converted, primitive: str) -> set[tuple[int, ...]]:
    """The user's lines of every equation with this primitive."""
    lines = Lines(converted)
    found = set()
    for place, origin in enumerate(converted.origins, 1):
        if not hasattr(origin, "eqns") and origin.primitive.name == primitive:
            at = lines.at(place)
            assert all(site.user is not None and site.user.file == str(HERE) for site in at)
            found.add(tuple(site.user.line for site in at if site.user is not None))
    return found


def test_equations_of_the_user(converted: Converted) -> None:
    assert sites(converted, "scan") == {(line("scan"),)}
    assert sites(converted, "gt") == {(line("inner"),), (line("grad"),)}
    assert sites(converted, "random_seed") == {(line("first"),), (line("noise"),)}


def test_the_inside_of_a_library_function_is_where_it_is_called(converted: Converted) -> None:
    """`uniform` is one body, called from two lines."""
    ((first, second),) = sites(converted, "random_bits")
    assert {first, second} == {line("first"), line("noise")}


def test_the_library_frame_is_beside_it(converted: Converted) -> None:
    lines = Lines(converted)
    for place, origin in enumerate(converted.origins, 1):
        if not hasattr(origin, "eqns") and origin.primitive.name == "random_bits":
            for site in lines.at(place):
                assert site.library is not None
                assert site.library.function == "_uniform"
                assert shown(site.library.file).startswith("jax/_src/random")


def test_everything_has_a_line_of_the_user(converted: Converted) -> None:
    lines = Lines(converted)
    for place in range(1, len(converted.origins) + 1):
        assert all(site.user is not None for site in lines.at(place))


def test_programs_are_where_they_are_defined(converted: Converted) -> None:
    lines = Lines(converted)
    (site,) = lines.at(converted.document.program.line)
    assert site.user is not None
    assert site.user.line == inspect.getsourcelines(program)[1]


def test_a_call_that_nobody_wrote() -> None:
    """The call of a jit with shardings is where its function is defined."""
    mesh = jax.make_mesh((1,), ("x",))
    jitted = jax.jit(inner, out_shardings=jax.NamedSharding(mesh, jax.P()))
    found = convert_with_origins(trace(jitted, X).program)
    (call,) = found.document.program.equations
    assert call.primitive == "jit"
    (site,) = Lines(found).at(call.line)
    assert site.user is not None
    assert site.user.line == inspect.getsourcelines(inner)[1]


def test_a_program_of_no_user() -> None:
    found = convert_with_origins(trace(jnp.var, X).program)
    (site, *_) = Lines(found).at(found.document.program.equations[0].line)
    assert site.user is None
    assert site.library is not None


def test_no_place() -> None:
    found = convert_with_origins(trace(jnp.sin, X).program)
    with pytest.raises(IndexError):
        Lines(found).at(0)


@pytest.mark.parametrize(
    ("file", "whose"),
    [
        (__file__, "user"),
        ("<stdin>", "user"),
        ("/tmp/ipykernel_1/2.py", "user"),
        ("/home/me/.venv/lib/python3.12/site-packages/optax/_src/update.py", "library"),
        ("/usr/lib/python3/dist-packages/flax/core.py", "library"),
        (str(Path(str(jax.__file__)).parent / "_src" / "core.py"), "engine"),
        (str(inspect.getfile(inspect)), "python"),
        ("<frozen importlib._bootstrap>", "python"),
        (inspect.getfile(trace), "python"),
    ],
)
def test_whose_code(file: str, whose: str) -> None:
    assert kind(file) == whose


def test_files_as_people_know_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE.parent)
    assert shown(str(HERE)) == HERE.name
    assert shown("/v/lib/python3.12/site-packages/optax/_src/update.py") == "optax/_src/update.py"
    assert shown("/elsewhere/train.py") == "/elsewhere/train.py"
    assert str(Site(None)) == "no line of yours"
    assert "jax" in sys.modules
