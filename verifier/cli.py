"""The command `shardproof`: the list of its commands.

Each reads its arguments, calls, prints, and exits 0 (well typed), 1 (refused) or 2 (malformed or misused). What is slow
is imported where it is used.
"""

from __future__ import annotations

import sys

import click

from verifier import __version__
from verifier.commands.advise import advise
from verifier.commands.agree import agree
from verifier.commands.audit import audit
from verifier.commands.check import check
from verifier.commands.console import Commands
from verifier.commands.derive import grad, linearize, transpose, vjp
from verifier.commands.diff import diff
from verifier.commands.explain import explain
from verifier.commands.prove import prove
from verifier.commands.run import run
from verifier.commands.type import type_


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="shardproof")
def main() -> None:
    """Type-check and price the explicitly sharded programs that JAX prints.

    \b
    Save a program:      print(jax.make_jaxpr(jax.grad(loss))(w, x))
    Check it:            shardproof check step.jaxpr --mesh X=4,Y=2
    Where it communicates, and why:   shardproof explain loss.jaxpr --mesh X=4,Y=2
    Its backward pass:   shardproof grad loss.jaxpr --mesh X=4,Y=2
    Run it on devices:   shardproof run loss.jaxpr --mesh X=4,Y=2
    Look at one type:    shardproof type 'f32[8@X,4]{U:Y}' --mesh X=4,Y=2

    \b
    Exit status: 0  everything is well typed
                 1  something is refused
                 2  something is malformed, or the command is misused
               130  interrupted
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


for command in (check, explain, advise, diff, grad, vjp, linearize, transpose, run, type_, prove, agree, audit):
    main.add_command(command)
