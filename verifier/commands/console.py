"""How every command speaks and ends: output that nobody reads or that cannot be written, interrupts, misuse."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn, TextIO

import click

from verifier.factories import is_interrupt

INTERRUPTED: Final = 130
"""The exit status of a command that was interrupted, as a shell expects it."""


class Commands(click.Group):
    """The command. Output that cannot be written (a full disk, a closed stream) ends it with status 2 and a message."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and leave nothing in a stream that Python would fail to write once more at its end."""
        try:
            return super().main(*args, **kwargs)
        except KeyboardInterrupt:
            interrupted()
        except OSError as error:
            with contextlib.suppress(OSError):
                click.echo(f"Error: cannot write: {(error.strerror or str(error)).lower()}", err=True)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, AttributeError):
                    _drop(stream)
            sys.exit(2)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments. Neither an interrupt nor the end of a reader of the help reaches click, which would exit
        with the status of a refusal."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt:
            interrupted()
        except BrokenPipeError:
            _unread()

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that is named. Neither an interrupt nor the end of a reader of its help reaches click."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            interrupted()
        except BrokenPipeError:
            _unread()
        except Exception as error:
            if is_interrupt(error):
                interrupted()
            raise


def interrupted() -> NoReturn:
    """End as a shell expects it of a command that was interrupted."""
    with contextlib.suppress(OSError):
        click.echo("Interrupted", err=True)
    sys.exit(INTERRUPTED)


def _unread() -> NoReturn:
    """End where nobody reads any more: that is no error."""
    _drop(sys.stdout)
    sys.exit(0)


def _drop(stream: TextIO) -> None:
    """From now on what this stream is given, and still holds, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Misused(click.ClickException):
    """What ends the command with status 2, in its own words."""

    exit_code = 2


def say(lines: Iterable[str]) -> None:
    """Print lines. A reader who has gone away ends the output, not the check."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = "\n".join(lines) + "\n"
    if encoding.lower().replace("-", "") != "utf8":
        text = text.translate(_PLAIN)
    stream: TextIO | Any = sys.stdout
    if stream is None:  # Python's way to say that it is closed
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _drop(stream)


_PLAIN: Final = str.maketrans("─│┌┬┐├┼┤└┴┘·×", "-|+++++++++,x")


@contextlib.contextmanager
def with_jax(doing: str) -> Iterator[Callable[[str], None]]:
    """Show what JAX is being asked. What is missing or wrong on our side ends the command."""
    from verifier.patterns import BadLedger
    from verifier.progress import sign_of_life

    try:
        with sign_of_life(doing) as show:
            yield lambda what: show(f"{doing}: {what}")
    except BadLedger as error:
        raise Misused(f"the ledger is wrong: {error}") from error
    except ImportError as error:
        if importlib.util.find_spec("jax") is not None:
            raise Misused(f"JAX cannot be imported: {error}") from error
        raise Misused(f"this needs JAX: pip install 'shardproof[jax]' ({error})") from error
