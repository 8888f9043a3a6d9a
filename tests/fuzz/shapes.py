"""Texts of any size, one shape each: what makes a careless reader or checker crash, hang, or take quadratic time."""

# ruff: noqa: E501 - a shape is a line

from __future__ import annotations

from collections.abc import Callable

Shape = Callable[[int], str]


def program(equations: str = "", inputs: str = "a:f32[4]", outputs: str = "a,") -> str:
    return f"{{ lambda ; {inputs}. let\n{equations}  in ({outputs}) }}"


def lines(template: str, count: int) -> str:
    """The template once for every number from 1; `{i}` is the number, `{h}` the one before."""
    return "".join(template.format(i=i, h=i - 1) for i in range(1, count + 1))


def many(template: str, count: int, between: str = " ") -> str:
    return between.join(template.format(i=i) for i in range(count))


def one(equation: str, inputs: str = "a:f32[4]") -> str:
    return program(f"    {equation}\n", inputs)


ONES = "1,"
CALL = "let d{i} = {{ lambda ; a:f32[4]. let b:f32[4] = jit[jaxpr=d{h} name=d{h}] a in (b,) }} in\n"
LAST = "let d0 = { lambda ; a:f32[4]. let b:f32[4] = sin a in (b,) } in\n"

#: brackets and bytes
LEXICAL: dict[str, Shape] = {
    "round": lambda n: "(" * n,
    "square": lambda n: "[" * n,
    "curly": lambda n: "{" * n,
    "closing": lambda n: ")" * n,
    "balanced": lambda n: "(" * n + ")" * n,
    "balanced-square": lambda n: "[" * n + "]" * n,
    "letters": lambda n: "x" * n,
    "digits": lambda n: "7" * n,
    "blanks": lambda n: " " * n + "x",
    "empty-lines": lambda n: "\n" * n + "x",
    "tabs": lambda n: "\t" * n + "{",
    "carriage-returns": lambda n: "\r" * n + "x",
    "quotes": lambda n: "'" * n,
    "double-quotes": lambda n: '"' * n,
    "angles": lambda n: "<" * n,
    "backslashes": lambda n: "'" + "\\" * n,
    "hashes": lambda n: "#" * n + "\n" + program(),
    "comment-lines": lambda n: "# c\n" * n + program(),
    "mesh-lines": lambda n: "# mesh: X=2\n" * n + program(),
    "mesh-axes": lambda n: "# mesh: " + many("X{i}=1", n, ",") + "\n" + program(),
    "mesh-size": lambda n: "# mesh: X=" + "9" * n + "\n" + program(),
    "lets": lambda n: "let " * n,
    "braces-lambda": lambda n: "{ lambda ; " * n,
    "text-after": lambda n: program() + "x" * n,
    "semicolons": lambda n: "{ lambda ; a:f32[4]. let " + ";" * n + " in (a,) }",
    "effects": lambda n: program() [:-2] + " : { " + many("Read<a>", n, ", ") + " } }",
    "effects-open": lambda n: program()[:-2] + " : { " + "Read<a>, " * n,
    "in-in": lambda n: "{ lambda ; a:f32[4]. let " + "in (" * n,
    "in-lines": lambda n: program(lines("  in (a\n", n)),
    "open-types": lambda n: "{ lambda ; " + "a:f32[4 " * n,
    "open-cells": lambda n: program(lines("    x[{i}\n", n)),
    "open-parameters": lambda n: program(lines("    b{i}:f32[4] = sin[x=1\n", n)),
    "fmt": lambda n: program(lines("    debug_print[\n      fmt={i} [\n    ] a\n", n)),
    "fmt-open": lambda n: program(lines("    debug_print[\n      fmt={i} [\n", n)),
    "msg-open": lambda n: program("    check[\n" + lines("      msg={i} (\n", n)),
    "beside": lambda n: program("    b:f32[4] = f[\n" + lines("      j{i}=1 k{i}=(1, 2) l{i}=x\n", n) + "    ] a\n"),
    "open-values": lambda n: program("    b:f32[4] = scan[" + "k=(" * n + " ] a\n"),
    "keys": lambda n: program("    b:f32[4] = f[" + many("k{i}=", n) + "] a\n"),
    "equals": lambda n: program("    b:f32[4] " + "= " * n + "a\n"),
    "arrows": lambda n: program(lines("    a[] <- \n", n)),
    "wrapped-nowhere": lambda n: program("    b:f32[4] = sin\n" + lines("      \n", n) + "      a\n"),
    "indented": lambda n: program("".join(" " * (i % 7) + "a\n" for i in range(n))),
}  # fmt: skip

