"""Anything at all on standard input ends in exit 0, 1 or 2, with messages that point into the text.

The examples are the same in every run of the tests; `make fuzz` draws new ones, for as long as its FUZZ_SECONDS allow.
"""

# ruff: noqa: E501 - a text is a line

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import event
from hypothesis import strategies as st

from calculus.programs import Document
from calculus.refusals import Refusal, Refused
from grammar.fast import read_fast
from grammar.leaves import Odd
from grammar.parse import parse_document, parse_type
from grammar.print import print_document
from grammar.read import read, read_type
from tests.fuzz.promise import DRAWING, MESH, STATUS, answer, drawn, shown
from tests.fuzz.shapes import doubling, loops, program
from tests.fuzz.texts import PRINTED, ROOT, SCRAPS, accidents, documents, exchanges, overwritten, scraps, types

pytestmark = pytest.mark.fuzz


@drawn(150, st.binary(max_size=200) | overwritten(), st.booleans())
def test_bytes(data: bytes, meshed: bool) -> None:
    answer(data, *(MESH if meshed else ()))


@drawn(150, st.text(max_size=100) | scraps, st.booleans())
def test_text(text: str, meshed: bool) -> None:
    answer(text, *(MESH if meshed else ()))


@drawn(800, accidents() | exchanges() | exchanges(), st.booleans())
def test_accidents(text: str, meshed: bool) -> None:
    report = answer(text, *(MESH if meshed else ()))
    event(str(report["verdict"]))
    if report["refusals"]:
        shown(text.encode("utf-8", "replace").decode(), *(MESH if meshed else ()))


@drawn(120, documents(), st.booleans())
def test_drawn_documents(text: str, meshed: bool) -> None:
    """Texts that the grammar's rules derive: read alike by both readers, as they are and as JAX would print them."""
    answer(text, *(MESH if meshed else ()))
    document = same_outcome(text)
    if document is not None:
        printed = print_document(document)
        answer(printed)
        again = same_outcome(printed)
        assert again == document
        try:
            assert read_fast(printed) == document
            event("taken by the fast reader")
        except (Odd, Refused):
            event("left to the grammar")


@drawn(150, types())
def test_drawn_types(text: str) -> None:
    try:
        norm = parse_type(text)
    except Refused as refused:
        with pytest.raises(Refused) as caught:
            read_type(text)
        assert caught.value.refusal == refused.refusal
    else:
        assert read_type(text) == norm
        assert parse_type(str(norm)) == norm
        answer(program(inputs=f"a:{text}"), *MESH)


def same_outcome(text: str) -> Document | None:
    """The document, read alike by `read` and the grammar; `None` if both refuse it in the same words."""
    outcomes: list[Document | Refusal] = []
    for reader in (read, parse_document):
        try:
            outcomes.append(reader(text))
        except Refused as refused:
            outcomes.append(refused.refusal)
    assert outcomes[0] == outcomes[1]
    return outcomes[0] if isinstance(outcomes[0], Document) else None


@pytest.mark.parametrize("depth", [1, 10, 63, 64, 65, 100, 300])
def test_doubling(depth: int) -> None:
    """Each definition uses the one before twice: every body is checked once, and priced in time linear in the text."""
    report = answer(doubling(depth))
    if depth < 60:
        (row,) = report["communication"]
        assert (row["kind"], row["bytes"], row["times"]) == ("all-gather", 16, 2**depth)
    else:
        assert report["verdict"] in ("ok", "malformed")
    shown(doubling(depth))


@pytest.mark.parametrize(
    "length", ["0", "1", "1000000007", "9" * 18, "9" * 40, "9" * 999, "9" * 5000, "-1", "b", "1.5"]
)
def test_loop_lengths(length: str) -> None:
    for depth in (1, 3, 30, 61):
        answer(loops(depth, length))
        shown(loops(depth, length))


def test_loops_multiply() -> None:
    (row,) = answer(loops(3, "10"))["communication"]
    assert row["times"] == 1000


