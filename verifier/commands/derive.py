"""The commands that print what is derived from a program: `shardproof grad`, `vjp`."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import click

from calculus.meshes import Mesh
from verifier.answers import file_report, paragraphs
from verifier.commands.console import say
from verifier.commands.options import json_option, load_rules, mesh_option, wrt_option
from verifier.factories import is_target
from verifier.report import STATUS, Derived, as_json


@click.command()
@click.argument("file", metavar="FILE")
@mesh_option
@wrt_option
@json_option
@click.pass_context
def grad(ctx: click.Context, file: str, meshes: list[Mesh], wrt: str | None, as_data: bool) -> None:
    """Print the gradient of a printed program, and what it communicates beside the program.

    The program has one result, a lone number. Its gradient is the program itself, then the backward pass, as
    jax.make_jaxpr(jax.grad(f)) would print it: every type and every collective of the backward pass follows from the
    types of the forward pass. It goes to standard output, the two reports to standard error, so that it can be checked,
    saved, or differentiated again:

    \b
    shardproof grad loss.jaxpr --mesh X=4
    shardproof grad loss.jaxpr --mesh X=4 --wrt a > grad.jaxpr
    shardproof grad loss.jaxpr --mesh X=4 | shardproof check -

    A weight that the forward pass reshards to reduced (free) has an unreduced gradient, summed over devices once, where
    the reshard is; without it every product that uses the weight sums its own. Lines of the reports are those of FILE.
    """
    from calculus.gradients import gradient

    _derived(ctx, file, meshes, wrt, as_data, gradient, "gradient")


@click.command()
@click.argument("file", metavar="FILE")
@mesh_option
@wrt_option
@json_option
@click.pass_context
def vjp(ctx: click.Context, file: str, meshes: list[Mesh], wrt: str | None, as_data: bool) -> None:
    """Print the program that computes a program's results and, given their cotangents, those of its inputs.

    Its inputs are those of FILE, then a cotangent for each floating result; its results are those of FILE, then the
    cotangents of the inputs. A pending sum has a reduced cotangent, a reduced value an unreduced one.

    \b
    shardproof vjp layer.jaxpr --mesh X=4
    shardproof vjp layer.jaxpr --mesh X=4 --wrt b > layer_vjp.jaxpr
    """
    from calculus.gradients import vjp as make

    _derived(ctx, file, meshes, wrt, as_data, make, "vjp")


def _derived(
    ctx: click.Context, file: str, meshes: list[Mesh], wrt: str | None, as_data: bool, make: Any, what: str
) -> None:
    from verifier.backward import UnknownInput, derive

    if is_target(file):
        raise click.UsageError(f"{what} reads printed programs: print make_jaxpr of the function into a file")
    load_rules()
    report, text = file_report(file, meshes)
    found = None
    if report.verdict == "ok":
        names = None if wrt is None else [name.strip() for name in wrt.split(",")]
        try:
            found = derive(text, meshes, file, make, names)
        except UnknownInput as error:
            raise click.BadParameter(str(error), ctx, param_hint="--wrt") from error
    reports = [report] if found is None or found.backward is None else [report, Derived(found.backward, what)]
    if as_data:
        say(
            [
                json.dumps(
                    {"program": found.text if found else "", "reports": [as_json(one) for one in reports]}, indent=2
                )
            ]
        )
    else:
        if found is not None and found.text:
            say([found.text])
        with contextlib.suppress(BrokenPipeError):
            for one in reports:
                click.echo("\n".join(paragraphs(one, text, spaced=False)), err=True)
    ctx.exit(max(STATUS[one.verdict] for one in reports))
