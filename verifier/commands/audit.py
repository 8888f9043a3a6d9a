"""`shardproof audit`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from verifier.commands.console import INTERRUPTED, Misused, say, with_jax
from verifier.commands.options import json_option


@click.command()
@click.option(
    "--primitive", "primitives", multiple=True, metavar="NAME",
    help="Only this primitive; or, as MODULE:NAME, one that its author has at hand. Repeat a NAME for several.",
)  # fmt: skip
@click.option("--run", is_flag=True, help="Run each defect's program too, and cells along one axis and two.")
@click.option(
    "--declaration", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
    help="Of MODULE:NAME: a file whose PRIMITIVES declares it. By default the table's declaration.",
)  # fmt: skip
@click.option("--kernel", metavar="MODULE:NAME", help="Of MODULE:NAME: a numpy function, from which to propose one.")
@click.option(
    "--operands", metavar="'f32[8,8] f32[8,8]'",
    help="Of MODULE:NAME: its operands, where no sample call of the table has it. By default arrays f32[8,8].",
)  # fmt: skip
@click.option(
    "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
    help="Of MODULE:NAME: a parameter of that call, a Python literal. Repeat it for several.",
)  # fmt: skip
@click.option("--since", metavar="REV", help="Of MODULE:NAME: only what is otherwise in JAX at this git revision.")
@click.option("--emit-test", is_flag=True, help="Of MODULE:NAME: print a test method that says what is right.")
@json_option
@click.pass_context
def audit(
    ctx: click.Context, primitives: tuple[str, ...], run: bool, declaration: Path | None, kernel: str | None,
    operands: str | None, parameters: tuple[str, ...], since: str | None, emit_test: bool, as_data: bool,
) -> None:  # fmt: skip
    """List the defects of the installed JAX, or hold one primitive's rule against what follows for it. This needs JAX.

    \b
    shardproof audit
    shardproof audit --run
    shardproof audit --primitive stack --primitive pad --run
    shardproof audit --primitive jax._src.lax.lax:pad_p
    shardproof audit --primitive my.kernels:gelu_p --declaration gelu.py --emit-test
    shardproof audit --primitive my.kernels:gelu_p --kernel my.reference:gelu
    shardproof audit --primitive jax._src.lax.lax:pad_p --since main

    The audit asks every primitive, at every combination of operand states, forward and backward, explicit and manual:
    does JAX accept it, and is it sound? It asks JAX's own check_jaxpr and no_collectives too. It prints the confirmed
    defects: how each shows, the function of JAX at fault, the cells that it covers, and the program of at most 25 lines
    that reproduces it alone (proofs/differences). What JAX accepts and is unsound, and that no entry of the ledger
    covers, is printed as new. With --run each program runs, and some cells of each primitive and collective, along one
    axis and two: a cell is wrong where it reads back another value than it has on one device, or does not compile; of
    each defect it is said how many do. It asks in as many processes as there are processors, and says on standard error
    how long it takes: on two about three minutes, and ten more with --run. Interrupted, it reports what it has found.

    For the author of a rule, --primitive MODULE:NAME takes one primitive of any importable JAX, a source checkout with
    local edits too (put it on PYTHONPATH). Its abstract evaluation is held against the relation that follows from its
    declaration: from the table, from a file of five lines, or proposed from a numpy function by sampling. What it
    accepts is wrong with a counterexample in numbers; what it refuses though sound is missing; and what it accepts has
    a transpose that types, or not. That takes seconds; --run adds devices and gradients.

    \b
    # gelu.py
    from calculus.primitives.declaration import Primitive, same_dtype
    from calculus.primitives.elementwise import aligned
    def kernel(np, parameters, x): return x / (1 + np.exp(-1.702 * x))
    PRIMITIVES = [Primitive("gelu", ("x",), "/ x", aligned, same_dtype, kernel=kernel)]

    \b
    Exit status: 0  every defect is known, and is there; of one primitive: nothing is wrong, nothing is missing
                 1  something is new, or repaired; of one primitive: something is wrong, missing, or does not transpose
               130  it was interrupted: the report says how much was asked
                 2  the command is misused
    """
    one = [name for name in primitives if ":" in name]
    of_one = {"--declaration": declaration, "--kernel": kernel, "--operands": operands, "--parameter": parameters,
              "--since": since, "--emit-test": emit_test}  # fmt: skip
    if one:
        if len(primitives) > 1:
            raise click.UsageError("--primitive MODULE:NAME stands alone")
        if declaration is not None and kernel is not None:
            raise click.UsageError("give --declaration or --kernel: the one says what the other proposes")
        if emit_test and as_data:
            raise click.UsageError("--emit-test prints a test, and --json data: give one")
        _author(ctx, one[0], declaration, kernel, operands, parameters, since, emit_test, run, as_data)
        return
    misplaced = [name for name, given in of_one.items() if given]
    if misplaced:
        known = f", as jax.extend.core.primitives:{primitives[0]}" if len(primitives) == 1 else ""
        raise click.UsageError(f"{misplaced[0]} is about one primitive: --primitive MODULE:NAME{known}")
    _audit(ctx, primitives, run, as_data)


def _audit(ctx: click.Context, primitives: tuple[str, ...], run: bool, as_data: bool) -> None:
    from verifier import audit, auditing
    from verifier.commands.agree import near
    from verifier.matrix import UnknownPrimitive
    from verifier.progress import forecast

    try:
        with with_jax("asking JAX"), forecast("asking JAX") as show:
            found = auditing.audit(primitives, run, show, processes=None if run or not primitives else 0)
    except UnknownPrimitive as error:
        raise click.UsageError(f"there is no sample call of {near(str(error), error.known)}") from error
    except FileNotFoundError as error:
        raise Misused(str(error)) from error
    say([json.dumps(audit.as_data(found), indent=2)] if as_data else audit.lines(found))
    ctx.exit(INTERRUPTED if found.interrupted else 0 if found.clean else 1)


def _author(
    ctx: click.Context, name: str, declaration: Path | None, kernel: str | None, operands: str | None,
    parameters: tuple[str, ...], since: str | None, emit_test: bool, run: bool, as_data: bool,
) -> None:  # fmt: skip
    from verifier import author, author_report
    from verifier.rules_files import BadRules

    asked = author.Asked(name, declaration, kernel, operands, parameters)
    try:
        with with_jax("asking JAX") as show:
            if since:
                author.checkout(since)
            found = author.examine(asked, run, show)
            before = author.at_revision(asked, since, show) if since else None
    except (author.Unusable, BadRules) as error:
        raise Misused(str(error)) from error
    if before is not None:
        found.only_since(before, str(since))
    if as_data:
        say([json.dumps(found.as_data(), indent=2)])
    else:
        say(author_report.test_method(found) if emit_test else author_report.lines(found))
    ctx.exit(0 if found.clean else 1)
