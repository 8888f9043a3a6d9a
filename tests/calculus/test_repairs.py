"""What a refusal offers: each way out is priced, and is one that may be taken where it is offered."""

from __future__ import annotations

import re

import pytest

from grammar.meshes import parse_meshes
from verifier.texts import check_text

DOT = "dot_general[\n      dimension_numbers=(([1], [0]), ([], []))\n      preferred_element_type=float32\n    ] a b"


def helped(text: str, mesh: str = "X=4") -> str:
    (refusal,) = check_text(text, parse_meshes(mesh), "the text").refusals
    return refusal.help


def one(equation: str, result: str, **inputs: str) -> str:
    names = " ".join(f"{name}:{type}" for name, type in inputs.items())
    return f"{{ lambda ; {names}. let\n    z:{result} = {equation}\n  in (z,) }}"


def per_device(equation: str, result: str, specs: str, **inputs: str) -> str:
    names = " ".join(f"{name}:{type}" for name, type in inputs.items())
    inner = " ".join(f"{name}:{type}" for name, type in zip("pq", inputs.values(), strict=False))
    return f"""{{ lambda ; {names}. let
    z:{result} = shard_map[
      check_vma=True
      in_specs={specs}
      jaxpr={{ lambda ; {inner}. let r:{result} = {equation} in (r,) }}
      mesh=AbstractMesh('X': 4, axis_types=(Explicit,), device_kind=cpu, num_cores=None, platform=cpu)
      newly_manual_axes=frozenset({{'X'}})
      out_specs=(P(None, unreduced={{'X'}}, unreduced_kind=sum),)
    ] {" ".join(inputs)}
  in (z,) }}"""


PENDING = "P(None, unreduced={'X'}, unreduced_kind=sum)"


def test_a_bias_is_cast_free_or_the_sum_is_finished_first() -> None:
    """f32[2,2] is 16 bytes."""
    assert helped(one("add a b", "f32[2,2]{U:X}", a="f32[2,2]{U:X}", b="f32[2,2]")) == (
        "reshard operand 1 to f32[2,2]{U:X} (free forward, free backward); or with another result, reshard operand 0 "
        "to f32[2,2] (all-reduce over X of 16 bytes forward, free backward)"
    )


def test_a_number_is_cast_free_or_the_sum_is_finished_first() -> None:
    """One device has it, and the others zero."""
    found = helped(one("add a 1.0:f32[]", "f32[2,2]{U:X}", a="f32[2,2]{U:X}"))
    assert found.startswith("reshard operand 1 to f32[]{U:X} (free forward, free backward); or ")
    assert "reshard operand 0 to f32[2,2] (all-reduce over X of 16 bytes forward, free backward)" in found


def test_the_results_own_type_comes_first_where_it_is_all_that_is_wrong() -> None:
    text = one(DOT, "f32[2,2]", a="f32[2,2]{R:X}", b="f32[2,2]{R:X}")
    assert helped(text).startswith("bind the result reduced along X: free, and so is its transpose")
    bound = text.replace("z:f32[2,2] ", "z:f32[2,2]{R:X} ")
    assert check_text(bound, parse_meshes("X=4"), "the text").refusals == []


def test_a_state_is_named_once() -> None:
    """A new dim may be cut as well, and so may the other one."""
    assert helped(one("broadcast_in_dim 1.0:f32[]", "f32[4,4]{U:X}")) == (
        "bind it reduced or replicated or sharded along X, and reshard afterwards"
    )


