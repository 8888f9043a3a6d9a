"""The command `shardproof`: reads its arguments, calls, prints, and exits 0 (well typed), 1 (refused) or 2 (malformed
or misused). The door to click. Everything slow is imported where it is used."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TextIO

import click

from calculus.meshes import Mesh
from calculus.refusals import Refusal, Refused
from grammar.meshes import parse_meshes
from grammar.render import excerpt, render
from verifier import __version__
from verifier.answers import detailed, file_report, function_report, paragraphs, totals
from verifier.factories import is_interrupt, is_target
from verifier.report import (
    STATUS,
    Derived,
    Report,
    as_json,
    refusal_as_json,
    verdict_on,
)


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


_mesh_option = click.option(
    "--mesh",
    "meshes",
    callback=_read_meshes,
    multiple=True,
    metavar="X=4,Y=2",
    help="The mesh: axes with their sizes, major first; X=4:auto or X=4:manual for an axis that is not explicit. "
    "Repeat it for a program that uses several meshes.",
)
_wrt_option = click.option(
    "--wrt", metavar="a,b", help="The inputs to differentiate, by their names in FILE; by default all floating ones."
)
_json_option = click.option("--json", "as_data", is_flag=True, help="Print JSON instead of text.")


class _Command(click.Group):
    """The command. Output that cannot be written (a full disk, a closed stream) ends it with status 2 and a message."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and leave nothing in a stream that Python would fail to write once more at its end."""
        try:
            return super().main(*args, **kwargs)
        except KeyboardInterrupt:
            _interrupted()
        except OSError as error:
            with contextlib.suppress(OSError):
                click.echo(f"Error: cannot write: {(error.strerror or str(error)).lower()}", err=True)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, AttributeError):
                    _drop(stream)
            sys.exit(2)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments. Neither an interrupt nor the end of a reader of the help reaches click, which would exit
        with the status of a refusal."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt:
            _interrupted()
        except BrokenPipeError:
            _unread()

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that is named. Neither an interrupt nor the end of a reader of its help reaches click."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _interrupted()
        except BrokenPipeError:
            _unread()
        except Exception as error:
            if is_interrupt(error):
                _interrupted()
            raise


def _interrupted() -> NoReturn:
    """End as a shell expects it of a command that was interrupted."""
    with contextlib.suppress(OSError):
        click.echo("Interrupted", err=True)
    sys.exit(130)


def _unread() -> NoReturn:
    """End where nobody reads any more: that is no error."""
    _drop(sys.stdout)
    sys.exit(0)


def _drop(stream: TextIO) -> None:
    """From now on what this stream is given, and still holds, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="shardproof")
def main() -> None:
    """Type-check and price the explicitly sharded programs that JAX prints.

    \b
    Save a program:      print(jax.make_jaxpr(jax.grad(loss))(w, x))
    Check it:            shardproof check step.jaxpr --mesh X=4,Y=2
    Its backward pass:   shardproof grad loss.jaxpr --mesh X=4,Y=2
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


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_mesh_option
@click.option("--backward", is_flag=True, help="Check and price the backward pass of each program as well.")
@_json_option
@click.pass_context
def check(ctx: click.Context, files: tuple[str, ...], meshes: list[Mesh], backward: bool, as_data: bool) -> None:
    """Check every equation of printed jaxprs, or of functions, and list what communicates.

    A FILE holds one program as JAX prints it; - is standard input; package.module:factory calls that factory, which
    returns (f, args), and checks f (this needs JAX). The text of a program does not say how large its mesh is: give
    --mesh, or write it into the file's first line, as in `# mesh: X=4, Y=2`. Inside a shard_map the program says it.

    \b
    shardproof check step.jaxpr --mesh X=4,Y=2
    shardproof check examples/seeds/*.jaxpr
    shardproof check loss.jaxpr --backward --mesh X=4
    shardproof check examples.nnx_mlp:data_parallel
    python -c 'import step' | shardproof check - --mesh data=8,model=2:auto --json

    Bytes are payload per device, each time and in all; wire is what a device sends on a ring, in all. Times is a
    product of loop lengths, ? where it depends on the data. A column that would say nothing (once, exact, inside no
    loop or call) is left out of the table, not of --json. What a function communicates stands under your lines.

    With --backward a second report follows each well-typed program: that of the program which computes it and the
    cotangents of all its floating inputs, forward and backward pass together. Its lines are those of the FILE: a
    collective of the backward pass stands at the equation whose transpose communicates.

    Kernels that nobody has described are assumed to have the types that are printed. To have yours judged, declare them
    in files that pyproject.toml names: [tool.shardproof] rules = ["kernels.py"].
    """
    if files.count("-") > 1:
        raise click.UsageError("standard input (-) can be read once only")
    reports: list[Report] = []
    _load_rules()
    for file in files:
        if backward and is_target(file):
            raise click.UsageError("--backward reads printed programs: print make_jaxpr of the function into a file")
        report, text = function_report(file, meshes) if is_target(file) else file_report(file, meshes)
        reports.append(report)
        if not as_data:
            _say(paragraphs(report, text, spaced=len(reports) > 1 and any(map(detailed, reports[-2:]))))
        if backward and report.verdict == "ok":
            reports.append(_backward_of(file, text, meshes))
            if not as_data:
                _say(paragraphs(reports[-1], text, spaced=any(map(detailed, reports[-2:]))))
    if as_data:
        _say([json.dumps([as_json(report) for report in reports], indent=2)])
    elif len(files) > 1:
        _say(["", totals(reports, "report" if backward else "file")])
    ctx.exit(max(STATUS[report.verdict] for report in reports))


