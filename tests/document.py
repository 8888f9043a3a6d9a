"""The one document to cite: the calculus, its theorems and their proofs, on one page without links to elsewhere.

    python -m tests.document [FILE]     (make document)

Nothing is written here that stands elsewhere. Definitions are the docstrings of the modules that implement them, the
grammar is the grammar, rules are drawn in the docstrings of the functions that are them, tables are the tables, and the
proofs are the pages of `proofs/`. Here they are put in one order, and numbered.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import calculus.forms  # noqa: F401  (every rule is registered by it)
from calculus.collectives import COLLECTIVES
from calculus.judgments import RULES
from calculus.primitives import TABLE
from calculus.refusals import CATALOGUE
from verifier.proving.lemmas import LEMMAS
from verifier.samples import NoSample, samples
from verifier.theorems import OF_DECLARATIONS, THEOREMS

ROOT: Final = Path(__file__).resolve().parents[1]
TITLE: Final = "A calculus of explicit sharding types, and its proofs"

DEFINITIONS: Final = (
    ("Types", "calculus.types"),
    ("States, as families of device blocks", "verifier.devices"),
    ("Cotangents", "calculus.cotangents"),
    ("Index schemes", "calculus.schemes"),
    ("Linearity signatures and joins", "calculus.signatures"),
    ("Local, and the relation Q", "calculus.linearity"),
    ("Declarations of primitives", "calculus.primitives.declaration"),
    ("Elements: what a kernel computes, as a definition", "calculus.elements"),
    ("Communication", "calculus.communication"),
    ("Judgments", "calculus.judgments"),
)
"""Each definition, and the module whose docstring it is."""

PAGES: Final = (
    "linearity", "blame", "signatures", "soundness", "rules", "sums", "cotangents", "transposition", "adjointness",
    "fan_out", "communication", "forced", "hoisting", "modes", "reshards", "evidence", "compiled", "concrete",
)  # fmt: skip
"""The pages of proofs, in the order in which they use each other."""

ELSEWHERE: Final = ("README", "differences", "your-own-rule")
"""Pages that are no proofs: the trusted base, spliced in by itself; the ledger; a tutorial."""


def document() -> str:
    """The whole, in Markdown."""
    parts = [
        f"# {TITLE}",
        "Assembled from the sources by `make document`; `shardproof prove` checks the obligations that are named here.",
        _contents(),
        *_definitions(),
        *_syntax(),
        *_rules(),
        *_tables(),
        *_theorems(),
        *_proofs(),
        *_trusted(),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _contents() -> str:
    return "\n".join(f"{number}. [{name}](#part-{number})" for number, name in enumerate(_PARTS, 1))


_PARTS: Final = ("Definitions", "Syntax", "Rules", "Tables", "Theorems", "Proofs", "What is trusted")


def _part(name: str) -> str:
    number = _PARTS.index(name) + 1
    return f'<a id="part-{number}"></a>\n\n## {number}. {name}'


def _fenced(text: str) -> str:
    return f"```\n{text.strip(chr(10))}\n```"


def _definitions() -> Iterator[str]:
    yield _part("Definitions")
    for number, (title, module) in enumerate(DEFINITIONS, 1):
        said = inspect.getdoc(importlib.import_module(module)) or ""
        yield f"### Definition {number}: {title}\n\n`{module.replace('.', '/')}.py`"
        yield _fenced(said)


def _syntax() -> Iterator[str]:
    yield _part("Syntax")
    for name in ("types", "programs"):
        yield f"### The grammar of {name}\n\n`grammar/{name}.lark`"
        yield _fenced((ROOT / "grammar" / f"{name}.lark").read_text(encoding="utf-8"))


def _rules() -> Iterator[str]:
    yield _part("Rules")
    yield "Γ ⊢ e : τ ▷ κ reads: in the context Γ the equation e has the type τ and communicates κ."
    for number, (name, function) in enumerate(RULES.items(), 1):
        module = function.__module__.replace(".", "/")
        yield f"### Rule {number}: {name}\n\n`{function.__name__}` in `{module}.py`"
        yield _fenced(textwrap.dedent(function.__doc__ or ""))


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') or ' ' for cell in cells)} |"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "\n".join([_row(head), _row(["---"] * len(head)), *map(_row, rows)])


def _tables() -> Iterator[str]:
    yield _part("Tables")
    yield "### Table 1: primitives\n\nEach at its first sample call; schemes and signatures depend on the call."
    yield _table(("primitive", "index scheme", "linearity", "joins", "defined by"), [*_primitives()])
    yield "### Table 2: casts and collectives of per-device code"
    yield _table(
        ("row", "before", "after", "collective", "dims", "transpose"),
        [
            (f"`{name}`", row.before, row.after, row.kind or "free", row.move, row.transpose)
            for name, row in COLLECTIVES.items()
            if not row.future
        ],
    )
    yield "### Table 3: refusals"
    yield _table(("code", "family", "because"), [(f"`{code}`", *said) for code, said in CATALOGUE.items()])


def _primitives() -> Iterator[Sequence[object]]:
    for name, primitive in TABLE.items():
        try:
            site = samples(name)[0].site
        except NoSample:
            continue
        by = "element" if primitive.element else "kernel" if primitive.kernel else "scheme"
        yield (
            f"`{name}`",
            f"`{primitive.scheme(site)}`",
            f"`{primitive.signature(site)}`",
            f"`{primitive.joins_at(site)}`",
            by,
        )


def _theorems() -> Iterator[str]:
    yield _part("Theorems")
    for number, one in enumerate(THEOREMS, 1):
        yield f"### Theorem {number}: {one.name}\n\n{one.words}"
        yield _fenced(one.symbols)
        if one.hypotheses:
            yield "Hypotheses: " + " ".join(f"*{name}*: {meaning}." for name, meaning in one.hypotheses)
        page = Path(one.page.partition("#")[0]).stem
        checked = [
            f"`{each.name}`: {each.says}" for each in one.obligations() if not each.name.startswith("adjointness.of.")
        ]
        yield f"Proof: [{page}](#page-{page}). What checks it:\n\n" + "\n".join(f"* {line}" for line in checked)
    for number, one in enumerate(OF_DECLARATIONS, len(THEOREMS) + 1):
        yield f"### Theorem {number}: {one.name}\n\n{one.words}"
        yield _fenced(one.symbols)
        yield "Proof: [soundness](#page-soundness). What checks it is read from the declarations."
    yield "The lemmas of the first:\n\n" + "\n".join(f"* `{one.name}`: {one.says}" for one in LEMMAS)


def _proofs() -> Iterator[str]:
    yield _part("Proofs")
    for number, name in enumerate(PAGES, 1):
        lines = (ROOT / "proofs" / f"{name}.md").read_text(encoding="utf-8").splitlines()
        yield f'<a id="page-{name}"></a>\n\n' + _numbered("\n".join(lines), number)


def _numbered(text: str, page: int) -> str:
    """A page with its headings two levels down: each `##` is a proposition, numbered by its page."""
    found, number, fenced, titled = [], 0, False, False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("#"):
            found.append(line)
        elif line.startswith("## "):
            number += 1
            found.append(f"#### Proposition {page}.{number}: {line[3:]}")
        else:
            one = line.startswith("# ")
            found.append(f"##{line}" if not one else f"#### {line[2:]}" if titled else f"### {page}. {line[2:]}")
            titled = titled or one
    return _inside("\n".join(found))


_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!#)([^)]*)\)")


def _inside(text: str) -> str:
    """The text with links to pages made links inside; what else is linked to is named."""

    def link(found: re.Match[str]) -> str:
        page = Path(found[2].partition("#")[0]).stem
        return (
            f"[{found[1]}](#page-{page})" if page in PAGES and found[2].partition("#")[0].endswith(".md") else found[1]
        )

    return _LINK.sub(link, text)


def _trusted() -> Iterator[str]:
    yield _part("What is trusted")
    text = (ROOT / "proofs" / "README.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        yield _inside(f"### {section}")


def main(names: list[str]) -> int:
    """Write it."""
    path = Path(names[0]) if names else ROOT / "build" / "calculus.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(), encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