#: types, literals and parameter values
LEAVES: dict[str, Shape] = {
    "dims": lambda n: program(inputs=f"a:f32[{ONES * n}1]"),
    "dims-in-equations": lambda n: one(f"b:f32[{ONES * n}1] = sin a", f"a:f32[{ONES * n}1]"),
    "axes": lambda n: program(inputs=f"a:f32[8@({many('X{i}', n, ',')})]"),
    "repeated-axes": lambda n: program(inputs=f"a:f32[8@({'X,' * n}X)]"),
    "states": lambda n: program(inputs=f"a:f32[8]{{V:({many('X{i}', n, ',')})}}"),
    "states-reduced": lambda n: one(f"b:f32[8]{{R:({many('X{i}', n, ',')})}} = sin a", f"a:f32[8]{{R:({many('X{i}', n, ',')})}}"),
    "state-list": lambda n: program(inputs=f"a:f32[8]{{{'V:X, ' * n}V:Y}}"),
    "sizes": lambda n: program(inputs=f"a:f32[{'9' * n}]"),
    "symbolic": lambda n: program(inputs=f"a:f32[{'b*' * n}b]"),
    "symbolic-sum": lambda n: program(inputs=f"a:f32[{'b + ' * n}1]"),
    "symbolic-deep": lambda n: program(inputs=f"a:f32[{'(' * n}b{')' * n}]"),
    "symbolic-minus": lambda n: program(inputs=f"a:f32[{'-' * n}b]"),
    "refs": lambda n: program(inputs=f"a:{'Ref{' * n}f32[]{'}' * n}"),
    "refs-open": lambda n: program(inputs=f"a:{'Ref{' * n}"),
    "dtype": lambda n: program(inputs=f"a:f{'3' * n}[]"),
    "key": lambda n: program(inputs=f"a:key<{'y' * n}>[]"),
    "opaque": lambda n: program(inputs=f"a:T{'o' * n}"),
    "literal": lambda n: one(f"b:i32[] = neg {'1' * n}:i32[]"),
    "literal-real": lambda n: one(f"b:f32[] = neg 1.{'1' * n}e{'9' * n}:f32[]"),
    "literal-array": lambda n: one(f"b:i32[3] = neg [{'1 ' * n}]:i32[3]"),
    "literal-open": lambda n: program(lines("    b{i}:i32[] = neg [1\n", n)),
    "names": lambda n: program(inputs=f"{'a' * n}:f32[4]"),
    "integer": lambda n: one(f"b:f32[4] = integer_pow[y={'2' * n}] a"),
    "tuple": lambda n: one(f"b:f32[4] = f[x=({ONES * n})] a"),
    "tuple-deep": lambda n: one(f"b:f32[4] = f[x={'(' * n}{',)' * n}] a"),
    "list-deep": lambda n: one(f"b:f32[4] = f[x={'[' * n}{']' * n}] a"),
    "call-deep": lambda n: one(f"b:f32[4] = f[x={'P(' * n}{',)' * n}] a"),
    "keyword-deep": lambda n: one(f"b:f32[4] = f[x={'P(a=' * n}1{')' * n}] a"),
    "braces-deep": lambda n: one(f"b:f32[4] = f[x={'{' * n}{'}' * n}] a"),
    "pair-deep": lambda n: one(f"b:f32[4] = f[x={'{1: ' * n}1{'}' * n}] a"),
    "angles-deep": lambda n: one(f"b:f32[4] = f[x={'<' * n}{'>' * n}] a"),
    "string": lambda n: one(f"b:f32[4] = f[x='{'s' * n}'] a"),
    "strings": lambda n: one(f"b:f32[4] = f[x=({many(chr(39) + 's{i}' + chr(39), n, ', ')})] a"),
    "string-open": lambda n: program(lines("    b{i}:f32[4] = f[x='s] a\n", n)),
    "escapes": lambda n: one(f"b:f32[4] = f[x=('{chr(92) * 2 * n}',)] a"),
    "parameters": lambda n: one(f"b:f32[4] = f[{many('k{i}=1', n)}] a"),
    "parameter-lines": lambda n: program("    b:f32[4] = f[\n" + lines("      k{i}=1\n", n) + "    ] a\n"),
    "unquoted": lambda n: program("    b:f32[4] = f[\n" + lines("      k{i}=what is ( this\n", n) + "    ] a\n"),
    "specs": lambda n: one(f"b:f32[4] = sharding_constraint[sharding=P({many('None', n, ', ')})] a"),
}  # fmt: skip

