"""A report in a notebook: markup that closes, every word escaped, and the same facts as the terminal's."""

from __future__ import annotations

from html.parser import HTMLParser

from calculus.refusals import Refusal
from verifier.functions import FunctionReport
from verifier.report import Row


class Reader(HTMLParser):
    """The cells of every row and the text of every paragraph; fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.paragraphs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "p":
            self.paragraphs.append("")
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif "p" in self.open:
            self.paragraphs[-1] += data


ROWS = [
    Row(
        7, "all-reduce", ("X",), 192, 288, 2, "exact", "dot_general", ("scan x2",), "a.py:7", "params['<w>']",
        "f, l.py:3",
    ),
    Row(9, "all-gather", ("X", "Y"), 8, 7, 1, "exact", "reshard", (), "a.py:9", ""),
]  # fmt: skip


def read(report: FunctionReport) -> Reader:
    reader = Reader()
    reader.feed(report._repr_html_())
    reader.close()
    assert reader.open == []
    return reader


def test_a_report() -> None:
    refusal = Refusal("state", "a < b & c", "because <i>", "help", trail=("at a.py:7",))
    report = FunctionReport("step", "refused", 3, [refusal], ROWS, ["a <note>"])
    found = read(report)
    assert found.tags <= {"p", "b", "i", "br", "table", "thead", "tbody", "tr", "th", "td"}
    assert found.rows == [
        ["value", "where", "collective", "over", "bytes", "times", "total", "wire", "inside"],
        ["params['<w>']", "a.py:7 (in f, l.py:3)", "all-reduce", "X", "192", "2", "384", "576", "scan x2"],
        ["(reshard)", "a.py:9", "all-gather", "X,Y", "8", "1", "8", "7", "-"],
    ]
    first, note, last = found.paragraphs
    assert first == "step: refused · 3 equations · 1 refusal · 2 collectives, 3 runs · 392 bytes per device"
    assert note == "a <note>"
    assert last == "unsound: a < b & c at a.py:7because: because <i>help: help"


def test_a_report_without_communication_has_no_table() -> None:
    found = read(FunctionReport("step", "ok", 3))
    assert found.rows == []
    assert found.paragraphs == ["step: well typed · 3 equations · no communication"]
