"""What a rematerialised body keeps: the policies of `jax.checkpoint`, as far as they can be read.

A policy is code. Some of JAX's are known by name (`dots_saveable`); of those that close over names the newer release
prints `save_only_these_names.<locals>.policy`, and not which names: then every value that has a name is taken to be
kept. What cannot be read at all is taken to keep nothing. The gradients are the same; what is computed again,
and so what is communicated again, is what is assumed, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from calculus.parameters import sequence
from calculus.programs import Braces, Call, Equation, Value, Word, bodies

Kept: TypeAlias = "bool | str"
"""Whether the results of an equation are kept; text is the memory in which they wait."""


class Policy(NamedTuple):
    """keeps: what is kept of an equation that is no call and no loop. assumed: what had to be assumed to read it; empty
    where nothing had to."""

    keeps: Callable[[Equation], Kept]
    assumed: str = ""


def _nothing(equation: Equation) -> Kept:
    return False


def _everything(equation: Equation) -> Kept:
    return True


def _dots(equation: Equation) -> Kept:
    return equation.primitive in ("dot_general", "conv_general_dilated")


def _dots_without_batch(equation: Equation) -> Kept:
    if equation.primitive != "dot_general":
        return False
    _, batch = sequence(equation.parameters["dimension_numbers"], "dimension_numbers")
    return not any(sequence(dims, "dimension_numbers") for dims in sequence(batch, "dimension_numbers"))


def _named(equation: Equation) -> Kept:
    return equation.primitive == "name"


_HIDDEN: Final = "which values {} keeps is not printed; those that have a name are taken to be kept"
_UNREAD: Final = "which values {} keeps is not printed; it is taken to keep none"

_BY_NAME: Final[dict[str, Policy]] = {
    "nothing_saveable": Policy(_nothing),
    "everything_saveable": Policy(_everything),
    "dots_saveable": Policy(_dots),
    "checkpoint_dots": Policy(_dots),
    "dots_with_no_batch_dims_saveable": Policy(_dots_without_batch),
    "checkpoint_dots_with_no_batch_dims": Policy(_dots_without_batch),
    "save_anything_except_these_names": Policy(_everything),  # that is what it does, in both releases
    "offload_dot_with_no_batch_dims": Policy(lambda equation: "host" if _dots_without_batch(equation) else False),
    **dict.fromkeys(
        ("save_only_these_names", "save_any_names_but_these", "save_and_offload_only_these_names"),
        Policy(_named, _HIDDEN),
    ),
}

_FUNCTION: Final = re.compile(r"<function (\S+)(?: at \w+)?>")


def policy_of(value: Value) -> Policy:
    """The policy that a parameter prints, or holds: `save_only_these_names('h')` where a door can look into it."""
    if value is None:
        return Policy(_nothing)
    if isinstance(value, Call):
        return _called(value)
    text = str(value)
    found = _FUNCTION.fullmatch(text)
    parts = found[1].split(".<locals>.") if found else [text]
    known = _BY_NAME.get(parts[0])
    if known is None:
        return Policy(_nothing, _UNREAD.format(parts[-1] if parts[-1].isidentifier() else "a policy"))
    return known._replace(assumed=known.assumed.format(parts[0]))


def _called(value: Call) -> Policy:
    names = _names(value)
    match value.name:
        case "save_only_these_names" | "SaveOnlyTheseNames":
            return Policy(lambda equation: _name(equation) in names)
        case "save_any_names_but_these" | "SaveAnyNamesButThese":
            return Policy(lambda equation: _named(equation) and _name(equation) not in names)
        case "DotsSaveable":
            alone = value.keyword("only_if_no_batch_dims")
            return Policy(_dots_without_batch if alone else _dots)
        case "offload_dot_with_no_batch_dims":
            return _BY_NAME[value.name]
        case "save_and_offload_only_these_names":
            kept, moved = (_texts((value.keyword(f"names_which_can_be_{what}"),)) for what in ("saved", "offloaded"))
            return Policy(lambda equation: _name(equation) in kept or ("host" if _name(equation) in moved else False))
        case "save_from_both_policies":
            one, other = (policy_of(argument) for argument in value.arguments)
            both = "; ".join(filter(None, (one.assumed, other.assumed)))
            return Policy(lambda equation: one.keeps(equation) or other.keeps(equation), both)
    return policy_of(Word(value.name))


def _name(equation: Equation) -> str:
    return str(equation.parameters["name"]) if equation.primitive == "name" else ""


def _names(value: Call) -> frozenset[str]:
    return frozenset(_texts((*value.arguments, *(item for _, item in value.keywords)))) - {""}


def _texts(values: Iterable[Value]) -> frozenset[str]:
    """All text in these values: sets, tuples and what stands in them."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, str):
            found.add(str(value))
        elif isinstance(value, (tuple, list)):
            found |= _texts(value)
        elif isinstance(value, Braces):
            found |= _texts(value.items)
        elif isinstance(value, Call):
            found |= _texts(value.arguments)
    return frozenset(found)


def keeps_inside(policy: Policy, equation: Equation) -> bool:
    """Whether a policy keeps anything of what is computed inside an equation."""
    waiting = [program for _, program in bodies(equation.parameters)]
    seen: set[int] = set()
    while waiting:
        program = waiting.pop()
        if id(program) in seen:
            continue
        seen.add(id(program))
        for inner in program.equations:
            if policy.keeps(inner):
                return True
            waiting += [body for _, body in bodies(inner.parameters)]
    return False
