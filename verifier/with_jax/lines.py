"""Where in people's files a program comes from: the innermost frame of their own code, the library's beside it.

Nothing is looked up before it is asked for: a report asks for the few equations that it shows.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from calculus.programs import Document, Equation, Program, bodies
from verifier.with_jax.convert import Converted

#: packages whose frames are not the user's, wherever they are installed
LIBRARIES: Final = (
    "chex", "diffrax", "distrax", "equinox", "flax", "haiku", "jaxopt", "jaxtyping", "lineax", "numpy", "numpyro",
    "optax", "optimistix", "orbax", "penzai",
)  # fmt: skip
ENGINE: Final = ("jax", "jaxlib")
OURS: Final = ("calculus", "grammar", "verifier")

_LOOPS: Final = ("fori_loop", "map")
_SOURCE: Final = re.compile(r"(?P<function>.*) at (?P<file>.*):(?P<line>\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a file. `line` counts from 1; `function` is its qualified name."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Site:
    """Where an equation comes from. user: the innermost frame of the user's own code, which for the inside of a
    library function is the line that called it; `None` where no user code is involved. library: the innermost frame of
    a library between that line and the equation (of JAX itself, only where it is the inside of one of its functions);
    `None` where the user's line makes the equation itself."""

    user: Frame | None
    library: Frame | None = None

    def __str__(self) -> str:
        if self.user is None:
            return "no line of yours" if self.library is None else f"{self.library} ({self.library.function})"
        return f"{self.user}" if self.library is None else f"{self.user} (in {self.library.function}, {self.library})"


