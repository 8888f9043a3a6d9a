"""The text of compiled modules, by hand: every form in which XLA writes a collective, and every way to name devices."""

from __future__ import annotations

import re

import pytest

from verifier.compiled.groups import group
from verifier.compiled.module import BadModule, Module, instruction
from verifier.compiled.reading import Moved, read

MODULE = """HloModule m

FileNames
1 "/home/someone/train.py"
2 "/home/someone/layers.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=20 end_line=20 column=4 end_column=9}
2 {file_name_id=2 function_name_id=1 line=7 end_line=7 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %p = (s32[], f32[4]{0:T(4,128)}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %v = f32[4]{0} get-tuple-element(%p), index=1
  %r = f32[4]{0} all-reduce(%v), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), to_apply=%add, metadata=INNER
  %by.0 = s32[] constant(1)
  %by = s32[] copy(%by.0)
  %up = s32[] add(%i, %by)
  ROOT %t = (s32[], f32[4]) tuple(%up, %r)
}

%cond (p.1: (s32[], f32[4])) -> pred[] {
  %p.1 = (s32[], f32[4]) parameter(0)
  %i.1 = s32[] get-tuple-element(%p.1), index=0
  %n.0 = s32[] constant(5)
  %n = s32[] copy(%n.0)
  ROOT %c = pred[] compare(%i.1, %n), direction=LT
}

%all-reduce-scatter.1 (q: f32[8]) -> f32[4] {
  %q = f32[8]{0} parameter(0)
  %a.1 = f32[8]{0} all-reduce(%q), replica_groups={{0,1},{2,3}}, to_apply=%add
  %o = s32[] constant(0)
  ROOT %d = f32[4]{0} dynamic-slice(%a.1, %o), dynamic_slice_sizes={4}
}

ENTRY %main (a: (f32[2], f32[4], f32[8])) -> f32[4] {
  %a = (f32[2], f32[4], f32[8]) parameter(0)
  %g = f32[4]{0} all-gather(%a#0), replica_groups=mesh['X'=2,'Y'=2] {'Y'}, dimensions={0}
  %unused = f32[4]{0} all-gather(%a#0), replica_groups=mesh['X'=2,'Y'=2] {'Y'}, dimensions={0}
  %from = s32[] constant(0)
  %init = (s32[], f32[4]) tuple(%from, %a#1)
  %w = (s32[], f32[4]) while(%init), condition=%cond, body=%body
  %pair = (f32[4], f32[8]) all-reduce(%a#1, %a#2), replica_groups={}, to_apply=%add
  %one = f32[4]{0} get-tuple-element(%pair), index=0
  %two = f32[8]{0} get-tuple-element(%pair), index=1
  %z = s32[] constant(0)
  %cut = f32[4]{0} dynamic-slice(%two, %z), dynamic_slice_sizes={4}
  %f = f32[4]{0} fusion(%two), kind=kCustom, calls=%all-reduce-scatter.1, metadata=OUTER
  %start = (f32[2]{0}, f32[4]{0}) all-gather-start(%a#0), replica_groups={{0,2},{1,3}}, dimensions={0}
  %done = f32[4]{0} all-gather-done(%start)
  %s.1 = (f32[2]{0}, f32[2]{0}, u32[], u32[]) collective-permute-start(%a#0), source_target_pairs={{0,2},{2,0}}
  %s.2 = f32[2]{0} collective-permute-done(%s.1)
  ROOT %all = (f32[4], f32[4], f32[4], f32[4], f32[4], f32[2]) tuple(%g, %one, %cut, %f, %done, %s.2, %w)
}
""".replace("INNER", '{op_name="jit(step)/while/body/dot_general" stack_frame_id=2}').replace(
    "OUTER", '{op_name="jit(step)/reshard" stack_frame_id=1}'
)

MESH = {"X": 2, "Y": 2}


def brief(one: Moved) -> tuple[object, ...]:
    return one.kind, one.axes, one.payload, one.loops, *sorted(one.forms)


