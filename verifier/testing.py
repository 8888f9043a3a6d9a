"""For one's own tests: what a function communicates, asserted. All needs JAX; no devices are needed, and nothing runs.

    from verifier.testing import assert_communication, at_most, no_collectives, nothing

    def test_gradients_are_summed_once() -> None:
        assert_communication(step, arguments, backward=nothing, update={"data": {"all-reduce": 1}})

    @no_collectives("model")
    def block(x, w): ...

What is not determined by the types is not guaranteed, and that counts as communication.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from calculus.communication import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, EXACT, PERMUTE, REDUCE_SCATTER
from verifier.examine import Examined
from verifier.explaining.entries import BACKWARD, FORWARD, UPDATE, Direction, Entry
from verifier.explaining.explanation import Explanation, known
from verifier.explaining.guarantees import DETERMINED, Guarantee, guarantee
from verifier.report import count

if TYPE_CHECKING:
    from verifier.with_jax.asserted import WrongType as WrongType
    from verifier.with_jax.asserted import assert_type as assert_type

F = TypeVar("F", bound=Callable[..., Any])

KINDS: Final = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, PERMUTE, BROADCAST)


class Communicates(AssertionError):
    """A function communicates otherwise than is asserted, or that is not guaranteed. explanation: of what is extra."""

    def __init__(self, message: str, explanation: Explanation) -> None:
        super().__init__(f"{message}\n\n{explanation}")
        self.explanation = explanation


class Bytes(int):
    """So many payload bytes per device, all runs together, instead of a number of runs."""


Amount: TypeAlias = "int | Mapping[str, int]"
"""How many runs, or `Bytes`; or that of each kind of collective. A loop's collective runs as often as the loop."""


class Expected(NamedTuple):
    """amounts: what is expected over each axis (`"data"`), or over several together (`("data", "model")`); nothing over
    others. most: whether less will do. only: where it is empty of amounts, the axes that it is about, all of them
    without any."""

    amounts: Mapping[str | tuple[str, ...], Amount]
    most: bool = False
    only: tuple[str, ...] = ()

    def __call__(self, *axes: str) -> Expected:
        """Nothing along these axes; along others anything."""
        if self.amounts:
            raise TypeError("only `nothing` is said of some axes alone: nothing('model')")
        return Expected({}, only=axes)


nothing: Final = Expected({})
"""No communication at all; `nothing("model")`: none along this axis."""


def exactly(amounts: Mapping[Any, Amount]) -> Expected:
    """This much, and nothing else: `exactly({"data": {"all-reduce": 15}})`. A mapping alone says the same."""
    return Expected(_checked(amounts))


def at_most(amounts: Mapping[Any, Amount]) -> Expected:
    """This much or less, and nothing else: `at_most({"data": 2})`, `at_most({"data": {"all-gather": Bytes(960)}})`."""
    return Expected(_checked(amounts), most=True)


def assert_communication(
    f: Any, args: Sequence[Any], *, forward: Any = None, backward: Any = None, update: Any = None, mesh: Any = None,
    wrt: Any = None, kwargs: Mapping[str, Any] | None = None,
) -> Explanation:  # fmt: skip
    """Assert what a function communicates at these arguments: arrays or `jax.ShapeDtypeStruct`, in any pytree.

    forward, backward: what each pass may: `nothing`, `nothing("model")`, a mapping (exactly that) or `at_most(...)`;
    what is not given is not asserted. Where JAX has taken a gradient in the function, what it transposed is the
    backward pass, and what reads its results the `update`; elsewhere the backward pass is derived, with respect to
    `wrt` as `FunctionReport.backward` takes it. mesh: as `verifier.check` takes it.

    Returns the explanation. Raises `Communicates`, with the rows that are extra, or what is missing; `AssertionError`
    where the function is not well typed; and what `verifier.check` raises.
    """
    from verifier.functions import check

    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise TypeError(f"args is the sequence of the arguments, and this is a {type(args).__name__}")
    report = check(f, *args, mesh=mesh, **(kwargs or {}))
    if report.verdict != "ok":
        raise AssertionError(str(report))
    found = report.explain(wrt)
    passes: tuple[tuple[Direction, Any], ...] = ((FORWARD, forward), (BACKWARD, backward), (UPDATE, update))
    for direction, asked in passes:
        if asked is None:
            continue
        if (found.verdict != "ok" or found.none) and direction != FORWARD:
            raise AssertionError(str(found))
        if not isinstance(asked, (Expected, Mapping)):
            raise TypeError(f"what is expected is `nothing`, a mapping or at_most(...), and this is {asked!r}")
        expected = asked if isinstance(asked, Expected) else exactly(asked)
        _hold(found, direction, expected)
    return found


def no_collectives(*axes: str, backward: bool = False) -> Callable[[F], F]:
    """Decorate a function that must not communicate along these mesh axes, or, without one, along any.

    It is held at each call of other types, also where JAX is tracing, by its types alone. backward: the backward pass
    too. Raises `Communicates`, also where it is not guaranteed, and `AssertionError` where the function is not well
    typed.
    """
    if not all(isinstance(axis, str) for axis in axes):
        raise TypeError('axes are given by name: @no_collectives("data", "model")')

    def decorate(function: F) -> F:
        held: set[Any] = set()

        @functools.wraps(function)
        def holding(*args: Any, **kwargs: Any) -> Any:
            from verifier.with_jax.structs import key_of, structs

            key = key_of((args, kwargs))
            if key not in held:
                asked = nothing(*axes) if axes else nothing
                given, named = structs((args, kwargs))
                assert_communication(function, given, forward=asked, backward=asked if backward else None, kwargs=named)
                held.add(key)
            return function(*args, **kwargs)

        return holding  # type: ignore[return-value]

    return decorate


