"""`shardproof run`."""

from __future__ import annotations

import json
from typing import Any

import click

from calculus.meshes import Mesh
from verifier.answers import file_report, function_report, paragraphs
from verifier.commands.console import say
from verifier.commands.options import json_option, load_rules, mesh_option
from verifier.factories import is_target


def _read_values(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """The values of inputs, by name."""
    found = {}
    for text in texts:
        name, _, values = text.partition("=")
        try:
            found[name.strip()] = json.loads(values)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is no NAME=VALUES, as in a=[[0,1],[2,3]]", ctx, param) from error
    return found


@click.command()
@click.argument("file", metavar="FILE")
@mesh_option
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="The seed that inputs are drawn with.",
)
@click.option(
    "--set", "given", callback=_read_values, multiple=True, metavar="a=[[0,1],[2,3]]",
    help="The values of an input, by its name in FILE or its path in a function; a lone number fills it.",
)  # fmt: skip
@json_option
@click.pass_context
def run(ctx: click.Context, file: str, meshes: list[Mesh], seed: int, given: dict[str, Any], as_data: bool) -> None:
    """Run a printed program, or a function, whole and on modelled devices, and compare.

    A FILE holds one program as JAX prints it; - is standard input; package.module:factory, or PATH.py:factory, calls
    that factory, which returns (f, args), and runs f on values that are drawn (this needs JAX, to trace it). Nothing
    else is needed: a device is modelled as one numpy block of every value, which its type says. It computes from its
    own blocks; only the collectives that the check derived read those of others, and every byte that they move is
    counted. So this says of one program, on one set of inputs, whether its types are true:

    \b
    - the value that the devices hold together is that of the program run whole
    - copies that a type claims agree, device by device
    - the collectives that run are those that are derived: kind, axes, bytes, how often

    \b
    shardproof run loss.jaxpr --mesh X=2
    shardproof run sum.jaxpr --mesh X=2 --set 'a=[[0,1],[2,3]]'
    shardproof run step.jaxpr --seed 7 --json
    shardproof run my.train:loss --mesh X=2

    What is pending in an input is split at random, with both signs. Of small arrays every device's block is shown. Sums
    taken in another order round otherwise, so floats may differ by their roundoff times the terms that were added;
    integers and truth values may not. Exit status 0 where all agree, 1 where something differs, is refused or cannot be
    run, 2 where the text is malformed.
    """
    from verifier.execution.texts import BadInput, Ran, ran_as_json, run_function, run_text, told
    from verifier.functions import FunctionReport

    load_rules()
    report, text = function_report(file, meshes) if is_target(file) else file_report(file, meshes)
    try:
        if report.verdict != "ok":
            ran = Ran(report, None)
        elif isinstance(report, FunctionReport):
            ran = run_function(report, seed, given)
        else:
            ran = run_text(text, meshes, file, seed, given)
    except BadInput as error:
        raise click.BadParameter(str(error), ctx, param_hint="--set") from error
    if as_data:
        say([json.dumps(ran_as_json(ran, seed), indent=2)])
    elif ran.outcome is None:
        say(paragraphs(report, text, spaced=False))
    else:
        say(told(ran, text, seed))
    ctx.exit(ran.status)
