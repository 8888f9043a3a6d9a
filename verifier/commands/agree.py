"""`shardproof agree`."""

from __future__ import annotations

import json

import click

from verifier.commands.console import Misused, say
from verifier.commands.options import json_option


@click.command()
@click.option("--matrix", is_flag=True, help="Compare every primitive at every combination of operand states.")
@click.option(
    "--primitive", "primitives", multiple=True, metavar="NAME", help="Only this primitive. Repeat it for several."
)
@json_option
@click.pass_context
def agree(ctx: click.Context, matrix: bool, primitives: tuple[str, ...], as_data: bool) -> None:
    """Compare our verdicts with those of the installed JAX. This needs JAX, no devices, and some minutes.

    \b
    shardproof agree --matrix
    shardproof agree --matrix --primitive dot_general --primitive select_n
    shardproof agree --matrix --json

    --matrix takes a sample call of each primitive and gives its operands every state (sharded on each dim, replicated,
    reduced, unreduced of each kind; in manual mode varying) along one mesh axis and along two, explicit, manual and one
    of each, and its result every target. Each cell is typed by us and by JAX's abstract evaluation. Along one axis all
    cells are compared; along two, where a call has too many, a fixed sample of them is taken.

    Where the two differ, an entry of the ledger of differences says which is right, and why: verifier/differences.toml,
    or proofs/differences.md for reading. A cell that differs and belongs to no entry is unexplained: one of the two is
    wrong. An entry that covers no cell is out of date: JAX has repaired it.

    \b
    Exit status: 0  every difference is in the ledger
                 1  a cell is unexplained, or an entry covers none
                 2  the command is misused
    """
    from verifier.agreement import as_data as data
    from verifier.agreement import lines
    from verifier.ledger import BadLedger
    from verifier.matrix import UnknownPrimitive, compare
    from verifier.progress import sign_of_life

    if not matrix:
        raise click.UsageError("say what to compare: --matrix is all there is so far")
    try:
        with sign_of_life("comparing with JAX") as show:
            found = compare(primitives, progress=lambda call: show(f"comparing with JAX: {call}"))
    except UnknownPrimitive as error:
        import difflib

        near = difflib.get_close_matches(str(error), error.known, 3)
        raise click.UsageError(
            f"there is no sample call of {error}" + (f"; did you mean {' or '.join(near)}?" if near else "")
        ) from error
    except BadLedger as error:
        raise Misused(f"the ledger is wrong: {error}") from error
    except ImportError as error:
        raise Misused(f"this needs JAX: pip install 'shardproof[jax]' ({error})") from error
    say([json.dumps(data(found), indent=2)] if as_data else lines(found))
    ctx.exit(1 if found.unexplained or found.idle else 0)
