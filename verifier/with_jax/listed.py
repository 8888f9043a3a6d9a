"""Which difference of the ledger an error of JAX's is, and where in the user's code what it is about was written.

An error inside a backward pass is about an equation that JAX is transposing: its frames have that at hand, and JAX
keeps where it was made. Of any other error the frames say which of JAX's functions raised it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Final, NamedTuple

from calculus.refusals import Place, Refusal, refuse
from verifier.known import installed
from verifier.ledger import SOUND, Entry, ledger
from verifier.with_jax.lines import Frame, kind

_CONTEXT: Final = "JaxStackTraceBeforeTransformation"
_QUOTED: Final = re.compile(r'"([^"]+)"')


class Listed(NamedTuple):
    """entry: the difference that an error is; `None` where it is in none. transposed: the primitive whose transpose
    JAX was making; empty where it was none. frame: the user's line that made it."""

    entry: Entry | None
    transposed: str = ""
    frame: Frame | None = None

    @property
    def number(self) -> str:
        """The difference, in words that can be put behind others; empty where there is none."""
        return "" if self.entry is None else f" (difference {self.entry.number} in proofs/differences.md)"


def listed(error: BaseException) -> Listed:
    """What is known of an error of JAX's, of which all frames are there."""
    frames = list(_frames(error.__traceback__))
    message = f"JAX refuses: {type(error).__name__}: {error}"
    primitives = [_name(frame.f_locals["eqn"]) for frame, _ in frames if _transposes(frame)]
    if primitives:
        return Listed(_transposed(primitives, message), primitives[-1], _made(error))
    return Listed(next(_raised(frames, message), None))


def without_gradient(error: BaseException) -> Refusal | None:
    """The refusal that an error in a backward pass is, at the line of the user's that is differentiated; `None` for
    other errors."""
    found = listed(error)
    if not found.transposed or found.frame is None:
        return None
    first = str(error).strip().partition("\n")[0]
    entry = found.entry
    refusal = refuse(
        "unmodelled-construct",
        f"JAX has no gradient of {found.transposed} here, by an error of its own ({type(error).__name__}: {first})"
        f"{found.number}",
        because=_sentence(entry.because) if entry is not None else "its transpose is typed otherwise in JAX",
        help=(entry.instead.get(found.transposed, "") if entry is not None else "") or _APART,
        place=Place("primitive"),
    ).refusal
    refusal.line = found.frame.line
    refusal.trail = (f"at {found.frame}",)
    return refusal


_APART: Final = (
    "check what is differentiated by itself, without jax.grad around it, and `check --backward`: by the rules here it "
    "may be well typed, and have a gradient"
)


def _sentence(text: str) -> str:
    """What an entry says, as a sentence of a refusal begins and ends."""
    words = " ".join(text.split()).removesuffix(".")
    return words[:1].lower() + words[1:]


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _transposes(frame: FrameType) -> bool:
    """Whether a frame is JAX's backward pass, which goes through equations."""
    code = frame.f_code
    return code.co_name.startswith("backward_pass") and hasattr(frame.f_locals.get("eqn"), "primitive")


def _name(eqn: Any) -> str:
    name = str(eqn.primitive)
    return name.partition("[")[2].rstrip("]") or name  # of a node that JAX puts in place of one: vjp_node[shard_map]


def _made(error: BaseException) -> Frame | None:
    """The user's line that made the equation."""
    cause: BaseException | None = error
    while cause is not None and type(cause).__name__ != _CONTEXT:
        cause = cause.__cause__
    if cause is None:
        return None
    own = [(frame, line) for frame, line in _frames(cause.__traceback__) if kind(frame.f_code.co_filename) == "user"]
    if not own:
        return None
    frame, line = own[-1]
    return Frame(frame.f_code.co_filename, line, frame.f_code.co_qualname)


def _transposed(primitives: list[str], message: str) -> Entry | None:
    """The entry of which the innermost primitive is, and that says what JAX says."""
    stack = {*primitives}
    for entry in _entries():
        if entry.defect != "backward fails":
            continue
        named = any(primitives[-1] in (pattern.primitives or ()) for pattern in entry.equations)
        says = [pattern.says for pattern in entry.backward if named]
        for pattern in entry.programs:
            about = pattern.primitives | pattern.all
            if pattern.all <= stack and (primitives[-1] in about or (named and not about)):
                says.append(pattern.says)
        if any(one is not None and one.search(message) for one in says):
            return entry
    return None


def _raised(frames: list[tuple[FrameType, int]], message: str) -> Iterator[Entry]:
    """The entries whose function raised it, in the words of their evidence."""
    names = {f"{_module(frame.f_code.co_filename)}:{frame.f_code.co_name}" for frame, _ in frames}
    for entry in _entries():
        said = [" ".join(quoted.split()) for quoted in _QUOTED.findall(" ".join(entry.evidence.split()))]
        if entry.function in names and any(one in message for one in said):
            yield entry


def _module(file: str) -> str:
    return file.rpartition("site-packages/")[2].removesuffix(".py").replace("/", ".")


def _entries() -> Iterator[Entry]:
    release = installed()
    return (entry for entry in ledger() if entry.kind == SOUND and release in entry.versions)
