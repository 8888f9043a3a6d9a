"""Moves, reductions with a target and dots, each against the collectives of XLA.

The expected values are read off the partitioner's own output (JAX 0.12.0.1, eight CPU devices): kind and bytes per
device, of the result for an all-gather and of the operand otherwise. The CPU's partitioner makes an all-reduce of a
reduce-scatter, at the same bytes; here it is written as the reduce-scatter that the types speak of.
"""

from __future__ import annotations

import re

import pytest

from grammar.meshes import parse_meshes
from verifier.texts import check_text

AG, AR, RS, A2A, CP = "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"
TWO, THREE = "X=4, Y=2", "X=2, Y=2, Z=2"


def rows(text: str, mesh: str) -> list[tuple[str, int | None, str]]:
    report = check_text(text, parse_meshes(mesh), "test")
    assert [refusal.message for refusal in report.refusals] == []
    return sorted((row.kind, row.bytes, row.exactness) for row in report.communication for _ in range(row.times or 1))


def exact(*moves: tuple[str, int]) -> list[tuple[str, int, str]]:
    return sorted((kind, payload, "exact") for kind, payload in moves)


def resharded(source: str, *targets: str) -> str:
    """One value, resharded to each target."""
    names = "bcdefg"[: len(targets)]
    lines = "\n".join(f"    {name}:{target} = reshard a" for name, target in zip(names, targets, strict=True))
    return f"{{ lambda ; a:{source}. let\n{lines}\n  in ({', '.join(names)},) }}"


@pytest.mark.parametrize(
    ("mesh", "source", "targets", "moves"),
    [
        (TWO, "f32[16@X,8,8]", ("f32[16,8@X,8]", "f32[16,8,8@X]"), [(A2A, 1024), (A2A, 1024)]),
        (TWO, "f32[16@X,8,8]", ("f32[16,8@X,8]", "f32[16,8@X,8]"), [(A2A, 1024)]),
        (THREE, "f32[16@(X,Y,Z),8]", ("f32[16@(Y,Z,X),8]", "f32[16@(Z,X,Y),8]"), [(CP, 64), (CP, 64)]),
        (TWO, "f32[16,16]{U:X}", ("f32[16@X,16]", "f32[16,16@X]"), [(RS, 1024), (RS, 1024)]),
        (TWO, "f32[16,16]{U:X}", ("f32[16,16]", "f32[16@Y,16]"), [(AR, 1024), (AR, 1024)]),
        (TWO, "f32[16,16]{U:X}", ("f32[16,16]", "f32[16,16]"), [(AR, 1024), (AR, 1024)]),
        (TWO, "f32[16@X,8]", ("f32[16,8]", "f32[16,8]{R:X}"), [(AG, 512)]),
        (TWO, "f32[16@X,8@Y]", ("f32[16,8]", "f32[16,8]"), [(AG, 128), (AG, 512)]),
        (TWO, "f32[16@X,8@Y]", ("f32[16,8]", "f32[16@X,8]"), [(AG, 128), (AG, 128), (AG, 512)]),
        (TWO, "f32[16@X,8@Y]", ("f32[16,8]", "f32[16,8@Y]"), [(AG, 128), (AG, 256), (AG, 512)]),
    ],
)
def test_a_value_is_moved_to_each_place_once(
    mesh: str, source: str, targets: tuple[str, ...], moves: list[tuple[str, int]]
) -> None:
    assert rows(resharded(source, *targets), mesh) == exact(*moves)


@pytest.mark.parametrize(
    ("mesh", "source", "target", "moves"),
    [
        (THREE, "f32[16@X,8@Y]", "f32[16@Z,8]", [(CP, 128), (AG, 256)]),
        (THREE, "f32[16@Z,8@X]", "f32[16,8@Y]", [(CP, 128), (AG, 256)]),
        (TWO, "f32[16@X,8@Y,8]", "f32[16,8@X,8]", [(AG, 1024), (A2A, 1024)]),
        (TWO, "f32[16@X,8,8@Y]", "f32[16,8@X,8]", [(AG, 1024), (A2A, 1024)]),
        (TWO, "f32[16@X,8]", "f32[16,8@(Y,X)]", [(A2A, 64)]),
        (THREE, "f32[16@X,8,8]", "f32[16@Y,8@Z,8]", [(CP, 1024)]),
        (TWO, "f32[16@Y,16]{U:X}", "f32[16@(X,Y),16]", [(AR, 512), (CP, 128)]),
    ],
)
def test_moves_that_the_types_determine(mesh: str, source: str, target: str, moves: list[tuple[str, int]]) -> None:
    assert rows(resharded(source, target), mesh) == exact(*moves)