def test_a_module_is_read() -> None:
    """By hand. The two parts of the combined all-reduce are 16 and 32 bytes; of one, a block is cut out."""
    found = read(MODULE, MESH)
    assert [brief(one) for one in found] == [
        ("all-gather", ("Y",), 16, ()),
        ("all-reduce", ("X",), 16, (5,)),
        ("all-reduce", ("X", "Y"), 16, (), "combined"),
        ("all-reduce", ("X", "Y"), 32, (), "combined"),
        ("reduce-scatter", ("Y",), 32, (), "fused"),
        ("all-gather", ("X",), 16, (), "asynchronous"),
        ("collective-permute", ("X",), 8, (), "asynchronous"),
    ]
    assert [one.sliced for one in found] == [False, False, False, True, False, False, False]
    assert found[1].times == 5
    assert found[1].frames == (("/home/someone/layers.py", 7), ("/home/someone/train.py", 20))
    assert found[4].frames == (("/home/someone/train.py", 20),)
    assert found[1].place == "jit(step)/while/body/dot_general"


def test_what_goes_on_inside_several_fusions_is_one_collective() -> None:
    """As libtpu writes it for v5e: the first fusion starts it, others go on with it beside their own work."""
    inside = "\n".join(
        f"%async_collective_fusion.{number} (p: f32[2]) -> f32[4] {{\n"
        "  %p = f32[2]{0} parameter(0)\n"
        f"  ROOT %h.{number} = f32[4]{{0}} all-gather(%p), channel_id={channel}, replica_groups=[2,2]<=[4]\n}}\n"
        for number, channel in ((1, 40), (2, 40), (3, 41))
    )
    calls = "\n".join(
        f"  %f.{number} = f32[4]{{0}} fusion(%a), kind=kCustom, calls=%async_collective_fusion.{number}"
        for number in (1, 2, 3)
    )
    text = f"HloModule m\n\n{inside}\nENTRY %main (a: f32[2]) -> f32[4] {{\n  %a = f32[2]{{0}} parameter(0)\n{calls}\n"
    text += "  ROOT %t = (f32[4], f32[4], f32[4]) tuple(%f.1, %f.2, %f.3)\n}\n"
    assert [brief(one) for one in read(text, MESH)] == [("all-gather", ("Y",), 16, (), "asynchronous")] * 2


@pytest.mark.parametrize(
    ("dim", "operation", "uncut"), [(0, "topk", True), (1, "topk", False), (0, "sort", False)],
)  # fmt: skip
def test_what_is_gathered_for_an_operation_that_is_not_cut(dim: int, operation: str, uncut: bool) -> None:
    """Along its own dim, the last one, it needs the whole."""
    text = (
        "HloModule m\n\nENTRY %main (a: f32[2,2]) -> f32[4,2] {\n  %a = f32[2,2]{1,0} parameter(0)\n"
        f"  %g = f32[4,2]{{1,0}} all-gather(%a), replica_groups=[2,2]<=[4], dimensions={{{dim}}}\n"
        f"  ROOT %t = (f32[4,1], s32[4,1]) {operation}(%g), k=1\n}}\n"
    )
    assert [one.uncut for one in read(text, MESH)] == [uncut]