#: programs: many equations, many names, many refusals
WIDE: dict[str, Shape] = {
    "equations": lambda n: program(lines("    b{i}:f32[4] = sin a\n", n)),
    "chain": lambda n: program("    b0:f32[4] = sin a\n" + lines("    b{i}:f32[4] = sin b{h}\n", n), outputs="b1,"),
    "one-line": lambda n: "{ lambda ; a:f32[4]. let " + many("b{i}:f32[4] = sin a", n, "; ") + " in (a,) }",
    "one-line-refused": lambda n: "{ lambda ; a:f32[4]. let " + many("b{i}:f32[5] = sin a", n, "; ") + " in (a,) }",
    "one-line-odd": lambda n: "{ lambda ; a:f32[4]. let " + many("b{i}:f32[4] = f[x={{<}}] a", n, "; ") + " in (a,) }",
    "refused": lambda n: program(lines("    b{i}:f32[5] = sin a\n", n)),
    "unsound": lambda n: "# mesh: X=2\n" + program(lines("    b{i}:f32[4]{{U:X}} = cos a\n", n), "a:f32[4]{U:X}"),
    "unmodelled": lambda n: program(lines("    b{i}:f32[4] = nothing_like_it a\n", n)),
    "unbound": lambda n: program(lines("    b{i}:f32[4] = sin z{i}\n", n)),
    "rebound": lambda n: program(lines("    a:f32[4] = sin a\n", n)),
    "dropped": lambda n: program(lines("    _:f32[4] = sin a\n", n)),
    "untyped": lambda n: program(lines("    b{i} = sin a\n", n)),
    "untyped-inputs": lambda n: program(inputs=many("b{i}", n), outputs=""),
    "bad-types": lambda n: program(lines("    b{i}:f32[4@Z{i}] = sin a\n", n)),
    "new-types": lambda n: program(lines("    b{i}:f32[{i}] = broadcast_in_dim 1.0:f32[]\n", n)),
    "inputs": lambda n: program(inputs=many("b{i}:f32[4]", n), outputs=""),
    "same-inputs": lambda n: program(inputs=many("a:f32[4]", n)),
    "constants": lambda n: f"{{ lambda {many('b{i}:f32[4]', n)} ; . let  in () }}",
    "outputs": lambda n: program(outputs="a," * n),
    "unbound-outputs": lambda n: program(outputs=many("z{i}", n, ", ") + ","),
    "operands": lambda n: one(f"b:f32[4] = sin {'a ' * n}"),
    "concatenate": lambda n: one(f"b:f32[{4 * n}] = concatenate[dimension=0] {'a ' * n}"),
    "add-any": lambda n: one(f"b:f32[4] = select_n {'a ' * n}"),
    "binders": lambda n: one(f"{many('b{i}:f32[4]', n)} = sin a"),
    "same-binders": lambda n: one(f"{'b:f32[4] ' * n}= split[sizes=({ONES * n}) axis=0] a", f"a:f32[{n}]"),
    "split": lambda n: one(f"{many('b{i}:f32[1]', n)} = split[axis=0 sizes=({ONES * n})] a", f"a:f32[{n}]"),
    "comments": lambda n: program(lines("    b{i}:f32[4] = sin a # here\n", n)),
    "comments-only": lambda n: program(lines("    # {i}\n", n) + "    b:f32[4] = sin a\n"),
    "wrapped-operands": lambda n: program("    b:f32[4] = f\n" + lines("      a\n", n)),
    "cells": lambda n: program(lines("    a[{i}] <- b\n", n), "a:Ref{f32[4]} b:f32[4]"),
    "swaps": lambda n: program(lines("    c{i}:f32[4], a[] <- a[], b\n", n), "a:Ref{f32[4]} b:f32[4]"),
    "collectives": lambda n: "# mesh: X=2\n"
    + program(lines("    b{i}:f32[4] = reshard a\n    c{i}:f32[4] = sin b{i}\n", n), "a:f32[4@X]", f"c{n},"),
    "reduced-dims": lambda n: one(f"b:f32[] = reduce_sum[axes=({many('{i}', n, ', ')},) out_sharding=None] a", f"a:f32[{ONES * n}]"),
    "permutation": lambda n: one(f"b:f32[{ONES * n}] = transpose[permutation=({many('{i}', n, ', ')},)] a", f"a:f32[{ONES * n}]"),
    "reshape": lambda n: one(f"b:f32[{'2,' * n}] = reshape[dimensions=None new_sizes=({'2, ' * n}) sharding=None] a", f"a:f32[{'2,' * n}]"),
    "reshape-ones": lambda n: one(f"b:f32[{ONES * n}] = reshape[dimensions=None new_sizes=({'1, ' * n}) sharding=None] a", "a:f32[]"),
    "reshape-flat": lambda n: one("b:f32[1] = reshape[dimensions=None new_sizes=(1,) sharding=None] a", f"a:f32[{'2,' * n}2]"),
    "squeeze": lambda n: one(f"b:f32[] = squeeze[dimensions=({many('{i}', n, ', ')},)] a", f"a:f32[{ONES * n}]"),
    "expand": lambda n: one(f"b:f32[{ONES * n}] = expand_dims[dimensions=({many('{i}', n, ', ')},)] a", "a:f32[]"),
    "broadcast": lambda n: one(f"b:f32[{ONES * n}] = broadcast_in_dim[broadcast_dimensions=({many('{i}', n, ', ')},)] a", f"a:f32[{ONES * n}]"),
    "contraction": lambda n: one(
        f"b:f32[] = dot_general[dimension_numbers=(([{many('{i}', n, ', ')}], [{many('{i}', n, ', ')}]), ([], []))] a a",
        f"a:f32[{ONES * n}]",
    ),
    "slices": lambda n: one(
        f"b:f32[{ONES * n}] = slice[limit_indices=({ONES * n}) start_indices=({'0,' * n}) strides=None] a", f"a:f32[{ONES * n}]"
    ),
    "pads": lambda n: one(f"b:f32[{ONES * n}] = pad[padding_config=({'(0, 0, 0), ' * n})] a 0.0:f32[]", f"a:f32[{ONES * n}]"),
}  # fmt: skip


