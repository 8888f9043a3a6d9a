"""Anything at all on standard input ends in exit 0, 1 or 2 with a message: never a traceback, never a hang.

In the tests the budget is a few seconds; `make fuzz` sets FUZZ_SECONDS.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from verifier.cli import main

ROOT = Path(__file__).resolve().parents[2]
SEEDS = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples" / "seeds").glob("*.jaxpr"))]
SECONDS = float(os.environ.get("FUZZ_SECONDS", "6"))

#: CPU seconds that one text of a few kilobytes may take
PATIENCE = 5.0

SCRAPS = [
    "{", "}", "[", "]", "(", ")", "{ lambda ; ", ". let\n", " in (", "in", "let", ":", ";", ",", "=", "@", "<-", "+=",
    "f32[8@X,4]{U:Y}", "f32[8@(X,Y)]", "{V:data, U:model}", "Ref{", "~f32[]", "key<fry>[]", "1.0:f32[]", "nan",
    "jaxpr=", "{ lambda ; a:f32[]. let  in (a,) }", "branches=(", "# mesh: X=2\n", "# mesh: X=0\n", "\n", "  ", "\t",
    "\r", "\0", "é", "\u2028", "'", '"', "\\", "P('X')", "Mesh('X': 4, axis_types=(Explicit,))", "scan[", "length=-1",
    "length=99999999999999999999", "0x", "-", "shard_map", "while", "cond", "custom_vjp_call", "_", "a", "b", "*",
    "9" * 5000, "0@X", "-1@X", "unreduced={'X'}", "frozenset({'X'})", "<lambda>", "object at 0x7f", "np.int64(4)",
]  # fmt: skip

NASTY = [
    "{ lambda ; a:f32[]. let\n b:f32[] = jit[jaxpr=" * 3000,
    "(" * 100_000,
    "[" * 100_000 + "]" * 100_000,
    "{ lambda ; " + " ".join(f"a{i}:f32[]" for i in range(20_000)) + ". let  in () }",
    "{ lambda ; a:f32[" + "8," * 50_000 + "8]. let  in (a,) }",
    "{ lambda ; a:f32[8@(" + "X," * 50_000 + "X)]. let  in (a,) }",
    "let f = { lambda ; a:f32[]. let b:f32[] = jit[jaxpr=f name=f] a in (b,) } in\n"
    "{ lambda ; a:f32[]. let b:f32[] = jit[jaxpr=f name=f] a in (b,) }",
    "# mesh: " + "X=2," * 50_000 + "\n{ lambda ; . let  in () }",
    "# mesh: X=2\n" * 20_000,
    "{ lambda ; a:f32[2]. let\n" + "".join(f"    b{i}:f32[2] = sin a\n" for i in range(3000)) + "  in (a,) }",
    "x" * 500_000,
    "\n" * 500_000 + "x",
    "'" * 100_001,
    "{ lambda ; a:f32[" + "(" * 50_000 + "b" + ")" * 50_000 + "]. let  in (a,) }",
    "{ lambda ; a:" + "Ref{" * 20_000 + "f32[]" + "}" * 20_000 + ". let  in (a,) }",
    "{ lambda ; a:f32[]. let b:f32[] = scan[" + "k=(" * 20_000 + " ] a in (b,) }",
    "{ lambda ; a:f32[]. let b:f32[] = f[" + " ".join(f"k{i}=1" for i in range(50_000)) + "] a in (b,) }",
]


def answer(data: bytes, *arguments: str) -> None:
    """Run the command on these bytes and hold what it answers to the promise."""
    start = time.process_time()
    result = CliRunner().invoke(main, ["check", "-", "--json", *arguments], input=data)
    taken = time.process_time() - start
    shown = data[:2000]
    assert result.exception is None or isinstance(result.exception, SystemExit), (shown, result.exc_info)
    assert result.exit_code in (0, 1, 2), shown
    (report,) = json.loads(result.stdout)
    assert {"ok": 0, "refused": 1, "malformed": 2}[report["verdict"]] == result.exit_code, shown
    assert bool(report["refusals"]) == bool(result.exit_code), shown
    assert all(refusal["message"] for refusal in report["refusals"]), shown
    assert taken < PATIENCE + len(data) / 50_000, (taken, shown)


def mutated(text: str, chance: random.Random) -> bytes:
    """A seed program with a few accidents: cut, doubled, swapped, overwritten, filled with scraps."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        start = chance.randrange(len(text) + 1)
        stop = min(len(text), start + chance.choice((0, 1, 1, 2, 5, 20, 200)))
        match chance.randrange(5):
            case 0:
                text = text[:start] + text[stop:]
            case 1:
                text = text[:stop] + text[start:stop] * chance.choice((1, 1, 2, 50)) + text[stop:]
            case 2:
                text = text[:start] + chance.choice(SCRAPS) + text[stop:]
            case 3:
                lines = text.split("\n")
                one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
                lines[one], lines[other] = lines[other], lines[one]
                text = "\n".join(lines)
            case 4:
                words = text.split(" ")
                words[chance.randrange(len(words))] = chance.choice(words)
                text = " ".join(words)
    data = text.encode()
    if chance.random() < 0.1 and data:
        place = chance.randrange(len(data))
        data = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    return data


@pytest.mark.fuzz
@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_nasty_texts(text: str) -> None:
    answer(text.encode())


@pytest.mark.fuzz
@pytest.mark.parametrize("part", ["mutants", "scraps", "bytes"])
def test_accidents(part: str) -> None:
    seed = random.SystemRandom().randrange(2**32) if "FUZZ_SECONDS" in os.environ else 20251130
    chance = random.Random(seed)
    deadline = time.monotonic() + SECONDS / 3
    rounds = 0
    while time.monotonic() < deadline:
        if part == "mutants":
            data = mutated(chance.choice(SEEDS), chance)
        elif part == "scraps":
            data = "".join(chance.choice(SCRAPS) for _ in range(chance.randrange(30))).encode()
        else:
            data = chance.randbytes(chance.randrange(200))
        answer(data, *(["--mesh", "X=4,Y=2"] if chance.random() < 0.3 else []))
        rounds += 1
    assert rounds, f"seed {seed}"
