"""Kernels that nobody here has described: their printed types are assumed, and the assumptions are counted.

A kernel of another library, a foreign call, a callback: what it computes is not in the text. At its edge the printed
types are trusted. That stops no report, and no report hides it. A primitive that JAX itself defines is never opaque:
without a declaration it is *unmodelled*, which is a refusal.
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
    tpu_custom_call triton_kernel_call call_exported mpmd_map cudnn_fusion custom_fusion
"""

#: primitives of JAX that run code from elsewhere
KERNELS: Final = frozenset(_KERNELS.split())

_UNDECLARED = """
    add_dependency bitcast box_get box_set call call_hi_primitive call_hi_primitive_linearized check composite core_map
    create_linear custom_jvp_call_jaxpr custom_linear_solve custom_vmap_call dce_sink delay dim_as_value dimension_size
    dma_start dma_wait dot_product_attention_bwd dot_product_attention_bwd_wrapper dot_product_attention_fp8_bwd
    dot_product_attention_fp8_bwd_wrapper dot_product_attention_fp8_fwd dot_product_attention_fp8_fwd_wrapper
    dot_product_attention_fwd dot_product_attention_fwd_wrapper from_edtype fusible get_barrier_semaphore get_global
    inspect_sharding iota_2x32_shape jaxpr_call linear_call log_extend log_read masked_load masked_swap matmul_acc_lhs
    matmul_pop matmul_push_rhs multiple_of new_box new_log num_programs pack_dtype pack_elementwise philox2x32
    philox4x32 pin platform_index prng_join prng_random_bits prng_seed prng_split program_id program_order
    ragged_dot_general random_gamma reciprocal relayout remat_opt rng_bit_generator rng_uniform roll run_scoped
    run_state scaled_dot scaled_matmul scaled_matmul_wrapper semaphore_read semaphore_signal semaphore_wait
    shape_assertion shard_alike stage stochastic_round threefry2x32 threefry4x32 tie tile to_edtype trace_value
    unpack_dtype unpack_elementwise unpin unreachable with_memory_space_constraint xla_metadata_call xla_metadata_value
    zeros_like
"""

#: primitives of JAX that have no declaration yet; a test compares this list with the installed JAX
UNDECLARED: Final = frozenset(_UNDECLARED.split())


#: the parameter that says which kernel a call runs
_WHICH: Final = {"pallas_call": "name", "ffi_call": "target_name"}


def declared(equation: Equation) -> Primitive | None:
    """The declaration of the one kernel that a call runs: it is called `pallas_call:flash_attention`."""
    which = equation.parameters.get(_WHICH.get(equation.primitive, ""))
    return TABLE.get(f"{equation.primitive}:{which}") if which is not None else None


def opaque(name: str) -> bool:
    """Whether a primitive without a rule is a kernel to be assumed, rather than one of JAX's that is not written."""
    return name in KERNELS or name not in UNDECLARED


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