def calls(n: int) -> str:
    """One body, called n times, each time with another of its results used."""
    results = 8
    inner = lines("    c{i}:f32[4] = reduce_sum[axes=(0,)] x\n", 0) + lines("    c{i}:f32[4] = sin x\n", n)
    body = f"let f = {{ lambda ; x:f32[4]. let\n{inner}  in ({many('c1', results, ', ')}) }} in\n"
    equations, used = "", ""
    for i in range(n):
        names = [f"b{i}_{k}" if i >> k & 1 else "_" for k in range(results)]
        equations += f"    {' '.join(f'{name}:f32[4]' for name in names)} = jit[name=f jaxpr=f] a\n"
        used += "".join(f"{name}, " for name in names if name != "_")
    return body + program(equations, outputs=used)


def rotating(n: int) -> str:
    """A scan of n carries, each of which feeds the one before it, and a collective that only the last one needs."""
    inputs, outputs = many("c{i}:f32[4@X]", n), many("c{i}", n - 1, ", ")
    body = f"{{ lambda ; z:f32[4@X] {inputs}. let w:f32[4] = reshard z; y:f32[4@X] = reshard w in (y, z, {outputs}) }}"
    binders = " ".join(["_:f32[4@X]"] * n + ["b:f32[4@X]"])
    equation = f"    {binders} = scan[_split_transpose=False jaxpr={body} length=3 linear=() num_carry={n + 1} num_consts=0 reverse=False unroll=1] {'a ' * (n + 1)}\n"
    return "# mesh: X=2\n" + program(equation, "a:f32[4@X]", "b,")


def branches(n: int) -> str:
    body = "{ lambda ; x:f32[4]. let y:f32[4] = sin x in (y,) }"
    return one(f"b:f32[4] = cond[branches=({' '.join([body] * n)})] i a", "a:f32[4] i:i32[]")


def reused(n: int) -> str:
    """Definitions that are called from n places, in a chain of bodies that communicate."""
    body = (
        "let f = { lambda ; x:f32[4@X]. let\n"
        + lines("    y{i}:f32[4] = reshard x\n    z{i}:f32[4] = sin y{i}\n", 40)
        + "  in (z1,) } in\n"
    )
    return (
        "# mesh: X=2\n"
        + body
        + program(lines("    b{i}:f32[4] = jit[name=f{i} jaxpr=f] a\n", n), "a:f32[4@X]", f"{many('b1', 1)},")
    )