@pytest.mark.parametrize(
    ("mesh", "source", "target", "bytes_measured"),
    [
        (TWO, "f32[16@X,8]", "f32[16,8@Y]", 512),
        (THREE, "f32[16@(X,Y),8]", "f32[16@X,8@Z]", 128 + 128),
        (TWO, "f32[16@(X,Y),8]", "f32[16,8@X]", 512),
        (TWO, "f32[16@X,8,8]", "f32[16,8@X,8@Y]", 512 + 512),
        (THREE, "f32[16@X,8@Y,8]", "f32[16@Z,8,8@Y]", 1024 + 1024),
        (THREE, "f32[16@(X,Y),8]", "f32[16@Y,8@Z]", 128 + 128),
        (TWO, "f32[16,16]{U:(X,Y)}", "f32[16@X,16]", 1024),
    ],
)
def test_moves_that_a_partitioner_searches_for_are_bounded(
    mesh: str, source: str, target: str, bytes_measured: int
) -> None:
    found = rows(resharded(source, target), mesh)
    assert {exactness for _, _, exactness in found} == {"estimate"}
    assert sum(payload or 0 for _, payload, _ in found) >= bytes_measured


def reduced(source: str, axes: str, target: str, primitive: str = "reduce_sum") -> str:
    spec = target[target.index("[") + 1 : target.index("]")].split(";")
    dims = [f"({dim.partition('@')[2].strip('()')!r},)" if "@" in dim else "None" for dim in spec]
    names = ", ".join(dim.strip("(),") if dim != "None" else dim for dim in dims)
    printed = target.replace(";", ",")
    return (
        f"{{ lambda ; a:{source}. let b:{printed} = {primitive}[axes={axes} "
        f"out_sharding=NamedSharding(mesh=AbstractMesh('X': 4, 'Y': 2), spec=P({names}))] a in (b,) }}"
    )


@pytest.mark.parametrize(
    ("source", "axes", "target", "moves"),
    [
        ("f32[16@X,8@Y]", "(0,)", "f32[8]", [(AR, 16), (AG, 32)]),
        ("f32[16@X,8]", "(0,)", "f32[8@X]", [(RS, 32)]),
        ("f32[16@X,8]", "(0,)", "f32[8@Y]", [(AR, 32)]),
        ("f32[16@X,8@Y]", "(0,)", "f32[8@X]", [(AR, 16), (CP, 8)]),
        ("f32[16,8@Y]", "(0,)", "f32[8]", [(AG, 32)]),
        ("f32[16,8@Y]", "(0,)", "f32[8@X]", [(CP, 8)]),
        ("f32[16@X,8@Y,8]", "(0,)", "f32[8;8@Y]", [(AR, 128), (A2A, 128)]),
        ("f32[16@X,8@Y,8]", "(0,)", "f32[8@Y;8@X]", [(RS, 128)]),
        ("f32[16@X,8@Y,8]", "(0, 1)", "f32[8@X]", [(AR, 32), (RS, 32)]),
        ("f32[16@X,8@Y,8]", "(0, 1)", "f32[8]", [(AR, 32), (AR, 32)]),
        ("f32[16@X,8,8@Y]", "(0, 1)", "f32[8]", [(AR, 16), (AG, 32)]),
    ],
)
@pytest.mark.parametrize("primitive", ["reduce_sum", "reduce_max"])
def test_a_reduction_is_taken_first_and_its_result_moved(
    source: str, axes: str, target: str, moves: list[tuple[str, int]], primitive: str
) -> None:
    assert rows(reduced(source, axes, target, primitive), TWO) == exact(*moves)


