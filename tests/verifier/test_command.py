"""The command line: what it prints, in text and JSON, and its exit status, whatever it is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import verifier
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.refusals import Refusal, refuse
from verifier.answers import MOST_SHOWN
from verifier.cli import main
from verifier.report import Report, Row, summary

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "examples" / "seeds"

PROGRAM = """{ lambda ; a:f32[2,2]{U:X}. let
    b:f32[2,2]{U:X} = cos a
  in (b,) }
"""

Check = Callable[[str, list[Mesh], str], Report]


def run(*arguments: str, stdin: bytes | str = b"") -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="shardproof")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Check], None]:
    """Put another checker in the checker's place: what is tested here is what the command makes of its report."""

    def install(check: Check) -> None:
        module = types.ModuleType("verifier.texts")
        module.check_text = check  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "verifier.texts", module)

    return install


ROWS = [
    Row(7, "all-reduce", ("X",), 192, 192, 1, "exact", "reshard"),
    Row(12, "all-gather", ("X", "Y"), 1000, 875.0, 15, "estimate", "dot_general", ("scan x5", "scan x3")),
    Row(13, "all-to-all", ("Y",), 8, 4, None, "chosen by the compiler", "gather", ("while",)),
]


def fixed(text: str, meshes: list[Mesh], file: str) -> Report:
    """A checker that goes by the first word of the text."""
    match text.split()[0]:
        case "good":
            return Report(file, "ok", 24, communication=ROWS, notes=["1 kernel is assumed"])
        case "quiet":
            return Report(file, "ok", 1)
        case "bad":
            refusals = [Refusal("state", f"no {n}", "because", "help", line=2, column=23) for n in range(60)]
            return Report(file, "refused", 3, refusals=refusals)
        case "deep":
            raise RecursionError
        case _:
            raise refuse("syntax", "nonsense")


def test_what_is_printed(answer: Callable[[Check], None], tmp_path: Path) -> None:
    answer(fixed)
    file = tmp_path / "good.jaxpr"
    file.write_text("good", encoding="utf-8")
    result = run("check", str(file))
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{file}: well typed · 24 equations · 3 collectives, at least 16 runs · at least 15,192 bytes per device",
        "  line  primitive    collective  over  bytes  times   total    wire  exactness               inside",
        "     7  reshard      all-reduce  X       192      1     192     192  exact                   -",
        "    12  dot_general  all-gather  X,Y   1,000     15  15,000  13,125  estimate                scan x5, scan x3",
        "    13  gather       all-to-all  Y         8      ?       ?       ?  chosen by the compiler  while",
        "  note: 1 kernel is assumed",
    ]


