"""References: parameters that name a hoisted definition. Definitions are a letrec, so they are resolved last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from calculus.programs import Document, Equation, Parameters, Program, Programs, Reference, Value, Word
from calculus.refusals import Place, Refused, refuse
from grammar.layout import NESTING, syntax, too_deep
from grammar.source import Source, locate


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
        inner = [item for _, item in _programs(equation) if isinstance(item, Program)]
        pending.extend((iter(item.equations), depth + 1) for item in reversed(inner))


def _programs(equation: Equation) -> Iterator[tuple[str, Program | Reference]]:
    for name, value in equation.parameters.items_in_order:
        for item in value.items if isinstance(value, Programs) else (value,):
            if isinstance(item, Program | Reference):
                yield name, item


def resolve(document: Document, source: Source) -> Document:
    """Fill every `Reference` with the program it names, in place, and return the document; `source` is its text.

    A word that names no definition stays a `Word`. Raises `Refused`, with line and column: `syntax` if two
    definitions have one name, `unknown-definition` if a branch names none, `cyclic-definition` if a definition
    reaches itself, `too-deep` if programs nest too deep through references.
    """
    definitions: dict[str, Program] = {}
    for name, program in document.definitions:
        if name in definitions:
            raise syntax(f"`{name}` is defined twice", *locate(source, program, Place()), help="rename one of the two")
        definitions[name] = program
    uses = {name: _resolve(program, definitions, source) for name, program in document.definitions}
    uses[""] = _resolve(document.program, definitions, source)  # no definition has the empty name
    _check_acyclic(uses, definitions, source)
    return document


@dataclass(slots=True)
class _Use:
    """The deepest use of a definition in one program."""

    depth: int
    equation: Equation
    parameter: str


def _resolve(program: Program, definitions: dict[str, Program], source: Source) -> dict[str, _Use]:
    used: dict[str, _Use] = {}
    for equation, depth in _walk(program.equations):
        unknown = False
        for parameter, item in _programs(equation):
            if isinstance(item, Reference):
                item.program = definitions.get(item.name)
                if item.program is None:
                    unknown = True
                elif item.name not in used or used[item.name].depth < depth:
                    used[item.name] = _Use(depth, equation, parameter)
        if unknown:
            _forget_unknown(equation, source)
    return used


def _forget_unknown(equation: Equation, source: Source) -> None:
    """Make the references of an equation that name no definition words again; a branch must name one."""

    def known(name: str, value: Value) -> Value:
        if isinstance(value, Reference) and value.program is None:
            return Word(value.name)
        for item in value.items if isinstance(value, Programs) else ():
            if isinstance(item, Reference) and item.program is None:
                help = f"add `let {item.name} = {{ lambda ... }} in` before the program, or write the program out"
                refused = refuse("unknown-definition", f"no definition is called `{item.name}`", help=help)
                raise _at(refused, source, equation, name)
        return value

    items = equation.parameters.items_in_order
    equation.parameters = Parameters(tuple((name, known(name, value)) for name, value in items))


def _check_acyclic(uses: dict[str, dict[str, _Use]], definitions: dict[str, Program], source: Source) -> None:
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
                height[name] = max((use.depth + height[inner] for inner, use in uses[name].items()), default=1)
                if height[name] > NESTING:
                    deepest = max(uses[name], key=lambda inner: uses[name][inner].depth + height[inner])
                    use = uses[name][deepest]
                    raise too_deep("definitions", *locate(source, use.equation, _place(use.parameter)))
            elif used in path:
                use = uses[name][used]
                because = "a program that contains itself never ends"
                refused = refuse("cyclic-definition", f"the definition `{used}` reaches itself", because=because)
                raise _at(refused, source, use.equation, use.parameter)
            elif used not in height:
                path[used] = iter(uses[used])


def _at(refused: Refused, source: Source, equation: Equation, parameter: str) -> Refused:
    refusal = refused.refusal
    refusal.place = _place(parameter)
    refusal.line, refusal.column = locate(source, equation, refusal.place)
    return refused


def _place(parameter: str) -> Place:
    return Place("parameter", name=parameter)
