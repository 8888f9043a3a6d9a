"""`shardproof run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calculus.meshes import Mesh
from calculus.refusals import Refused
from grammar.meshes import parse_meshes
from verifier.answers import file_report, function_report, paragraphs
from verifier.commands.console import Misused, say
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


def _said_by(index: str | None) -> dict[str, list[Mesh]]:
    """The meshes that an index says, by name."""
    if index is None:
        return {}
    try:
        read = json.loads(Path(index).read_text(encoding="utf-8"))
        return {
            name: [
                mesh
                for key in ("mesh", "inner_mesh")
                if row.get(key)
                for mesh in parse_meshes(", ".join(f"{axis}={size}" for axis, size in row[key].items()))
            ]
            for name, row in read.items()
        }
    except OSError as error:
        raise Misused(f"{index} cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError, KeyError, TypeError, Refused) as error:
        raise Misused(f"{index} is no index of meshes: {error}") from error


def _run_many(
    ctx: click.Context, files: tuple[str, ...], meshes: list[Mesh], index: str | None, backward: bool, with_jax: bool,
    seed: int, as_data: bool,
) -> None:  # fmt: skip
    from verifier.commands.console import with_jax as asking
    from verifier.ways import Ways, job_of, lines, run_all
    from verifier.ways import as_data as plain

    load_rules()
    known = _said_by(index)
    names = [Path(file).name.partition(".")[0] for file in files]
    jobs = [
        job_of(file, known.get(name, []), meshes) if index else job_of(file, meshes)
        for file, name in zip(files, names, strict=True)
    ]
    with asking("running") as show:
        found = run_all(jobs, seed, backward, with_jax, show)
    say([json.dumps(plain(found), indent=2)] if as_data else lines(found))
    malformed = any(isinstance(job, Ways) and job.verdict == "malformed" for job in jobs)
    ctx.exit(2 if malformed else 0 if found.clean else 1)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@mesh_option
@click.option(
    "--meshes",
    "index",
    type=click.Path(),
    metavar="INDEX.json",
    help="A file that says the mesh of each FILE: {NAME: {mesh: {X: 4}, inner_mesh: {A: 4}}}, with NAME as in "
    "NAME.jaxpr; --mesh is then that of those whose mesh nobody says.",
)
@click.option("--backward", is_flag=True, help="Run the vjp of each program as well.")
@click.option("--jax", "with_jax", is_flag=True, help="Run each program by JAX as well, on CPU devices, and compare.")
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
def run(
    ctx: click.Context, files: tuple[str, ...], meshes: list[Mesh], index: str | None, backward: bool, with_jax: bool,
    seed: int, given: dict[str, Any], as_data: bool,
) -> None:  # fmt: skip
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
    - a gradient inside a shard_map with check_vma=False is the one that check_vma=True makes, of a function

    \b
    shardproof run loss.jaxpr --mesh X=2
    shardproof run sum.jaxpr --mesh X=2 --set 'a=[[0,1],[2,3]]'
    shardproof run step.jaxpr --seed 7 --json
    shardproof run my.train:loss --mesh X=2
    shardproof run *.jaxpr --meshes index.json --backward --jax

    What is pending in an input is split at random, with both signs. Of small arrays every device's block is shown. Sums
    taken in another order round otherwise, so floats may differ by their roundoff times the terms that were added;
    integers and truth values may not.

    Of several, or with --backward or --jax, the answer is a table: how many run, and agree, forward and backward (the
    vjp with respect to all floating inputs, on cotangents that are drawn), and why the others do not. With --jax, JAX
    runs each as Python (a function as it is), on as many CPU devices as the mesh has, and what every device holds is
    compared, within eight times the tolerance. What it does otherwise by an entry of the ledger is counted apart.

    Exit status 0 where all agree, 1 where something differs, is refused or, alone, cannot be run, 2 where a text is
    malformed.
    """
    if len(files) > 1 or backward or with_jax:
        if given:
            raise click.UsageError("--set is for one FILE, without --backward and --jax")
        _run_many(ctx, files, meshes, index, backward, with_jax, seed, as_data)
        return
    (file,) = files
    meshes = meshes or _said_by(index).get(Path(file).name.partition(".")[0], [])
    from verifier.execution.texts import BadInput, Ran, ran_as_json, run_function, run_text, told
    from verifier.functions import FunctionReport
    from verifier.progress import sign_of_life

    load_rules()
    report, text = function_report(file, meshes) if is_target(file) else file_report(file, meshes)
    try:
        if report.verdict != "ok":
            ran = Ran(report, None)
        else:
            with sign_of_life(f"running {file}"):
                if isinstance(report, FunctionReport):
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
