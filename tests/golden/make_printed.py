"""Remake `printed/`: programs chosen for the ways in which JAX lays them out, as JAX prints them. Not a test.

    python -m tests.golden.make_printed

Run it once with each of the two releases, 0.12.0.1 (into `printed/`) and 0.10.2 (into `printed/jax-0.10.2/`). Each
function of `printed_layouts` and `printed_features` makes one text (or several); its docstring says what they show.
`index.json` has, by file, the JAX version, the mesh where one was set, and that sentence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
from jax.sharding import AxisType

from tests.golden import printed_features, printed_layouts, printing  # noqa: F401 - the makers, marked on import

PRINTED = Path(__file__).parent / "printed"
RELEASE = jax.__version__
REFERENCE = "0.12.0.1"


def texts() -> Iterator[tuple[str, str, dict[str, int] | None, str]]:
    """Name, text, mesh and reason of every text."""
    for maker, mesh in printing.MAKERS:
        if mesh is None:
            made = maker()
        else:
            grid = jax.make_mesh(tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Explicit,) * len(mesh))
            with jax.set_mesh(grid):
                made = maker()
        for name, text in (made if isinstance(made, dict) else {maker.__name__: made}).items():
            yield name, text, mesh, " ".join((maker.__doc__ or "").split())


def main() -> None:
    """Write this release's texts and their part of the index."""
    folder = PRINTED if RELEASE == REFERENCE else PRINTED / f"jax-{RELEASE}"
    folder.mkdir(parents=True, exist_ok=True)
    index_file = PRINTED / "index.json"
    index = json.loads(index_file.read_text()) if index_file.exists() else {}
    index = {name: entry for name, entry in index.items() if entry["jax"] != RELEASE}
    for old in folder.glob("*.jaxpr"):
        old.unlink()
    for name, text, mesh, reason in texts():
        file = folder / f"{name}.jaxpr"
        file.write_text(text + "\n")
        index[file.relative_to(PRINTED).as_posix()] = {"jax": RELEASE, "mesh": mesh, "shows": reason}
    index_file.write_text(json.dumps(dict(sorted(index.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
