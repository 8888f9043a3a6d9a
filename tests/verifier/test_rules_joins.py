"""Joins in declarations of one's own: obeyed, by dtype or not, and refused clearly where they do not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verifier.test_rules_files import HEAD, name, run
from tests.verifier.test_rules_files import project as project  # a fixture


def declare(joins: str, linearity: str = '"/ x"') -> None:
    row = f'Primitive("users_cube", ("x",), {linearity}, aligned, same_dtype, joins={joins})'
    Path("rules.py").write_text(f"{HEAD}\nPRIMITIVES = [{row}]\n", encoding="utf-8")
    name("rules.py")


def program(dtype: str) -> str:
    kept = f"{dtype}[4]{{U_max:X}}"
    return f"# mesh: X=2\n{{ lambda ; a:{kept}. let\n    b:{kept} = users_cube a\n  in (b,) }}\n"


BY_DTYPE = 'lambda site: "x" if site.dtypes == ("f32",) else ""'


@pytest.mark.parametrize(
    ("joins", "dtype", "status"),
    [('""', "f32", 1), ('"x"', "f32", 0), ('"-x"', "f32", 1), (BY_DTYPE, "f32", 0), (BY_DTYPE, "i32", 1)],
)
def test_joins_are_obeyed(joins: str, dtype: str, status: int) -> None:
    declare(joins)
    assert run("-", text=program(dtype)).exit_code == status


@pytest.mark.parametrize(
    ("joins", "linearity", "said"),
    [
        ('"y"', '"/ x"', "'y' is not an operand"),
        ('"y"', 'lambda site: "/ x"', "'y' is not an operand"),
        ("3", '"/ x"', "joins should be a function of a Site"),
        ('lambda site: "y"', '"/ x"', "'y' is not an operand"),
        ("lambda site: 3", '"/ x"', "returned int, not str"),
        ("lambda site: site.nothing", '"/ x"', "raised AttributeError"),
        ('""', 'lambda site: "/ y"', "must place each of the operands x once"),
    ],
)
def test_what_does_not_read_is_refused(joins: str, linearity: str, said: str) -> None:
    declare(joins, linearity)
    result = run("-", text=program("f32"))
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())
