"""Written transposes with a wrong sign, put to the prover."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site
from tests.mutate_prover.seen import NOBODY, RUN, Seen, seen
from verifier.theorems import transposes


def _signs(text: str) -> list[str]:
    """A row with the sign of one of its formulas turned, for each of them."""
    parts = [part.strip() for part in text.split(";")]
    found = []
    for at, part in enumerate(parts):
        if re.match(r"\w+ *=[^=]", part) or not part:
            continue
        name, colon, formula = part.partition(":") if re.match(r"\w+ *:", part) else ("", "", part)
        if formula.strip() != "0":
            found.append("; ".join([*parts[:at], f"{name}{colon} -({formula.strip()})", *parts[at + 1 :]]))
    return found


def _turned(primitive: Primitive, which: int) -> Primitive:
    row = primitive.adjoint

    def adjoint(site: Site, position: int) -> str:
        text = row(site, position) if callable(row) else row
        signs = _signs(text)
        return signs[which] if which < len(signs) else text

    return replace(primitive, adjoint=adjoint)


@contextmanager
def _declared(primitive: Primitive) -> Iterator[None]:
    true = TABLE[primitive.name]
    TABLE[primitive.name] = primitive
    transposes._derived.cache_clear()
    try:
        yield
    finally:
        TABLE[primitive.name] = true
        transposes._derived.cache_clear()


def names() -> list[str]:
    """The primitives that have a written transpose."""
    return [name for name in transposes.linear_samples() if TABLE[name].adjoint]


def count(name: str) -> int:
    """How many formulas the transposes of a primitive have, of the call that has most."""
    primitive, most = TABLE[name], 0
    for sample in transposes.linear_samples().get(name, ()):
        for position, _ in primitive.read(sample.site).linear_operands():
            row = primitive.adjoint
            most = max(most, len(_signs(row(sample.site, position) if callable(row) else row)))
    return most


def signs(name: str) -> list[Seen]:
    """Of all written transposes of one primitive, each with its sign turned."""
    found = []
    for which in range(count(name)):
        what = f"{name}: the sign of its transpose {which}"
        with _declared(_turned(TABLE[name], which)):
            found.append(seen(what, partial(_seen, name, what)))
    return found


def _seen(name: str, what: str) -> Seen:
    check = transposes.entries_disagree if name in transposes.ALONE else transposes.disagreement
    said = next(filter(None, map(check, transposes.linear_samples().get(name, ()))), "")
    return Seen(what, RUN if said else NOBODY, said)
