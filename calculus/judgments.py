"""The small kernel under the rules: how an inference rule is written, and how it says no.

A rule is an ordinary function. Its docstring draws the rule, premises over a bar over the conclusion, with the rule's
name at the end of the bar; its body states the premises in the same order; `need` is how a premise fails.

        Γ ⊢ x : τ      τ and σ differ in placement only
        ─────────────────────────────────────────────── reshard
        Γ ⊢ reshard x : σ ▷ move(τ, σ)

The judgment is  Γ ⊢ e : τ ▷ κ : equation e has type τ and communicates κ. Rules infer; the printed type is then
compared, or chooses where several results are possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from calculus.refusals import Place, refuse

F = TypeVar("F", bound=Callable[..., object])

_BAR: Final = re.compile(r"^\s*─{3,} ([\w-]+)$", re.MULTILINE)

#: every rule by its name, in the order declared
RULES: Final[dict[str, Callable[..., object]]] = {}


def rule(function: F) -> F:
    """Register a rule under the name on its docstring's bar. Raises `ValueError` where the figure is missing."""
    names = _BAR.findall(function.__doc__ or "")
    if len(names) != 1 or names[0] in RULES:
        raise ValueError(f"{function.__qualname__}: the docstring must draw one rule, under a name of its own")
    RULES[names[0]] = function
    return function


def need(
    holds: object,
    code: str,
    message: Callable[[], str],
    *,
    because: str = "",
    help: str | Callable[[], str] = "",
    place: Place | None = None,
) -> None:
    """A premise. Raises `Refused` with the catalogue's `code` where it does not hold; the message is built only
    then."""
    if not holds:
        repair = help if isinstance(help, str) else help()
        raise refuse(code, message(), because=because, help=repair, place=place)
