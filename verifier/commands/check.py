"""`shardproof check`."""

from __future__ import annotations

import json

import click

from calculus.meshes import Mesh
from verifier.answers import backward_report, detailed, file_report, function_report, paragraphs, totals
from verifier.commands.console import say
from verifier.commands.options import json_option, load_rules, mesh_option
from verifier.factories import is_target
from verifier.report import STATUS, Report, as_json


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@mesh_option
@click.option("--backward", is_flag=True, help="Check and price the backward pass of each program as well.")
@json_option
@click.pass_context
def check(ctx: click.Context, files: tuple[str, ...], meshes: list[Mesh], backward: bool, as_data: bool) -> None:
    """Check every equation of printed jaxprs, or of functions, and list what communicates.

    A FILE holds one program as JAX prints it; - is standard input; package.module:factory, or PATH.py:factory, calls
    that factory, which returns (f, args), and checks f (this needs JAX). The text of a program does not say how large
    its mesh is: give --mesh, or write it into the file's first line, as in `# mesh: X=4, Y=2`. Inside a shard_map the
    program says it.

    \b
    shardproof check step.jaxpr --mesh X=4,Y=2
    shardproof check examples/seeds/*.jaxpr
    shardproof check loss.jaxpr --backward --mesh X=4
    shardproof check examples.nnx_mlp:data_parallel
    shardproof check train:loss --backward
    python -c 'import step' | shardproof check - --mesh data=8,model=2:auto --json

    Bytes are payload per device, each time and in all; wire is what a device sends on a ring, in all. Times is a
    product of loop lengths, ? where it depends on the data. A column that would say nothing (once, exact, inside no
    loop or call) is left out of the table, not of --json. What a function communicates stands under your lines.

    With --backward a second report follows each well-typed program: that of the program which computes it and the
    cotangents of all its floating inputs (of a function, of its first argument), forward and backward pass together.
    Its lines are those of the FILE: a collective of the backward pass stands at the equation whose transpose
    communicates.

    Kernels that nobody has described are assumed to have the types that are printed. To have yours judged, declare them
    in files that pyproject.toml names: [tool.shardproof] rules = ["kernels.py"].
    """
    if files.count("-") > 1:
        raise click.UsageError("standard input (-) can be read once only")
    reports: list[Report] = []
    load_rules()
    for file in files:
        report, text = function_report(file, meshes) if is_target(file) else file_report(file, meshes)
        reports.append(report)
        if not as_data:
            say(paragraphs(report, text, spaced=len(reports) > 1 and any(map(detailed, reports[-2:]))))
        if backward and report.verdict == "ok":
            reports.append(backward_report(report, text, meshes))
            if not as_data:
                say(paragraphs(reports[-1], text, spaced=any(map(detailed, reports[-2:]))))
    if as_data:
        say([json.dumps([as_json(report) for report in reports], indent=2)])
    elif len(files) > 1:
        say(["", totals(reports, "report" if backward else "file")])
    ctx.exit(max(STATUS[report.verdict] for report in reports))