@pytest.mark.parametrize(
    ("left", "right", "result", "bytes_measured"),
    [
        ("f32[16,16@X]", "f32[16,16]", "f32[16@X,16]", 256),
        ("f32[16,16]", "f32[16@X,16]", "f32[16,16@X]", 256),
        ("f32[16,16@X]", "f32[16,16@Y]", "f32[16@X,16@Y]", 256),
    ],
)
def test_a_contracted_axis_that_lands_on_its_own_operand_is_bounded(
    left: str, right: str, result: str, bytes_measured: int
) -> None:
    text = f"""{{ lambda ; a:{left} b:{right}. let
        c:{result} = dot_general[dimension_numbers=(([1], [0]), ([], [])) preferred_element_type=float32] a b
      in (c,) }}"""
    found = rows(text, TWO)
    assert {exactness for _, _, exactness in found} == {"estimate"}
    assert sum(payload or 0 for _, payload, _ in found) >= bytes_measured


SQUARE = "X=2, Y=2"


@pytest.mark.parametrize(
    ("mesh", "type", "dims", "payload"),
    [
        (TWO, "f32[16@X,8]", "(0,)", 128),
        (TWO, "f32[8@X,16@Y]", "(0, 1)", 64),
        (SQUARE, "f32[8@X,16@Y]", "(0, 1)", 128),
        (SQUARE, "f32[8@Y,4@X,4]", "(0, 1)", 128),
        (SQUARE, "f32[8@Y,4@X,4]", "(0, 2)", 128),
    ],
)
def test_a_reversal_sends_each_block_to_its_mirror_image_in_one(mesh: str, type: str, dims: str, payload: int) -> None:
    text = f"{{ lambda ; a:{type}. let b:{type} = rev[dimensions={dims}] a in (b,) }}"
    assert rows(text, mesh) == exact((CP, payload))


@pytest.mark.parametrize(
    ("type", "start", "moves", "exactness"),
    [
        ("f32[8@X,16]", "b 0:i32[]", [(AG, 512)], "exact"),
        ("f32[8@(X,Y),16]", "b 0:i32[]", [(AG, 512)], "exact"),
        ("f32[8@X,16@Y]", "b 0:i32[]", [(AG, 256), (AG, 512)], "estimate"),
    ],
)
def test_a_window_at_a_place_in_the_data_is_taken_of_a_whole_array(
    type: str, start: str, moves: list[tuple[str, int]], exactness: str
) -> None:
    result = type.replace("[8", "[4")
    text = f"{{ lambda ; a:{type} b:i32[]. let c:{result} = dynamic_slice[slice_sizes=(4, 16)] a {start} in (c,) }}"
    assert rows(text, SQUARE) == sorted((*move, exactness) for move in moves)


@pytest.mark.parametrize(("type", "bytes_measured"), [("f32[8@X,16]", 128), ("f32[8@X,16@Y]", 64)])
def test_a_window_at_a_literal_place_is_bounded(type: str, bytes_measured: int) -> None:
    """There XLA knows which blocks hold the window, and permutes these."""
    result = type.replace("[8", "[4")
    text = f"{{ lambda ; a:{type}. let c:{result} = dynamic_slice[slice_sizes=(4, 16)] a 4:i32[] 0:i32[] in (c,) }}"
    found = rows(text, SQUARE)
    assert {exactness for _, _, exactness in found} == {"estimate"}
    assert sum(payload or 0 for _, payload, _ in found) >= bytes_measured


@pytest.mark.parametrize(
    ("place", "exactness"), [("c 0:i32[]", "exact"), ("4:i32[] 0:i32[]", "estimate"), ("4:i32[] c", "estimate")]
)
@pytest.mark.parametrize(
    ("whole", "part", "moves"),
    [
        ("f32[8@X,16]", "f32[4@X,16]", [(AG, 512), (AG, 256)]),
        ("f32[8@X,16@Y]", "f32[4@X,16@Y]", [(AG, 256), (AG, 128)]),
    ],
)
def test_a_window_that_is_written_leaves_other_dims_cut(
    whole: str, part: str, moves: list[tuple[str, int]], place: str, exactness: str
) -> None:
    """At a literal place XLA gathers the part only."""
    text = f"{{ lambda ; a:{whole} b:{part} c:i32[]. let d:{whole} = dynamic_update_slice a b {place} in (d,) }}"
    assert rows(text, SQUARE) == sorted((*move, exactness) for move in moves)