class Lines:
    """The sites of a converted document's equations and programs."""

    def __init__(self, converted: Converted) -> None:
        self._converted = converted
        self._found: dict[int, tuple[Site, ...]] = {}
        self._ways: dict[Any, tuple[Frame | None, Frame | None, Frame | None]] = {}
        self._stacks: dict[int, tuple[Any, str]] = {}

    def at(self, place: int) -> tuple[Site, ...]:
        """The sites of the equation or program with this `line`: one, or, inside a library function that is called
        from several lines, one for each of them, in the order of the program. Raises `IndexError` for no place."""
        found = self._found.get(place)
        if found is None:
            if place < 1:
                raise IndexError(f"no equation or program has the place {place}")
            origin = self._converted.origins[place - 1]
            found = self._found[place] = self._program(place) if hasattr(origin, "eqns") else self._equation(place)
        return found

    def transposed(self, place: int) -> bool:
        """Whether JAX made the equation with this `line` by transposing another: it is part of a backward pass."""
        return "transpose(" in self._stack(place)

    def differentiated(self, place: int) -> bool:
        """Whether JAX has differentiated what the equation with this `line` computes: it is part of a linearised
        forward pass, or of a backward pass."""
        return "jvp(" in self._stack(place)

    def some_transposed(self, equations: Iterable[Equation]) -> bool:
        """Whether JAX made one of these equations by transposing another."""
        origins = self._converted.origins
        sources = [getattr(origins[one.line - 1], "source_info", None) for one in equations if one.line > 0]
        stacks = {id(source.name_stack): source.name_stack for source in sources if source is not None}
        return any("transpose(" in self._printed(stack) for stack in stacks.values())

    def loop(self, place: int) -> str:
        """What of JAX's the author called for the loop that the equation with this `line` is, where that has another
        name: `fori_loop` or `map`; else nothing."""
        for frame in _frames(self._converted.origins[place - 1]) if place > 0 else ():
            if kind(frame.file) == "user":
                break
            if frame.function in _LOOPS and frame.file.endswith("loops.py"):
                return frame.function
        return ""

    def remade(self, place: int) -> bool:
        """Whether the equation with this `line` computes, in a backward pass, what was not kept of the forward pass."""
        return "rematted_computation" in self._stack(place)

    def _stack(self, place: int) -> str:
        """JAX's transformations around an equation, as they are printed: `transpose(jvp(layer))`."""
        source = getattr(self._converted.origins[place - 1], "source_info", None) if place > 0 else None
        return "" if source is None else self._printed(source.name_stack)

    def _printed(self, stack: Any) -> str:
        found = self._stacks.get(id(stack))
        if found is None:
            found = self._stacks[id(stack)] = stack, str(stack)  # kept, so that its identity stays its own
        return found[1]

    def frames(self, place: int) -> tuple[Frame, ...]:
        """The frames in which the equation with this `line` was made, those of JAX aside, innermost first."""
        return tuple(frame for frame in _frames(self._converted.origins[place - 1]) if kind(frame.file) != "engine")

    def spot(self, place: int) -> tuple[object, ...] | None:
        """Where the expression begins and ends, in the author's innermost frame, that made the equation with this
        `line`; `None` where that is not known."""
        traceback = getattr(getattr(self._converted.origins[place - 1], "source_info", None), "traceback", None)
        if traceback is None or not hasattr(traceback, "raw_frames"):
            return None
        for code, instruction in zip(*traceback.raw_frames(), strict=True):
            if kind(code.co_filename) == "user":
                return (code.co_filename, *traceback.code_addr2location(code, instruction))
        return None

    def _equation(self, place: int) -> tuple[Site, ...]:
        user, library, inner = self._split(self._converted.origins[place - 1])
        if user is not None:
            return (Site(user, library),)
        inside = self._program_of.get(place)
        calls = self._callers.get(inside, ()) if inside is not None else ()
        return self._from(calls, library or inner) or self._inside(place) or (Site(None, library or inner),)

    def _split(self, eqn: Any) -> tuple[Frame | None, Frame | None, Frame | None]:
        """The frames of an equation; of equations that were made on the same way, once."""
        way = eqn.source_info.traceback
        found = self._ways.get(way)
        if found is None:
            found = self._ways[way] = _split(_frames(eqn))
        return found

    def _inside(self, place: int) -> tuple[Site, ...]:
        """Of an equation that nobody's line made (the call that a jit is): where the functions in it are defined."""
        defined = [self._defined(inner) for inner in self._holds.get(place, ())]
        return tuple(
            dict.fromkeys(Site(frame) for frame in defined if frame is not None and kind(frame.file) == "user")
        )

    def _program(self, place: int) -> tuple[Site, ...]:
        frame = self._defined(place)
        if frame is not None and kind(frame.file) == "user":
            return (Site(frame),)
        return self._from(self._callers.get(place, ()), frame) or (Site(None, frame),)

    def _defined(self, place: int) -> Frame | None:
        """Where the function is defined that a program was traced from."""
        found = _SOURCE.fullmatch(str(self._converted.origins[place - 1].debug_info.func_src_info))
        return None if found is None else Frame(found["file"], int(found["line"]), found["function"])

    def _from(self, calls: tuple[int, ...], inside: Frame | None) -> tuple[Site, ...]:
        """The user's lines at these calls, each with the library frame nearest to the inside."""
        sites: dict[Site, None] = {}
        for call in calls:
            for site in self.at(call):
                outside = site.library
                keep = inside is None or (outside is not None and kind(inside.file) == "engine")
                sites[Site(site.user, outside if keep else inside)] = None
        return tuple(sites)

    @functools.cached_property
    def _program_of(self) -> dict[int, int]:
        """The place of each equation's program, by the equation's place."""
        programs = _programs(self._converted.document)
        return {equation.line: program.line for program in programs for equation in program.equations}

    @functools.cached_property
    def _callers(self) -> dict[int, tuple[int, ...]]:
        """The places of the equations that hold a program, by the program's place."""
        found: dict[int, set[int]] = {}
        for call, inners in self._holds.items():
            for inner in inners:
                found.setdefault(inner, set()).add(call)
        return {place: tuple(sorted(calls)) for place, calls in found.items()}

    @functools.cached_property
    def _holds(self) -> dict[int, tuple[int, ...]]:
        """The places of the programs that an equation holds, by the equation's place."""
        programs = _programs(self._converted.document)
        held = {
            equation.line: tuple(inner.line for _, inner in bodies(equation.parameters))
            for program in programs
            for equation in program.equations
            if equation.parameters
        }
        return {place: inners for place, inners in held.items() if inners}