def test_json(answer: Callable[[Check], None], tmp_path: Path) -> None:
    answer(fixed)
    for word in ("good", "bad", "odd"):
        (tmp_path / word).write_text(word, encoding="utf-8")
    result = run("check", *(str(tmp_path / word) for word in ("good", "bad", "odd", "missing")), "--json")
    assert result.exit_code == 2
    good, bad, odd, missing = json.loads(result.output)
    assert [good["verdict"], bad["verdict"], odd["verdict"], missing["verdict"]] == [
        "ok", "refused", "malformed", "malformed",
    ]  # fmt: skip
    assert good["file"] == str(tmp_path / "good")
    assert good["equations"] == 24
    assert good["communication"][1] == {
        "line": 12, "primitive": "dot_general", "kind": "all-gather", "axes": ["X", "Y"], "bytes": 1000,
        "wire_bytes": 875, "times": 15, "total_bytes": 15000, "exactness": "estimate", "inside": ["scan x5", "scan x3"],
    }  # fmt: skip
    assert good["communication"][2]["times"] is None
    assert len(bad["refusals"]) == 60
    assert bad["refusals"][0] == {
        "code": "state", "family": "unsound", "line": 2, "column": 23, "message": "no 0", "because": "because",
        "help": "help", "inside": [],
    }  # fmt: skip
    assert odd["refusals"][0]["code"] == "syntax"
    assert missing["refusals"][0]["code"] == "not-text"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("quiet",), 0), (("bad",), 1), (("odd",), 2), (("deep",), 2), (("quiet", "bad"), 1), (("bad", "odd"), 2),
        (("odd", "quiet"), 2), (("quiet", "good"), 0),
    ],
)  # fmt: skip
def test_the_worst_file_decides(
    answer: Callable[[Check], None], tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    answer(fixed)
    for word in words:
        (tmp_path / word).write_text(word, encoding="utf-8")
    files = [str(tmp_path / word) for word in words]
    assert run("check", *files).exit_code == run("check", *files, "--json").exit_code == status


def test_many_refusals_are_counted(answer: Callable[[Check], None]) -> None:
    answer(fixed)
    result = run("check", "-", stdin="bad\n" + " " * 22 + "cos")
    assert result.exit_code == 1
    assert result.output.count("[state]") == MOST_SHOWN
    assert "10 more refusals: --json lists all" in result.output
    assert result.output.startswith("<stdin>: refused · 3 equations · 60 refusals\n")


def test_several_files_are_summed_up(answer: Callable[[Check], None], tmp_path: Path) -> None:
    answer(fixed)
    for word in ("quiet", "good", "bad"):
        (tmp_path / word).write_text(word, encoding="utf-8")
    result = run("check", *(str(tmp_path / word) for word in ("quiet", "good", "bad")))
    assert result.output.splitlines()[-1] == "3 files: 2 well typed, 1 refused"


def test_meshes_reach_the_checker(answer: Callable[[Check], None]) -> None:
    seen: list[list[Mesh]] = []

    def look(text: str, meshes: list[Mesh], file: str) -> Report:
        seen.append(meshes)
        return Report(file, "ok")

    answer(look)
    assert run("check", "-", stdin="x").exit_code == 0
    assert run("check", "-", "--mesh", "X=4,Y=2:auto", "--mesh", "A=8", stdin="x").exit_code == 0
    assert run("check", "-", "--mesh", "X=4,Y=2:auto; A=8", stdin="x").exit_code == 0
    several = [Mesh([Axis("X", 4), Axis("Y", 2, AxisMode.AUTO)]), Mesh([Axis("A", 8)])]
    assert seen == [[], several, several]


@pytest.mark.parametrize(
    ("data", "message", "line", "column"),
    [
        (b"", "is empty", 0, 0),
        (b" \n\n", "is empty", 0, 0),
        (b"\xef\xbb\xbf", "is empty", 0, 0),
        (b"{ lambda\nab\xff }", "byte 0xff is not UTF-8", 2, 3),
        (b"\xff\xfe{\x00", "byte 0xff is not UTF-8", 1, 1),
        ("é\nü\0".encode(), "a NUL character", 2, 2),
    ],
)
def test_bytes_that_are_no_text(data: bytes, message: str, line: int, column: int) -> None:
    result = run("check", "-", "--json", stdin=data)
    assert result.exit_code == 2
    (report,) = json.loads(result.output)
    (refusal,) = report["refusals"]
    assert (report["file"], report["verdict"]) == ("-", "malformed")
    assert (refusal["code"], refusal["message"], refusal["line"], refusal["column"]) == (
        "not-text", message, line, column,
    )  # fmt: skip
    shown = run("check", "-", stdin=data)
    assert shown.exit_code == 2
    assert f"malformed: {message}" in shown.output


def test_windows_line_ends_and_a_byte_order_mark(answer: Callable[[Check], None]) -> None:
    texts: list[str] = []

    def look(text: str, meshes: list[Mesh], file: str) -> Report:
        texts.append(text)
        return Report(file, "ok")

    answer(look)
    assert run("check", "-", stdin=b"\xef\xbb\xbfone\r\ntwo\r\n").exit_code == 0
    assert texts == ["one\ntwo\n"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file or directory" in run("check", str(tmp_path / "missing")).output
    assert "is a directory" in run("check", str(tmp_path)).output
    for name in (str(tmp_path / "missing"), str(tmp_path), "a\0b"):
        assert run("check", name).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Usage: shardproof"),
        (("check",), "Missing argument 'FILE...'"),
        (("frobnicate",), "No such command"),
        (("check", "-", "--frobnicate"), "No such option"),
        (("check", "-", "-"), "standard input (-) can be read once only"),
        (("check", "-", "--mesh"), "requires an argument"),
        (("check", "-", "--mesh", "X=0"), "the size of axis X is 0\n   | X=0\n   |   ^\n  help: "),
        (("check", "-", "--mesh", "X=4,X=2"), "the mesh names axis X twice"),
        (("check", "-", "--mesh", "X=1e99"), "the size of axis X is"),
        (("type", "f32[8]", "--mesh", "X=4", "--mesh", "Y=2"), "a type lives on one mesh"),
        (("type",), "Missing argument 'TYPE...'"),
    ],
)
def test_misuse_is_answered_with_a_message(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_help_teaches() -> None:
    for arguments in (("--help",), ("check", "--help"), ("type", "-h")):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "--mesh X=4,Y=2" in result.output
    assert run("--version").output == f"shardproof, version {verifier.__version__}\n"


def test_the_seeds_are_well_typed() -> None:
    """Every program of the two pages; the mesh stands in each file's first line."""
    files = sorted(str(path) for path in SEEDS.glob("*.jaxpr"))
    result = run("check", *files, "--json")
    assert len(files) == 18
    assert {report["verdict"] for report in json.loads(result.output)} == {"ok"}


@pytest.mark.parametrize(
    ("name", "bytes", "times", "inside"),
    [("seed_microbatch", 192, 1, []), ("seed_microbatch_replicated", 64, 15, ["scan x5", "scan x3"])],
)
def test_the_microbatch_step(name: str, bytes: int, times: int, inside: list[str]) -> None:
    """A34, A35: one all-reduce outside all loops with reduced weights, 15 inside both with replicated ones."""
    (report,) = json.loads(run("check", str(SEEDS / f"{name}.jaxpr"), "--json").output)
    (row,) = report["communication"]
    assert (row["kind"], row["axes"], row["bytes"], row["times"]) == ("all-reduce", ["X"], bytes, times)
    assert row["inside"] == inside


def test_three_refusals() -> None:
    """A22, A15 and the promise of reduced: cos of unreduced, a mul whose transpose pays, a dot without a target."""
    result = run("check", str(ROOT / "examples" / "refused.jaxpr"), "--json")
    (report,) = json.loads(result.output)
    assert result.exit_code == 1
    assert [(refusal["line"], refusal["family"]) for refusal in report["refusals"]] == [
        (3, "unsound"), (4, "one-way"), (5, "ambiguous"),
    ]  # fmt: skip


def command(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-m", "verifier", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, timeout=60, check=False, env=env)


def test_a_reader_who_leaves_is_no_error() -> None:
    """The output goes to a pipe that nobody reads: no message, and the status is that of the check."""
    read, write = os.pipe()
    os.close(read)
    files = sorted(str(path) for path in SEEDS.glob("*.jaxpr"))
    for json_too in ((), ("--json",)):
        process = subprocess.run(
            [sys.executable, "-m", "verifier", "check", *files, *json_too],
            cwd=ROOT, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
        assert (process.returncode, process.stderr) == (0, b"")
    for arguments in (("--help",), ("grad", "--help"), ("linearize", "examples/loss.jaxpr")):
        line = [sys.executable, "-m", "verifier", *arguments]
        process = subprocess.run(line, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
        assert process.returncode == 0
        assert b"Error" not in process.stderr
        assert b"Traceback" not in process.stderr
    os.close(write)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "examples/refused.jaxpr"),
        ("check", "examples/refused.jaxpr", "--json"),
        ("type", "f32[8]"),
        ("type", "--cotangent", "f32[8] -> f32[8]"),
        ("transpose", "examples/loss.jaxpr", "--json"),
        ("type", "f32[8", "--json"),
        ("--help",),
        ("--version",),
    ],
)
def test_output_that_cannot_be_written(arguments: tuple[str, ...]) -> None:
    """On a full disk, and to a closed stream: a message and status 2, not the status of a refusal."""
    line = [sys.executable, "-m", "verifier", *arguments]
    with open("/dev/full", "wb") as full:
        process = subprocess.run(line, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        both = subprocess.run(line, cwd=ROOT, stdout=full, stderr=full, timeout=60, check=False)
    assert process.stderr == b"Error: cannot write: no space left on device\n"
    assert process.returncode == both.returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="the shell closes the streams")
def test_streams_that_are_closed() -> None:
    python = f"'{sys.executable}' -m verifier"
    for words, said in (
        (f"{python} check examples/refused.jaxpr >&-", b"cannot write: bad file descriptor"),
        (f"{python} check - <&-", b"cannot be read: standard input is closed"),
    ):
        process = subprocess.run(["sh", "-c", words], cwd=ROOT, capture_output=True, timeout=60, check=False)
        assert process.returncode == 2
        assert said in process.stdout + process.stderr
        assert b"Traceback" not in process.stderr
    words = f"{python} check examples/seeds/seed_loss_grad.jaxpr 2>&-"
    process = subprocess.run(["sh", "-c", words], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (process.returncode, b"well typed" in process.stdout) == (0, True)


def test_output_in_a_plain_encoding() -> None:
    """Where the terminal has no box drawing, the picture is drawn with plus and minus."""
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = command("type", "f32[8@X]", "--mesh", "X=2", env=plain)
    assert shown.returncode == 0
    assert b"+---+---+\n  | 0 | 1 |\n  +---+---+" in shown.stdout
    strange = command("check", "missing-é", env=plain)
    assert (strange.returncode, strange.stderr) == (2, b"")


def test_no_sign_of_life_off_a_terminal(answer: Callable[[Check], None]) -> None:
    def slow(text: str, meshes: list[Mesh], file: str) -> Report:
        time.sleep(0.1)
        return Report(file, "ok")

    answer(slow)
    assert run("check", "-", stdin="x").stderr == ""


def test_an_interrupt(answer: Callable[[Check], None]) -> None:
    def stopped(text: str, meshes: list[Mesh], file: str) -> Report:
        raise KeyboardInterrupt

    answer(stopped)
    result = run("check", "-", stdin="x")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted\n")


def rows_of(*numbers: tuple[int | None, int | None, str]) -> list[Row]:
    return [
        Row(n, "all-reduce", ("X",), bytes, 0, times, exactness, "f")
        for n, (bytes, times, exactness) in enumerate(numbers)
    ]


@pytest.mark.parametrize(
    ("communication", "words"),
    [
        (rows_of((8, 2, "exact"), (4, 1, "exact")), "2 collectives, 3 runs · 20 bytes per device"),
        (rows_of((None, 2, "exact"), (4, 1, "exact")), "2 collectives, 3 runs · at least 4 bytes per device"),
        (rows_of((None, 2, "exact")), "1 collective, 2 runs · bytes not known"),
        (rows_of((8, None, "exact")), "1 collective, runs not known · bytes not known"),
        (rows_of((8, None, "exact"), (8, 1, "exact")), "2 collectives, at least 1 run · at least 8 bytes per device"),
        (rows_of((8, 1, "at most"), (8, 1, "exact")), "2 collectives, at most 2 runs · at most 16 bytes per device"),
        (
            rows_of((8, None, "exact"), (8, 1, "at most")),
            "2 collectives, at most 1 run where known · at most 8 bytes per device where known",
        ),
    ],
)
def test_the_sum_says_how_it_is_meant(communication: list[Row], words: str) -> None:
    """Unknown terms make it a lower bound, branches of which one is taken an upper bound."""
    assert summary(Report("f", "ok", 1, communication=communication)) == f"f: well typed · 1 equation · {words}"


def test_assumptions_stand_beside_the_verdict(answer: Callable[[Check], None], tmp_path: Path) -> None:
    answer(lambda text, meshes, file: Report(file, "ok", 3, assumed=int(text)))
    for number in "01":
        (tmp_path / number).write_text(number, encoding="utf-8")
    first, second, _, last = run("check", str(tmp_path / "0"), str(tmp_path / "1")).output.splitlines()
    assert first.endswith("0: well typed · 3 equations · no communication")
    assert second.endswith("1: well typed on 1 assumption · 3 equations · no communication")
    assert last == "2 files: 2 well typed, 1 on assumptions"


def test_a_name_that_shows_nothing_is_quoted() -> None:
    assert run("check", "").output.startswith("'': malformed\n\n'': malformed: cannot be read")
    assert run("check", "a\nb").output.startswith("'a\\nb': malformed")