def _load_rules() -> None:
    """The declarations of the project at hand. One that cannot be used stops the command."""
    from verifier.rules_files import BadRules, load_rules

    try:
        load_rules()
    except BadRules as error:
        raise _Misused(str(error)) from error


class _Misused(click.ClickException):
    """What ends the command with status 2, in its own words."""

    exit_code = 2


def _backward_of(file: str, text: str, meshes: list[Mesh]) -> Report:
    """The report on the forward and backward pass of a well-typed program."""
    from calculus.gradients import vjp
    from verifier.backward import derive

    found = derive(text, meshes, file, vjp).backward
    assert found is not None
    return Derived(found, "forward and backward")


@main.command()
@click.argument("file", metavar="FILE")
@_mesh_option
@_wrt_option
@_json_option
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


@main.command()
@click.argument("file", metavar="FILE")
@_mesh_option
@_wrt_option
@_json_option
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
    _load_rules()
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
        _say(
            [
                json.dumps(
                    {"program": found.text if found else "", "reports": [as_json(one) for one in reports]}, indent=2
                )
            ]
        )
    else:
        if found is not None and found.text:
            _say([found.text])
        with contextlib.suppress(BrokenPipeError):
            for one in reports:
                click.echo("\n".join(paragraphs(one, text, spaced=False)), err=True)
    ctx.exit(max(STATUS[one.verdict] for one in reports))


@main.command("type")
@click.argument("text", metavar="TYPE")
@_mesh_option
@_json_option
@click.pass_context
def type_(ctx: click.Context, text: str, meshes: list[Mesh], as_data: bool) -> None:
    """Show what a type means on a mesh: its cotangent type, every device's block, and who holds what.

    Quote the TYPE, the shell knows braces too; f32[8@X,4]<U:Y> is the same type as f32[8@X,4]{U:Y}.

    \b
    shardproof type 'f32[8@X,4@Y]' --mesh X=4,Y=2
    shardproof type 'bf16[16@(X,Y),128]' --mesh X=4,Y=2
    shardproof type 'f32[4]{V:X}' --mesh X=4:manual
    """
    from calculus.wellformed import well_formed
    from grammar.read import read_type
    from verifier.explain_type import described, type_as_json

    if len(meshes) > 1:
        raise click.UsageError("a type lives on one mesh: give --mesh once")
    mesh = meshes[0] if meshes else Mesh(())
    try:
        read = read_type(text)
        well_formed(read, mesh)
    except Refused as refused:
        _stop(refused.refusal, text, mesh, as_data)
    if as_data:
        _say([json.dumps(type_as_json(read, mesh), indent=2)])
    else:
        _say(described(read, mesh))
    ctx.exit(0)


def _stop(refusal: Refusal, text: str, mesh: Mesh, as_data: bool) -> NoReturn:
    """Show one refusal of a type, as data or on standard error, and exit with the status of its verdict."""
    from grammar.source import inside_type

    refusal.line, refusal.column = refusal.line or 1, refusal.column or inside_type(text, refusal.place) + 1
    verdict = verdict_on([refusal])
    if as_data:
        found = {"type": text, "mesh": str(mesh), "verdict": verdict, "refusals": [refusal_as_json(refusal)]}
        _say([json.dumps(found, indent=2)])
    else:
        with contextlib.suppress(BrokenPipeError):
            click.echo(render([refusal], text, "<type>"), err=True)
    sys.exit(STATUS[verdict])


@main.command()
@click.option("--matrix", is_flag=True, help="Compare every primitive at every combination of operand states.")
@click.option(
    "--primitive", "primitives", multiple=True, metavar="NAME", help="Only this primitive. Repeat it for several."
)
@_json_option
@click.pass_context
def agree(ctx: click.Context, matrix: bool, primitives: tuple[str, ...], as_data: bool) -> None:
    """Compare our verdicts with those of the installed JAX. This needs JAX, no devices, and some minutes.

    \b
    shardproof agree --matrix
    shardproof agree --matrix --primitive dot_general --primitive select_n
    shardproof agree --matrix --json

    --matrix takes a sample call of each primitive and gives its operands every state (sharded on each dim, replicated,
    reduced, unreduced of each kind; in manual mode varying) along one mesh axis and along two, and its result every
    target. Each cell is typed by us and by JAX's abstract evaluation. Where there are too many cells to a call, a fixed
    sample of them is taken.

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
        with sign_of_life("comparing with JAX") as say:
            found = compare(primitives, progress=lambda call: say(f"comparing with JAX: {call}"))
    except UnknownPrimitive as error:
        import difflib

        near = difflib.get_close_matches(str(error), error.known, 3)
        raise click.UsageError(
            f"there is no sample call of {error}" + (f"; did you mean {' or '.join(near)}?" if near else "")
        ) from error
    except BadLedger as error:
        raise _Misused(f"the ledger is wrong: {error}") from error
    except ImportError as error:
        raise _Misused(f"this needs JAX: pip install 'shardproof[jax]' ({error})") from error
    _say([json.dumps(data(found), indent=2)] if as_data else lines(found))
    ctx.exit(1 if found.unexplained or found.idle else 0)


def _say(lines: Iterable[str]) -> None:
    """Print lines. A reader who has gone away ends the output, not the check."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = "\n".join(lines) + "\n"
    if encoding.lower().replace("-", "") != "utf8":
        text = text.translate(_PLAIN)
    stream: TextIO | Any = sys.stdout
    if stream is None:  # Python's way to say that it is closed
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _drop(stream)


_PLAIN: Final = str.maketrans("─│┌┬┐├┼┤└┴┘·×", "-|+++++++++,x")
