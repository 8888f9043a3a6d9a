"""Programs inside of text: they are read where they are asked for, and printed as they stand."""

from __future__ import annotations

from calculus.programs import Quoted, Word
from grammar.leaves import value_of
from grammar.quoted import quoted

ONE = "{ lambda ; a:f32[4] b:f32[4]. let\n    c:f32[4] = mul a b\n  in (c,) }"
OTHER = (
    "let f = { lambda ; a:f32[4]. let b:f32[4] = sin a in (b,) } in\n"
    "{ lambda ; a:f32[4]. let b:f32[4] = jit[name=f jaxpr=f] a in (b,) }"
)
TEXT = f"_LinearSolveTuple(matvec={ONE}, vecmat=None, solve={OTHER}, transpose_solve=None)"


def test_each_program_is_read_by_its_name() -> None:
    found = quoted(TEXT)
    assert isinstance(found, Quoted)
    assert found == Word(TEXT)
    assert [name for name, _ in found.parts] == ["matvec", "vecmat", "solve", "transpose_solve"]
    first, second = found.program("matvec"), found.program("solve")
    assert first is not None
    assert second is not None
    assert [one.primitive for one in first.equations] == ["mul"]
    assert [one.primitive for one in second.equations] == ["jit"]
    assert found.program("vecmat") is found.program("nothing") is None


def test_parts_change_places() -> None:
    found = value_of(TEXT)
    assert isinstance(found, Quoted)
    turned = found.exchanged({"matvec": "vecmat", "vecmat": "matvec"})
    assert turned == f"_LinearSolveTuple(matvec=None, vecmat={ONE}, solve={OTHER}, transpose_solve=None)"
    assert turned.exchanged({"matvec": "vecmat", "vecmat": "matvec"}) == TEXT


def test_other_text_stays_text() -> None:
    for text in ("_LinearSolveTuple(matvec)", "_LinearSolveTuple(", "Other(matvec={ lambda ; })"):
        assert not isinstance(quoted(text), Quoted)
    broken = quoted("_LinearSolveTuple(matvec={)")
    assert isinstance(broken, Quoted)
    assert broken.program("matvec") is None
