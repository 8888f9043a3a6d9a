"""Reading a file or standard input as text, whatever is in it."""

from __future__ import annotations

import errno
import sys
from typing import Any, Final, TextIO

from calculus.refusals import Refused, refuse

LARGEST: Final = 256 * 1024 * 1024
"""The most bytes that are read. The largest program printed by a real model is a few megabytes."""


def text_of(file: str) -> str:
    """The text of a file, or of standard input for `-`.

    Raises `Refused` (`not-text`) for what cannot be opened, is empty, is not UTF-8 or holds a NUL; with the line and
    column where there is one.
    """
    try:
        if file == "-":
            stdin: TextIO | Any = sys.stdin
            if stdin is None:  # Python's way to say that it is closed
                raise OSError(errno.EBADF, "standard input is closed")
            data = stdin.buffer.read(LARGEST + 1)
        else:
            with open(file, "rb") as stream:
                data = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse(
            "not-text",
            f"cannot be read: {reason[:1].lower()}{reason[1:]}",
            help="name a file that holds a printed jaxpr, or - for standard input",
        ) from error
    if len(data) > LARGEST:
        raise refuse("not-text", f"is larger than {LARGEST:,} bytes", help="check one program at a time")
    return decoded(data)


def decoded(data: bytes) -> str:
    """The text that bytes encode: UTF-8, a byte order mark and carriage returns at line ends aside."""
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise _at(
            data[: error.start].decode("utf-8"), f"byte 0x{byte:02x} is not UTF-8", "save the text as UTF-8"
        ) from error
    nul = text.find("\0")
    if nul >= 0:
        raise _at(text[:nul], "a NUL character", "a printed jaxpr holds none: is this a binary file?")
    if not text.strip():
        raise refuse("not-text", "is empty", help="print a jaxpr into it: print(jax.make_jaxpr(f)(x))")
    return text


def _at(before: str, message: str, help: str) -> Refused:
    refused = refuse("not-text", message, help=help)
    refused.refusal.line = before.count("\n") + 1
    refused.refusal.column = len(before) - before.rfind("\n")
    return refused
