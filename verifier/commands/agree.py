"""`shardproof agree`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click

from calculus.meshes import Mesh
from verifier.commands.console import Misused, say, with_jax
from verifier.commands.options import json_option, mesh_option
from verifier.commands.target import compare_on


@click.command()
@click.option("--matrix", is_flag=True, help="Compare every primitive at every combination of operand states.")
@click.option("--backward", is_flag=True, help="Compare derivatives of a fixed family of programs.")
@click.option("--programs", "drawn", type=click.IntRange(1), metavar="N", help="Compare so many drawn programs.")
@click.option(
    "--communication", "guaranteed", type=click.IntRange(0), metavar="N",
    help="Hold what types guarantee of mesh axes against what XLA moves, of so many drawn programs, and of others.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), metavar="S", help="Of --programs and --communication: draws the same ones again."
)
@click.option(
    "--platform", type=click.Choice(["cpu", "gpu"]), help="Of --programs: whose devices run them; by default the CPU's."
)
@click.option(
    "--primitive", "primitives", multiple=True, metavar="NAME", help="Only this primitive. Repeat it for several."
)
@click.option(
    "--program", "programs", multiple=True, metavar="NAME",
    help="Only this program, the programs of this room, FILE.jaxpr, or package.module:factory. Repeat it for several.",
)  # fmt: skip
@click.option(
    "--target", "targets", multiple=True, metavar="cpu|tpu:v5p:16x16x16",
    help="Compare what XLA compiles for this target. Repeat it for several.",
)  # fmt: skip
@mesh_option
@json_option
@click.argument("functions", nargs=-1, metavar="[FUNCTION...]")
@click.pass_context
def agree(
    ctx: click.Context, matrix: bool, backward: bool, drawn: int | None, guaranteed: int | None, seed: int | None,
    platform: str | None, primitives: tuple[str, ...],
    programs: tuple[str, ...], targets: tuple[str, ...], meshes: list[Mesh], as_data: bool, functions: tuple[str, ...],
) -> None:  # fmt: skip
    """Compare our verdicts with those of the installed JAX. This needs JAX, no accelerators, and some minutes.

    \b
    shardproof agree --matrix
    shardproof agree --matrix --primitive dot_general --primitive select_n
    shardproof agree --matrix --json
    shardproof agree --backward
    shardproof agree --backward --program 'layers in a loop' --program my.train:step
    shardproof agree --programs 200
    shardproof agree --programs 200 --seed 7 --json
    shardproof agree --communication 500 --seed 7
    shardproof agree --communication 0 examples.loss:loss_and_arguments step.jaxpr programs/
    shardproof agree --target cpu --target tpu:v5p:2x2x2
    shardproof agree --target cpu transformer 'family/a call'
    shardproof agree --target tpu:v5p:16x16x16 examples.llama:gather_once
    shardproof agree --target tpu:v5e:2x4 train.py:step --mesh data=4,model=2

    --matrix takes a sample call of each primitive and gives its operands every state (sharded on each dim, replicated,
    reduced, unreduced of each kind; in manual mode varying) along one mesh axis and along two, explicit, manual and one
    of each, and its result every target. Each cell is typed by us and by JAX's abstract evaluation. Along one axis all
    cells are compared; along two, where a call has too many, a fixed sample of them is taken.

    --backward takes functions of every kind that models are made of, in every layout, and derives the gradient of each
    from the program that JAX prints of it. Ours, checked by our checker, must communicate what our checker finds in the
    program that jax.grad (or, where the result is no lone number, jax.vjp) prints: the same kinds, axes and bytes, as
    often, whatever the order; and give gradients of the same types. Mostly it is the same program besides.
    The program of a text, --program FILE.jaxpr, is handed to JAX as Python; --mesh says its mesh, where it does not.

    --programs draws well-typed programs, on meshes of one to three axes, with loops, choices, calls and per-device code
    in each other. Every equation must have the type in JAX that it has here; run on CPU devices, and by our own
    executor, whole and per device, the program and its gradient must leave the same in every device's memory, but for
    roundings; and the collectives executed must be those derived. What differs is made smaller, and printed as a file
    that needs JAX alone. JAX may end its process: it is another one, and that is reported too. --platform gpu runs them
    on GPUs, those whose meshes are no larger than there are, and is skipped where JAX has none.

    --communication asks of each mesh axis of a program whether something communicates along it. By types alone the
    answer is yes (refused), no (accepted), or not guaranteed, where they do not determine it, and that counts as yes.
    Programs are drawn as for --programs (verifier/generated: the distribution is the code, and the seed), every other
    one with its gradient. With them go FUNCTIONs, as for --target, or folders: their texts, on the meshes that an
    index.json says, and the factories in their modules; in a checkout, where none is named, the corpus of printed
    programs and the examples, on at most eight devices. XLA's partitioner for CPU devices says what is moved. Wrong is
    an axis that is accepted along which something is moved; and one that is refused, and nothing is, unless what the
    types derive there is folded away, constant, hoisted, moved for another use, or moved along another axis of that
    size, or along all at once. At most a tenth of the drawn programs, and a twentieth of the texts, may have an axis
    of which nothing is guaranteed.

    Where the two differ, an entry of the ledger of differences says which is right, and why: verifier/differences.toml,
    or proofs/differences.md for reading. A cell or program that differs and belongs to no entry is unexplained: one
    of the two is wrong. An entry that covers none is out of date: JAX has repaired it.

    --target sets the collectives that the types say beside those of the compiled program: kind, mesh axes, bytes,
    loops and lines, as XLA's partitioner leaves them and, for TPU, as they would run. A FUNCTION is
    package.module:factory, which returns (f, args), or PATH.py:factory, or FILE.jaxpr; --mesh gives the axes of its
    mesh other sizes; or one of the programs of --backward, or a room of them. Without one, it is a fixed set: the
    examples, and derivatives of programs of every kind. Where the sides differ, the difference is of a class with a
    name (proofs/compiled.md), or it is unexplained. For TPU topologies no TPU is needed, but libtpu is: pip install
    'shardproof[tpu-compiler]'.

    \b
    Exit status: 0  every difference is in the ledger, or of a class with a name
                 1  a cell, program or collective is unexplained, an entry covers none, or nothing of a FUNCTION or
                    folder that is named could be compared
                 2  the command is misused
    """
    if (matrix, backward, drawn is not None, guaranteed is not None, bool(targets)).count(True) != 1:
        raise click.UsageError("say what to compare: --matrix, --backward, --programs, --communication or --target")
    if not targets and guaranteed is None and functions:
        raise click.UsageError("functions are for --target and --communication")
    if meshes and not targets and guaranteed is None and not any(name.endswith(".jaxpr") for name in programs):
        raise click.UsageError("--mesh is for --target, and for texts of --program")
    if programs and not backward:
        raise click.UsageError("--program is one of --backward")
    if primitives and not matrix:
        raise click.UsageError("--primitive is one of --matrix")
    if seed is not None and drawn is None and guaranteed is None:
        raise click.UsageError("--seed is that of --programs and --communication")
    if platform is not None and drawn is None:
        raise click.UsageError("--platform is that of --programs")
    if targets:
        clean, text, found = compare_on(targets, functions, meshes)
    elif guaranteed is not None:
        clean, text, found = _guaranteed(guaranteed, seed, functions, meshes)
    elif drawn is not None:
        clean, text, found = _drawn(drawn, seed, platform or "cpu")
    else:
        clean, text, found = _backward(programs, meshes) if backward else _matrix(primitives)
    say([json.dumps(found, indent=2)] if as_data else text)
    ctx.exit(0 if clean else 1)


def _matrix(primitives: Sequence[str]) -> tuple[bool, Iterable[str], dict[str, Any]]:
    """Whether a run of the matrix is explained, as text and as data."""
    from verifier.agreement import as_data, lines
    from verifier.matrix import UnknownPrimitive, compare

    try:
        with with_jax("comparing with JAX") as show:
            found = compare(primitives, progress=show)
    except UnknownPrimitive as error:
        raise click.UsageError(f"there is no sample call of {near(str(error), error.known)}") from error
    return not (found.unexplained or found.idle), lines(found), as_data(found)


def _backward(programs: Sequence[str], meshes: Sequence[Mesh]) -> tuple[bool, Iterable[str], dict[str, Any]]:
    """Whether a run over derivatives is explained, as text and as data."""
    from verifier.backward_agreement import UnknownProgram, as_data, compare, lines
    from verifier.factories import BadFactory

    try:
        with with_jax("comparing with JAX") as show:
            found = compare(programs, progress=show, meshes=meshes)
    except OSError as error:
        raise Misused(f"{error.filename} cannot be read: {error.strerror}") from error
    except UnknownProgram as error:
        raise click.UsageError(f"there is no program {near(str(error), error.known)}") from error
    except BadFactory as error:
        raise Misused(str(error)) from error
    return not (found.unexplained or found.idle or found.beside), lines(found), as_data(found)


def _drawn(programs: int, seed: int | None, platform: str) -> tuple[bool, Iterable[str], dict[str, Any]]:
    """Whether a run over drawn programs is explained, as text and as data."""
    import os
    import random

    from verifier.program_agreement import NoDevices, as_data, compare, lines

    seed = random.randrange(10**6) if seed is None else seed
    try:
        with with_jax("comparing with JAX") as show:
            found = compare(programs, seed, os.cpu_count() or 1, show, platform)
    except NoDevices as error:
        return True, [f"skipped: JAX has no {platform.upper()} here: {error}"], {"skipped": str(error)}
    return not found.unexplained, lines(found), as_data(found)


def _guaranteed(
    programs: int, seed: int | None, names: Sequence[str], meshes: Sequence[Mesh]
) -> tuple[bool, Iterable[str], dict[str, Any]]:
    """Whether nothing is wrongly guaranteed or refused, as text and as data."""
    import os
    import random

    from verifier.communication_agreement import as_data, compare, lines
    from verifier.folders import Named, of_checkout, programs_in

    seed = random.randrange(10**6) if seed is None else seed
    mesh = "; ".join(map(str, meshes))
    parts = {name: [*programs_in(name)] if os.path.isdir(name) else [Named(name)] for name in names or of_checkout()}
    named = [one for those in parts.values() for one in those]
    wanted = {name: [one.name for one in parts[name]] for name in names}
    every = [(one.name, mesh or one.mesh) for one in named]
    with with_jax("comparing with XLA") as show:
        found = compare(programs, seed, every, os.cpu_count() or 1, show, wanted)
    return found.clean, lines(found), as_data(found)


def near(name: str, known: Sequence[str]) -> str:
    """A name that is unknown, with those that it may have been meant for."""
    import difflib

    near = difflib.get_close_matches(name, known, 3)
    return f"{name}; did you mean {' or '.join(near)}?" if near else name
