"""What programs are compiled for, and at which stages of that they are looked at."""

from __future__ import annotations

from typing import Final, NamedTuple

CPU: Final = "cpu"
TPU: Final = "tpu"

PARTITIONED: Final = "partitioned"
"""What the partitioner makes of a program, before anything is combined, hoisted or folded."""

RUN: Final = "final"
"""What would run on the devices."""


class NoCompiler(ValueError):
    """A target that cannot be compiled for. help: the repair."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


class Target(NamedTuple):
    """name: `cpu` or `tpu`. topology: of TPU, as libtpu names it (`v5p:16x16x16`)."""

    name: str
    topology: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.topology}" if self.topology else self.name


def target(text: str) -> Target:
    """The target of this name. Raises `NoCompiler`."""
    name, _, topology = text.partition(":")
    if (name, bool(topology)) in ((CPU, False), (TPU, True)):
        return Target(name, topology)
    raise NoCompiler(f"there is no target {text}", "write cpu, or tpu: and a topology, as in tpu:v5p:16x16x16")