def manual(n: int) -> str:
    """A shard_map of n operands."""
    types = many("x{i}:f32[2]{{V:X}}", n)
    body = f"{{ lambda ; {types}. let  in (x0,) }}"
    mesh = "Mesh('X': 2, axis_types=(Explicit,))"
    specs = many("P('X',)", n, ", ")
    return one(
        f"b:f32[4@X] = shard_map[check_vma=True in_specs=({specs},) jaxpr={body} mesh={mesh} newly_manual_axes=frozenset({{'X'}}) "
        f"out_specs=(P('X',),)] {'a ' * n}",
        "a:f32[4@X]",
    )


#: programs inside programs
NESTED: dict[str, Shape] = {
    "inline": lambda n: "{ lambda ; a:f32[4]. let b:f32[4] = jit[jaxpr=" * n + "{ lambda ; . let  in () }" + "] a in (b,) }" * n,
    "inline-open": lambda n: "{ lambda ; a:f32[4]. let\n b:f32[4] = jit[jaxpr=" * n,
    "inline-lines": lambda n: "{ lambda ; a:f32[4]. let\n b:f32[4] = jit[\n jaxpr=" * n + "x" + "\n ] a\n in (b,) }" * n,
    "branches-deep": lambda n: "{ lambda ; a:f32[4]. let b:f32[4] = cond[branches=(" * n + ")] a in (b,) }" * n,
    "definitions": lambda n: LAST + lines(CALL, n) + one(f"b:f32[4] = jit[jaxpr=d{n} name=d] a"),
    "definitions-backwards": lambda n: "".join(CALL.format(i=i, h=i - 1) for i in range(n, 0, -1)) + LAST + one(f"b:f32[4] = jit[jaxpr=d{n} name=d] a"),
    "definitions-flat": lambda n: LAST + lines(CALL.replace("d{h}", "d0"), n) + one(f"b:f32[4] = jit[jaxpr=d{n} name=d] a"),
    "cycle": lambda n: CALL.format(i=0, h=n) + lines(CALL, n) + one("b:f32[4] = jit[jaxpr=d0 name=d] a"),
    "unknown-definitions": lambda n: program(lines("    b{i}:f32[4] = jit[jaxpr=g{i} name=d] a\n", n)),
    "unknown-branches": lambda n: program(lines("    b{i}:f32[4] = cond[branches=(g{i} h)] a a\n", n)),
    "same-definitions": lambda n: LAST * n + one("b:f32[4] = jit[jaxpr=d0 name=d] a"),
    "branches": branches,
    "calls": calls,
    "rotating": rotating,
    "reused": reused,
    "manual": manual,
    "scans": lambda n: program(lines("    b{i}:f32[4] = scan[jaxpr={{ lambda ; x:f32[4]. let y:f32[4] = sin x in (y,) }} length=9 num_carry=1 num_consts=0] a\n", n)),
    "wrong-bodies": lambda n: program(lines("    b{i}:f32[4] = jit[name=f jaxpr={{ lambda ; x:f32[5]. let y:f32[4] = sin x in (y,) }}] a\n", n)),
}  # fmt: skip

SHAPES: dict[str, Shape] = {**LEXICAL, **LEAVES, **WIDE, **NESTED}


def doubling(depth: int) -> str:
    """Definitions that each use the one before twice: 2^depth uses of the first, in depth lines."""
    twice = (
        "let d{i} = {{ lambda ; a:f32[4@X]. let b:f32[4@X] = jit[jaxpr=d{h} name=d] a; "
        "c:f32[4@X] = jit[jaxpr=d{h} name=d] b in (c,) }} in\n"
    )
    first = "let d0 = { lambda ; a:f32[4@X]. let b:f32[4] = reshard a; c:f32[4@X] = reshard b in (c,) } in\n"
    last = program(f"    b:f32[4@X] = jit[jaxpr=d{depth} name=d] a\n", "a:f32[4@X]", "b,")
    return "# mesh: X=2\n" + first + lines(twice, depth) + last


def loops(depth: int, length: str) -> str:
    """Scans inside scans, the innermost with an all-gather."""
    body = "{ lambda ; x:f32[4@X]. let y:f32[4] = reshard x; z:f32[4@X] = reshard y in (z,) }"
    for _ in range(depth):
        body = f"{{ lambda ; x:f32[4@X]. let y:f32[4@X] = scan[jaxpr={body} length={length} num_carry=1 num_consts=0] x in (y,) }}"
    return "# mesh: X=2\n" + body
