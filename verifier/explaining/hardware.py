"""Seconds from bytes: a profile of the links along each mesh axis, and the formulas of rings.

A profile is a TOML file:

    [axes.data]
    bandwidth = 45e9   # bytes a second that a device sends along this axis
    latency = 1e-6     # seconds that each step takes besides; 0 where nothing is said

Over n devices a ring takes 2(n - 1) steps for an all-reduce, n - 1 for a gather, a scatter, an all-to-all or a
broadcast, one for a permute. A collective takes its wire bytes over the bandwidth, and its steps times the latency;
over several axes, those of the slowest. Collectives one after the other: what overlaps is not modelled.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from calculus.communication import ALL_REDUCE, PERMUTE
from calculus.types import Axes
from verifier.report import Row

FORMULA: Final = (
    "seconds = wire bytes / bandwidth + steps x latency; on a ring of n devices an all-reduce takes 2(n - 1) steps, a "
    "gather, scatter or all-to-all n - 1, a permute 1; over several axes the slowest of them decides"
)


class BadProfile(ValueError):
    """A profile that cannot be used. The message says why."""


class Link(NamedTuple):
    """bandwidth: bytes a second that a device sends. latency: seconds a step."""

    bandwidth: float
    latency: float


class Hardware(NamedTuple):
    """The links along each mesh axis."""

    links: Mapping[str, Link]

    def seconds(self, row: Row, group: int | None) -> float | None:
        """What all runs of a collective take together; `None` where a size is not known. Raises `BadProfile` where the
        profile says nothing of an axis."""
        link = self._slowest(row.axes)
        if row.wire_total is None or row.times is None or group is None:
            return None
        return float(row.wire_total) / link.bandwidth + row.times * steps(row.kind, group) * link.latency

    def _slowest(self, axes: Axes) -> Link:
        missing = [axis for axis in axes if axis not in self.links]
        if missing:
            raise BadProfile(f"the profile has no [axes.{missing[0]}], and {', '.join(axes)} is communicated along")
        every = [self.links[axis] for axis in axes]
        return Link(min(one.bandwidth for one in every), max(one.latency for one in every))


def steps(kind: str, group: int) -> int:
    """The steps of a collective on a ring of so many devices."""
    return 1 if kind == PERMUTE else (2 if kind == ALL_REDUCE else 1) * (group - 1)


def read_hardware(file: str) -> Hardware:
    """The profile in a file. Raises `BadProfile`."""
    try:
        return hardware(tomllib.loads(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise BadProfile(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadProfile(f"{file} is no TOML: {error}") from error


def hardware(said: Mapping[str, Any]) -> Hardware:
    """The profile that a table says. Raises `BadProfile`."""
    axes = said.get("axes")
    if not isinstance(axes, Mapping) or not axes or len(said) > 1:
        raise BadProfile("a profile has the tables [axes.NAME], with bandwidth and latency, and nothing else")
    return Hardware({name: _link(name, rows) for name, rows in axes.items()})


def _link(name: str, rows: Any) -> Link:
    if not isinstance(rows, Mapping) or not {"bandwidth"} <= rows.keys() <= {"bandwidth", "latency"}:
        raise BadProfile(
            f"[axes.{name}] has a bandwidth, in bytes a second, may have a latency, in seconds, and no more"
        )
    values = rows["bandwidth"], rows.get("latency", 0)
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in values):
        raise BadProfile(f"[axes.{name}]: bandwidth and latency are numbers")
    bandwidth, latency = map(float, values)
    if not (0 < bandwidth < float("inf") and 0 <= latency < float("inf")):
        raise BadProfile(f"[axes.{name}]: a bandwidth is above 0, a latency at least 0")
    return Link(bandwidth, latency)
