"""What a jit asks for its operands and results is the same in JAX's objects and in their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from calculus.meshes import Axis, AxisMode, Mesh
from verifier import check
from verifier.report import Report
from verifier.texts import check_text

MESH = jax.sharding.AbstractMesh((4,), ("X",), axis_types=(AxisType.Explicit,))
OURS = Mesh((Axis("X", 4, AxisMode.EXPLICIT),))


def asking(specs: dict[str, P]) -> Callable[[Any], Any]:
    asked: dict[str, Any] = {f"{side}_shardings": NamedSharding(MESH, spec) for side, spec in specs.items()}
    return jax.jit(lambda x: -x, **asked)


def moves(report: Report) -> list[tuple[object, ...]]:
    return [(row.kind, row.axes, row.bytes, row.exactness) for row in report.communication]


GATHER = ("all-gather", ("X",), 32, "estimate")


@pytest.mark.parametrize(
    ("specs", "expected"),  # as XLA has it, compiled for four devices
    [
        ({"in": P(), "out": P()}, [GATHER, GATHER]),
        ({"out": P()}, [GATHER]),
        ({"in": P()}, [GATHER]),
        ({"in": P("X"), "out": P("X")}, []),
    ],
    ids=["both", "out", "in", "same"],
)
def test_shardings_that_a_type_does_not_have_are_moves(specs: dict[str, P], expected: list[tuple[object, ...]]) -> None:
    with jax.sharding.use_abstract_mesh(MESH):
        x = jax.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(MESH, P("X")))
        inner = asking(specs)

        def program(x: Any) -> Any:
            return inner(x) * 2

        report = check(program, x)
        text = str(jax.make_jaxpr(program)(x)) + "\n"
    assert report.verdict == "ok"
    assert moves(report) == moves(check_text(text, [OURS], "")) == expected