@pytest.mark.parametrize(
    ("equation", "spec", "other", "offered"),
    [
        (
            "add p 1.0:f32[]",
            "",
            "",
            "cast operand 0 to f32[2] with unreduced_psum over X (all-reduce over X of 8 bytes",
        ),
        ("mul p q", ", P(None,)", "f32[2]", "cast operand 1 to f32[2]{R:X} with preduced over X (free forward"),
    ],
)
def test_along_a_manual_axis_casts_are_offered_and_no_reshard(
    equation: str, spec: str, other: str, offered: str
) -> None:
    specs = f"({PENDING}{spec or ','})"
    inputs = {"a": "f32[2]{U:X}", **({"b": other} if other else {})}
    found = helped(per_device(equation, "f32[2]{U:X}", specs, **inputs))
    assert found.startswith(offered)
    assert "reshard" not in found


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ("f32[4@E,4@D]", "to f32[4@E,4] first (all-gather over D of 32 bytes forward, free backward)"),
        ("f32[4,4]", "to f32[4@E,4] first (free forward, all-gather over E of 64 bytes backward)"),
        ("f32[4@(E,D),4]", "to f32[4@E,4] first (all-gather over D of 32 bytes forward, free backward)"),
    ],
)
def test_what_a_spec_asks_for_has_its_price(given: str, offered: str) -> None:
    """A gather is priced at its result: half of the 64 bytes of f32[4,4], or all; a slice is free."""
    text = f"""{{ lambda ; a:{given}. let
    b:f32[4@E,4] = shard_map[
      check_vma=True
      in_specs=(P('E', None),)
      jaxpr={{ lambda ; c:f32[2,4]{{V:E}}. let d:f32[2,4]{{V:E}} = neg c in (d,) }}
      mesh=AbstractMesh('E': 2, 'D': 2, axis_types=(Explicit, Explicit), device_kind=cpu, num_cores=None, platform=cpu)
      newly_manual_axes=frozenset({{'E', 'D'}})
      out_specs=(P('E', None),)
    ] a
  in (b,) }}"""
    found = helped(text, "E=2, D=2")
    assert offered in found


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("equation", ["mul a b", "cos a", "cumsum[axis=0 reverse=False] a", "add a a", "rem b a"])
def test_a_pending_maximum_is_finished_by_an_all_reduce(equation: str, kind: str) -> None:
    """f32[8] is 32 bytes. What is offered is taken, and then nothing is refused but the result, now a copy."""
    pending = f"f32[8]{{U_{kind}:X}}"
    text = one(equation, pending, a=pending, b="f32[8]")
    found = helped(text)
    offered = re.findall(r"operand \d to (f32\S+)", found)
    assert offered[0] == "f32[8]"
    assert set(offered) <= {"f32[8]", "f32[8]{R:X}"}
    assert "all-reduce over X of 32 bytes" in found
    assert "with no derivative" in found
    assert check_text(one(equation, "f32[8]", a="f32[8]", b="f32[8]"), parse_meshes("X=4"), "the text").refusals == []


def test_a_type_has_one_kind_so_no_sum_is_offered_beside_a_maximum() -> None:
    """To leave a as a pending sum along X it would have to be one along Y as well."""
    found = helped(one("add a b", "f32[8]{U:X}", a="f32[8]{U_max:Y}", b="f32[8]{U:X}"), "X=4, Y=2")
    assert "operand 0" not in found
    assert found.startswith("reshard operand 1 to f32[8] ")


def test_where_nothing_is_pending_nothing_is_to_be_finished() -> None:
    """A row of blocks by a column of others: only equal blocks meet."""
    text = one(DOT, "f32[4,4]{U:X}", a="f32[4@X,8]", b="f32[8@X,4]")
    assert helped(text) == "reshard one of them, so that X cuts the same dim of both, or none"


def test_a_row_at_one_device_is_asked_for_by_an_array_of_places() -> None:
    """Case 11: JAX drops the sharding that is asked for where a number, or a range, says which rows."""
    text = one("slice[limit_indices=(1, 3) start_indices=(0, 0) strides=None] a", "f32[1,3]", a="f32[4@X,3]")
    assert "as f32[1,3] (all-reduce over X of 12 bytes forward, free backward" in helped(text)
    assert helped(text).endswith("x.at[jnp.array([...])].get(out_sharding=...) asks, with the places in an array")


def test_places_that_are_cut_are_brought_together_and_nothing_is_written_apart() -> None:
    """Case 15: each place is a row of two numbers, and the rows are cut."""
    text = one(
        "scatter[dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0, 1), "
        "scatter_dims_to_operand_dims=(0, 1), operand_batching_dims=(), scatter_indices_batching_dims=()) "
        "indices_are_sorted=False mode=GatherScatterMode.FILL_OR_DROP unique_indices=False update_jaxpr=None] a b c",
        "f32[4@X,3]", a="f32[4@X,3]", b="i32[4@X,2]", c="f32[4]",
    )  # fmt: skip
    assert helped(text) == "reshard it to i32[4,2] first (all-gather over X of 32 bytes forward, free backward)"
