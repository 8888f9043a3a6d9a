"""Sample calls: for each primitive of the table, calls that show what it can do, in our own terms.

The laws of the declarations run over them, and so do comparisons with other engines. A primitive with aligned operands
and without parameters needs no line here: it is called on arrays of one shape. Every other one needs at least one, for
each role that its dims can have.

Sizes are chosen so that no two dims agree by coincidence, and so that what may be cut is cut evenly by two or by four.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from calculus.primitives import TABLE
from calculus.primitives.declaration import EVERYTHING, Site
from calculus.primitives.elementwise import aligned
from calculus.programs import Call, Parameters, Program, Real, Word
from calculus.types import ArrayType
from grammar.read import read, read_type
from verifier.calls import MATRIX_CALLS, Row, call

NARROW: Final[Mapping[str, str]] = {"f": "f32", "c": "c64", "i": "i32", "u": "u32", "b": "bool", "o": "key<fry>"}
"""A dtype of each class, as programs use them."""

WIDE: Final[Mapping[str, str]] = {**NARROW, "f": "f64", "c": "c128"}
"""The same, where results should be exact."""


class Sample(NamedTuple):
    """One call.

    operands, results: plain types; of the results only those that a text would have to print, `None` for the others.
    ranges: for each operand the numbers that it is about (the places in an array, the domain of a function): from the
        first to the second, excluded; `None` for any.
    kind: the class of dtypes that it is a sample for. number: which of the calls of this primitive.
    """

    primitive: str
    operands: tuple[ArrayType, ...]
    parameters: Parameters
    results: tuple[ArrayType | None, ...]
    ranges: tuple[tuple[int, int] | None, ...]
    kind: str
    number: int = 0

    @property
    def site(self) -> Site:
        """This call, as a declaration sees it."""
        shapes = tuple([type.shape for type in self.operands])
        return Site(self.parameters, shapes, tuple([type.dtype for type in self.operands]), self.results)

    def __str__(self) -> str:
        return f"{self.primitive}-{self.kind}{self.number or ''}"


class NoSample(LookupError):
    """A primitive has no sample call. The message says where to add one."""


def samples(name: str, dtypes: Mapping[str, str] = WIDE) -> list[Sample]:
    """The sample calls of a primitive of the table, each on every class of dtypes that its first operand accepts.
    `dtypes` names the dtype that stands for a class. A call is one object, whenever it is asked for: what is found out
    about it can be kept. Raises `NoSample`."""
    return list(_samples(name, tuple(dtypes.items())))


@cache
def _samples(name: str, named: tuple[tuple[str, str], ...]) -> tuple[Sample, ...]:
    dtypes = dict(named)
    primitive = TABLE[name]
    rows = _CALLS.get(name)
    if rows is None:
        if primitive.scheme is not aligned:
            raise NoSample(f"{name} has no sample call: add one to verifier/samples.py")
        rows = (call(" ".join(["?[4,8]"] * len(primitive.operands))),)
    found = []
    for kind in EVERYTHING:
        for number, row in enumerate(rows):
            operands = tuple([_type(text, dtypes[kind]) for text in row.operands.split()])
            results = tuple([None if text == "_" else _type(text, dtypes[kind]) for text in row.results.split()])
            ranges = tuple(map(_range, row.operands.split()))
            accepted = not operands or operands[0].dtype_class in primitive.accepts
            if kind in (row.classes or _USUAL) and accepted:
                found.append(Sample(name, operands, row.parameters, results or (None,), ranges, kind, number))
    if not found:
        raise NoSample(f"no sample call of {name} has a dtype that it accepts: add one to verifier/samples.py")
    return tuple(found)


def _type(text: str, dtype: str) -> ArrayType:
    found = read_type(text.partition(":")[0].replace("?", dtype))
    assert isinstance(found, ArrayType)
    return found


def _range(text: str) -> tuple[int, int] | None:
    numbers = text.split(":")[1:]
    return (int(numbers[0]), int(numbers[1])) if numbers else None


_USUAL: Final = "fiubc"
"""All classes but that of keys, which few primitives compute on."""


#: a column of the operand at each of three places, some of them outside
_COLUMNS: Final = Call(
    "GatherDimensionNumbers", (), (("offset_dims", (0,)), ("collapsed_slice_dims", (1,)), ("start_index_map", (1,)))
)

_REDUCED: Final = (
    call("?[4,8]", axes=(0,), out_sharding=None),
    call("?[4,8,2]", axes=(2, 0), out_sharding=None),
)
_SEARCHED: Final = (call("?[4,8]", axes=(1,), index_dtype=Word("int32")),)
_CUMULATED: Final = (
    call("?[4,8]", axis=1, reverse=False),
    call("?[4,8]", axis=0, reverse=True),
)
_CONVERTED: Final = tuple(
    [
        call("?[4,8]", "", classes, new_dtype=Word(target), weak_type=False)
        for target, classes in (("int32", "fiub"), ("float32", "fiub"), ("bool", "fiub"), ("complex64", "fiubc"))
    ]
)


def _convolved(operands: str, classes: str = "", /, **said: Any) -> Row:
    """A convolution along one dim, with the features last: of a kernel those of the input, then those of the output."""
    orders = {"lhs_spec": (0, 2, 1), "rhs_spec": (2, 1, 0), "out_spec": (0, 2, 1)}
    numbers = Call("ConvDimensionNumbers", (), tuple(orders.items()))
    usual: dict[str, Any] = dict.fromkeys(["feature_group_count", "batch_group_count"], 1)
    usual |= dict.fromkeys(["window_strides", "lhs_dilation", "rhs_dilation"], (1,))
    usual |= dict.fromkeys(["precision", "preferred_element_type", "out_sharding"], None)
    return call(operands, "", classes, dimension_numbers=numbers, **{"padding": ((0, 0),), **usual, **said})


def _scattered(combiner: str, operands: str, classes: str = "", /, **said: tuple[int, ...]) -> Row:
    """A scatter of updates that may lie outside. `said`: where dimension numbers are not those of columns."""
    usual = {"update_window_dims": (0,), "inserted_window_dims": (1,), "scatter_dims_to_operand_dims": (1,)}
    body = f"{{ lambda ; a:f32[] b:f32[]. let c:f32[] = {combiner} a b in (c,) }}"
    return call(
        operands,
        "",
        classes,
        dimension_numbers=Call("ScatterDimensionNumbers", (), tuple({**usual, **said}.items())),
        indices_are_sorted=False,
        mode=Word("GatherScatterMode.FILL_OR_DROP"),
        unique_indices=False,
        update_consts=(),
        update_jaxpr=None if combiner == "set" else read(body).program,
    )


def _scatters(combiner: str, several: str) -> tuple[Row, ...]:
    """A column, a part of both dims, an element of each row, each once; and columns that may meet, on the classes where
    they may: elsewhere it is not the kernel that says what becomes of them."""
    row = {"update_window_dims": (), "operand_batching_dims": (0,), "scatter_indices_batching_dims": (0,)}
    both = {"update_window_dims": (0, 1), "inserted_window_dims": (), "scatter_dims_to_operand_dims": (0, 1)}
    return (
        _scattered(combiner, "?[4,8] i32[1]:0:8 ?[4]"),
        _scattered(combiner, "?[4,8] i32[2]:-1:5 ?[2,3]", **both),
        _scattered(combiner, "?[4,8] i32[4,1]:-2:11 ?[4]", **row),
        *([_scattered(combiner, "?[4,8] i32[6,1]:-2:11 ?[4,6]", several)] if several else []),
    )


def _pooled(operands: str, classes: str = "", /, **said: Any) -> Row:
    """Windows of two or three elements along the second dim of two."""
    usual: dict[str, Any] = {"window_dimensions": (1, 2), "window_strides": (1, 2), "padding": ((0, 0), (0, 0))}
    return call(operands, "", classes, **usual | said)


_WHOLE: Final = dict.fromkeys(["base_dilation", "window_dilation"], (1, 1))
_REACHING: Final = {"window_dimensions": (1, 3), "window_strides": (1, 1), "padding": ((0, 0), (1, 1))}
_POOLED: Final = (_pooled("?[4,8]", **_WHOLE), _pooled("?[4,8]", **_WHOLE, **_REACHING))


def _numbers(dtype: str, made: str, steps: str) -> Any:
    """A function of two numbers a and b, that makes c."""
    return read(f"{{ lambda ; a:{dtype}[] b:{dtype}[]. let\n{steps.replace('?', dtype)}\n  in ({made},) }}").program


_SUM_AND_PRODUCT: Final = "    c:?[] = mul a b\n    d:?[] = add a b\n    e:?[] = add c d"


def _combined(dtype: str, kind: str) -> Row:
    """Windows reduced by (1 + a)(1 + b) - 1."""
    program = _numbers(dtype, "e", _SUM_AND_PRODUCT)
    return _pooled(f"{dtype}[4,8] {dtype}[]", kind, jaxpr=program, consts=(), **_WHOLE)


def _chosen(dtype: str, kind: str, /, **said: Any) -> Row:
    """What is chosen by its size is combined to (1 + a)(1 + b) - 1, which is linear in neither."""
    select, scatter = _numbers(dtype, "c", "    c:bool[] = ge a b"), _numbers(dtype, "e", _SUM_AND_PRODUCT)
    bodies = {"select_jaxpr": select, "select_consts": (), "scatter_jaxpr": scatter, "scatter_consts": ()}
    return _pooled(f"{dtype}[4,8] {dtype}[4,4] {dtype}[]", kind, **bodies, **said)


def _folding(steps: str, results: str, inputs: str = "ab") -> Program:
    """A function of elements."""
    binders = " ".join(f"{name}:f32[]" for name in inputs)
    lines = steps.replace("; ", "\n")
    return read(f"{{ lambda ; {binders}. let {lines} in ({results}{'' if ',' in results else ','}) }}").program


_CALLS: Final[Mapping[str, tuple[Row, ...]]] = {
    "integer_pow": (call("?[4,8]", y=3), call("?[4,8]", y=1), call("?[4,8]", y=2), call("?[4,8]", "", "fc", y=-1)),
    "erf_inv": (call("?[4,8]:-1:1"),),
    **dict.fromkeys(["igamma", "igammac", "igamma_grad_a"], (call("?[4,8]:0:3 ?[4,8]:0:3"),)),
    "polygamma": (call("?[4,8]:1:1 ?[4,8]"),),
    "zeta": (call("?[4,8]:1:9 ?[4,8]:0:3"),),
    "regularized_incomplete_beta": (call("?[4,8]:0:3 ?[4,8]:0:3 ?[4,8]:0:1"),),
    "polynomial": (call("?[8] ?[8] ?[] ?[8]"),),
    "conj": (
        call("f64[4,8]", "", "f", input_dtype=Word("float64")),
        call("c128[4,8]", "", "c", input_dtype=Word("complex128")),
    ),
    "round": (call("?[4,8]", rounding_method=0), call("?[4,8]", rounding_method=1)),
    "reduce_precision": (call("?[4,8]", exponent_bits=8, mantissa_bits=3),),
    "convert_element_type": _CONVERTED,
    "select_n": (
        call("bool[4,8] ?[4,8] ?[4,8]"),
        call("bool[] ?[4,8] ?[4,8]"),
        call("i32[8]:0:3 ?[8] ?[8] ?[8]"),
    ),
    "clamp": (call("?[4,8] ?[4,8] ?[4,8]"), call("?[] ?[4,8] ?[]")),
    "add": (call("?[4,8] ?[4,8]"), call("?[] ?[4,8]"), call("?[4,1] ?[4,8]")),
    "mul": (call("?[4,8] ?[4,8]"), call("?[] ?[4,8]"), call("?[4,1] ?[4,8]")),
    **dict.fromkeys(
        ["reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor"], _REDUCED
    ),
    "reduce": (
        call(
            "f32[4,2] f32[]", "f32[4]", "f", dimensions=(1,),
            jaxpr=_folding("c:f32[] = sin a; d:f32[] = mul b b; e:f32[] = add c d", "e"),
        ),
        call(
            "f32[2,2] f32[2,2] f32[] f32[]", "f32[] f32[]", "f", dimensions=(0, 1),
            jaxpr=_folding("e:f32[] = mul a b; f:f32[] = sub e c; g:f32[] = sin e; h:f32[] = sub g d", "f, h", "abcd"),
        ),
    ),
    **dict.fromkeys(["argmax", "argmin"], _SEARCHED),
    **dict.fromkeys(["cumsum", "cumlogsumexp", "cumprod", "cummax", "cummin"], _CUMULATED),
    "transpose": (call("?[4,8]", permutation=(1, 0)), call("?[4,8,2]", permutation=(2, 0, 1))),
    "broadcast_in_dim": (
        call("?[4,8]", "?[2,4,8]", broadcast_dimensions=(1, 2)),
        call("?[8]", "?[8,4]", broadcast_dimensions=(0,)),
        call("?[4,1]", "?[4,8]", broadcast_dimensions=(0, 1)),
        call("?[]", "?[4,8]", broadcast_dimensions=()),
    ),
    "broadcast_to": (call("?[4,8]", shape=(2, 4, 8)), call("?[4,1]", shape=(4, 8)), call("?[]", shape=(4,))),
    "reshape": (
        call("?[4,8]", new_sizes=(32,), dimensions=None, sharding=None),
        call("?[32]", new_sizes=(4, 8), dimensions=None, sharding=None),
        call("?[4,8,3]", new_sizes=(4, 24), dimensions=None, sharding=None),
        call("?[4,6,5]", new_sizes=(4, 10, 3), dimensions=None, sharding=None),
        call("?[3,4,8]", new_sizes=(4, 24), dimensions=(1, 0, 2), sharding=None),
        call("?[4,2]", new_sizes=(2, 4), dimensions=(1, 0), sharding=None),
    ),
    "squeeze": (call("?[4,1,8]", dimensions=(1,)),),
    "expand_dims": (call("?[4,8]", dimensions=(1,)),),
    "slice": (
        call("?[4,8]", start_indices=(0, 1), limit_indices=(4, 7), strides=(1, 2)),
        call("?[4,8]", start_indices=(2, 0), limit_indices=(4, 8), strides=None),
    ),
    "pad": (
        call("?[4,8] ?[]", padding_config=((0, 0, 0), (1, 2, 1))),
        call("?[4,8] ?[]", padding_config=((-1, 3, 0), (0, 0, 0))),
    ),
    "concatenate": (call("?[4,8] ?[4,2]", dimension=1), call("?[8] ?[4] ?[2]", dimension=0)),
    "split": (
        call("?[4,8]", "?[4,2] ?[4,6]", axis=1, sizes=(2, 6)),
        call("?[4,8]", "?[2,8] ?[2,8]", axis=0, sizes=(2, 2)),
    ),
    "rev": (call("?[4,8]", dimensions=(1,)), call("?[4,8,2]", dimensions=(0, 2))),
    "dot_general": (
        call("?[4,8] ?[8,2]", dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type=None),
        call("?[6,4,8] ?[8,6,2]", dimension_numbers=(((2,), (0,)), ((0,), (1,))), preferred_element_type=None),
        call("?[4] ?[8]", dimension_numbers=(((), ()), ((), ())), preferred_element_type=None),
        call("?[8] ?[8]", dimension_numbers=(((0,), (0,)), ((), ())), preferred_element_type=None),
        call(
            "i8[4,8] i8[8,2]", "", "i",
            dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type=Word("int32"),
        ),
    ),
    "conv_general_dilated": (
        _convolved("?[2,8,4] ?[3,4,6]", padding=((1, 1),)),
        _convolved("?[2,8,4] ?[1,4,6]"),
        _convolved("?[2,8,4] ?[2,4,6]", window_strides=(2,)),
        _convolved("?[4,8,6] ?[4,6,2]", rhs_dilation=(2,)),
        _convolved("?[4,8,6] ?[1,6,2]", lhs_dilation=(2,), padding=((0, 1),)),
        _convolved("?[2,5,8] ?[1,2,12]", feature_group_count=4),
        _convolved("?[8,5,6] ?[3,6,4]", batch_group_count=2, padding=((2, 0),)),
        _convolved("i8[2,8,4] i8[3,4,6]", "i", preferred_element_type=Word("int32")),
    ),
    **dict.fromkeys(["reduce_window_sum", "reduce_window_max", "reduce_window_min"], _POOLED),
    "reduce_window": (_combined("f32", "f"), _combined("i32", "i")),
    "select_and_gather_add": (
        _pooled("?[4,8] ?[4,8]", select_prim=Word("ge"), **_WHOLE),
        _pooled("?[4,8] ?[4,8]", select_prim=Word("le"), **_WHOLE, **_REACHING),
    ),
    "select_and_scatter_add": (
        _pooled("?[4,4] ?[4,8]", select_prim=Word("ge")),
        _pooled("?[4,8] ?[4,8]", select_prim=Word("le"), **_REACHING),
    ),
    "select_and_scatter": (_chosen("f32", "f"), _chosen("i32", "i")),
    "iota": (call("", "", "i", dtype=Word("int32"), shape=(4, 8), dimension=1, sharding=None),),
    "empty": (call("", "", "f", dtype=Word("float32"), shape=(4, 8)),),
    "empty2": (call("", "", "f", dtype=Word("float32")),),
    "bitcast_convert_type": (
        call("f32[4,8]", "", "f", new_dtype=Word("int32")),
        call("i32[4,8]", "", "i", new_dtype=Word("uint32")),
    ),
    "dynamic_slice": (
        call("?[4,8] i32[]:0:5 i32[]:0:5", slice_sizes=(2, 8)),
        call("?[4,8] i32[]:0:5 i32[]:0:5", slice_sizes=(2, 3)),
    ),
    "dynamic_update_slice": (call("?[4,8] ?[2,8] i32[]:0:5 i32[]:0:5"), call("?[4,8] ?[2,3] i32[]:0:5 i32[]:0:5")),
    "gather": (
        call(
            "?[4,8] i32[6,1]:-2:11",
            dimension_numbers=_COLUMNS, fill_value=Real("nan"), mode=Word("GatherScatterMode.CLIP"),
            slice_sizes=(4, 1), indices_are_sorted=False, unique_indices=False,
        ),
    ),
    "scatter": _scatters("set", ""),
    **{f"scatter-{one}": _scatters(one, "iuc") for one in ("add", "sub")},
    **{f"scatter-{one}": _scatters(one, _USUAL) for one in ("mul", "max", "min")},
    "unstack": (call("?[4,8]", " ".join(["?[4]"] * 8), axis=1),),
    "stack": (call("?[4,8] ?[4,8]", axis=1),),
    "sort": (
        call("?[4,8]", dimension=1, is_stable=True, num_keys=1),
        call("i32[4,8]:-2:3 ?[4,8] f64[4,8]", "i32[4,8] ?[4,8] f64[4,8]", dimension=1, is_stable=True, num_keys=1),
        call("i32[8,4]:-2:3 ?[8,4] f64[8,4]", "i32[8,4] ?[8,4] f64[8,4]", dimension=0, is_stable=True, num_keys=2),
        call("?[2,4] f32[2,4]", "?[2,4] f32[2,4]", "f", dimension=1, is_stable=True, num_keys=1),
    ),
    "top_k": (
        call("?[4,8]", "_ _", axis=1, is_stable=True, k=3),
        call("?[4,8]", "_ _", axis=0, is_stable=True, k=4),
    ),
    "approx_top_k": tuple(
        [
            call(
                "?[4,8]", "_ _", "f",
                aggregate_to_topk=True, is_max_k=most, k=3, recall_target=Real("0.95"), reduction_dimension=axis,
                reduction_input_size_override=-1,
            )
            for most, axis in ((True, -1), (False, 0))
        ]
    ),
    "fft": (
        call("?[4,8]", "", "c", fft_lengths=(8,), fft_type=0),
        call("?[2,3,8]", "", "c", fft_lengths=(3, 8), fft_type=1),
        call("?[4,8]", "", "f", fft_lengths=(8,), fft_type=2),
        call("?[4,5]", "", "c", fft_lengths=(9,), fft_type=3),
        call("?[2,3,5]", "", "c", fft_lengths=(3, 8), fft_type=3),
    ),
    **MATRIX_CALLS,
    "threefry2x32": (call(" ".join(["?[4,8]"] * 4), "_ _", "u"), call("?[] ?[] ?[4,8] ?[4,8]", "_ _", "u")),
    "threefry4x32": (call(" ".join(["?[4,8]"] * 8), "_ _ _ _", "u"),),
    "philox2x32": (call("?[4,8] ?[4,8] ?[4,8]", "_ _", "u"), call("?[] ?[4,8] ?[4,8]", "_ _", "u")),
    "philox4x32": (call(" ".join(["?[4,8]"] * 6), "_ _ _ _", "u"),),
    "iota_2x32_shape": (call("", "_ _", "u", shape=(4, 8)),),
    "tile": (call("?[4,8]", reps=(2, 1)), call("?[4,8]", reps=(1, 3))),
    "random_gamma": (call("?[4] f32[4,8]", "", "o", log_space=False), call("?[] f32[8]", "", "o", log_space=True)),
    "rng_bit_generator": (
        call(
            "u32[4]", "_ _", "u",
            algorithm=Word("RNG_DEFAULT"), dtype=Word("uint32"), out_sharding=None, shape=(4, 8),
        ),
    ),
    "random_bits": (call("?[4]", "", "o", bit_width=32, shape=(6,)), call("?[]", "", "o", bit_width=8, shape=(4, 8))),
    "random_split": (call("?[4]", "", "o", shape=(6,)),),
    "random_unwrap": (call("?[4]", "", "o"),),
    "random_wrap": (call("?[4,2]", "", "u", impl=Word("fry")),),
    "random_clone": (call("?[4,8]", "", "o"),),
    "random_seed": (call("?[4,8]", "", "iu", impl=Word("fry")),),
    "random_fold_in": (call("?[4,8] u32[4,8]", "", "o"), call("?[] u32[8]", "", "o")),
}  # fmt: skip
