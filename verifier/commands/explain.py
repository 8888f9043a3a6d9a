"""`shardproof explain`."""

from __future__ import annotations

import json
from typing import Any

import click

from calculus.meshes import Mesh
from verifier.answers import explanation
from verifier.commands.console import Misused, say
from verifier.commands.options import json_option, load_rules, mesh_option, wrt_option
from verifier.commands.target import explained
from verifier.factories import is_target
from verifier.report import STATUS


@click.command()
@click.argument("target", metavar="TARGET")
@mesh_option
@wrt_option
@click.option(
    "--step", is_flag=True, help="The text of TARGET has its backward pass in it: derive none. JAX tells of functions."
)
@click.option(
    "--hardware", metavar="FILE.toml", type=click.Path(), help="Bandwidth and latency of each mesh axis: adds seconds."
)
@click.option(
    "--confirm", metavar="cpu|tpu:v5p:16x16x16", help="Compile the step for this target, and hold each row against it."
)
@json_option
@click.pass_context
def explain(
    ctx: click.Context, target: str, meshes: list[Mesh], wrt: str | None, step: bool, hardware: str | None,
    confirm: str | None, as_data: bool,
) -> None:  # fmt: skip
    """Say where a step communicates, forward and backward, and which forward fact decides it.

    TARGET is FILE, one program as JAX prints it, or package.module:factory, or PATH.py:factory, which returns
    (f, args); that needs JAX, and no devices: an abstract mesh may have thousands, and --mesh other sizes than that of
    the arguments. Under each of your lines stands what it communicates in the forward pass, and what the backward pass
    communicates because of it: the collective, the mesh axes, bytes per device each time, as a number and as a formula
    in the sizes of mesh axes, how often, and the fact that decides it: the type of a value where your code uses it.

    \b
    shardproof explain examples.microbatches:summed_each_time
    shardproof explain train:loss --wrt "params['layers']"
    shardproof explain loss.jaxpr --mesh data=4096
    shardproof explain loss.jaxpr                            # sizes not known: formulas
    shardproof explain step.jaxpr --step --hardware v5p.toml
    shardproof explain train:step --confirm tpu:v5p:16x16x16

    Of a function in which JAX has taken a gradient, what JAX transposed is the backward pass, and what reads its
    results is the update. Of any other the backward pass is derived: the gradient where the result is one floating
    number, the vjp elsewhere. The text of a program does not tell: say --step of one that has its gradient in it.

    A hardware profile gives seconds, by the formulas of rings: wire bytes over the bandwidth of the slowest axis, and
    the latency of each step. Peak memory, and communication that overlaps with computation, are not modelled.

    \b
    [axes.data]
    bandwidth = 45e9    # bytes a second that a device sends
    latency = 1e-6      # seconds a step

    Exit status 0 where all is well typed, 1 where something is refused, 2 where the text is malformed.
    """
    from verifier.backward import UnknownInput
    from verifier.explaining.hardware import BadProfile, read_hardware

    load_rules()
    try:
        profile = None if hardware is None else read_hardware(hardware)
        found = explanation(target, meshes, wrt, step)
        if confirm is not None and found.verdict == "ok":
            found = _confirmed(found, confirm, target, meshes)
        found.hardware = profile
        say([json.dumps(found.data(), indent=2)] if as_data else str(found).split("\n"))
    except UnknownInput as error:
        raise click.BadParameter(str(error), ctx, param_hint="--wrt") from error
    except BadProfile as error:
        raise click.BadParameter(str(error), ctx, param_hint="--hardware") from error
    ctx.exit(STATUS[found.verdict])


def _confirmed(found: Any, name: str, target: str, meshes: list[Mesh]) -> Any:
    """The explanation held against a compiler."""
    from verifier.compiled.targets import NoCompiler
    from verifier.compiled.targets import target as target_of
    from verifier.progress import sign_of_life

    with explained(), sign_of_life(f"compiling {target} for {name}"):
        from verifier.explaining.confirming import confirm, step_of

        try:
            function, arguments, keywords, mesh = step_of(found, target, meshes, is_target(target))
            return confirm(found, target_of(name), function, arguments, keywords, mesh)
        except NoCompiler as error:
            raise Misused(f"{error}\n  help: {error.help}" if error.help else str(error)) from error
