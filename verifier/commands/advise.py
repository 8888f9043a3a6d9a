"""`shardproof advise`."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from calculus.meshes import Mesh
from calculus.refusals import Refused
from calculus.types import ArrayType
from verifier.commands.console import Misused, say
from verifier.commands.options import json_option, load_rules, mesh_option, wrt_option

if TYPE_CHECKING:
    from verifier.advising.proposals import Proposal
    from verifier.advising.subjects import Subject
    from verifier.functions import FunctionReport


@click.command()
@click.argument("target", metavar="TARGET")
@mesh_option
@wrt_option
@click.option("--step", is_flag=True, help="Price the program as it stands, also where its result is one number.")
@click.option(
    "--microbatches",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="How many times a loss is run before its gradients, added up, are used.",
)
@click.option(
    "--axes", metavar="X,Y", help="The mesh axes along which to change anything; by default all explicit ones."
)
@click.option("--any-jax", is_flag=True, help="Propose what is sound, whether the installed JAX takes it or not.")
@click.option("--confirm", is_flag=True, help="Compile both programs with XLA for CPU devices, and count.")
@click.option("--program", is_flag=True, help="Print the proposed program alone.")
@json_option
@click.pass_context
def advise(
    ctx: click.Context, target: str, meshes: list[Mesh], wrt: str | None, step: bool, microbatches: int,
    axes: str | None, any_jax: bool, confirm: bool, program: bool, as_data: bool,
) -> None:  # fmt: skip
    """Find types for a program's values at which it communicates less.

    TARGET is a file with a printed program, - for standard input, or package.module:factory, which returns (f, args).
    Where its result is one floating number it is taken as a loss: the backward pass is derived, and priced with it.
    Else it is taken as a whole step, whose own equations are all there is. Give the loss where you can: of a step that
    has its gradient in it, what is a gradient of what is guessed.

    \b
    shardproof advise step.jaxpr --mesh X=8
    shardproof advise train:loss --microbatches 16
    shardproof advise train:loss --wrt params --axes data --confirm
    shardproof advise loss.jaxpr --mesh X=8 --program > cheaper.jaxpr

    Along one axis after the other, each value may be replicated, reduced (so that its cotangent stays a pending sum),
    unreduced, or cut; each equation is asked which of these it takes, and what it and its transpose then communicate.
    A solver picks the cheapest (pip install 'shardproof[advice]', if you have no JAX). The types of inputs and results
    are kept, or the cast is charged; what is cut stays cut, so that no device holds or computes more.

    The answer is, first, a PartitionSpec for each input that is to be used as something else; then what an accumulator
    begins as; then casts and targets, on your own lines. Nothing that the solver says is believed: the proposed program
    is typed and priced again; it is run beside the old one by the reference executor, where it is small enough; and the
    installed JAX must take it, forward and backward. What is sound and JAX does not take is listed.

    Exit status: 0 something cheaper was found, or nothing is; 1 the program is refused, or a check of the proposal
    failed; 2 malformed or misused.
    """
    from verifier.advising.advice import WithoutPrice
    from verifier.advising.network import TooLarge
    from verifier.advising.solving import NoSolver
    from verifier.progress import sign_of_life

    load_rules()
    subject = _subject(ctx, target, meshes, wrt, step, microbatches)
    with sign_of_life(f"advising on {target}") as show:
        try:
            found = _proposal(
                subject, _named(ctx, subject, axes), any_jax, confirm, lambda what: show(f"{target}: {what}")
            )
        except WithoutPrice as error:
            sizes = ",".join(f"{axis.name}=…" for axis in subject.meshes[0].axes)
            raise click.UsageError(f"{error}: give --mesh {sizes}") from error
        except NoSolver as error:
            raise Misused(f"this needs a solver: pip install 'shardproof[advice]' ({error})") from error
        except TooLarge as error:
            raise Misused(str(error)) from error
        except Refused as refused:
            say([f"{target}: in the backward pass: {refused.refusal.message}", "  help: --step, or --wrt other inputs"])
            ctx.exit(1)
    if program:
        from grammar.print import print_document

        say([print_document(found.advice.document)])
    else:
        say([json.dumps(found.data(), indent=2)] if as_data else found.lines())
    ctx.exit(int(found.checks.failed))


def _named(ctx: click.Context, subject: Subject, axes: str | None) -> list[str]:
    names = [name.strip() for name in axes.split(",")] if axes else []
    unknown = [name for name in names if name not in subject.meshes[0]]
    if unknown:
        raise click.BadParameter(f"the mesh ({subject.meshes[0]}) has no axis {unknown[0]}", ctx, param_hint="--axes")
    return names


def _subject(
    ctx: click.Context, target: str, meshes: list[Mesh], wrt: str | None, step: bool, microbatches: int
) -> Subject:  # fmt: skip
    from verifier.advising.subjects import of_function, of_text
    from verifier.answers import file_report, function_report, paragraphs
    from verifier.backward import UnknownInput
    from verifier.factories import is_target
    from verifier.functions import FunctionReport
    from verifier.report import STATUS

    report, text = function_report(target, meshes) if is_target(target) else file_report(target, meshes)
    if report.verdict != "ok":
        say(paragraphs(report, text, spaced=False))
        ctx.exit(STATUS[report.verdict])
    names = None if wrt is None else [name.strip() for name in wrt.split(",")]
    try:
        if isinstance(report, FunctionReport):
            asked = None if names is None else [int(name) if name.isdecimal() else name for name in names]
            mesh = str(meshes[0]) if meshes else None
            return of_function(target, report, asked, step, microbatches, lambda types: _again(target, mesh, types))
        return of_text(target, text, meshes, names, step, microbatches)
    except UnknownInput as error:
        raise click.BadParameter(str(error), ctx, param_hint="--wrt") from error


def _again(target: str, mesh: str | None, types: Mapping[str, ArrayType]) -> FunctionReport:
    """The report on the author's function at other types of its inputs."""
    from verifier.factories import made_by
    from verifier.functions import check
    from verifier.with_jax.advising import placed_as

    function, args, kwargs = made_by(target)
    args, kwargs = placed_as(function, args, kwargs, types)
    return check(function, *args, mesh=mesh, **kwargs)


def _proposal(subject: Subject, axes: list[str], any_jax: bool, confirm: bool, show: object) -> Proposal:
    from verifier.advising.making import propose

    have = importlib.util.find_spec("jax") is not None
    if confirm and not have:
        raise Misused("--confirm needs JAX: pip install 'shardproof[jax]'")
    return propose(subject, axes, have and not any_jax, confirm, show)  # type: ignore[arg-type]
