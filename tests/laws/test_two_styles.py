"""Explicit and per-device versions of the same program transpose to the same thing: the same communication, cotangents
of the same types, and the same numbers.

A drawn program is translated equation by equation into the body of one shard_map. What is cut outside varies inside;
where the types imply a collective, the body has it written. Equations that need a device's own coordinate (a slice of
what every device has) are left out of both versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from calculus.building import Builder, Workbench
from calculus.checking import Checker
from calculus.collectives import COLLECTIVES
from calculus.gradients import vjp
from calculus.meshes import AxisMode, Mesh
from calculus.parameters import sequence, whole_numbers
from calculus.primitives import TABLE
from calculus.primitives.elementwise import aligned
from calculus.programs import Atom, Braces, Call, Equation, Literal, Pair, Program, Value, Word, body
from calculus.refusals import Refused
from calculus.types import ArrayType, same
from grammar.read import read
from tests.laws.evaluation import evaluate
from tests.laws.programs import communication, numbers, type_of, types_of
from verifier.generated import drawn
from verifier.generated.casts import CASTS
from verifier.generated.growing import Grown
from verifier.generated.moves import DATA_PARALLEL
from verifier.generated.nesting import inside, specified

AXIS = "X"

#: of a reshard from one state to another, the cast or collective of per-device code
CAST = {("N", "R"): "preduced", ("U", "N"): "unreduced_psum"}
MOVE = {
    ("U", "S"): ("unreduced_reduce_scatter", "scatter_dimension"),
    ("S", "R"): ("all_gather_reduced", "all_gather_dimension"),
}
MEET = {"N": "pvary", "R": "reduced_vary_cast"}


class NotTranslated(Exception):
    """The equation has no counterpart that is one equation of per-device code, or a few."""


class PerDevice:
    """The per-device version in the making."""

    def __init__(self, bench: Workbench, mesh: Mesh) -> None:
        within = mesh.with_modes({AXIS: AxisMode.MANUAL}, True)
        self.builder = Builder(bench, bench.checker.scope_on(within, bench.checker.scope))
        self.outside = mesh
        self.size = mesh.size((AXIS,))
        self.names: dict[Atom, Atom] = {}

    def equation(self, equation: Equation, types: Mapping[str, ArrayType]) -> None:
        """Translate one. Raises `NotTranslated`."""
        result = equation.types[0]
        assert isinstance(result, ArrayType)
        operands = [None if isinstance(atom, Literal) else types[atom] for atom in equation.inputs]
        atoms = [self.names.get(atom, atom) for atom in equation.inputs]
        name, rows = equation.primitive, dict(equation.parameters.items_in_order)
        if name == "reshard":
            assert operands[0] is not None
            found = self.moved(atoms[0], operands[0], result)
        elif name == "reduce_sum":
            assert operands[0] is not None
            found = self.builder.one(name, atoms, {**rows, "out_sharding": None})
            axes = rows["axes"]
            assert isinstance(axes, tuple)
            if any(operands[0].axes[dim] for dim in axes if isinstance(dim, int)):
                found = self.summed(found, result)
        elif name == "dot_general":
            found = self.product(equation, atoms, operands, result)
        elif name == "transpose":
            found = self.builder.one(name, atoms, rows)
        elif TABLE[name].scheme is aligned:
            found = self.builder.one(name, self.meeting(atoms, operands, result), rows)
        else:
            raise NotTranslated(name)
        if not same(self.builder.type_of(found), inside(result, (AXIS,), self.outside)):
            raise NotTranslated(name)
        self.names[equation.binders[0]] = found

    def moved(self, atom: Atom, before: ArrayType, after: ArrayType) -> Atom:
        step = before.state(AXIS), after.state(AXIS)
        if step in CAST:
            return self.builder.one(CAST[step], (atom,), {"axes": (AXIS,)})
        if step not in MOVE:
            raise NotTranslated("reshard")
        name, dim = MOVE[step]
        at = next(place for place, axes in enumerate((after if step[1] == "S" else before).axes) if axes)
        rows: dict[str, Value] = {
            "axis_name": (AXIS,),
            "axis_index_groups": None,
            "axis_size": self.size,
            "tiled": True,
        }
        return self.builder.one(name, (atom,), {**rows, dim: at})

    def summed(self, atom: Atom, result: ArrayType) -> Atom:
        """What varies because it was summed over a cut dim, in the state that the result has."""
        state = result.state(AXIS)
        if state not in "NU":
            raise NotTranslated("a sum that is scattered")
        return self.builder.one("psum_invariant" if state == "N" else "vary_unreduced_cast", (atom,), {"axes": (AXIS,)})

    def meeting(self, atoms: list[Atom], operands: list[ArrayType | None], result: ArrayType) -> list[Atom]:
        """Operands of an elementwise equation: what is the same everywhere and meets what varies is marked."""
        cut = next((dim for dim, axes in enumerate(result.axes) if axes), None)
        found = []
        for atom, type in zip(atoms, operands, strict=True):
            if cut is None or type is None or type.state(AXIS) == "S":
                found.append(atom)
            elif type.shape and type.shape[cut] != 1:
                raise NotTranslated("a slice of what every device has")
            else:
                found.append(self.marked(atom, type))
        return found

    def marked(self, atom: Atom, type: ArrayType) -> Atom:
        if type.state(AXIS) not in MEET:
            raise NotTranslated("a pending sum beside what varies")
        return self.builder.one(MEET[type.state(AXIS)], (atom,), {"axes": (AXIS,)})

    def product(
        self, equation: Equation, atoms: list[Atom], operands: list[ArrayType | None], result: ArrayType
    ) -> Atom:
        types = [one for one in operands if one is not None]
        contracted, batch = (
            [whole_numbers(side, "") for side in sequence(pair, "")]
            for pair in sequence(equation.parameters["dimension_numbers"], "")
        )
        states = [type.state(AXIS) for type in types]
        where = [next((dim for dim, axes in enumerate(type.axes) if axes), None) for type in types]
        over = [dim in side for dim, side in zip(where, contracted, strict=True)]
        if any(over) and not all(over):
            raise NotTranslated("a contraction with one side whole")
        if "S" in states:
            if any(dim in side for dim, side in zip(where, batch, strict=True)) and states != ["S", "S"]:
                raise NotTranslated("a batch of which one side is whole")
            atoms = [
                atom if state == "S" else self.marked(atom, type)
                for atom, state, type in zip(atoms, states, types, strict=True)
            ]
        found = self.builder.one("dot_general", atoms, equation.parameters)
        return self.summed(found, result) if all(over) else found


def two_styles(grown: Grown) -> tuple[Program, Program] | None:
    """The explicit version and the per-device one, of what can be translated; `None` where nothing can."""
    bench = Workbench(Checker([grown.mesh]))
    made = PerDevice(bench, grown.mesh)
    program = grown.program
    types = {name: type for name, type in types_of(program).items() if isinstance(type, ArrayType)}
    bound = [inside(types[name], (AXIS,), grown.mesh) for name in program.inputs]
    inputs = [made.builder.input(type) for type in bound]
    made.names.update(zip(program.inputs, inputs, strict=True))
    kept = []
    for equation in program.equations:
        if all(isinstance(atom, Literal) or atom in made.names for atom in equation.inputs):
            try:
                made.equation(equation, types)
            except (NotTranslated, Refused):
                continue
            kept.append(equation)
    used = {atom for equation in kept for atom in equation.inputs}
    ends = [equation.binders[0] for equation in kept if equation.binders[0] not in used][-3:]
    if not ends:
        return None
    explicit = Program((), (), program.inputs, program.input_types, tuple(kept), tuple(ends))
    inner = made.builder.program(inputs, [made.names[one] for one in ends])
    outer = Builder(bench, bench.checker.scope)
    names = [outer.input(types[name]) for name in program.inputs]
    rows: dict[str, Value] = {
        "check_vma": True,
        "in_specs": tuple(specified(types[name], (AXIS,)) for name in program.inputs),
        "jaxpr": inner,
        "mesh": Call("AbstractMesh", (Pair(AXIS, made.size),), (("axis_types", (Word("Explicit"),)),)),
        "newly_manual_axes": Call("frozenset", (Braces((AXIS,)),), ()),
        "out_specs": tuple(specified(types[name], (AXIS,)) for name in ends),
    }
    results = outer.emit("shard_map", names, rows, [types[name] for name in ends])
    return explicit, outer.program(names, results)


def test_both_styles_transpose_to_the_same() -> None:
    seen = Counter[str]()
    tried = moved = 0
    for seed in range(150):
        grown = drawn(seed, mesh="X=2", moves=(*DATA_PARALLEL, *CASTS), length=16)
        pair = two_styles(grown)
        if pair is None:
            continue
        wrt = list(range(len(grown.program.inputs)))
        backward = [vjp(one, Workbench(Checker([grown.mesh])), wrt) for one in pair]
        for before in (pair, backward):
            explicit, per_device = (communication(one, grown) for one in before)
            assert explicit == per_device, seed
        ends = [[str(type_of(atom, types_of(one))) for atom in one.outputs] for one in backward]
        assert ends[0] == ends[1], seed
        inputs = numbers(backward[0].input_types, seed)
        with np.errstate(all="ignore"):
            values = [evaluate(one, inputs, grown.mesh) for one in backward]
        for mine, theirs in zip(*values, strict=True):
            near = 1e-6 * (1 + np.abs(mine).max(initial=0))
            assert np.allclose(mine, theirs, 1e-6, near, equal_nan=True), seed
        seen.update(equation.primitive for equation in pair[0].equations)
        tried += 1
        moved += bool(communication(backward[0], grown))
    assert tried > 60
    assert moved > 30
    assert seen["dot_general"] > 20
    assert seen["reshard"] > 20
    assert seen["reduce_sum"] > 20


def test_a_cast_that_stands_elsewhere_is_seen() -> None:
    """The law compares places: with the weight cast to reduced in one version only, it would fail."""
    text = """{ lambda ; a:f32[4,2] b:f32[8@X,4]. let
        c:f32[4,2]{R:X} = reshard a
        d:f32[8@X,2] = dot_general[dimension_numbers=(([1], [0]), ([], [])) preferred_element_type=float32] b c
      in (d,) }"""
    cast, plain = read(text).program, read(text.replace("{R:X} = reshard", " = copy")).program
    grown = drawn(0, mesh="X=2")
    costs = []
    for program in (cast, plain):
        pair = two_styles(grown._replace(program=program))
        assert pair is not None
        assert len(pair[0].equations) == 2
        back = [vjp(one, Workbench(Checker([grown.mesh])), [0, 1]) for one in pair]
        assert [equation.primitive for equation in back[1].equations].count("shard_map") == 2
        explicit, per_device = (communication(one, grown) for one in back)
        assert explicit == per_device == [("all-reduce", (AXIS,), 32, 1)]
        inner = body(back[1].equations[-1].parameters["jaxpr"])
        assert inner is not None
        costs.append([one.primitive for one in inner.equations if one.primitive in COLLECTIVES])
    assert costs == [["vary_unreduced_cast", "unreduced_psum"], ["psum_invariant"]]
