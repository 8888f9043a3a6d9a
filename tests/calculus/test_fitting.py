"""Where a dim that a row looks along is cut: it stays cut, or is gathered."""

from __future__ import annotations

import pytest

from calculus.building import Builder, Workbench
from calculus.checking import Checker
from calculus.fitting import fitted
from calculus.programs import Parameters, Value
from calculus.refusals import Refused
from grammar.meshes import parse_meshes
from grammar.read import read_type


def emitted(name: str, type: str, parameters: dict[str, Value], wanted: str | None = None) -> list[tuple[str, str]]:
    """The equations that are emitted, each with the type of its result."""
    checker = Checker(parse_meshes("X=2"))
    builder = Builder(Workbench(checker), checker.scope)
    operand = builder.input(read_type(type))
    fitted(
        builder,
        name,
        (operand,),
        Parameters(tuple(parameters.items())),
        (None if wanted is None else read_type(wanted),),
    )
    return [(equation.primitive, str(equation.types[0])) for equation in builder.equations]


OF_SIX: dict[str, Value] = {"start_indices": (1,), "limit_indices": (7,), "strides": None}
OF_SEVEN: dict[str, Value] = {**OF_SIX, "limit_indices": (8,)}


def test_what_can_have_the_wanted_type_has_it() -> None:
    assert emitted("neg", "f32[8@X]", {}, "f32[8@X]") == [("neg", "f32[8@X]")]


def test_where_it_cannot_it_has_the_type_that_follows() -> None:
    assert emitted("neg", "f32[8@X]", {}, "f32[8]") == [("neg", "f32[8@X]")]


def test_windows_go_along_a_cut_dim() -> None:
    assert emitted("slice", "f32[8@X]", OF_SIX) == [("slice", "f32[6@X]")]


def test_a_size_that_is_not_divided_is_made_whole_first() -> None:
    assert emitted("slice", "f32[8@X]", OF_SEVEN) == [("reshard", "f32[8]"), ("slice", "f32[7]")]


def test_what_needs_a_dim_whole_has_it_gathered() -> None:
    found = emitted("cumsum", "f32[8@X]", {"axis": 0, "reverse": False})
    assert found == [("reshard", "f32[8]"), ("cumsum", "f32[8]")]


def test_what_is_wrong_however_it_is_cut_is_refused() -> None:
    with pytest.raises(Refused, match="reads back wrong"):
        emitted("cos", "f32[8]{U:X}", {})
