"""Texts to read: printed programs with accidents, and texts drawn from the grammars themselves."""

# ruff: noqa: E501 - lists of scraps

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from lark import Lark
from lark.grammar import NonTerminal

ROOT = Path(__file__).resolve().parents[2]
GRAMMAR = ROOT / "grammar"
PRINTED = sorted((ROOT / "tests" / "golden" / "corpus").rglob("*.jaxpr"))
SEEDS = sorted((ROOT / "examples" / "seeds").glob("*.jaxpr"))
SHORT = [path.read_text(encoding="utf-8") for path in PRINTED + SEEDS if path.stat().st_size < 4_000]

#: pieces of the language, and of what is nearly the language
SCRAPS = [
    "{ lambda ; ", ". let\n", " in (", "(a,) }", "in", "let", "lambda", "_", "a", "jit", "scan", "shard_map", "branches=(",
    "while", "cond", "custom_vjp_call", "b", "0@X", "-1@X", "object at 0x7f",
    "{", "}", "[", "]", "(", ")", "<", ">", ":", ";", ",", ".", "=", "@", "<-", "+=", "#", "*", "~", "'", '"', "\\", "-",
    "\n", "\n\n", " ", "    ", "\t", "\r", "\r\n", "\0", "\x0b", "\x0c", "\x1b[31m", "\x7f", "\x85", "\u2028", "\ufeff",
    "é", "ß", "变量", "𝟜", "٣", "²", "Ⅷ", "\u0301", "\u202e", "\u200b", "\ud800", "\U0010ffff",
    "f32[4]", "f32[8@X,4]{U:Y}", "f32[8@(X,Y)]", "f32[8@X@Y]", "{V:data, U:model}", "{U_max:X}", "{R:X}", "{Q:X}", "Ref{f32[4]}",
    "f32[-1]", "f32[0]", "f32[007]", "f32[1e3]", "f32[٣]", "f32[b + 1,2*s]", "f33[4]", "key<fry>[]", "~f32[]", "Tok", "float0[4]",
    "1.0:f32[]", "1:i32[]", "-0.0", "nan", "inf:f32[]", "1_000", "0x10", "1e999:f32[]", "(1+2j):c64[]", "(b'',):float0[]",
    "True", "None", "length=0", "length=-1", "length=" + "9" * 30, "num_carry=-1", "num_consts=10", "axes=(0, 0)", "axes=(-1,)",
    "permutation=(1, 1)", "new_sizes=()", "dimension_numbers=(([0], [0]), ([], []))", "jaxpr=f", "P('X')", "P('X', 'X')",
    "unreduced={'X'}", "frozenset({'X'})", "mesh=Mesh('X': 4, axis_types=(Manual,))", "Mesh('X': 0)", "np.int64(4)", "<lambda>",
    "<function f at 0x7f>", "fmt=x {", "# mesh: X=4, Y=2\n", "# mesh: X=0\n", "# mesh:", "9" * 40, "9" * 5000, "x" * 300,
]  # fmt: skip

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_BRACKETS = "()[]{}<>"

#: what may stand in each other's place, and some more of the kind: types, sizes, names, primitives, parameters, numbers
_ALIKE = [
    (
        re.compile(r"(?<=:)\w[\w<>]*\[[^\[\]\n]*\](?:\{[^{}\n]*\})?"),
        [
            "f32[4]",
            "f32[8@X]{U:Y}",
            "f32[8]{R:X}",
            "f32[8]{V:X}",
            "i32[]",
            "bool[4]",
            "key<fry>[]",
            "Ref{f32[4]}",
            "Tok",
        ],
    ),
    (re.compile(r"(?<=[\[,])\d+(?:@\w+)?(?=[\],])"), ["0", "1", "8@X", "8@(X,Y)", "b", "9223372036854775807"]),
    (re.compile(r"\b[a-z]{1,2}\b(?=[ \n,])"), ["a", "b", "_", "1.0:f32[]", "0:i32[]", "0.0"]),
    (
        re.compile(r"(?<== )[a-z_]\w*"),
        ["psum", "all_gather", "add", "dot_general", "while", "scan", "cond", "sort", "cumsum", "gather"],
    ),
    (
        re.compile(r"\b\w+=[^\s\[\]{}]+"),
        ["axes=(0,)", "length=7", "dimension=1", "jaxpr=None", "axes=('X',)", "unroll=1"],
    ),
    (re.compile(r"(?<=[( ])-?\d+(?=[,)])"), ["-1", "0", "1", "2", "99", "None", "'X'", "b"]),
]


