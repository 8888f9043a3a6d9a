"""The notation for linearity, and what it refuses to say."""

from __future__ import annotations

import pytest

from calculus.refusals import Refused
from calculus.signatures import Join, Signature


def test_sections() -> None:
    signature = Signature.parse("x y | z / w ; which at", "which x y z w at")
    assert signature.names == ("which", "x", "y", "z", "w", "at")
    assert signature.groups == ((1, 2), (3,))
    assert signature.nonlinear == (4,)
    assert signature.index == (0, 5)
    assert signature.sections() == (-2, 0, 0, 1, -1, -2)


@pytest.mark.parametrize(
    ("text", "groups", "nonlinear", "index", "differentiable"),
    [
        ("x y", ((0, 1),), (), (), True),
        ("x | y", ((0,), (1,)), (), (), True),
        ("x / y", ((0,),), (1,), (), True),
        ("/ x", (), (0,), (), True),
        ("; x y", (), (), (0, 1), False),
        ("", (), (), (), False),
    ],
)
def test_the_design_s_examples(
    text: str, groups: object, nonlinear: object, index: object, differentiable: bool
) -> None:
    signature = Signature.parse(text)
    assert (signature.groups, signature.nonlinear, signature.index) == (groups, nonlinear, index)
    assert signature.differentiable is differentiable


def test_joins() -> None:
    signature = Signature.parse("/ x y", join="max(x y) | x | y")
    assert signature.joins == (Join((0, 1), ("max",)), Join((0,)), Join((1,)))
    assert signature.joined({0, 1}, "max") == {"max"}
    assert signature.joined({0, 1}, "min") == set()
    assert signature.joined({0}, "min") == {"min"}
    assert Signature.parse("x y", join="x | -y").joined({1}, "max") == {"min"}


@pytest.mark.parametrize(
    ("text", "operands", "join"),
    [
        ("x y", "x", ""),
        ("x", "x y", ""),
        ("x | x", "x", ""),
        ("x x", None, ""),
        ("x... y...", None, ""),
        ("x", None, "y"),
        ("x", None, "max x"),
        ("x y", None, "-(x y)"),
        ("x y", None, "-x y"),
        ("x", None, "sum(x)"),
    ],
)
def test_nonsense_is_no_declaration(text: str, operands: str | None, join: str) -> None:
    with pytest.raises(ValueError, match=r"operand|join|signature"):
        Signature.parse(text, operands, join)


def test_a_variadic_operand_spreads_in_place() -> None:
    declared = Signature.parse("xs... p ; at", "p xs at", join="xs | -p")
    assert declared.variadic == 1
    signature = declared.of(5)
    assert signature.names == ("p", "xs0", "xs1", "xs2", "at")
    assert signature.groups == ((0, 1, 2, 3),)
    assert signature.index == (4,)
    assert signature.joins == (Join((1, 2, 3)), Join((0,), antitone=True))
    assert declared.of(3).groups == ((0, 1),)
    assert (declared.of(2).groups, declared.of(2).index) == (((0,),), (1,))
    assert declared.of(2).joins == (Join((0,), antitone=True),)
    assert declared.of(5) is declared.of(5)


@pytest.mark.parametrize(("text", "count"), [("x y", 3), ("x y", 1), ("x...", 0), ("x... y", 0)])
def test_wrong_numbers_of_operands(text: str, count: int) -> None:
    with pytest.raises(Refused) as caught:
        Signature.parse(text).of(count)
    assert caught.value.refusal.code == "arity"


def test_the_transpose_keeps_the_other_groups() -> None:
    signature = Signature.parse("a b | c / d ; e")
    transposed = signature.transposed(1, (1, 2, 3, 4))
    assert transposed.names == ("the cotangent", "c", "d", "e")
    assert transposed.groups == ((0,), (1,))
    assert (transposed.nonlinear, transposed.index) == ((2,), (3,))


def test_what_a_result_does_not_depend_on_is_named_apart() -> None:
    """Of a sort of three arrays by one key, the second result."""
    signature = Signature.parse("x1 ; x0 ~ x2", "x0 x1 x2", "x1")
    assert (signature.groups, signature.index, signature.unseen) == (((1,),), (0,), (2,))
    assert signature.sections() == (-2, 0, -2)
    assert signature.transposed(1, (0, 1, 2)).unseen == (2,)
    assert Signature.parse("x ~ y...", "x y...").of(3).unseen == (1, 2)
    with pytest.raises(ValueError, match="must place each"):
        Signature.parse("x ~ x", "x y")