def dot(left: str, right: str, result: str, batched: bool = False) -> str:
    numbers = "([2], [1]), ([0], [0])" if batched else "([1], [0]), ([], [])"
    return (
        f"{{ lambda ; a:{left} b:{right}. let c:{result} = dot_general[dimension_numbers=({numbers}) "
        "preferred_element_type=float32] a b in (c,) }"
    )


@pytest.mark.parametrize(
    ("left", "right", "result", "moves"),
    [
        ("f32[8@X,16]", "f32[16@X,4@Y]", "f32[8@X,4@Y]", [(AG, 128)]),
        ("f32[8,16]", "f32[16@Y,4]", "f32[8,4]", [(AG, 256)]),
        ("f32[8@X,16]", "f32[16,4@Y]", "f32[8,4@Y]", [(AG, 512)]),
        ("f32[8,16@X]", "f32[16@X,4]", "f32[8,4]", [(AR, 128)]),
        ("f32[8,16@X]", "f32[16@X,4]", "f32[8@Y,4@X]", [(RS, 64)]),
        ("f32[8@X,16]", "f32[16,4]", "f32[8,4@X]", [(AG, 512)]),
    ],
)
def test_dots_that_the_types_determine(left: str, right: str, result: str, moves: list[tuple[str, int]]) -> None:
    """Measured on a mesh whose axes have one size, as a partitioner sees two of them in more than one way."""
    assert rows(dot(left, right, result), SQUARE) == exact(*moves)


@pytest.mark.parametrize(
    ("mesh", "left", "right", "result"),
    [
        # gathered and reduced: XLA gathers twice
        (SQUARE, "f32[8@X,16@Y]", "f32[16,4@X]", "f32[8@X,4]"),
        (TWO, "f32[8@X,16@Y]", "f32[16,4@Y]", "f32[8@X,4]"),
        # gathered and sliced: an exchange
        (SQUARE, "f32[8,16@X]", "f32[16,4]", "f32[8@Y,4@X]"),
        (SQUARE, "f32[8@(X,Y),16]", "f32[16@X,4]", "f32[8@X,4@Y]"),
        (TWO, "f32[8@Y,16]", "f32[16@Y,4]", "f32[8@Y,4@X]"),
        (SQUARE, "f32[8,16]", "f32[16@X,4]", "f32[8,4@Y]"),
        # cut over all devices: an all-reduce of 128 bytes
        (SQUARE, "f32[8,16]", "f32[16@(Y,X),4]", "f32[8,4]"),
        # two dims on one axis: a permute beside the gather
        (TWO, "f32[8@Y,16]", "f32[16,4@Y]", "f32[8,4@Y]"),
        (SQUARE, "f32[8@Y,16]", "f32[16,4@Y]", "f32[8@Y,4]"),
        # a sum that lands where devices may be renumbered, or beside a slice: an all-reduce and a permute, or a slice
        (SQUARE, "f32[8,16@Y]", "f32[16@Y,4]", "f32[8,4@Y]"),
        (SQUARE, "f32[8,16@X]", "f32[16@X,4]", "f32[8,4@(Y,X)]"),
        # gathered where an axis is idle: blocks are permuted to lie along that, and what they give is summed
        (SQUARE, "f32[8@X,16]", "f32[16@X,4]", "f32[8@X,4]"),
        ("X=2, Y=4", "f32[8@X,16]", "f32[16@X,4]", "f32[8@X,4]"),
        # shared dims that are cut differently: XLA gathers the result of 256 bytes, or exchanges
        (SQUARE, "f32[8@Y,4@X,16]", "f32[8,16@(Y,X),4]", "f32[8,4@X,4]"),
        (SQUARE, "f32[8@(Y,X),4,16]", "f32[8@Y,16,4]", "f32[8,4,4@Y]"),
        (SQUARE, "f32[8@Y,4@X,16]", "f32[8@Y,16@X,4]", "f32[8@Y,4,4]"),
    ],
)
def test_dots_that_a_partitioner_does_otherwise_are_estimates(mesh: str, left: str, right: str, result: str) -> None:
    found = rows(dot(left, right, result, batched=left.count(",16") == 1 and right.count(",16") == 1), mesh)
    assert {exactness for _, _, exactness in found} == {"estimate"}


