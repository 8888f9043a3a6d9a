"""What the ledger of differences claims, shown: that what JAX refuses is sound, and that what it accepts is not.

An entry about what is sound, and JAX refuses, carries a program. Each typing in it is a judgment of its primitive,
along each mesh axis, and is proved as the cells are (theorem `soundness`); where the difference is about a derivative,
those of the program with its backward pass are. What no scheme can say rests on the theorem about it, and the whole
program is run on devices besides. An entry about what JAX accepts, and is unsound, carries the typing: the solver
refutes it, where it is one of the table and the solver can look into the kernel, and else a search does, by a run. What
is typed right and compiled wrong has a proof of its typing, and what devices hold shows the entry's own program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from calculus.checking import Checker
from calculus.collectives import COLLECTIVES
from calculus.forms import FORMS, call, identity
from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.programs import Document
from grammar.read import read
from verifier.ledger import DEVICES, KINDS, SEARCH, SOLVER, Entry, Proof, ledger
from verifier.proving.equations import Claim, claims, placed
from verifier.proving.obligations import STATUSES, TESTED, Obligation
from verifier.proving.quotients import apart
from verifier.proving.soundness import judged
from verifier.trials.cases import runs

if TYPE_CHECKING:
    from verifier.proving.suite import Row

NAME: Final = "ledger"
RESTS: Final = {
    **{name: "lemma.programs" for name, rule in FORMS.items() if rule in (call, identity)},
    **dict.fromkeys(("scan", "while", "cond"), "lemma.programs"),
    **dict.fromkeys(("reshard", "device_put"), "reshards.value"),
    **dict.fromkeys(COLLECTIVES, "modes.rows"),
    "shard_map": "modes.crossing",
}
"""What a form rests on that no scheme can say: an obligation of a theorem, or of a lemma."""


def obligations(number: str) -> list[Obligation]:
    """The obligations of one entry, by its number."""
    return of_entry(next(one for one in ledger() if str(one.number) == number))


def of_entry(entry: Entry) -> list[Obligation]:
    """The same, of an entry."""
    found = list(_proved(entry, entry.proof)) if entry.proof is not None else []
    by = entry.counterexample.by if entry.counterexample is not None else DEVICES
    if by == SOLVER:
        from verifier.proving.refuting import refutations

        found += refutations(entry)
    elif by == SEARCH:
        from verifier.proving.searching import refutation

        found.append(refutation(entry))
    return found


class Shown(NamedTuple):
    """An entry, and what was shown of it: by status, how many obligations. says: its counterexamples, in blocks."""

    entry: Entry
    statuses: Mapping[str, int]
    says: tuple[str, ...]

    def data(self) -> dict[str, Any]:
        """As data."""
        entry = self.entry
        return {
            "number": entry.number, "title": entry.title, "kind": entry.kind, "cause": entry.cause,
            "evidence": entry.evidence, "statuses": dict(self.statuses), "file": entry.file,
            "counterexamples": list(self.says), "by": entry.counterexample.by if entry.counterexample else "",
        }  # fmt: skip

    def __str__(self) -> str:
        entry = self.entry
        said = [f"{count} {status}" for status, count in self.statuses.items()]
        if entry.file:
            said.append(f"devices run {entry.file}")
        elif not said:
            said.append("nothing is to be shown")
        lines = [f"{NAME}.{entry.number} ({KINDS[entry.kind]}): {entry.title}: {', '.join(said)}"]
        if entry.counterexample is not None and entry.counterexample.by == DEVICES:
            lines.append(f"    {' '.join(entry.program.split())}")
            lines.append(f"    on devices: {' '.join(entry.evidence.split())}")
        return "\n".join([*lines, *(f"    {one}" for one in self.says)])


def entries(numbers: Sequence[str], rows: Sequence[Row]) -> list[Shown]:
    """Entries, with what came of their obligations."""
    found = []
    for entry in ledger():
        if str(entry.number) not in numbers:
            continue
        own = [row for row in rows if row.name.startswith(f"{NAME}.{entry.number}.")]
        statuses = {status: sum(row.status == status for row in own) for status in STATUSES}
        refuted = tuple(row.says for row in own if row.name.startswith(f"{NAME}.{entry.number}.not."))
        found.append(Shown(entry, {status: count for status, count in statuses.items() if count}, refuted))
    return found


class Names:
    """Names below one: where several would be alike, they are numbered from the second on."""

    def __init__(self, above: str) -> None:
        self.above = above
        self.given: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.given)

    def next(self, name: str) -> str:
        """A name that has not been given."""
        self.given[name] = self.given.get(name, 0) + 1
        return f"{self.above}.{name}" + (f".{self.given[name]}" if self.given[name] > 1 else "")


class Read:
    """A program of the ledger, with its meshes. Raises `Refused` where the text is no program."""

    def __init__(self, text: str) -> None:
        from verifier.texts import meshes_of

        self.text = text
        self.document: Document = read(text)
        self.meshes: list[Mesh] = meshes_of(self.document)

    def claims(self, direct: bool = False) -> Iterator[Claim]:
        """The claims of every equation of the table, in bodies too; each once."""
        from verifier.texts import programs_of

        seen: set[tuple[object, ...]] = set()
        for program in programs_of(self.document):
            for one in placed(program):
                if one.equation.primitive not in TABLE:
                    continue
                for claim in claims(one.equation, one.operands, self.meshes[0], direct):
                    key = (claim.sample, claim.number, claim.judgment)
                    if claim.judgment is None or key not in seen:
                        seen.add(key)
                        yield claim

    def forms(self) -> list[str]:
        """The names of what is in no table, in bodies too; each once."""
        from verifier.texts import programs_of

        found = [equation.primitive for program in programs_of(self.document) for equation in program.equations]
        return [name for name in dict.fromkeys(found) if name not in TABLE]


def _proved(entry: Entry, proof: Proof) -> Iterator[Obligation]:
    text, wrong = proof.program, ""
    if proof.backward:
        text, wrong = _backward(proof, entry)
    else:
        from verifier.texts import check_text

        report = check_text(text, [], f"entry {entry.number}")
        wrong = "; ".join(one.message for one in report.refusals)
    if wrong:
        yield _told(entry, "typing", "its program is well typed", wrong)
        return
    program = Read(text)
    names = Names(f"{NAME}.{entry.number}")
    ran = True
    for claim in program.claims():
        ran = ran and runs(claim.sample)
        if claim.judgment is None:
            name = names.next(f"{claim.sample.primitive}.{claim.states}")
            yield Obligation(name, NAME, str(claim), check=lambda: "no judgment that is Local leads there")
            continue
        moved = ", with a reshard" if claim.moved else ""
        made = judged(
            Obligation(names.next(f"{claim.sample.primitive}.{claim.judgment}"), NAME, f"{claim}{moved}"),
            TABLE[claim.sample.primitive], claim.sample, claim.number, claim.judgment,
        )  # fmt: skip
        yield replace(made, uses=(*made.uses, *(("reshards.value",) if claim.moved else ())))
    resting = dict.fromkeys([*(RESTS.get(name, f"what {name} rests on") for name in program.forms()), *proof.rests])
    known = _theorems()
    for name in resting:
        if name not in known:
            yield _told(entry, name, f"it rests on {name}", f"nothing is called {name}")
            continue
        made = known[name]
        yield replace(made, name=f"{NAME}.{entry.number}.{name}", theorem=NAME, cells=1)
    if program.forms() and ran:
        yield Obligation(
            f"{NAME}.{entry.number}.run", NAME, "run on devices, the program has the values that it has on one machine",
            check=partial(_run, program), basis=TESTED, domain="numbers drawn with a seed",
        )  # fmt: skip
    if proof.backward and ran:
        yield Obligation(
            f"{NAME}.{entry.number}.derivative", NAME,
            "⟨y, df(v)⟩ = ⟨fᵀ y, v⟩, with a quotient of differences for df(v)",
            check=partial(apart, proof.program, proof.wrt), basis=TESTED, domain="numbers drawn with a seed",
        )  # fmt: skip
    if not names and not resting:
        yield _told(entry, "claim", "its program claims something", "no type in it says where anything lies")


def _told(entry: Entry, part: str, says: str, objection: str) -> Obligation:
    return Obligation(f"{NAME}.{entry.number}.{part}", NAME, says, check=lambda: objection)


@cache
def _theorems() -> dict[str, Obligation]:
    from verifier.proving.lemmas import LEMMAS
    from verifier.theorems import obligations as every

    return {one.name: one for one in (*LEMMAS, *every())}


def _backward(proof: Proof, entry: Entry) -> tuple[str, str]:
    """The program with its backward pass, and what is wrong with it."""
    from calculus.gradients import vjp
    from verifier.backward import derive

    found = derive(proof.program, [], f"entry {entry.number}", vjp, proof.wrt or None)
    reports = [found.forward, *([found.backward] if found.backward is not None else [])]
    return found.text, "; ".join(one.message for report in reports for one in report.refusals)


def _run(program: Read) -> str:
    from verifier.execution.run import run

    checker = Checker(program.meshes)
    outcome = run(program.document.program, program.meshes, checker=checker)
    return "; ".join(problem.message for problem in outcome.problems)