def _programs(document: Document) -> Iterator[Program]:
    """Every body once."""
    seen: set[int] = set()
    waiting = [document.program]
    while waiting:
        program = waiting.pop()
        if program.line in seen:
            continue
        seen.add(program.line)
        yield program
        for equation in program.equations:
            waiting += [inner for _, inner in bodies(equation.parameters)]


def _frames(eqn: Any) -> Iterator[Frame]:
    """The frames in which an equation was made, innermost first."""
    traceback = eqn.source_info.traceback
    for frame in () if traceback is None else traceback.frames:
        yield Frame(frame.file_name, frame.line_num, frame.function_name)


def user_frame() -> Frame | None:
    """The innermost frame of the user's own code that is running."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if kind(code.co_filename) == "user":
            return Frame(code.co_filename, frame.f_lineno, code.co_qualname)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def differentiating() -> str:
    """What JAX is differentiating, in words, where it makes a derivative: `the derivative of max`; else nothing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and kind(frame.f_code.co_filename) != "user":
        if frame.f_code.co_filename.endswith(_DIFFERENTIATES):
            primitive, eqn = (frame.f_locals.get(name) for name in ("primitive", "eqn"))
            if hasattr(primitive, "name"):
                return f"the derivative of {primitive}"
            if eqn is not None and hasattr(eqn, "primitive"):
                return f"the transpose of {eqn.primitive}"
        frame = frame.f_back
    return ""


_DIFFERENTIATES: Final = os.path.join("interpreters", "ad.py")


_WRAPS: Final = os.path.join("_src", "traceback_util.py")
"""What stands around JAX's functions, and is none of them."""


def _split(frames: Iterator[Frame]) -> tuple[Frame | None, Frame | None, Frame | None]:
    """The innermost frames of the user and, within it, of a library; and the outermost of JAX itself."""
    library: Frame | None = None
    engine: Frame | None = None
    for frame in frames:
        match kind(frame.file):
            case "user":
                return frame, library, engine
            case "library":
                library = library or frame
            case "engine":
                engine = engine if frame.file.endswith(_WRAPS) else frame
    return None, library, engine


@functools.cache
def kind(file: str) -> str:
    """Whose code a file holds: `user`, `library`, `engine` (JAX) or `python` (the standard library, and ourselves)."""
    if file.startswith("<frozen ") or file == "<string>":
        return "python"
    path = os.path.realpath(file)
    if any(path.startswith(folder) for folder in _folders(ENGINE)):
        return "engine"
    if any(path.startswith(folder) for folder in _folders(OURS)):
        return "python"
    parts = Path(file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return "library"
    if any(path.startswith(folder) for folder in _folders(LIBRARIES)):
        return "library"
    return "python" if path.startswith(os.path.realpath(sysconfig.get_path("stdlib")) + os.sep) else "user"


def _folders(packages: tuple[str, ...]) -> Iterator[str]:
    """Where those of these packages are that have been imported."""
    for name in packages:
        if name in sys.modules:
            found = importlib.util.find_spec(name)
            for folder in (found.submodule_search_locations or ()) if found is not None else ():
                yield os.path.realpath(folder) + os.sep


def shown(file: str) -> str:
    """A file's name as people know it: from the current folder on if it is inside, an installed one from its package
    on."""
    return _shown(file, os.getcwd())


@functools.lru_cache(maxsize=1024)
def _shown(file: str, here: str) -> str:
    for folder in ("site-packages", "dist-packages"):
        _, found, rest = file.rpartition(f"{os.sep}{folder}{os.sep}")
        if found:
            return rest
    try:
        return str(Path(file).relative_to(here))
    except ValueError:
        return file