@st.composite
def accidents(draw: st.DrawFn) -> str:
    """A printed program with one to four accidents: cut off, or tokens, lines or brackets lost, doubled, exchanged, put
    in."""
    text = draw(st.sampled_from(SHORT))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 8))
        if kind == 0:
            text = text[: draw(st.integers(0, len(text)))]
            continue
        if kind in (1, 2):
            place = draw(st.integers(0, len(text)))
            text = text[:place] + draw(st.sampled_from(SCRAPS)) + text[place + (kind == 2) * draw(st.integers(0, 9)) :]
            continue
        brackets = [place for place, character in enumerate(text) if character in _BRACKETS]
        if kind == 3 and brackets:
            place = draw(st.sampled_from(brackets))
            text = text[:place] + draw(st.sampled_from(["", text[place] * 2, *_BRACKETS])) + text[place + 1 :]
            continue
        parts = text.split("\n") if kind < 6 else _TOKEN.findall(text)
        if not parts:
            continue
        one, other = draw(st.integers(0, len(parts) - 1)), draw(st.integers(0, len(parts) - 1))
        if kind in (4, 6):
            del parts[one]
        elif kind == 5:
            parts.insert(other, parts[one])
        elif kind == 7:
            parts[one] = parts[other]
        else:
            parts[one], parts[other] = parts[other], parts[one]
        text = ("\n" if kind < 6 else "").join(parts)
    return text


@st.composite
def exchanges(draw: st.DrawFn) -> str:
    """A printed program, still one in form, in which one to three types, sizes, names, primitives or parameters stand
    where others of their kind stood."""
    text = draw(st.sampled_from(SHORT))
    for _ in range(draw(st.integers(1, 3))):
        pattern, others = draw(st.sampled_from(_ALIKE))
        alike = list(pattern.finditer(text))
        if alike:
            one, other = draw(st.sampled_from(alike)), draw(st.sampled_from(alike))
            text = text[: one.start()] + draw(st.sampled_from([other[0], *others])) + text[one.end() :]
    return text


@st.composite
def overwritten(draw: st.DrawFn) -> bytes:
    """A printed program in which one byte is another."""
    data = bytearray(draw(st.sampled_from(SHORT)).encode())
    data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


scraps = st.lists(st.sampled_from(SCRAPS), max_size=30).map("".join)

#: of each terminal, texts that it matches; types and values are drawn from their own grammars
TERMINALS: dict[str, list[str]] = {
    "MESH": ["# mesh: X=4, Y=2\n", "# mesh: X=2; A=2\n"],
    "DEFINITION": ["f", "g", "small", "_where1", "<lambda>"],
    "FUTURE": ["AbstractFuture"],
    "BRACE": ["{"],
    "_RESULTS": ["in"],
    "EFFECTS": [": { Read<a> }", ": {  }", ": { Write<b>, <Effect object at 0x7f> }"],
    "VARIABLE": ["a", "b", "c", "in", "let", "mul", "_", "é", "x1"],
    "PRIMITIVE": ["sin", "mul", "add", "jit", "scatter-add", "custom_jvp_call", "in", "reshard", "dot_general"],
    "ACTION": ["debug_print", "check", "scatter-add"],
    "CELL": ["a[]", "b[0,1:3,:]", "c[...]", "a[b:b+2]"],
    "LITERAL": ["1.0", "0", "-2.5e-38", "nan", "inf", "-inf", "True", "(1+2j)", "1j", "(b'',)", "[1 2 3]", "007"],
    "_OPEN": ["["],
    "KEY": ["x", "jaxpr", "branches", "fmt", "name", "axes", "new_sizes", "length", "dimension_numbers"],
    "_PAREN": ["("],
    "NONE": ["None"],
    "TRUE": ["True"],
    "FALSE": ["False"],
    "INTEGER": ["0", "7", "-3", "1000000000000000000000"],
    "REAL": ["1.0", "-0.0", "1e-38", "nan", "-inf", "1.5e+30", "(1+2j)"],
    "STRING": ["'X'", "'data'", "''", '"don\'t"', "'\\n'", "'a\\'b'", "'{'", "'é'"],
    "BYTES": ["b''", "b'x'"],
    "SIZE": ["b + 1", "2*s", "4*b", "b^2", "mod(b, 4)*2"],
    "TYPED": ["float32[3]", "f32[8@X,4]{U:Y}"],
    "ANGLES": ["<lambda>", "<function f.<locals>.<lambda> at 0x7f>"],
    "NAME": ["float32", "fry", "GatherScatterMode.CLIP", "f", "cpu"],
    "WORDS": ["TPU v6 lite", "NVIDIA A100-SXM4-40GB"],
    "STAR": ["*"],
    "SPEC": ["P", "PartitionSpec"],
    "CALLEE": ["frozenset", "np.int64", "ShapedArray", "NamedSharding"],
    "WEAK": ["~"],
    "DTYPE": ["f32", "bf16", "i32", "bool", "float32", "key<fry>", "float0", "f8_e4m3fn", "u2", "c64", "i4", "f16", "q7"],
    "MEMORY": ["<host>", "<device>"],
    "REF": ["Ref"],
    "SPACE": ["<default>", "<>"],
    "OPAQUE": ["Tok", "AbstractOperator()"],
    "AXIS": ["X", "Y", "data", "_x", "1"],
    "STATE": ["V", "U", "R", "U_max", "U_min"],
    "NUMBER": ["0", "1", "8", "1024", "99999999999999999999"],
    "PLUS": [" + "],
    "MINUS": [" - "],
    "HAT": ["^"],
}  # fmt: skip

