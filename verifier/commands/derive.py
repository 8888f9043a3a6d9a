"""The commands that print a program derived from another: `shardproof grad`, `vjp`, `linearize`, `transpose`."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import click

from calculus.meshes import Mesh
from verifier.answers import derived, paragraphs
from verifier.commands.console import say
from verifier.commands.options import json_option, load_rules, mesh_option, wrt_option
from verifier.report import STATUS

if TYPE_CHECKING:
    from verifier.backward import Derive

_program = click.argument("program", metavar="FILE")


@click.command()
@_program
@mesh_option
@wrt_option
@json_option
@click.pass_context
def grad(ctx: click.Context, program: str, meshes: list[Mesh], wrt: str | None, as_data: bool) -> None:
    """Print the gradient of a program, and price both.

    The program has one result, a lone number. Its gradient is the program itself, then the backward pass, as
    jax.make_jaxpr(jax.grad(f)) would print it: every type and every collective of the backward pass follows from the
    types of the forward pass. It goes to standard output, the two reports to standard error, so that it can be checked,
    saved, or differentiated again:

    \b
    shardproof grad loss.jaxpr --mesh X=4
    shardproof grad loss.jaxpr --mesh X=4 --wrt a > grad.jaxpr
    shardproof grad loss.jaxpr --mesh X=4 | shardproof check -

    Or the FILE is package.module:factory, or PATH.py:factory, which returns (f, args). Then the inputs are named by
    argument and path, by default the first argument, and the reports stand at your lines:

    \b
    shardproof grad train:loss --wrt "params['layers']" > grad.jaxpr
    shardproof grad train:loss --wrt 0,1

    A weight that the forward pass reshards to reduced (free) has an unreduced gradient, summed over devices once, where
    the reshard is; without it every product that uses the weight sums its own. Lines of the reports are those of FILE.
    """
    from calculus.gradients import gradient

    _derived(ctx, program, meshes, wrt, as_data, gradient)


@click.command()
@_program
@mesh_option
@wrt_option
@json_option
@click.pass_context
def vjp(ctx: click.Context, program: str, meshes: list[Mesh], wrt: str | None, as_data: bool) -> None:
    """Print the vector-Jacobian product of a program.

    It computes the results of the program and, given their cotangents, those of its inputs. Its inputs are those of
    FILE, then a cotangent for each floating result; its results are those of FILE, then the cotangents of the inputs. A
    pending sum has a reduced cotangent, a reduced value an unreduced one. FILE may be package.module:factory, as for
    grad.

    \b
    shardproof vjp layer.jaxpr --mesh X=4
    shardproof vjp layer.jaxpr --mesh X=4 --wrt b > layer_vjp.jaxpr
    """
    from calculus.gradients import vjp as make

    _derived(ctx, program, meshes, wrt, as_data, make)


@click.command()
@_program
@mesh_option
@wrt_option
@click.option(
    "--part",
    type=click.Choice(["forward", "linear"]),
    help="Print one of the two alone: forward, whose results end with the residuals, or linear, whose inputs begin "
    "with them.",
)
@json_option
@click.pass_context
def linearize(
    ctx: click.Context, program: str, meshes: list[Mesh], wrt: str | None, part: str | None, as_data: bool
) -> None:
    """Print the forward and the linear half of a program.

    The one saves residuals, the other takes them, and tangents. Both stand as definitions before a program that calls
    them, one after the other: its inputs are those of FILE, then a tangent for each input that is named; its results
    are those of FILE, then a tangent for each floating one. What is saved between the two passes can be read off the
    call. A tangent has the type of its value. FILE may be package.module:factory, as for grad.

    \b
    shardproof linearize layer.jaxpr --mesh X=4
    shardproof linearize layer.jaxpr --mesh X=4 | shardproof check -
    shardproof linearize layer.jaxpr --mesh X=4 --wrt a --part linear > linear.jaxpr
    shardproof transpose linear.jaxpr --linear c     # c, the last input, is the tangent of a
    """
    from verifier.backward import forward_part, linear_part, linearized

    make = {None: linearized, "forward": forward_part, "linear": linear_part}[part]
    _derived(ctx, program, meshes, wrt, as_data, make)


@click.command()
@_program
@mesh_option
@click.option(
    "--linear",
    "--wrt",
    "wrt",
    metavar="a,b",
    help="The inputs in which the program is linear, taken together; by default all floating ones.",
)
@json_option
@click.pass_context
def transpose(ctx: click.Context, program: str, meshes: list[Mesh], wrt: str | None, as_data: bool) -> None:
    """Print the transpose of a linear program.

    It leads from cotangents of the results to those of the inputs. Its inputs are those of FILE in which FILE is not
    linear, then a cotangent for each result; its results are the cotangents of the inputs in which it is. FILE may be
    package.module:factory, as for grad; then the first argument is the one, where none is named.

    \b
    shardproof transpose layer.jaxpr --mesh X=4 --linear x
    shardproof transpose layer.jaxpr --mesh X=4 --linear x | shardproof transpose - --linear c

    A program that is not linear there is refused at the equation that is not: one whose derivative depends on the
    inputs (a product of two of them), or which is not zero where they are (a constant is added).
    """
    from calculus.linear_programs import transposed

    _derived(ctx, program, meshes, wrt, as_data, transposed)


def _derived(
    ctx: click.Context, program: str, meshes: list[Mesh], wrt: str | None, as_data: bool, make: Derive
) -> None:
    from verifier.backward import UnknownInput

    load_rules()
    try:
        found = derived(program, meshes, make, wrt)
    except UnknownInput as error:
        hint = "--linear" if ctx.command is transpose else "--wrt"
        raise click.BadParameter(str(error), ctx, param_hint=hint) from error
    if as_data:
        reports = [one.data() for one in found.reports]
        say([json.dumps({"program": found.program, "reports": reports}, indent=2)])
    else:
        if found.program:
            say([found.program])
        with contextlib.suppress(BrokenPipeError):
            for one in found.reports:
                click.echo("\n".join(paragraphs(one, found.text, spaced=False)), err=True)
    ctx.exit(max(STATUS[one.verdict] for one in found.reports))
