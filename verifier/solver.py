"""The door to z3: what formulas are made of, and what the solver says of one.

An answer is `proved`, `refuted` with a model, or `unknown`; *unknown* is never a pass. Before a goal is asked for its
hypotheses are shown satisfiable: what follows from a contradiction is no theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

import z3

Term: TypeAlias = Any
"""A term of the solver: an integer, a real number, an element of some sort."""
Formula: TypeAlias = Any
"""A term that is true or false."""

And = z3.And
Or = z3.Or
Not = z3.Not
Implies = z3.Implies
If = z3.If
Distinct = z3.Distinct
ForAll = z3.ForAll
Exists = z3.Exists
Function = z3.Function
Integer = z3.Int
Integers = z3.Ints
Number = z3.Real
Numbers = z3.Reals
Truth = z3.Bool
Constant = z3.Const
Sort = z3.DeclareSort
INTEGERS: Final = z3.IntSort()
NUMBERS: Final = z3.RealSort()
TRUTHS: Final = z3.BoolSort()
TRUE: Final = z3.BoolVal(True)
FALSE: Final = z3.BoolVal(False)

ToNumber = z3.ToReal
ToInteger = z3.ToInt

integer = z3.IntVal
number = z3.RealVal
fresh = z3.FreshConst
fresh_function = z3.FreshFunction
replaced = z3.substitute
simplified = z3.simplify
datatype = z3.Datatype
as_number = z3.ToReal
is_term = z3.is_expr


_ENUMERATIONS: Final[dict[tuple[str, tuple[str, ...]], tuple[Any, list[Any]]]] = {}


def enumeration(name: str, values: Sequence[str]) -> tuple[Any, list[Any]]:
    """The sort of these values, and the values. z3 holds a declaration as long as the process lives, and refuses its
    name a second time: so this is a register, and no cache that may be cleared."""
    asked = (name, tuple(values))
    if asked not in _ENUMERATIONS:
        _ENUMERATIONS[asked] = z3.EnumSort(name, asked[1])
    return _ENUMERATIONS[asked]


IllSorted = z3.Z3Exception
VERSION: Final = str(z3.get_version_string())

WORK: Final = 20_000_000
"""What one query may cost, in the solver's own count of its steps: so no machine is too slow for a proof."""
PATIENCE: Final = 120_000
"""Milliseconds that one query may take, where it counts no steps."""
FAMILY: Final = 4
"""Of how many numbers a model is asked for the values of its functions."""


class Query(NamedTuple):
    """A question to the solver. hypotheses: each with its name. goal: what is to follow from them. possible: the
    question is not whether the goal follows, but whether there is a model of hypotheses and goal, which is shown."""

    name: str
    hypotheses: tuple[tuple[str, Formula], ...]
    goal: Formula
    possible: bool = False

    def without(self, hypothesis: str) -> Query:
        """The same question with one hypothesis left out. Raises `KeyError` where it has none of that name."""
        if hypothesis not in dict(self.hypotheses):
            raise KeyError(hypothesis)
        return self._replace(hypotheses=tuple(one for one in self.hypotheses if one[0] != hypothesis))


class Answer(NamedTuple):
    """What the solver says. verdict: `proved`, `refuted`, `unknown`, or `vacuous` where the hypotheses contradict each
    other. model: the values that refute the goal, or that show what is possible; by name. core: the names of the
    hypotheses that the proof uses, where it was asked for. families: of the functions of one number in the model, their
    values at 0, 1, 2 and so on (`FAMILY` of them): what devices hold, or entries are."""

    verdict: str
    milliseconds: float
    model: tuple[tuple[str, str], ...] = ()
    why: str = ""
    core: tuple[str, ...] = ()
    families: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def proved(self) -> bool:
        """Whether the answer is a proof."""
        return self.verdict == "proved"


def decide(query: Query, *, core: bool = False) -> Answer:
    """Ask. `core`: also which hypotheses the proof uses. What was asked before, in these very terms, is not asked
    again, whatever its parts are called: terms of one content are one term."""
    start = perf_counter()
    if core:
        return _decided(query, start, core=True)
    key = (*(formula.get_id() for _, formula in query.hypotheses), -1, query.goal.get_id(), query.possible)
    if key in _SAID:
        return _SAID[key][0]._replace(milliseconds=_since(start))
    found = _decided(query, start, core=False)
    _SAID[key] = found, query
    return found


_SAID: Final[dict[tuple[int, ...], tuple[Answer, Query]]] = {}
_TOGETHER: Final[dict[tuple[int, ...], tuple[Any, str, Query]]] = {}
"""What was said of queries, and of hypotheses. They stay, since the numbers of terms that are gone are used again."""


