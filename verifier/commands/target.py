"""What `shardproof agree --target` does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from calculus.meshes import Mesh
from verifier.commands.console import Misused


def compare_on(names: Sequence[str], files: Sequence[str], meshes: Sequence[Mesh]) -> tuple[bool, Iterable[str], Any]:
    """Whether a run against compilers is explained, as text and as data."""
    from verifier.compiled.agreement import compare
    from verifier.compiled.reporting import as_data, lines
    from verifier.compiled.targets import NoCompiler, target
    from verifier.progress import sign_of_life

    runs = []
    with explained(), sign_of_life(f"compiling for {', '.join(names)}") as show:
        try:
            for chosen in [target(name) for name in names]:
                runs.append(compare(chosen, files, meshes, lambda what: show(f"compiling {what}")))
                if runs[-1].interrupted:
                    break
        except NoCompiler as error:
            raise Misused(f"{error}\n  help: {error.help}" if error.help else str(error)) from error
    clean = not any(found.unexplained or found.interrupted or found.failed for found in runs)
    return clean, lines(runs, beside=bool(files) and len(runs) == 1), as_data(runs)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """What is wrong with a program that is named ends the command in the words of whoever refuses it."""
    from calculus.refusals import Refused
    from verifier.backward_agreement import UnknownProgram
    from verifier.commands.agree import near
    from verifier.compiled.agreement import NotCompiled
    from verifier.factories import BadFactory

    try:
        yield
    except BadFactory as error:
        raise Misused(str(error)) from error
    except UnknownProgram as error:
        raise click.UsageError(f"there is no program {near(str(error), error.known)}") from error
    except OSError as error:
        raise Misused(f"{error.filename} cannot be read: {error.strerror}") from error
    except ImportError as error:
        raise Misused(f"this needs JAX: pip install 'shardproof[jax]' ({error})") from error
    except Refused as error:
        raise Misused(f"our checker refuses the program: {error.refusal.message}; see shardproof check") from error
    except NotCompiled as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.filename:
            raise Misused(f"{error.__cause__.filename} cannot be read: {error.__cause__.strerror}") from error
        raise Misused(f"JAX or its compiler refuses the program: {error}") from error
