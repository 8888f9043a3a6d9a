"""The lexer of the program language: the terminals of programs.lark, and the three things that layout decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lark import Token
from lark.common import LexerConf
from lark.lexer import Lexer, LexerState
from lark.parsers.lalr_analysis import Reduce

from grammar.expected import acceptable, can_shift, explain
from grammar.layout import NESTING, Layout, syntax, too_deep
from grammar.references import holds_programs

_BLANKS = re.compile(r"[ \t\r\f\v]+")
_PROGRAM = re.compile(r"\s*\{\s*lambda\b")
_PROGRAMS = re.compile(r"\s*\(\s*\{\s*lambda\b")
_SECOND = re.compile(r":|=|<-|\+=|[^\W\d]\w*[\[:]")  # what only another equation goes on with
_AS_PRINTED = "keep to what JAX prints: print(jax.make_jaxpr(f)(x)) writes the program once more"
_OWN_LINE = "a second equation needs a line of its own, indented no deeper than the one before, or `;` between them"
_NAMED_PROGRAMS = re.compile(r"\s*\(\s*[^\s=(){},;'\"]+(?:\s+[^\s=,;]|\s*\))")


class Reading:
    """One text while it is read. `comments` collects the source comments, each with its line."""

    __slots__ = ("comments", "first_line", "layout", "text")

    def __init__(self, text: str, first_line: int = 1) -> None:
        self.text = text
        self.first_line = first_line
        self.layout = Layout(text)
        self.comments: list[tuple[int, str]] = []

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, from 1, in the text that this one is taken from."""
        line, column = self.layout.position(offset)
        return line + self.first_line - 1, column


class LayoutLexer(Lexer):
    """Reads, of the terminals that the parser can use at this point, the first that fits, by priority."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        self._terminals = sorted(conf.terminals, key=lambda terminal: (-terminal.priority, terminal.name))
        self._fixed = {
            terminal.name: terminal.pattern.value if terminal.pattern.type == "str" else None
            for terminal in conf.terminals
        }
        self._scanners: dict[int, re.Pattern[str]] = {}
        self._forced: dict[int, Any] = {}

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        """The tokens of a `Reading`, produced as the parser asks for them."""
        reading: Reading = lexer_state.text  # type: ignore[assignment]  # what parse.py hands in
        text, layout = reading.text, reading.layout
        columns = [0]  # of the equation at hand, for each open program
        key = offset = 0
        while True:
            state = self._settled(parser_state)
            usable = parser_state.parse_conf.states[state]
            if "VALUE" in usable and not self._programs_ahead(text, key, offset):
                end = self._value_end(reading, key, offset)
                yield self._token(reading, "VALUE", offset, end)
                offset = end
                continue
            offset, ended = self._skip_blanks(reading, offset, columns[-1] if "_END" in usable else None)
            if ended and can_shift(parser_state, "_END"):
                yield self._token(reading, "_END", offset, offset + 1)
                offset += 1
                continue
            found = self._scanner(state, usable).match(text, offset) if offset < len(text) and not ended else None
            kind = "$END" if offset == len(text) else found and found.lastgroup
            if kind is None or not can_shift(parser_state, kind):
                expected = [(name, self._fixed.get(name)) for name in acceptable(parser_state)]
                help = _OWN_LINE if can_shift(parser_state, "_END") and _SECOND.match(text, offset) else _AS_PRINTED
                raise syntax(explain(text, offset, expected), *reading.position(offset), help)
            if found is None:
                return
            if "ACTION" in usable:
                columns[-1] = layout.position(offset)[1] - 1
            if kind == "KEY":
                key = offset
            elif kind == "BRACE":
                columns.append(0)
                if len(columns) > NESTING + 1:
                    raise too_deep("programs", *reading.position(offset))
            elif kind == "RBRACE":
                columns.pop()
            yield self._token(reading, kind, offset, found.end())
            offset = found.end()

    def _settled(self, parser_state: Any) -> int:
        """The state that the parser will be in once it has made the reductions that no token can avoid: only then
        its table says what fits here, and not merely somewhere after such a phrase."""
        states = parser_state.parse_conf.states
        stack = parser_state.state_stack
        state: int = stack[-1]
        rule = self._forced_rule(state, states)
        if rule is None:
            return state
        stack = list(stack)
        while rule is not None:
            if rule.expansion:
                del stack[-len(rule.expansion) :]
            state = states[stack[-1]][rule.origin.name][1]
            stack.append(state)
            rule = self._forced_rule(state, states)
        return state

    def _forced_rule(self, state: int, states: Any) -> Any:
        if state not in self._forced:
            rules = {target if action is Reduce else None for action, target in states[state].values()}
            self._forced[state] = rules.pop() if len(rules) == 1 else None
        return self._forced[state]

    def _scanner(self, state: int, usable: dict[str, Any]) -> re.Pattern[str]:
        scanner = self._scanners.get(state)
        if scanner is None:
            alternatives = (
                f"(?P<{terminal.name}>{terminal.pattern.to_regexp()})"
                for terminal in self._terminals
                if terminal.name in usable
            )
            scanner = self._scanners[state] = re.compile("|".join(alternatives) or r"(?!)")
        return scanner

    @staticmethod
    def _token(reading: Reading, kind: str, start: int, end: int) -> Token:
        line, column = reading.position(start)
        return Token(kind, reading.text[start:end], start, line, column)

    @staticmethod
    def _programs_ahead(text: str, key: int, offset: int) -> bool:
        if _PROGRAM.match(text, offset) or _PROGRAMS.match(text, offset):
            return True
        return holds_programs(text[key : offset - 1]) and _NAMED_PROGRAMS.match(text, offset) is not None

    @staticmethod
    def _value_end(reading: Reading, key: int, offset: int) -> int:
        try:
            return reading.layout.value_end(key, offset)
        except Exception as refused:
            refusal = getattr(refused, "refusal", None)
            if refusal is not None:
                refusal.line += reading.first_line - 1
            raise

    @staticmethod
    def _skip_blanks(reading: Reading, offset: int, column: int | None) -> tuple[int, bool]:
        """Where the next token stands, and whether an equation, begun at a column, ends there; `None`: it cannot."""
        text = reading.text
        while offset < len(text):
            character = text[offset]
            if character == "\n":
                if column is not None and reading.layout.ends_equation(offset, column):
                    return offset, True
                offset += 1
            elif character == ";" and column is not None:
                return offset, True
            elif character == "#" and (offset or not text.startswith("# mesh:")):
                end = text.find("\n", offset)
                end = len(text) if end < 0 else end
                line, _ = reading.position(offset)
                reading.comments.append((line, text[offset + 1 : end].strip()))
                offset = end
            else:
                blanks = _BLANKS.match(text, offset)
                if blanks is None:
                    break
                offset = blanks.end()
        return offset, False