CARRIED = """HloModule m

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%body (p: (s32[], f32[4], f32[2], f32[])) -> (s32[], f32[4], f32[2], f32[]) {
  %p = (s32[], f32[4], f32[2], f32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %v = f32[4]{0} get-tuple-element(%p), index=1
  %w = f32[2]{0} get-tuple-element(%p), index=2
  %z = f32[] get-tuple-element(%p), index=3
  %rv = f32[4]{0} all-reduce(%v), replica_groups={}, to_apply=%add
  %rw = f32[2]{0} all-reduce(%w), replica_groups={}, to_apply=%add
  %m = f32[] reduce(%rw), to_apply=%add
  ROOT %t = (s32[], f32[4], f32[2], f32[]) tuple(%i, %rv, %rw, %m)
}

%cond (q: (s32[], f32[4], f32[2], f32[])) -> pred[] {
  %q = (s32[], f32[4], f32[2], f32[]) parameter(0)
  %j = f32[] get-tuple-element(%q), index=READ
  %k = f32[] constant(5)
  ROOT %c = pred[] compare(%j, %k), direction=LT
}

ENTRY %main (a: s32[], b: f32[1], c: f32[2], d: f32[]) -> RESULT {
  %a = s32[] parameter(0)
  %b = f32[1] parameter(1)
  %gb = f32[4]{0} all-gather(%b), replica_groups={}, dimensions={0}
  %e = f32[2] parameter(2)
  %d = f32[] parameter(3)
  %init = (s32[], f32[4], f32[2], f32[]) tuple(%a, %gb, %e, %d)
  %loop = (s32[], f32[4], f32[2], f32[]) while(%init), condition=%cond, body=%body
  ROOT %r = f32[] get-tuple-element(%loop), index=USED
}
"""


@pytest.mark.parametrize(
    ("condition", "used", "payloads"),
    [
        (0, 0, []),  # what nothing else reads
        (0, 1, [16, 16]),  # what is gathered is where the loop begins
        (0, 3, [8]),  # one carry is made from another
        (3, 0, [8]),
        (1, 3, [16, 16, 8]),
    ],
)
def test_what_a_loop_carries_for_itself_alone(condition: int, used: int, payloads: list[int]) -> None:
    """XLA removes it after it has partitioned; what is left when all is compiled runs."""
    text = CARRIED.replace("READ", str(condition)).replace("USED", str(used))
    assert [one.payload for one in read(text, MESH, early=True)] == payloads
    assert [one.payload for one in read(text, MESH)] == [16, 16, 8]


def test_a_condition_communicates_once_more_than_the_body() -> None:
    """Of a loop whose end the data decide, an unknown number of times."""
    asked = (
        "  %m = f32[4]{0} get-tuple-element(%p.1), index=1\n  %k = f32[4]{0} all-reduce(%m), replica_groups=[2,2]<=[4]"
    )
    root = "  ROOT %c = pred[] compare(%i.1, %n), direction=LT"
    odd = MODULE.replace(root, f'{asked}\n  ROOT %c = pred[] custom-call(%k), custom_call_target="last"')
    assert [(one.axes, one.times) for one in read(odd, MESH) if one.loops] == [(("Y",), None), (("X",), None)]
    known = odd.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}')
    assert [(one.axes, one.times) for one in read(known, MESH) if one.loops] == [(("Y",), 8), (("X",), 7)]
    summed = MODULE.replace(root, f"{asked}\n  %v.1 = f32[] reduce(%k, %n)\n{root.replace('%i.1', '%v.1')}")
    assert [one.times for one in read(summed, MESH) if one.loops] == [None, None]  # nothing counts here


def test_a_loop_whose_end_is_not_written_runs_an_unknown_number_of_times() -> None:
    odd = MODULE.replace("direction=LT", "direction=NE")
    assert [one.times for one in read(odd, MESH) if one.loops] == [None]
    known = odd.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}')
    assert [one.times for one in read(known, MESH) if one.loops] == [7]
    assert [one.loops for one in read(known.replace('"7"', '"1"'), MESH) if one.place] == [(), ()]


