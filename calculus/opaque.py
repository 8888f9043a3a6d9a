"""Kernels that nobody here has described: their printed types are assumed, and the assumptions are counted.

A kernel of another library, a foreign call, a callback: what it computes is not in the text. At its edge the printed
types are trusted. That stops no report, and no report hides it. A primitive that JAX itself defines is never opaque:
without a judgment it is *unmodelled*, which is a refusal. There are few, each for a reason (`UNMODELLED`), and those
that belong into kernels (`IN_KERNELS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calculus.judgments import need, rule
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.programs import Equation
from calculus.refusals import Place
from calculus.rules import Typing
from calculus.uses import Operand

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope
    from calculus.effects import Inner

_KERNELS = """
    pallas_call ffi_call custom_partitioning pure_callback io_callback debug_callback debug_print buffer_callback
    tpu_custom_call triton_kernel_call call_exported mpmd_map cudnn_fusion custom_fusion core_map fusible
    dot_product_attention_fwd dot_product_attention_fwd_wrapper dot_product_attention_bwd
    dot_product_attention_bwd_wrapper dot_product_attention_fp8_fwd dot_product_attention_fp8_fwd_wrapper
    dot_product_attention_fp8_bwd dot_product_attention_fp8_bwd_wrapper scaled_matmul scaled_matmul_wrapper
    call_hi_primitive call_hi_primitive_linearized custom_lin rng_uniform
"""

#: primitives of JAX that run code from elsewhere: kernels, callbacks, what a type of one's own brings along; and what
#: draws numbers from a state of the device, so that nothing says that devices draw the same
KERNELS: Final = frozenset(_KERNELS.split())

_IN_KERNELS = """
    bitcast delay dma_start dma_wait get_barrier_semaphore get_global jaxpr_call masked_load masked_swap matmul_acc_lhs
    matmul_pop matmul_push_rhs multiple_of num_programs pack_dtype pack_elementwise prng_join prng_random_bits prng_seed
    prng_split program_id reciprocal roll run_scoped semaphore_read semaphore_signal semaphore_wait stochastic_round
    trace_value unpack_dtype unpack_elementwise
"""

#: the language of kernels: what stands in the body of a `pallas_call` or a `core_map` and nowhere else. Such bodies are
#: not entered, so none of it is judged; outside of one it is refused
IN_KERNELS: Final = frozenset(_IN_KERNELS.split())

_EXTENDED: Final = "an extended dtype brings a representation of its own, which the text does not show"
_BOXED: Final = "what a box holds changes its type from line to line, and the text does not say which it has"

#: primitives of JAX that nobody here has described, and why
UNMODELLED: Final = {
    "to_edtype": _EXTENDED,
    "from_edtype": _EXTENDED,
    "new_box": _BOXED,
    "box_get": _BOXED,
    "box_set": _BOXED,
    "new_log": _BOXED,
    "log_read": _BOXED,
    "log_extend": _BOXED,
    "unreachable": "no device may come to it, and JAX refuses to compile a program in which one could",
}

#: primitives of JAX without a judgment: a test compares all of them with the installed JAX
UNDECLARED: Final = frozenset({*UNMODELLED, *IN_KERNELS})


#: the parameter that says which kernel a call runs
_WHICH: Final = {"pallas_call": "name", "ffi_call": "target_name"}


def declared(equation: Equation) -> Primitive | None:
    """The declaration of the one kernel that a call runs: it is called `pallas_call:flash_attention`."""
    which = equation.parameters.get(_WHICH.get(equation.primitive, ""))
    return TABLE.get(f"{equation.primitive}:{which}") if which is not None else None


def opaque(name: str) -> bool:
    """Whether a primitive without a rule is a kernel to be assumed, rather than one of JAX's that is not written."""
    return name in KERNELS or not (name in UNDECLARED or in_kernels(name))


def in_kernels(name: str) -> bool:
    """Whether a primitive belongs to the language of kernels."""
    return name in IN_KERNELS or name.startswith("thunky.")


@rule
def assume(
    checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    """
    p is a kernel that nobody has described      its results print types
    ──────────────────────────────────────────────────────────────────── assumed
    Γ ⊢ p x : the printed types ▷ what it communicates inside, unseen
    """
    for index, type in enumerate(equation.types):
        need(
            type is not None,
            "choose-type",
            lambda: f"{equation.primitive} is opaque, and its result has no type",
            because="of a kernel that nobody has described only the printed types are known",
            help="write the result's type after its name",
            place=Place("binder", index),
        )
    checker.assume(equation.primitive)
    return Typing(equation.types), (), False  # type: ignore[arg-type]