@pytest.mark.parametrize("mesh", ["X=2", "X=4, Y=2", "X=2, Y=3", "X=2, Y=1"])
def test_a_weight_is_gathered_where_no_idle_axis_has_a_multiple_of_its_devices(mesh: str) -> None:
    assert rows(dot("f32[8@X,16]", "f32[16@X,4]", "f32[8@X,4]"), mesh) == exact((AG, 256))


@pytest.mark.parametrize(
    ("mesh", "source", "target"),
    [
        (SQUARE, "f32[8@Y,16@X,4]", "f32[8,16,4@Y]"),
        (SQUARE, "f32[8@Y,16,4@X]", "f32[8@X,16,4]"),
        (TWO, "f32[8@X,16,4@Y]", "f32[8@Y,16,4]"),
        (TWO, "f32[8,16@X,4@Y]", "f32[8,16@Y,4]"),
    ],
)
def test_an_axis_that_another_of_its_size_makes_way_for_is_an_estimate(mesh: str, source: str, target: str) -> None:
    """XLA gathers, and permutes what is left; or gathers, exchanges and permutes."""
    assert {exactness for _, _, exactness in rows(resharded(source, target), mesh)} == {"estimate"}


@pytest.mark.parametrize(
    ("source", "target", "moves"),
    [
        ("f32[4@X,4@Y]", "f32[4,4]{U:Y}", [(AG, 32)]),
        ("f32[4@X,4@Y]", "f32[4@X,4]{U:Y}", []),
        ("f32[4@(X,Y),4]", "f32[4@X,4]{U:Y}", []),
        ("f32[4@(X,Y),4]", "f32[4,4]{U:(X,Y)}", []),
        ("f32[4@(X,Y),4]", "f32[4,4]{U:Y}", [(AG, 64)]),
        ("f32[4@(X,Y),4]", "f32[4@Y,4]{U:X}", [(CP, 16), (AG, 32)]),
        ("f32[4@Y,4]", "f32[4@X,4]{U:Y}", [(CP, 32)]),
        ("f32[4,4@X]", "f32[4,4@Y]{U:X}", [(CP, 32)]),
    ],
)
def test_what_becomes_pending_is_masked_after_all_else_has_moved(
    source: str, target: str, moves: list[tuple[str, int]]
) -> None:
    """Measured on four devices: XLA gathers blocks that are still cut where the sum will be pending."""
    assert rows(resharded(source, target), SQUARE) == exact(*moves)


@pytest.mark.parametrize(
    ("source", "target", "bytes_measured"),
    [
        ("f32[4@X,4@Y]", "f32[4@Y,4]{U:X}", 16 + 32),
        ("f32[4@X,4@Y]", "f32[4,4@X]{U:Y}", 16 + 32),
        ("f32[4@(X,Y),4]", "f32[4,4@X]{U:Y}", 64),
        ("f32[4,4@(Y,X)]", "f32[4@Y,4]{U:X}", 64),
    ],
)
def test_what_becomes_pending_beside_a_move_between_dims_is_an_estimate(
    source: str, target: str, bytes_measured: int
) -> None:
    found = rows(resharded(source, target), SQUARE)
    assert {exactness for _, _, exactness in found} == {"estimate"}
    assert sum(payload or 0 for _, payload, _ in found) >= bytes_measured


RENAMED, TURNED = "X=2,Y=3; P=3,Q=2", "X=2,Y=3; Y=3,X=2"


@pytest.mark.parametrize(
    ("meshes", "source", "target", "moves"),
    [
        (RENAMED, "f32[6]{U:X}", "f32[6@P]", [(AR, 24, "estimate")]),
        (RENAMED, "f32[6@Y]{U:X}", "f32[6@P]", [(AG, 24, "estimate"), (AR, 8, "estimate")]),
        (RENAMED, "f32[6@X]", "f32[6@P]", [(AG, 24, "estimate")]),
        (TURNED, "f32[6@X]", "f32[6@X]", [(AG, 24, "estimate")]),
        (TURNED, "f32[6]{U:X}", "f32[6@X]", [(AR, 24, "estimate")]),
        (TURNED, "f32[6@X]", "f32[6]", [(AG, 24, "exact")]),
        (TURNED, "f32[6]", "f32[6@X]", []),
        ("X=2,Y=3; X=2,Z=3", "f32[6@X]", "f32[6@X]", []),
        ("X=2,Y=3; P=2,Q=3", "f32[6@X]", "f32[6@P]", []),
    ],
)
def test_a_move_between_meshes_that_do_not_line_up_is_bounded(
    meshes: str, source: str, target: str, moves: list[tuple[str, int, str]]
) -> None:
    """A value of 6 numbers has 24 bytes. A type does not say on which of two meshes it is: where they have its axes at
    other places, blocks may stay or not."""
    assert rows(resharded(source, target), meshes) == moves