@pytest.mark.parametrize(
    "number", ["0", "1", "007", "-1", "٣", "²", "1e3", "0x4", "1_0", "9" * 19, "9" * 100, "9" * 5000]
)
def test_numbers(number: str) -> None:
    """Numbers where numbers are expected: too large, in other scripts, in other notations."""
    for text in (
        f"# mesh: X={number}\n{program()}",
        program(inputs=f"a:f32[{number}]"),
        program(inputs=f"a:f32[4@X,{number}]"),
        program(inputs=f"a:f32[{number},{number},{number},{number}]"),
        program(f"    b:i32[] = neg {number}:i32[]\n"),
        program(f"    b:f32[4] = integer_pow[y={number}] a\n"),
        program(f"    b:f32[] = reduce_sum[axes=({number},)] a\n"),
        program(f"    b:f32[4] = slice[limit_indices=({number},) start_indices=({number},) strides=({number},)] a\n"),
        program(f"    b:f32[4] = pad[padding_config=(({number}, {number}, {number}),)] a 0.0:f32[]\n"),
        program(f"    b:f32[4] = reshape[dimensions=None new_sizes=({number}, {number}) sharding=None] a\n"),
        program(f"    b:f32[4] = transpose[permutation=({number},)] a\n"),
        program(f"    b:f32[4] = broadcast_in_dim[broadcast_dimensions=({number},)] a\n"),
        program(f"    b:f32[4] = concatenate[dimension={number}] a a\n"),
        program(f"    b:f32[4] = split[axis={number} sizes=({number}, {number})] a\n"),
        program(f"    b:i32[{number}] = iota[dimension={number} dtype=int32 shape=({number},) sharding=None] \n"),
        program(f"    b:f32[4] = dot_general[dimension_numbers=(([{number}], [{number}]), ([], []))] a a\n"),
        program(f"    b:f32[4] = scan[jaxpr={{ lambda ; . let  in () }} length={number} num_carry={number} num_consts={number}] a\n"),
        program(f"    b:f32[4] = while[body_nconsts={number} cond_nconsts={number} body_jaxpr={{ lambda ; . let  in () }} cond_jaxpr={{ lambda ; . let  in () }}] a\n"),
        program(f"    b:f32[4] = psum[axes=({number},) axis_index_groups=None] a\n"),
        program(f"    b:f32[4] = shard_map[mesh=Mesh('X': {number}, axis_types=(Explicit,)) newly_manual_axes=frozenset({{'X'}}) in_specs=(P('X',),) out_specs=(P('X',),) check_vma=True jaxpr={{ lambda ; a:f32[2]. let  in (a,) }}] a\n"),
    ):  # fmt: skip
        answer(text)
        answer(text, *MESH)
        shown(text)


@pytest.mark.parametrize("scrap", SCRAPS, ids=range(len(SCRAPS)))
def test_every_scrap_everywhere(scrap: str) -> None:
    """Each scrap alone, and at each token of a small program."""
    answer(scrap)
    base = "{ lambda ; a:f32[8@X]{U:Y}. let\n    b:f32[8@X]{U:Y} = neg a\n    c:f32[8] = reshard b\n  in (c,) }\n"
    places = [0, 2, 9, 11, 12, 13, 15, 20, 22, 25, 28, 30, 34, 40, 50, 56, 60, 64, 66, 80, 88, 95, 97, 102, len(base)]
    for place in places:
        answer(base[:place] + scrap + base[place:], *MESH)


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"\n", b"\0", b"\xff\xfe{ ", b"\xef\xbb\xbf{ lambda ; . let  in () }", b"\xed\xa0\x80", b"\xc3", b"\xf8\x88\x80\x80\x80",
        b"{ lambda ; . let\r\n  in () }\r\n", b"{ lambda ; . let\r  in () }", b"{\tlambda\t;\t.\tlet\tin\t() }", b"{ lambda ; a:f32[4]. let  in (a,) }\x00",
        "{ lambda ; a:f32[4]. let é:f32[4] = sin a in (é,) }".encode("latin-1"), "{ lambda ; . let  in () }".encode("utf-16"),
    ],
)  # fmt: skip
def test_encodings(data: bytes) -> None:
    answer(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"{" * 100_000,
        b"{ lambda ; a:f32[4]. let b:f32[4] = jit[jaxpr=" * 5_000,
        b"{ lambda ; a:f32[4]. let  in (a,) }",
    ],
)
def test_the_process_itself(data: bytes) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "verifier", "check", "-"], input=data, capture_output=True, cwd=ROOT, check=False
    )
    assert run.returncode in STATUS.values()
    assert b"Traceback" not in run.stderr + run.stdout
    assert run.stdout.strip()


SMALLEST = sorted(PRINTED, key=lambda path: path.stat().st_size)[:6]


@pytest.mark.parametrize("path", SMALLEST, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_line_lost(path: Path) -> None:
    """A printed program without each of its lines in turn."""
    lines = path.read_text(encoding="utf-8").split("\n")
    for number in range(len(lines)):
        answer("\n".join(lines[:number] + lines[number + 1 :]))


@drawn(10, st.sampled_from(PRINTED), st.integers(0, 10**6))
def test_a_line_lost(path: Path, number: int) -> None:
    """A printed program, its first 20 kilobytes, without one of its lines."""
    lines = path.read_text(encoding="utf-8")[:20_000].split("\n")
    del lines[number % len(lines)]
    answer("\n".join(lines))


def test_the_tests_that_draw_share_the_time() -> None:
    drawing = [name for name, test in globals().items() if getattr(test, "__qualname__", "").startswith("drawn.")]
    assert len(drawing) == DRAWING
