"""`shardproof type`."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import NoReturn

import click

from calculus.meshes import Mesh
from calculus.refusals import Refusal, Refused
from grammar.render import render
from verifier.commands.console import say
from verifier.commands.options import json_option, mesh_option
from verifier.report import STATUS, refusal_as_json, verdict_on


@click.command("type")
@click.argument("texts", metavar="TYPE...", nargs=-1, required=True)
@click.option(
    "--cotangent", is_flag=True, help="Show only cotangent types: of several types, or of a signature T... -> T..."
)
@mesh_option
@json_option
@click.pass_context
def type_(ctx: click.Context, texts: tuple[str, ...], cotangent: bool, meshes: list[Mesh], as_data: bool) -> None:
    """Show what a type means on a mesh: its cotangent type, every device's block, and who holds what.

    Quote the TYPE, the shell knows braces too; f32[8@X,4]<U:Y> is the same type as f32[8@X,4]{U:Y}.

    \b
    shardproof type 'f32[8@X,4@Y]' --mesh X=4,Y=2
    shardproof type 'bf16[16@(X,Y),128]' --mesh X=4,Y=2
    shardproof type 'f32[4]{V:X}' --mesh X=4:manual

    With --cotangent, the types of the gradients of a signature, without a program: each input and result with its
    cotangent, and what becomes of its state along each mesh axis. Reduced and unreduced change places; all else stays.
    A mesh is not needed; what is given is checked.

    \b
    shardproof type --cotangent 'f32[8@X,4] f32[4]{R:X} -> f32[8@X]'
    shardproof type --cotangent 'f32[4]{R:X}' 'f32[4]{U:Y}' --json
    """
    if len(meshes) > 1:
        raise click.UsageError("a type lives on one mesh: give --mesh once")
    if cotangent:
        _cotangents(" ".join(texts), meshes[0] if meshes else None, as_data)
    elif len(texts) > 1:
        raise click.UsageError("one type at a time, in quotes; for the cotangents of several, add --cotangent")
    else:
        _described(texts[0], meshes[0] if meshes else Mesh(()), as_data)
    ctx.exit(0)


def _cotangents(text: str, mesh: Mesh | None, as_data: bool) -> None:
    from verifier.explain_cotangents import lines, read_signature, signature_as_json

    try:
        signature, on = read_signature(text, mesh)
    except Refused as refused:
        _stop(refused.refusal, text, mesh or Mesh(()), as_data)
    say([json.dumps(signature_as_json(signature, on, text), indent=2)] if as_data else lines(signature, on))


def _described(text: str, mesh: Mesh, as_data: bool) -> None:
    from calculus.wellformed import well_formed
    from grammar.read import read_type
    from verifier.explain_type import described, type_as_json

    try:
        read = read_type(text)
        well_formed(read, mesh)
    except Refused as refused:
        _stop(refused.refusal, text, mesh, as_data)
    if as_data:
        say([json.dumps(type_as_json(read, mesh), indent=2)])
    else:
        say(described(read, mesh))


def _stop(refusal: Refusal, text: str, mesh: Mesh, as_data: bool) -> NoReturn:
    """Show one refusal of a type, as data or on standard error, and exit with the status of its verdict."""
    from grammar.source import inside_type

    refusal.line, refusal.column = refusal.line or 1, refusal.column or inside_type(text, refusal.place) + 1
    verdict = verdict_on([refusal])
    if as_data:
        found = {"type": text, "mesh": str(mesh), "verdict": verdict, "refusals": [refusal_as_json(refusal)]}
        say([json.dumps(found, indent=2)])
    else:
        with contextlib.suppress(BrokenPipeError):
            click.echo(render([refusal], text, "<type>"), err=True)
    sys.exit(STATUS[verdict])