@pytest.mark.parametrize(("order", "moves"), [("'X': 2, 'Y': 3", []), ("'Y': 3, 'X': 2", [(AG, 24, "estimate")])])
def test_a_device_put_says_its_mesh(order: str, moves: list[tuple[str, int, str]]) -> None:
    where = f"NamedSharding(mesh=Mesh({order}, axis_types=(Explicit, Explicit)), spec=P('X',))"
    text = f"{{ lambda ; a:f32[6@X]. let b:f32[6@X] = device_put[devices=({where},)] a in (b,) }}"
    assert rows(text, "X=2,Y=3") == moves


@pytest.mark.parametrize(
    ("table", "indices", "result", "batched"),
    [
        ("f32[8,4]", "i32[4@X,2,1]", "f32[4@X,2,4]", False),
        ("f32[8,4@Y]", "i32[4@X,2,1]", "f32[4@X,2,4@Y]", False),
        ("f32[8,4@Y]", "i32[4,2,1]", "f32[4,2,4@Y]", False),
        ("f32[8,4]", "i32[4@X,2@Y,1]", "f32[4@X,2@Y,4]", False),
        ("f32[8@X,4]", "i32[8@X,2,1]", "f32[8@X,2]", True),
        ("f32[8@X,4]", "i32[8,2,1]", "f32[8@X,2]", True),
        ("f32[8@X,4]", "i32[8@X,2@Y,1]", "f32[8@X,2@Y]", True),
    ],
)
@pytest.mark.parametrize("mode", ["CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"])
def test_a_lookup_in_a_whole_dim_moves_nothing(table: str, indices: str, result: str, batched: bool, mode: str) -> None:
    """Nor does XLA, for rows of a table and elements along a dim, in each mode."""
    numbers = "(), (1,), (1,), (0,), (0,)" if batched else "(2,), (0,), (0,), (), ()"
    names = "offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims"
    said = zip((*names, "start_indices_batching_dims"), numbers.split(", "), strict=True)
    text = f"""{{ lambda ; a:{table} b:{indices}. let
        c:{result} = gather[
          dimension_numbers=GatherDimensionNumbers({", ".join(f"{name}={dims}" for name, dims in said)})
          fill_value={"nan" if mode == "FILL_OR_DROP" else None}
          indices_are_sorted=False
          mode=GatherScatterMode.{mode}
          slice_sizes={"(1, 1)" if batched else "(1, 4)"}
          unique_indices=False
        ] a b
      in (c,) }}"""
    assert rows(text, "X=2, Y=2") == []