TYPES = [
    "f32[4]",
    "f32[8@X,4]{U:Y}",
    "f32[8@(X,Y)]",
    "i32[]",
    "f32[b + 1,2*s]",
    "Ref{f32[4]}",
    "key<fry>[]",
    "Tok",
    "",
    "",
]
"""Texts of types; for the empty one, a text is drawn from types.lark."""

#: how deep the walk of a grammar goes before it takes the shortest way out
DEPTH = 9


@cache
def rules(grammar: str, start: str) -> tuple[dict[str, list[Any]], dict[str, int], dict[str, str]]:
    """A grammar's expansions by rule, the least depth of each rule, and the terminals that have only one text."""
    language = Lark(
        (GRAMMAR / grammar).read_text(encoding="utf-8"), parser="lalr", start=start, lexer="basic", keep_all_tokens=True
    )
    expansions: dict[str, list[Any]] = {}
    for rule in language.rules:
        expansions.setdefault(rule.origin.name, []).append(list(rule.expansion))
    least: dict[str, int] = {}
    while len(least) < len(expansions):
        for name, ways in expansions.items():
            found = [
                max((least.get(s.name, 99) if isinstance(s, NonTerminal) else 0 for s in way), default=0)
                for way in ways
            ]
            if min(found) < 99:
                least[name] = min(least.get(name, 99), min(found) + 1)
    fixed = {terminal.name: terminal.pattern.value for terminal in language.terminals if terminal.pattern.type == "str"}
    return expansions, least, fixed


def walk(draw: st.DrawFn, grammar: str, start: str, tokens: list[tuple[str, str]], depth: int = 0) -> None:
    """Append the terminals of a text that the rule derives, with their names."""
    expansions, least, fixed = rules(grammar, start if not depth else ROOTS[grammar])
    ways = expansions[start]

    def height(way: list[Any]) -> int:
        return max((least[symbol.name] for symbol in way if isinstance(symbol, NonTerminal)), default=0)

    if depth > DEPTH:
        ways = sorted(ways, key=height)[:1]
    for symbol in ways[draw(st.integers(0, len(ways) - 1))]:
        if isinstance(symbol, NonTerminal):
            walk(draw, grammar, symbol.name, tokens, depth + 1)
        elif symbol.name == "TYPE":
            tokens.append(("TYPE", draw(st.sampled_from(TYPES)) or draw(types())))
        elif symbol.name == "VALUE":
            tokens.append(("VALUE", draw(values())))
        elif symbol.name == "_END":
            tokens.append(("_END", ""))
        elif symbol.name in fixed:
            tokens.append((symbol.name, fixed[symbol.name]))
        else:
            tokens.append((symbol.name, draw(st.sampled_from(TERMINALS[symbol.name]))))


ROOTS = {"programs.lark": "document", "types.lark": "type"}


@st.composite
def types(draw: st.DrawFn) -> str:
    """A text that types.lark derives."""
    tokens: list[tuple[str, str]] = []
    walk(draw, "types.lark", "type", tokens)
    return "".join(text for _, text in tokens)


@st.composite
def values(draw: st.DrawFn) -> str:
    """A text that the rule `value` derives, with blanks where they are printed."""
    tokens: list[tuple[str, str]] = []
    walk(draw, "programs.lark", "_term", tokens, 1)
    return "".join(f"{text} " if name in ("COMMA", "COLON") else text for name, text in tokens)


#: terminals without a blank behind them, and without one before them
OPENING = {"", "COLON", "_OPEN", "KEY", "EQUAL", "_PAREN", "LPAR", "_END"}
CLOSING = {"COLON", "COMMA", "RSQB", "_OPEN", "RPAR", "EQUAL", "SEMICOLON", "DOT"}


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A text that programs.lark derives, its equations on lines of their own or on one line, blanks where they are
    printed or everywhere."""
    tokens: list[tuple[str, str]] = []
    walk(draw, "programs.lark", "document", tokens)
    spread, wrapped = draw(st.booleans()), draw(st.booleans())
    parts: list[str] = []
    level = 0
    previous = ""
    for name, text in tokens:
        level += (name == "BRACE") - (name == "RBRACE")
        line = "\n" + "    " * level
        tight = previous in OPENING or name in CLOSING
        if name == "_END":
            parts.append(line if wrapped else "; ")
        elif name == "EQUAL" and previous != "KEY":
            parts.append(f" {text} ")
        else:
            parts.append(text if tight and not spread else f" {text}")
        if name == "LET" and level and wrapped:
            parts.append(line)
        previous = name
    return "".join(parts).lstrip(" ")
