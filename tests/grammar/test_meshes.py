"""The mesh language of `--mesh` and of the first line of a file."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculus.meshes import LARGEST, MOST_AXES, Axis, AxisMode, Mesh
from calculus.refusals import Refused
from grammar.meshes import parse_meshes


@pytest.mark.parametrize("text", ["X=4,Y=2", "X=4, Y=2", "  X = 4 ,\tY=2 ", "X=04,Y=2", "X=4:explicit,Y=2"])
def test_two_axes(text: str) -> None:
    assert parse_meshes(text) == [Mesh([Axis("X", 4), Axis("Y", 2)])]


def test_modes_and_several_meshes() -> None:
    first, second = parse_meshes("data=4:auto, model=2 : manual; A=8")
    assert first == Mesh([Axis("data", 4, AxisMode.AUTO), Axis("model", 2, AxisMode.MANUAL)])
    assert second == Mesh([Axis("A", 8)])


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "a mesh without axes"),
        ("X=4;", 5, "a mesh without axes"),
        ("X=4,", 5, "the name of an axis is missing"),
        ("=4", 1, "the name of an axis is missing"),
        ("X", 1, "axis X has no size"),
        ("X:4", 1, "axis X has no size"),
        ("X=4, Y=", 6, "axis Y has no size"),
        ("X=0", 3, "the size of axis X is 0"),
        ("X=4, Y=-2", 8, "the size of axis Y is '-2'"),
        ("X=four", 3, "the size of axis X is four"),
        ("X=4.0", 3, "the size of axis X is '4.0'"),
        ("X=٤", 3, "the size of axis X is '٤'"),
        ("X=1000001", 3, "the size of axis X is more than 1,000,000"),
        ("X=" + "9" * 5000, 3, "the size of axis X is more than 1,000,000"),
        ("X=1000,Y=1001", 8, "the mesh has more than 1,000,000 devices"),
        ("X=4,X=2", 5, "the mesh names axis X twice"),
        ("X=4:eager", 5, "the mode of axis X is eager"),
        ("4=X", 1, "'4' is not the name of an axis"),
        ("X=4 Y=2", 1, "'X=4 Y=2' is not an axis"),
        ("X=4\x00", 3, "the size of axis X is '4\\x00'"),
    ],
)
def test_refused_where_it_goes_wrong(text: str, column: int, message: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_meshes(text)
    refusal = caught.value.refusal
    assert (refusal.code, refusal.column, refusal.message) == ("bad-mesh", column, message)
    assert refusal.help


def test_the_largest_are_read() -> None:
    assert parse_meshes(f"X={LARGEST}")[0].size(["X"]) == LARGEST
    assert len(parse_meshes(",".join(f"a{i}=1" for i in range(MOST_AXES)))[0].axes) == MOST_AXES
    with pytest.raises(Refused, match="more than 64 axes"):
        parse_meshes(",".join(f"a{i}=1" for i in range(MOST_AXES + 1)))


axes = st.builds(
    Axis, st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True), st.integers(1, 8), st.sampled_from(AxisMode)
)


@given(st.lists(axes, min_size=1, max_size=5, unique_by=lambda axis: axis.name))
def test_a_mesh_is_read_as_it_is_shown(parts: list[Axis]) -> None:
    assert parse_meshes(str(Mesh(parts))) == [Mesh(parts)]


@given(st.text(alphabet="XY=:,; 0123456789autoé\n\x00-", max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    refused = None
    try:
        assert all(mesh.axes for mesh in parse_meshes(text))
    except Refused as error:
        refused = error.refusal
    assert refused is None or (refused.code == "bad-mesh" and 1 <= refused.column <= len(text) + 1)


LONG = ("X" * 200_000, " " * 200_000 + "X", "X=1;" * 50_000, "," * 200_000, "X=" + " " * 200_000)


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_long_texts_take_linear_time(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(Refused):
        parse_meshes(text)
    assert time.process_time() - start < 2