@pytest.mark.parametrize(
    ("array", "indices", "update", "numbers"),
    [
        ("f32[8,4@Y]", "i32[6,1]", "f32[6,4@Y]", "(1,), (0,), (0,), (), ()"),
        ("f32[8,4@Y]", "i32[6,1]", "f32[6,4]", "(1,), (0,), (0,), (), ()"),
        ("f32[8@X,4]", "i32[6,1]", "f32[6,4]", "(1,), (0,), (0,), (), ()"),
        ("f32[8@X,4@Y]", "i32[6,1]", "f32[6,4@Y]", "(1,), (0,), (0,), (), ()"),
        ("f32[8@(X,Y),4]", "i32[6,1]", "f32[6,4]", "(1,), (0,), (0,), (), ()"),
        ("f32[8@X,4]", "i32[1]", "f32[4]", "(0,), (0,), (0,), (), ()"),
        ("f32[8@X,4@Y]", "i32[6,2]", "f32[6]", "(), (0, 1), (0, 1), (), ()"),
        ("f32[8@X,4]", "i32[6,1]", "f32[6,1,4]", "(1, 2), (), (0,), (), ()"),
        ("f32[8@X,4]", "i32[8@X,3,1]", "f32[8@X,3]", "(), (1,), (1,), (0,), (0,)"),
        ("f32[8@X,4]", "i32[8,3,1]", "f32[8,3]", "(), (1,), (1,), (0,), (0,)"),
        ("f32[8@X,4@Y]", "i32[8@X,3,1]", "f32[8@X,3]", "(), (1,), (1,), (0,), (0,)"),
    ],
)
@pytest.mark.parametrize("combiner", ["set", "add", "mul", "max", "min"])
@pytest.mark.parametrize("mode", ["CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"])
def test_updates_of_what_a_device_has_move_nothing(
    array: str, indices: str, update: str, numbers: str, combiner: str, mode: str
) -> None:
    """Nor do they in XLA, given these placements of operands and result."""
    names = "update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "operand_batching_dims"
    said = zip((*names, "scatter_indices_batching_dims"), re.findall(r"\([^)]*\)", numbers), strict=True)
    body = "None" if combiner == "set" else f"{{ lambda ; p:f32[] q:f32[]. let r:f32[] = {combiner} p q in (r,) }}"
    text = f"""{{ lambda ; a:{array} b:{indices} c:{update}. let
        d:{array} = scatter{"" if combiner == "set" else f"-{combiner}"}[
          dimension_numbers=ScatterDimensionNumbers({", ".join(f"{name}={dims}" for name, dims in said)})
          indices_are_sorted=False
          mode=GatherScatterMode.{mode}
          unique_indices=False
          update_consts=()
          update_jaxpr={body}
        ] a b c
      in (d,) }}"""
    assert rows(text, "X=2, Y=2") == []


@pytest.mark.parametrize(
    ("mesh", "source", "target", "moved"),
    [
        (THREE, "f32[8,8@Z]", "f32[8@(X,Z),8]", (AG, 256, "estimate")),
        (THREE, "f32[8,8@Z]", "f32[8@(X,Z),8]{U:Y}", (AG, 256, "estimate")),
        ("X=4, Y=2, Z=2", "f32[8,8@Z]", "f32[8@(X,Z),8]", (AG, 256, "estimate")),
        ("X=2, Y=2, Z=2, W=2", "f32[8,8@(X,Z)]", "f32[8@(Y,Z),8@X]", (AG, 128, "estimate")),  # XLA: 256, over X too
        ("X=2, Y=2, Z=2, W=2", "f32[8@Y,8,8@Z]", "f32[8@Y,8@(X,Z),8]", (AG, 1024, "estimate")),
        ("X=2, Z=2", "f32[8,8@Z]", "f32[8@(X,Z),8]", (A2A, 64, "exact")),
        ("X=2, Y=1, Z=2", "f32[8,8@Z]", "f32[8@(X,Z),8]", (A2A, 64, "exact")),
        (THREE, "f32[8,8@Z]", "f32[8@(X,Y,Z),8]", (A2A, 32, "exact")),
        (THREE, "f32[8@Y,8,8@Z]", "f32[8@Y,8@(X,Z),8]", (A2A, 256, "exact")),
        (THREE, "f32[8,8@(Y,Z)]", "f32[8@(X,Z),8@Y]", (A2A, 32, "exact")),
        (THREE, "f32[8,8@Z]", "f32[8@Z,8]{U:Y}", (A2A, 128, "exact")),
        (THREE, "f32[8@X,8@Z]", "f32[8@(X,Z),8]{U:Y}", (A2A, 64, "exact")),
    ],
)
def test_blocks_move_to_a_dim_that_is_sliced_only_where_no_axis_is_idle(
    mesh: str, source: str, target: str, moved: tuple[str, int, str]
) -> None:
    """Elsewhere XLA gathers all of it (it calls that involuntary, and warns)."""
    assert rows(resharded(source, target), mesh) == [moved]


def test_a_dim_that_was_cut_already_is_not_reached_beside_a_slice() -> None:
    """XLA gathers both dims, 128 and 256 bytes: the estimate is of what is needed."""
    assert rows(resharded("f32[8@Y,8@Z]", "f32[8@(Y,X,Z),8]"), THREE) == [(AG, 128, "estimate")]
