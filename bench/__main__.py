"""`make bench`: microseconds per equation from text to checked program, beside JAX's own checker, and from program to
gradient, beside JAX's tracing of `jax.grad`, in one run.

Exits 0 if the claims held in this run, 1 if one did not, 2 if the command is misused.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from bench.examples import Inferred, inferred
from bench.measure import ROOT, apart, child, in_turn, load, ratios, spread, visited
from calculus.meshes import Axis, Mesh

GOLDEN: Final = ROOT / "tests" / "golden" / "corpus"
SEED: Final = ROOT / "examples" / "seeds" / "seed_microbatch.jaxpr"

PROGRAMS: Final = (
    "llama_dp_grad_unroll2",
    "llama_dp_grad_unroll8",
    "llama_dp_grad_unroll32",
    "llama_dp_grad_scan8",
    "llama_dpr_grad_unroll8",
    "llama_fsdp_grad_unroll8",
    "llama_tp_grad_unroll8",
)

CLAIMED: Final = "llama_dp_grad_unroll8"
TIMES_FASTER: Final = 8.0
CLAIMED_OF_OBJECTS: Final = ("llama_dp_grad_unroll8", "llama_dp_grad_unroll32")
OBJECTS_TIMES_FASTER: Final = 15.0
EXPLAINED: Final = "llama_dp_grad_unroll32"
INFERRED: Final = 0.99  # of the equations of the examples
START: Final = 0.6  # CPU seconds of `shardproof check` on a seed file

CHECKED: Final = "text to checked program"
REPORTED: Final = "text to priced report"
OBJECTS: Final = "objects to checked program"
FIRST: Final = "the same, nothing remembered"
FAST: Final = "fast reader alone"
LARK: Final = "lark reader alone"
JAX: Final = "jax._src.core.check_jaxpr"

#: what a process does once, before its first program, in this order
ONCE: Final = {
    "import shardproof's check": "import verifier.texts",
    "build its table of forms": "from calculus import forms",
    f"check {CLAIMED}, its first program": "from calculus.meshes import Axis, Mesh; "
    f"text = open('{(GOLDEN / CLAIMED).relative_to(ROOT).as_posix()}.jaxpr', encoding='utf-8').read(); "
    "verifier.texts.check_text(text, [Mesh([Axis('data', 4), Axis('model', 2)])], '')",
    "import lark": "import lark",
    "build the lark grammars": "from grammar import parse; parse._program_language(); parse._value_language(); "
    "parse._type_language()",
    "import jax": "import jax",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, report, and say whether the claims held."""
    asked = _asked(arguments)
    load()
    results = [_measured(name, asked.rounds) for name in asked.programs]
    from bench import explaining, gradients

    asked.gradients = gradients.PROGRAMS if asked.gradients is None else asked.gradients
    derived = [gradients.measured(name, asked.rounds) for name in asked.gradients]
    explained = explaining.measured(asked.explained, asked.rounds)
    examples = inferred()
    start = spread([child("-m", "verifier", "check", str(SEED)) for _ in range(5)])
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "jax": _jax_version(),
        "once": apart(ONCE, 3),
        "process": {"file": SEED.relative_to(ROOT).as_posix(), **start, "python alone": child("-c", "pass")},
        "programs": results,
        "gradients": derived,
        "explained": explained,
        "examples": [{**example._asdict(), "share": example.share} for example in examples],
        "claims": [
            *_claims(results, start["median"], examples),
            *gradients.claims(derived),
            explaining.claim(explained),
        ],
    }
    if asked.json:
        print(json.dumps(report, indent=2))
    else:
        _show(report)
    return 0 if all(claim["held"] for claim in report["claims"]) else 1


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"by default {', '.join(PROGRAMS)}")
    parser.add_argument(
        "--gradients", action="append", metavar="PROGRAM", help="differentiate the loss of this program"
    )
    parser.add_argument(
        "--explained", default=EXPLAINED, metavar="PROGRAM", help=f"explain the loss of this program ({EXPLAINED})"
    )
    parser.add_argument("--rounds", type=int, default=7, help="how often each contestant runs (7)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    asked = parser.parse_args(arguments)
    asked.programs = asked.programs or list(PROGRAMS)
    if asked.rounds < 1:
        parser.error("--rounds is at least 1")
    try:
        from bench.programs import Llama
    except ImportError as error:
        parser.error(f"{error}: install the extra, pip install -e '.[jax]'")
    for name in (*asked.programs, *(asked.gradients or ()), asked.explained):
        try:
            Llama.named(name)
        except ValueError as error:
            parser.error(str(error))
    return asked


def _jax_version() -> str:
    import jax

    return str(jax.__version__)


def _measured(name: str, rounds: int) -> dict[str, Any]:
    """All contestants on one program: the text that JAX prints for the very program that JAX checks."""
    from jax._src import core

    from bench.programs import AXES, Llama
    from calculus.checking import Checker
    from grammar.fast import read_fast
    from grammar.parse import parse_document
    from grammar.read import read
    from verifier.texts import check_text
    from verifier.with_jax.objects import check_objects

    jaxpr = Llama.named(name).trace()
    text = f"{jaxpr}\n"
    mesh = Mesh(Axis(axis, size) for axis, size in AXES.items())
    report = check_text(text, [mesh], name)
    if report.verdict != "ok" or read_fast(text) != parse_document(text):
        raise SystemExit(f"{name}: the verdict is {report.verdict}, or the two readers differ: {report.refusals[:3]}")
    contestants: dict[str, Callable[[], object]] = {
        CHECKED: lambda: Checker([mesh]).check(read(text).program),
        REPORTED: lambda: check_text(text, [mesh], name),
        OBJECTS: lambda: check_objects(jaxpr, [mesh]),
        FIRST: lambda: check_objects(jaxpr, [mesh]),
        FAST: lambda: read_fast(text),
        LARK: lambda: parse_document(text),
        JAX: lambda: core.check_jaxpr(jaxpr),
    }
    runs = in_turn(contestants, rounds, {OBJECTS, JAX})
    equations = report.equations
    return {
        "program": name,
        "bytes": len(text),
        "golden": _golden(name, text),
        "equations": equations,
        "walked by check_jaxpr": visited(jaxpr, inside=False),
        "counted at every use": visited(jaxpr, inside=True),
        "collectives": len(report.communication),
        "rounds": rounds,
        "microseconds per equation": {
            who: {key: seconds * 1e6 / equations for key, seconds in spread(times).items()}
            for who, times in runs.items()
        },
        "check_jaxpr takes so many times as long": {who: ratios(runs, JAX, who) for who in contestants if who != JAX},
    }


def _golden(name: str, text: str) -> str:
    """Whether this is the program that the tests read."""
    path = GOLDEN / f"{name}.jaxpr"
    if not path.is_file():
        return "not in the corpus"
    return "the corpus, byte for byte" if path.read_text(encoding="utf-8") == text else "differs from the corpus"


def _claims(results: Sequence[dict[str, Any]], start: float, examples: Sequence[Inferred]) -> list[dict[str, Any]]:
    claims = []
    for result in results:
        if result["program"] == CLAIMED:
            found = result["check_jaxpr takes so many times as long"][CHECKED]["median"]
            claims.append({
                "claim": f"from text to checked, {CLAIMED} takes at most 1/{TIMES_FASTER:g} of check_jaxpr's time",
                "found": f"1/{found:.1f}",
                "held": found >= TIMES_FASTER,
            })  # fmt: skip
        if result["program"] in CLAIMED_OF_OBJECTS:
            found = result["check_jaxpr takes so many times as long"][OBJECTS]["median"]
            claims.append({
                "claim": f"from objects to checked, {result['program']} takes at most 1/{OBJECTS_TIMES_FASTER:g} of "
                "check_jaxpr's time",
                "found": f"1/{found:.1f}",
                "held": found >= OBJECTS_TIMES_FASTER,
            })  # fmt: skip
    least = min(examples, key=lambda example: example.share)
    claims.append(
        {
            "claim": f"of the equations of each example at least {INFERRED:.0%} are inferred, not assumed",
            "found": f"{least.share:.2%} of {least.name}",
            "held": least.share >= INFERRED,
        }
    )
    claims.append({
        "claim": f"`shardproof check` on a seed file takes under {START:g} s of CPU, the start of Python included",
        "found": f"{start:.2f} s",
        "held": start < START,
    })  # fmt: skip
    return claims


def _show(report: dict[str, Any]) -> None:
    print(f"Python {report['python']}, JAX {report['jax']}. CPU time of one process, medians; contestants in turn,")
    print("each right after a run of its own that does not count, the garbage collector off for all. In between,")
    print(f"everything is forgotten, except in two rows: `{JAX}`, whose caches are JAX's own, and")
    print(f"`{OBJECTS}`, which remembers judgments from one check to the next likewise.")
    _table(
        "once in a process",
        ("", "ms"),
        [(step, f"{seconds * 1e3:.0f}") for step, seconds in report["once"].items()],
    )
    for result in report["programs"]:
        _show_program(result)
    for result in report["gradients"]:
        _show_gradient(result)
    explained = report["explained"]
    _table(
        f"the loss of {explained['program']} explained, from objects: {explained['rows']} rows",
        ("", "ms", "least to most"),
        [
            (who, f"{spent['median'] * 1e3:.0f}", f"{spent['min'] * 1e3:.0f} to {spent['max'] * 1e3:.0f}")
            for who, spent in explained["seconds"].items()
        ],
    )
    _table(
        "examples: equations, bodies once each; what is not assumed or unmodelled is inferred",
        ("", "equations", "assumed", "unmodelled", "inferred"),
        [
            (one["name"], str(one["equations"]), str(one["assumed"]), str(one["unmodelled"]), f"{one['share']:.2%}")
            for one in report["examples"]
        ],
    )
    process = report["process"]
    print(
        f"\n`shardproof check {process['file']}`, the whole process: {process['median']:.2f} s of CPU "
        f"({process['min']:.2f} to {process['max']:.2f}; Python alone {process['python alone']:.2f})"
    )
    print()
    for claim in report["claims"]:
        print(f"{'held    ' if claim['held'] else 'NOT HELD'}  {claim['claim']}: {claim['found']}")


def _show_program(result: dict[str, Any]) -> None:
    faster = result["check_jaxpr takes so many times as long"]
    rows = []
    for who, spent in result["microseconds per equation"].items():
        times = faster.get(who)
        rows.append((
            who,
            f"{spent['median']:.1f}",
            f"{spent['min']:.1f} to {spent['max']:.1f}",
            f"{times['median']:.1f}" if times else "1",
            f"{times['min']:.1f} to {times['max']:.1f}" if times else "",
        ))  # fmt: skip
    title = (
        f"{result['program']}: {result['equations']} equations ({result['golden']}); check_jaxpr walks "
        f"{result['walked by check_jaxpr']} of {result['counted at every use']}, counted at every use"
    )
    _table(title, ("", "us per equation", "least to most", "check_jaxpr / it", "least to most"), rows)


def _show_gradient(result: dict[str, Any]) -> None:
    faster = result["times faster"]
    rows = [
        (
            who,
            str(result["equations"][who]),
            f"{spent['median']:.1f}",
            f"{spent['min']:.1f} to {spent['max']:.1f}",
            *(f"{jaxs[who]['median']:.1f}" if who in jaxs else "" for jaxs in faster.values()),
        )
        for who, spent in result["microseconds per equation"].items()
    ]
    title = f"the gradient of the loss of {result['program']}, of {result['forward equations']} equations"
    heads = ("", "equations", "us per equation", "least to most", "the program's / it", "the function's / it")
    _table(title, heads, rows)


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: of lines on a terminal, of columns elsewhere."""
    rows = list(rows)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*heads[:1], title=title, title_justify="left", highlight=True)
        for head in heads[1:]:
            table.add_column(head, justify="right")
        for row in rows:
            table.add_row(*row)
        print()
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    print(f"\n{title}")
    for row in (heads, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())
