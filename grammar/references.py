"""References: parameters that name a hoisted definition. Definitions are a letrec, so they are resolved last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from calculus.programs import Document, Equation, Parameters, Program, Programs, Reference, Value, Word
from calculus.refusals import Place, refuse
from grammar.layout import NESTING, syntax, too_deep


def holds_programs(parameter: str) -> bool:
    """Whether a bare word under this parameter can name a program: `jaxpr`, `body_jaxpr`, `branches`; not
    `jvp_jaxpr_thunk` or `jvp_jaxpr_fun`, which name Python functions."""
    return parameter == "branches" or ("jaxpr" in parameter and not parameter.endswith(("_thunk", "_fun")))


def equations(outermost: Iterable[Equation]) -> Iterator[Equation]:
    """The given equations and all in the programs written inside them, in the order they begin in the text."""
    return (equation for equation, _ in _walk(outermost))


def _walk(outermost: Iterable[Equation]) -> Iterator[tuple[Equation, int]]:
    pending = [(iter(outermost), 1)]
    while pending:
        rest, depth = pending[-1]
        equation = next(rest, None)
        if equation is None:
            pending.pop()
            continue
        yield equation, depth
        inner = [item for item in _programs(equation) if isinstance(item, Program)]
        pending.extend((iter(item.equations), depth + 1) for item in reversed(inner))


def _programs(equation: Equation) -> Iterator[Program | Reference]:
    for _, value in equation.parameters.items_in_order:
        for item in value.items if isinstance(value, Programs) else (value,):
            if isinstance(item, (Program, Reference)):
                yield item


def resolve(document: Document) -> Document:
    """Fill every `Reference` with the program it names, in place, and return the document.

    A word that names no definition stays a `Word`. Raises `Refused`: `syntax` if two definitions have one name,
    `unknown-definition` if a branch names none, `cyclic-definition` if a definition reaches itself, `too-deep` if
    programs nest too deep through references.
    """
    definitions: dict[str, Program] = {}
    for name, program in document.definitions:
        if name in definitions:
            raise syntax(f"`{name}` is defined twice", program.line, 1)
        definitions[name] = program
    uses = {name: _resolve(program, definitions) for name, program in document.definitions}
    uses[""] = _resolve(document.program, definitions)  # no definition has the empty name
    _check_acyclic(uses, definitions)
    return document


def _resolve(program: Program, definitions: dict[str, Program]) -> dict[str, tuple[int, int]]:
    """The names that a program refers to, each with how deep its deepest use is nested, and the line of that."""
    used: dict[str, tuple[int, int]] = {}
    for equation, depth in _walk(program.equations):
        unknown = False
        for item in _programs(equation):
            if isinstance(item, Reference):
                if item.name in definitions:
                    item.program = definitions[item.name]
                    used[item.name] = max(used.get(item.name, (0, 0)), (depth, equation.line))
                else:
                    unknown = True
        if unknown:
            equation.parameters = Parameters(
                tuple(
                    (name, _as_word(value, definitions, equation.line))
                    for name, value in equation.parameters.items_in_order
                )
            )
    return used


def _as_word(value: Value, definitions: dict[str, Program], line: int) -> Value:
    if isinstance(value, Reference) and value.name not in definitions:
        return Word(value.name)
    for item in value.items if isinstance(value, Programs) else ():
        if isinstance(item, Reference) and item.name not in definitions:
            refused = refuse(
                "unknown-definition",
                f"no definition is called `{item.name}`",
                help=f"add `let {item.name} = {{ lambda ... }} in` before the program, or write the branch out",
                place=Place("parameter", name="branches"),
            )
            refused.refusal.line = line
            raise refused
    return value


def _check_acyclic(uses: dict[str, dict[str, tuple[int, int]]], definitions: dict[str, Program]) -> None:
    height: dict[str, int] = {}
    for root in uses:
        path: dict[str, Iterator[str]] = {}
        if root not in height:
            path[root] = iter(uses[root])
        while path:
            name = next(reversed(path))
            used = next(path[name], None)
            if used is None:
                del path[name]
                height[name] = max((depth + height[used] for used, (depth, _) in uses[name].items()), default=1)
                if height[name] > NESTING:
                    raise too_deep("definitions", definitions[name].line if name else 0, 1)
            elif used in path:
                refused = refuse(
                    "cyclic-definition",
                    f"the definition `{used}` reaches itself",
                    because="a program that contains itself never ends",
                )
                refused.refusal.line, refused.refusal.column = uses[name][used][1], 1
                raise refused
            elif used not in height:
                path[used] = iter(uses[used])
