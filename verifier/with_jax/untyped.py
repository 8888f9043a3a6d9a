"""Programs that JAX refuses to trace at the types they are given: traced at others, with every type left open.

A function that JAX refuses at `f32[2,2]{U:X}` it mostly traces at `f32[2,2]`, the same on every device. The equations
are the same, and what a type says of placement can be inferred from the arguments on. So the refusal, or the type, is
ours, by the calculus's rules, with its reason and its repair.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
from jax.sharding import NamedSharding, PartitionSpec
from jax.tree_util import tree_flatten, tree_map

from calculus.programs import Equation, Parameters, Program
from grammar.read import read_type
from verifier.with_jax.asserted import MARK, asserted_later
from verifier.with_jax.convert import Conversion
from verifier.with_jax.names import is_array
from verifier.with_jax.shared import opened
from verifier.with_jax.trace import Trace, placed, trace

_JAX: Final = os.path.join(os.path.dirname(os.path.abspath(jax.__file__)), "")
_FILTERING: Final = "jax_traceback_filtering"


@dataclass(frozen=True, slots=True)
class Untyped:
    """A program without types. trace: of the same function at arguments that are copies on every device. program: its
    terms, whose inputs have the types of the arguments given, and whose results have types only where the function asks
    for one. conversion: knows where the terms come from. error: what JAX raises, with all its frames."""

    trace: Trace
    program: Program
    conversion: Conversion
    error: Exception


def untyped(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> Untyped | None:
    """The program of a function that JAX refuses at its arguments, without types. `None` where what is raised is not
    JAX's own, or JAX does not trace the function at copies either."""
    error = raised_by_jax(f, args, kwargs, mesh)
    if error is None:
        return None
    args, kwargs = placed(f, args, kwargs, mesh)
    arrays = [leaf for leaf in tree_flatten((args, kwargs))[0] if is_array(leaf)]
    for dims in (True, False):
        copies_args, copies_kwargs = tree_map(lambda leaf, dims=dims: _copy(leaf, dims), (tuple(args), dict(kwargs)))
        try:
            with asserted_later(), _no_silent_constraints():
                traced = trace(f, *copies_args, mesh=mesh, **copies_kwargs)
            given = jax.make_jaxpr(lambda *values: values)(*arrays)
        except Exception:  # noqa: BLE001 - whatever it is, the first error is the one to tell
            continue
        conversion = WithoutTypes(traced.program)
        program = conversion.program(conversion.main)
        types = [conversion.type(variable) for variable in opened(given).invars]
        if len(types) != len(program.inputs):
            return None
        program.input_types = tuple(types)
        return Untyped(traced, program, conversion, error)
    return None


def refused_by_jax(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> bool:
    """Whether tracing raises inside JAX. What the function itself raises, an assertion about a type say, is its own."""
    return raised_by_jax(f, args, kwargs, mesh) is not None


def raised_by_jax(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> Exception | None:
    """What is raised inside JAX where a function is traced, with all its frames; `None` where nothing is."""
    filtering = getattr(jax.config, _FILTERING)
    jax.config.update(_FILTERING, "off")
    try:
        trace(f, *args, mesh=mesh, **kwargs)
    except Exception as error:  # noqa: BLE001 - whatever it is, the question is who raised it
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        theirs = frame is not None and frame.tb_frame.f_code.co_filename.startswith(_JAX)
        return error if theirs else None
    finally:
        jax.config.update(_FILTERING, filtering)
    return None


_ASSERTS: Final = "assert_shardings_equal"


@contextlib.contextmanager
def _no_silent_constraints() -> Iterator[None]:
    """On a mesh of explicit axes a sharding constraint is an assertion, which JAX checks while it traces and leaves out
    of the program. At copies it would be checked against copies, and be gone; so it ends the attempt."""
    names = inspect.unwrap(jax.lax.with_sharding_constraint).__globals__
    asserts = names[_ASSERTS]

    def not_here(*_: Any) -> None:
        raise NotImplementedError("a constraint is no part of the program")

    names[_ASSERTS] = not_here
    try:
        yield
    finally:
        names[_ASSERTS] = asserts


def _copy(leaf: Any, dims: bool) -> Any:
    """What stands for an array, without what is pending or promised, and, unless `dims`, whole on every device."""
    sharding = getattr(leaf, "sharding", None)
    if not is_array(leaf) or not isinstance(sharding, NamedSharding):
        return leaf
    spec = sharding.spec
    kept = getattr(spec, "partitions", spec) if dims else ()
    sharding = NamedSharding(sharding.mesh, PartitionSpec(*kept))
    weak = bool(getattr(leaf, "weak_type", False))
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding, weak_type=weak)


class WithoutTypes(Conversion):
    """A conversion that leaves out the types that JAX found, and keeps those that the program asks for."""

    def __init__(self, program: Any) -> None:
        super().__init__(opened(program), printed=False)

    def program(self, jaxpr: Any) -> Program:
        """One body; its inputs have the types of what it is given."""
        made = super().program(jaxpr)
        made.input_types = (None,) * len(made.inputs)
        return made

    def equations(self, eqns: Sequence[Any]) -> Iterator[Equation]:
        """The equations, without types."""
        for eqn, made in zip(eqns, super().equations(eqns), strict=True):
            if not _asks(eqn):
                made.types = (None,) * len(made.binders)
            if made.primitive == "broadcast_in_dim":  # JAX leaves the type to say the shape
                shape = ("shape", self.value("shape", eqn.params["shape"]))
                made.parameters = Parameters((*made.parameters.items_in_order, shape))
            name = eqn.params.get("name") if made.primitive == "name" else None
            if isinstance(name, str) and name.startswith(MARK):
                made.types = (read_type(name.removeprefix(MARK)),)
            yield made


def _asks(eqn: Any) -> bool:
    """Whether an equation's result has the type that is asked for. What nobody describes has none here: at copies an
    opaque kernel's type is that of copies, and says nothing of the arguments given."""
    if eqn.primitive.name == "reshard":
        return True
    if eqn.primitive.name == "broadcast_in_dim" and "vmap" in str(eqn.source_info.name_stack):
        return False  # a dim that vmap gives an operand: JAX asks for where the operand is, here a copy
    return any(eqn.params.get(parameter) is not None for parameter in ("out_sharding", "sharding"))
