"""Options that several commands have, and what every command does before it starts."""

from __future__ import annotations

import click

from calculus.meshes import Mesh
from calculus.refusals import Refused
from grammar.meshes import parse_meshes
from grammar.render import excerpt
from verifier.commands.console import Misused


def _read_meshes(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[Mesh]:
    """The meshes that all the options name. A refusal becomes a usage error that shows where the text goes wrong."""
    meshes: list[Mesh] = []
    for text in texts:
        try:
            meshes += parse_meshes(text)
        except Refused as refused:
            refusal = refused.refusal
            shown = "\n".join(excerpt(text.replace("\n", " "), refusal.column))
            raise click.BadParameter(f"{refusal.message}\n{shown}\n  help: {refusal.help}", ctx, param) from refused
    return meshes


mesh_option = click.option(
    "--mesh",
    "meshes",
    callback=_read_meshes,
    multiple=True,
    metavar="X=4,Y=2",
    help="The mesh: axes with their sizes, major first; X=4:auto or X=4:manual for an axis that is not explicit. "
    "Repeat it for a program that uses several meshes.",
)
wrt_option = click.option(
    "--wrt",
    metavar="a,b",
    help="The inputs to differentiate, by their names in FILE; by default all floating ones. Of a function: arguments "
    "by number, or inputs by path, or what several paths begin with; by default the first argument.",
)
json_option = click.option("--json", "as_data", is_flag=True, help="Print JSON instead of text.")


def load_rules() -> None:
    """The declarations of the project at hand. One that cannot be used stops the command."""
    from verifier.rules_files import BadRules, load_rules

    try:
        load_rules()
    except BadRules as error:
        raise Misused(str(error)) from error
