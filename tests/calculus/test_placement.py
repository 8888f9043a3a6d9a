"""Where what an operation makes lies, where its operands lie on an axis of one device."""

from __future__ import annotations

from grammar.meshes import parse_meshes
from verifier.texts import check_text


def test_one_element_that_is_cut_gives_way() -> None:
    """It hands its axis on to the dim that it meets, unless that is cut otherwise, or something else is by it: then
    nothing moves, for the axis has one device. JAX refuses either, which is difference 102."""
    text = """{ lambda ; a:f32[1@X,4] b:f32[3,4] c:f32[6@Y,4] d:f32[3,4@X]. let
        e:f32[3@X,4] = mul a b
        f:f32[6@Y,4] = max a c
        g:f32[3,4@X] = add a d
      in (e, f, g) }"""
    report = check_text(text, parse_meshes("X=1,Y=2"), "the program")
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    assert not report.communication