def _checked(amounts: Mapping[Any, Any]) -> Mapping[str | tuple[str, ...], Amount]:
    """Amounts as they are expected to be written. Raises `TypeError` and `ValueError`."""
    if not isinstance(amounts, Mapping):
        raise TypeError(f"amounts are given by mesh axis, as in {{'data': 5}}, and this is {amounts!r}")
    for axes, amount in amounts.items():
        if not isinstance(axes, str) and not (isinstance(axes, tuple) and all(isinstance(one, str) for one in axes)):
            raise TypeError(f"{axes!r} is neither the name of a mesh axis nor a tuple of names")
        for kind, number in amount.items() if isinstance(amount, Mapping) else [(ALL_REDUCE, amount)]:
            if kind not in KINDS:
                raise ValueError(f"{kind!r} is no kind of collective: {', '.join(KINDS)}")
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise TypeError(f"{number!r} is no number of runs, or of Bytes(...)")
    return amounts


def _hold(found: Explanation, direction: Direction, expected: Expected) -> None:
    rows = found.of(direction)
    _all_known(found, expected)
    if not expected.amounts:
        _hold_nothing(found, direction, rows, expected.only)
        return
    sure = DETERMINED if expected.most else (EXACT,)
    unsure = [one for one in rows if one.row.exactness not in sure or one.row.times is None]
    if unsure:
        raise _wrong(found, f"what the {direction} pass communicates is not guaranteed", unsure)
    counted: dict[tuple[object, str], list[Entry]] = {}
    extra: list[Entry] = []
    for one in rows:
        keys = _keys(one, expected)
        if keys is None:
            extra.append(one)
            continue
        for key in keys:
            counted.setdefault(key, []).append(one)
    if extra:
        raise _wrong(found, f"the {direction} pass communicates what is not expected", extra)
    for axes, amount in expected.amounts.items():
        for kind, number in amount.items() if isinstance(amount, Mapping) else [("", amount)]:
            those = counted.get((axes, kind), [])
            have = known(one.row.total if isinstance(number, Bytes) else one.row.times for one in those)
            if have != number and not (expected.most and have is not None and have < number):
                unit = "byte" if isinstance(number, Bytes) else "run"
                shown = ", ".join(axes) if isinstance(axes, tuple) else axes
                what = f"{kind or 'collectives'} over {shown}"
                bound = "at most " if expected.most else ""
                is_ = "?" if have is None else count(have, unit)
                raise _wrong(found, f"the {direction} pass has {is_} of {what}; expected: {bound}{number:,}", those)


def _all_known(found: Explanation, expected: Expected) -> None:
    """Raise `ValueError` for an axis that no mesh has."""
    names = dict.fromkeys(axis.name for mesh in found.meshes for axis in mesh.axes)
    asked = [*expected.only]
    for axes in expected.amounts:
        asked += [axes] if isinstance(axes, str) else axes
    for axis in asked:
        if axis not in names:
            raise ValueError(f"there is no mesh axis {axis}: there are {', '.join(names) or 'none'}")


def _keys(one: Entry, expected: Expected) -> list[tuple[object, str]] | None:
    """Where a row is counted; `None` where nothing that is expected has room for it."""
    axes = tuple(sorted(one.row.axes))
    whole = next((key for key in expected.amounts if isinstance(key, tuple) and tuple(sorted(key)) == axes), None)
    names: list[str | tuple[str, ...]] = [whole] if whole is not None else [*axes]
    found: list[tuple[object, str]] = []
    for name in names:
        amount = expected.amounts.get(name)
        if amount is None or (isinstance(amount, Mapping) and one.row.kind not in amount):
            return None
        found.append((name, one.row.kind if isinstance(amount, Mapping) else ""))
    return found


def _hold_nothing(found: Explanation, direction: Direction, rows: Sequence[Entry], only: Sequence[str]) -> None:
    """That nothing moves along some axes, or any: also not by what the types do not determine."""
    checker = found.checkers.get(direction)
    names = [axis.name for mesh in found.meshes for axis in mesh.axes]
    if checker is None:
        return
    charges = [one.charge for one in rows]
    for axis in dict.fromkeys(only or names):
        answer = guarantee(Examined(checker, None, charges), axis)
        if answer.guarantee is Guarantee.FREE:
            continue
        those = [one for one in rows if any(one.charge is charge for charge in answer.because)]
        if answer.guarantee is Guarantee.COMMUNICATES:
            raise _wrong(found, f"the {direction} pass communicates along {axis}", those)
        raise _wrong(
            found, f"that the {direction} pass does not communicate along {axis} is not guaranteed: {answer.why}", those
        )


def _wrong(found: Explanation, message: str, rows: Sequence[Entry]) -> Communicates:
    return Communicates(f"{found.name}: {message}", replace(found, entries=list(rows), notes=[]))


def __getattr__(name: str) -> object:
    if name in ("assert_type", "WrongType"):
        from verifier.with_jax import asserted

        return getattr(asserted, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
