"""The programs that `make bench` measures are those of the corpus, and its caches are all cleared."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from bench import gradients, measure
from bench.programs import Llama
from calculus.equivalence import difference
from calculus.naming import tidy
from grammar.parse import parse_document, parse_type
from grammar.print import print_document
from grammar.read import read
from verifier import solver

CORPUS = Path(__file__).parent / "golden" / "corpus"
PRINTED_BY = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))["llama_dp_grad_unroll8"]["jax"]

NAMES = [
    "llama_dp_grad_unroll8",
    "llama_dp_grad_scan8",
    "llama_dpr_grad_scan8",
    "llama_fsdp_fwd_unroll2",
    "llama_fsdp_grad_unroll2",
    "llama_tp_grad_scan8",
    "llama_tp_fwd_unroll2",
]


@pytest.mark.skipif(jax.__version__ != PRINTED_BY, reason=f"the corpus was printed by JAX {PRINTED_BY}")
@pytest.mark.parametrize("name", NAMES)
def test_programs_are_those_of_the_corpus(name: str) -> None:
    """Byte for byte: so the text that is read and the program that JAX checks are one program."""
    assert f"{Llama.named(name).trace()}\n" == (CORPUS / f"{name}.jaxpr").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["llama_dp_grad_unroll0", "llama_xx_fwd_scan2", "llama_dp_train_scan2", "llama_dp_grad_unroll100"]
)
def test_no_such_program(name: str) -> None:
    with pytest.raises(ValueError, match="is no program"):
        Llama.named(name)


def test_equations_are_counted_at_every_use() -> None:
    """Against the counts that came with the corpus; JAX's checker walks no body of a scan."""
    index = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))
    jaxpr = Llama.named("llama_dp_grad_scan8").trace()
    assert measure.visited(jaxpr, inside=True) == index["llama_dp_grad_scan8"]["equations"]
    assert measure.visited(jaxpr, inside=False) < index["llama_dp_grad_scan8"]["equations"] / 2


def test_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `forget`, every cache of the packages is empty, those apart that belong to the table and the grammars."""
    monkeypatch.setattr(measure, "clear_leaf_caches", lambda: None)  # other tests hold interned types
    text = (CORPUS / "seed_microbatch.jaxpr").read_text(encoding="utf-8")
    parse_document(text)
    read(text)
    parse_type("f32[8@X,4]{U:Y}")
    measure.load()
    caches = {
        f"{name}.{attribute}": value
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ("calculus", "grammar", "verifier")
        for attribute, value in vars(module).items()
        if hasattr(value, "cache_info") and value.__module__ == name
    }
    assert set(measure.KEPT) <= set(caches)
    measure.forget()
    assert {name for name, cache in caches.items() if cache.cache_info().currsize} <= set(measure.KEPT)


def test_what_the_solver_was_told_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses to hear a name of a sort twice in a process: what forgets leaves the declarations alone."""
    monkeypatch.setattr(measure, "clear_leaf_caches", lambda: None)  # other tests hold interned types
    asked = ("sort that is declared before everything is forgotten", ["first", "second"])
    before = solver.enumeration(*asked)
    measure.forget()
    assert solver.enumeration(*asked) is before


def test_gradients_are_of_one_program() -> None:
    """What is measured side by side says the same: the program that JAX traces, either way, and the one that we derive.
    Equations are counted alike, and each run is given a function that JAX has not seen."""
    forward = gradients.Forward("llama_fsdp_grad_unroll2")
    ours = forward.unchecked()()
    text = print_document(tidy(ours))
    for make in (forward.of_the_program, forward.of_the_function):
        theirs = read(f"{make()()}\n").program
        assert difference(ours, theirs) == ""
        assert gradients.equations(ours) == pytest.approx(gradients.equations(theirs), rel=0.02)
    assert gradients.equations(ours) == gradients.equations(read(text).program)
    assert forward.function() != forward.function()


def test_what_a_contestant_is_given_does_not_count() -> None:
    """It is made once for each run, and for the run before it that does not count either."""
    made, ran = [], []

    def make() -> Callable[[], None]:
        made.append(0)
        return lambda: ran.append(len(made))

    runs = measure.in_turn({"one": measure.Fresh(make)}, 2, {"one"})
    assert ran == [1, 2, 3, 4]
    assert len(runs["one"]) == 2
