"""What `shardproof agree --target` does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from calculus.meshes import Mesh
from verifier.commands.console import Misused


def compare_on(name: str, files: Sequence[str], meshes: Sequence[Mesh]) -> tuple[bool, Iterable[str], dict[str, Any]]:
    """Whether a run against a compiler is explained, as text and as data."""
    from verifier.compiled.agreement import as_data, compare, lines
    from verifier.compiled.targets import NoCompiler, target
    from verifier.progress import sign_of_life

    with _explained(), sign_of_life(f"compiling for {name}") as show:
        try:
            chosen = target(name)
            found = compare(
                chosen, files, meshes[0] if meshes else None, lambda one: show(f"compiling {one} for {name}")
            )
        except NoCompiler as error:
            raise Misused(f"{error}\n  help: {error.help}" if error.help else str(error)) from error
    return not found.unexplained, lines(found, beside=bool(files)), as_data(found)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """What is wrong with a program that is named ends the command in the words of whoever refuses it."""
    from calculus.refusals import Refused
    from verifier.factories import BadFactory

    try:
        yield
    except (Misused, KeyboardInterrupt):
        raise
    except BadFactory as error:
        raise Misused(str(error)) from error
    except ImportError as error:
        raise Misused(f"this needs JAX: pip install 'shardproof[jax]' ({error})") from error
    except Refused as error:
        raise Misused(f"our checker refuses the program: {error.refusal.message}; see shardproof check") from error
    except Exception as error:
        raise Misused(f"JAX or its compiler refuses the program: {type(error).__name__}: {error}") from error