def _decided(query: Query, start: float, core: bool) -> Answer:
    if query.possible:
        said, solver = _checked(query, query.goal, core)
        found = _model(solver) if said == z3.sat else ()
        verdict = "proved" if said == z3.sat else "refuted" if said == z3.unsat else "unknown"
        families = _families(solver) if said == z3.sat else ()
        return Answer(verdict, _since(start), found, _why(solver, said), _core(solver, said, core), families)
    if query.hypotheses:
        key = tuple(formula.get_id() for _, formula in query.hypotheses)
        if key not in _TOGETHER:
            said, solver = _checked(query, TRUE, core=False)
            _TOGETHER[key] = said, _why(solver, said), query
        said, why, _ = _TOGETHER[key]
        if said != z3.sat:
            verdict = "vacuous" if said == z3.unsat else "unknown"
            return Answer(verdict, _since(start), why=why or "the hypotheses contradict each other")
    if not core and z3.is_true(z3.simplify(query.goal)):
        return Answer("proved", _since(start))
    said, solver = _checked(query, z3.Not(query.goal), core)
    if said == z3.unsat:
        return Answer("proved", _since(start), core=_core(solver, said, core))
    if said == z3.sat:
        return Answer("refuted", _since(start), _model(solver), families=_families(solver))
    return Answer("unknown", _since(start), why=_why(solver, said))


def _checked(query: Query, goal: Formula, core: bool) -> tuple[Any, Any]:
    """Whether hypotheses and goal can be true together: asked of the bare solver, which is quick, and where it does not
    know, of the one that rewrites first."""
    for made in (z3.SimpleSolver, z3.Solver):
        solver = made()
        solver.set("timeout", PATIENCE)
        solver.set("rlimit", WORK)
        for name, formula in query.hypotheses:
            if core:
                solver.assert_and_track(formula, name)
            else:
                solver.add(formula)
        solver.add(goal)
        said = solver.check()
        if said != z3.unknown:
            break
    return said, solver


def _core(solver: Any, said: Any, core: bool) -> tuple[str, ...]:
    return tuple(sorted(map(str, solver.unsat_core()))) if core and said == z3.unsat else ()


def instance(formulas: Sequence[Formula], terms: Sequence[Term]) -> list[Any] | None:
    """Numbers and truth values that these terms have in some model of the formulas, `None` for a term that has another
    value; `None` where the solver finds no model. Which model that is does not depend on what was asked before."""
    alone = z3.Context()
    solver = z3.Solver(ctx=alone)
    solver.set("timeout", PATIENCE)
    solver.set("rlimit", WORK)
    solver.add(*(formula.translate(alone) for formula in formulas))
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    return [_plain(model.eval(term.translate(alone), model_completion=True)) for term in terms]


def _plain(value: Any) -> Any:
    if z3.is_int_value(value):
        return value.as_long()
    if z3.is_rational_value(value):
        return float(value.as_fraction())
    if z3.is_algebraic_value(value):
        return float(value.approx(20).as_fraction())
    return z3.is_true(value) if z3.is_bool(value) else None


def script(query: Query) -> str:
    """The query in SMT-LIB 2, for another solver: `unsat` is what proves it, `sat` where it asks what is possible."""
    solver = z3.Solver()
    for _, formula in query.hypotheses:
        solver.add(formula)
    solver.add(query.goal if query.possible else z3.Not(query.goal))
    text = solver.to_smt2().replace("; benchmark generated from python API\n(set-info :status unknown)\n", "")
    named = "".join(f"; hypothesis {name}\n" for name, _ in query.hypotheses)
    expected = "sat" if query.possible else "unsat"
    return f"; {query.name}\n{named}(set-logic ALL)\n(set-info :status {expected})\n{text}"


def conjunction(formulas: Sequence[Formula]) -> Formula:
    """All of them."""
    return z3.And(*formulas) if formulas else TRUE


def _since(start: float) -> float:
    return 1000 * (perf_counter() - start)


def _why(solver: Any, said: Any) -> str:
    return str(solver.reason_unknown()) if said == z3.unknown else ""


def _model(solver: Any) -> tuple[tuple[str, str], ...]:
    model = solver.model()
    return tuple(sorted((str(one), str(model[one])) for one in model.decls()))


def _families(solver: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    model = solver.model()
    found = []
    for one in model.decls():
        if one.arity() == 1 and one.domain(0) == INTEGERS:
            values = (model.eval(one(z3.IntVal(at)), model_completion=True) for at in range(FAMILY))
            found.append((str(one), tuple(map(str, values))))
    return tuple(sorted(found))
