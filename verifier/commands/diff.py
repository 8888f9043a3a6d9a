"""`shardproof diff`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from calculus.meshes import Mesh
from calculus.refusals import Refused
from verifier.commands.console import Misused, say
from verifier.commands.options import json_option, load_rules, mesh_option

if TYPE_CHECKING:
    from verifier.differing.sides import Side


@click.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@mesh_option
@click.option("--backward", is_flag=True, help="Compare the gradients of both (the vjps, where a result is no number).")
@click.option(
    "--values", "tried", is_flag=False, flag_value=24, default=None, type=click.IntRange(1, 10_000), metavar="[N]",
    help="Run both whole on N inputs (24), and compare results and gradients: the smallest counterexample is shown.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="The seed of those inputs.")
@json_option
@click.pass_context
def diff(
    ctx: click.Context, old: str, new: str, meshes: list[Mesh], backward: bool, tried: int | None, seed: int,
    as_data: bool,
) -> None:  # fmt: skip
    """Compare two programs: which types changed, and which communication appeared or went.

    OLD and NEW are files with printed programs, or package.module:factory, or PATH.py:factory, which return (f, args).
    It is made for a pull request, and for an update of JAX: print the program before and after.

    \b
    shardproof diff before.jaxpr after.jaxpr --mesh data=8,model=2
    shardproof diff old/train.py:step new/train.py:step
    shardproof diff loss-0.10.jaxpr loss-0.12.jaxpr --mesh X=4 --backward

    Equations are aligned by structure: those that stand in one order in both, compute by the same primitive, and have
    results of the same shapes. Of those whose types differ, the ones whose operands did not change are shown: there it
    begins. Lines are those of each program.

    A training step's results go into its next call. One that cannot be cast back to the type of the parameter that it
    replaces for free is pointed out, with what the cast costs.

    With --values both are run whole, without a mesh, on inputs of ones, of zeros and ones, of one element, of the same
    on every device, of small integers, and drawn; where a result or a gradient differs, a small input is searched on
    which it does. Nothing is proved of inputs that were not tried.

    \b
    shardproof diff train.py:global_mean train.py:mean_of_means --values

    Exit status: 0 the same types and communication (with --values: the same values), 1 something changed, or one of the
    two is refused, 2 malformed or misused.
    """
    from verifier.differing.comparison import compare
    from verifier.progress import sign_of_life

    load_rules()
    if old == new == "-":
        raise click.UsageError("standard input (-) can be read once only")
    sides = [_side(ctx, name, meshes, backward) for name in (old, new)]
    with sign_of_life(f"comparing {old} and {new}"):
        found = compare(*sides)
        values = None
        if tried is not None:
            from verifier.differing.values import compare_values

            values = compare_values(sides[0], sides[1], tried, seed)
    if as_data:
        say([json.dumps(found.data() | ({} if values is None else {"values": values.data()}), indent=2)])
    else:
        say([*found.lines(), *(() if values is None else values.lines(old, new))])
    ctx.exit(0 if (found.equal if values is None else values.equal) else 1)


def _side(ctx: click.Context, name: str, meshes: list[Mesh], backward: bool) -> Side:
    from verifier.answers import file_report, function_report, paragraphs
    from verifier.backward import UnknownInput
    from verifier.differing.sides import of_function, of_text
    from verifier.factories import is_target
    from verifier.functions import FunctionReport
    from verifier.report import STATUS

    report, text = function_report(name, meshes) if is_target(name) else file_report(name, meshes)
    if report.verdict != "ok":
        say(paragraphs(report, text, spaced=False))
        ctx.exit(STATUS[report.verdict])
    try:
        if isinstance(report, FunctionReport):
            return of_function(name, report, backward)
        return of_text(name, text, meshes, backward)
    except Refused as refused:
        raise Misused(f"{name} has no gradient: {refused.refusal.message}") from refused
    except UnknownInput as error:
        raise Misused(f"{name}: {error}") from error