@pytest.mark.parametrize(
    ("written", "instead", "times"),
    [
        ("%from = s32[] constant(0)", "%from = s32[] constant(3)", 2),
        ("%from = s32[] constant(0)", "%from = s32[] constant(-1)", 6),
        ("%from = s32[] constant(0)", "%from = s32[] constant(7)", 0),
        ("%by.0 = s32[] constant(1)", "%by.0 = s32[] constant(2)", 3),  # 0, 2, 4
        ("%by.0 = s32[] constant(1)", "%by.0 = s32[] constant(5)", 1),
        ("%by.0 = s32[] constant(1)", "%by.0 = s32[] constant(-1)", None),
        ("%up = s32[] add(%i, %by)", "%up = s32[] add(%by, %i)", 5),
        ("%up = s32[] add(%i, %by)", "%up = s32[] add(%by, %by)", None),
        ("%up = s32[] add(%i, %by)", "%up = s32[] multiply(%i, %by)", None),
        ("tuple(%from, %a#1)", "tuple(%a#0, %a#1)", None),  # the data say where it starts
    ],
)
def test_a_loop_that_counts(written: str, instead: str, times: int | None) -> None:
    """From where it starts, by its step, while it is less than 5."""
    assert MODULE.count(written) == 1
    (found,) = (one for one in read(MODULE.replace(written, instead), MESH) if one.place.endswith("dot_general"))
    assert found.times == times


@pytest.mark.parametrize(
    ("written", "axes", "size"),
    [
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", ("Y",), 2),
        ("replica_groups={{0,2,4,6},{1,3,5,7}}", ("X",), 4),
        ("replica_groups={{6,2,4,0},{1,3,5,7}}", ("X",), 4),
        ("replica_groups={{0,3},{1,2},{4,5},{6,7}}", ("?",), 2),
        ("replica_groups={{0,4},{1,5},{2,6},{3,7}}", ("?",), 2),  # half of X
        ("replica_groups={}", ("X", "Y"), 8),
        ("replica_groups=[1,8]<=[8]", ("X", "Y"), 8),
        ("replica_groups=[4,2]<=[8]", ("Y",), 2),
        ("replica_groups=[2,4]<=[4,2]T(1,0)", ("X",), 4),
        ("replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}", ("X",), 4),
        ("replica_groups=mesh['a'=4,'b'=1,'c'=2] {'c'}", ("Y",), 2),
        ("replica_groups=mesh['a'=8] {'a':(1)4}", ("X",), 4),
        ("replica_groups=mesh['a'=8] {'a':(4)2}", ("Y",), 2),
        ("replica_groups=mesh['X'=4,'Y'=2] {'X':(1)2}", ("?",), 2),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", ("X",), 4),  # rows 0 2 4 6, 1 3 5 7
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}", ("Y",), 2),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=(0,2,4,6,1,3,5,7) {'b'}", ("X",), 4),
        ("replica_groups=mesh['a'=4,'b'=2], device_ids=([8]) {'b'}", ("Y",), 2),
        ("source_target_pairs={{0,2},{2,4},{4,6},{6,0}}", ("X",), 4),
        ("source_target_pairs={{0,1},{1,2}}", ("X", "Y"), 8),
    ],
)
def test_devices(written: str, axes: tuple[str, ...], size: int) -> None:
    """Device i of the mesh X=4, Y=2 is at (i // 2, i % 2)."""
    one = instruction(f"  %r = f32[4]{{0}} all-reduce(%x), channel_id=1, {written}, use_global_device_ids=true")
    assert one is not None
    assert group(one, {"X": 4, "Y": 2}) == (axes, size)


def test_collectives_over_one_device_are_none() -> None:
    text = MODULE.replace("mesh['X'=2,'Y'=2] {'Y'}", "{{0},{1},{2},{3}}")
    assert [one.kind for one in read(text, MESH)][:1] == ["all-reduce"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ENTRY ", ""), "no ENTRY"),
        (("f32[4]{0} all-gather(%a#0)", "q7[4]{0} all-gather(%a#0)"), "no size of an element of q7"),
        (("replica_groups=[2,2]<=[2,2]T(1,0)", "replica_groups=all"), "not known"),
        (("body=%body", "body=%nowhere"), "which is not there"),
    ],
)
def test_what_is_not_known_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(BadModule, match=re.escape(message)):
        read(MODULE.replace(*change), MESH)


def test_frames_of_older_releases() -> None:
    line = '  %r = f32[4]{0} copy(%x), metadata={op_name="a" source_file="train.py" source_line=12}'
    one = instruction(line)
    assert one is not None
    assert Module(MODULE).frames(one) == (("train.py", 12),)
