"""Derivatives and adjoints of the primitives, by name, in the notation of `calculus.formulas`.

A row is written where a declaration does not say it already: for operands in which a primitive is not linear, for those
that are linear beside others (a sum of which one summand flows), and for transposes that no scheme tells. It becomes a
field of the declaration. `tests/laws/test_derivative_rows.py` holds each against its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from calculus.parameters import dims, integer, integers, required, sequence, whole_numbers
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Call
from calculus.types import DTYPES, dtype_class


def differentiable(primitive: Primitive) -> Primitive:
    """A declaration with its rows."""
    derivative, adjoint = DERIVATIVES.get(primitive.name), ADJOINTS.get(primitive.name)
    if derivative is None and adjoint is None:
        return primitive
    return replace(primitive, derivative=derivative or primitive.derivative, adjoint=adjoint or primitive.adjoint)


BOUNDED: Final = (
    "low: g * select_n((low > x) & (low < high), full(0, result), full(1, result)); "
    "x: select_n((x > low) & (x < high), full(0, result), g); "
    "high: g * select_n(high < x, full(0, result), full(1, result))"
)
"""Of a clamp: of the bound that is met, or of what lies between."""


def higher(above: str) -> str:
    """Of two numbers the one above has the derivative, and each half of it where they are equal."""
    equal = above.replace(">", "==")
    return f"g * select_n({above}, select_n({equal}, full(0, result), full(0.5, result)), full(1, result))"


def is_complex(site: Site) -> bool:
    """Whether the first operand is complex."""
    return dtype_class(site.dtypes[0] or "f32") == "c"


def power(site: Site) -> str:
    """Of the base, which may be zero to a power of zero; and of an exponent that is no integer."""
    if dtype_class(site.dtypes[1] or "f32") not in "iu":
        at_zero = "select_n(x == 0, x, full(1, x))"
        return f"x: g * (y * pow(x, y - 1)); y: g * (log({at_zero}) * result)"
    long = DTYPES[site.dtypes[0] or "f32"][0]
    factor = f"convert_element_type(y, new_dtype={long}, weak_type=False) * pow(x, y - 1)"
    return f"x: g * select_n(y == 0, {factor}, full(0, result))"


def whole_power(site: Site) -> str:
    """Of a power that is written in the equation."""
    y = integer(required(site.parameters, "y"), "y")
    if y == 0:
        return "0"
    return "g * (2 * x)" if y == 2 else f"g * ({y} * integer_pow(x, y={y - 1}))"


def polynomial(site: Site) -> str:
    """Of the variable, and of each coefficient."""
    powers = range(len(site.shapes) - 1)
    slope = ", ".join(f"{power} * c{power}" for power in powers if power)
    rows = [f"c{power}: g{' * x' * power}" for power in powers]
    return "; ".join([f"x: g * polynomial(x, {slope})" if slope else "x: 0", *rows])


def converted_back(site: Site, position: int) -> str:
    """To the dtype of what was converted."""
    return f"convert_element_type(g, new_dtype={DTYPES[site.dtypes[0] or 'f32'][0]}, weak_type=False)"


def unsliced(site: Site, position: int) -> str:
    """Zeros around the slice, and between its elements."""
    shape, start, limit = site.shapes[0], dims(site.parameters, "start_indices"), dims(site.parameters, "limit_indices")
    strides = (1,) * len(shape) if site.parameters.get("strides") is None else dims(site.parameters, "strides")
    rows = []
    for size, low, high, step in zip(shape, start, limit, strides, strict=True):
        if not (isinstance(size, int) and isinstance(low, int) and isinstance(high, int) and isinstance(step, int)):
            return ""
        count = -(-(high - low) // step)
        rows.append((low, size - low - max(0, count - 1) * step - min(count, 1), step - 1))
    return f"pad(g, 0, padding_config={tuple(rows)})"


def unpadded(site: Site, position: int) -> str:
    """What was padded is cut out again; the padding's is the sum of the rest."""
    shape = site.shapes[0]
    config = [
        tuple(integer(item, "padding_config") for item in sequence(row, "padding_config"))
        for row in sequence(site.parameters["padding_config"], "padding_config")
    ]
    cut = f"pad(g, 0, padding_config={tuple((-low, -high, 0) for low, high, _ in config)})"
    if any(inner for _, _, inner in config):
        if any(isinstance(size, str) for size in shape):
            return ""
        spread = tuple(
            size + inner * max(0, size - 1)  # type: ignore[operator]
            for size, (_, _, inner) in zip(shape, config, strict=True)
        )
        strides = tuple(inner + 1 for _, _, inner in config)
        cut = f"slice({cut}, start_indices={(0,) * len(shape)}, limit_indices={spread}, strides={strides})"
    every = f"axes={tuple(range(len(shape)))}, out_sharding=None"
    return f"x: {cut}; p: reduce_sum(g, {every}) - reduce_sum({cut}, {every})"


def taken_apart(site: Site, position: int) -> str:
    """Of a concatenation: the operand's part."""
    dim = integer(site.parameters["dimension"], "dimension")
    parts = tuple(shape[dim] for shape in site.shapes)
    return f"split(g, axis={dim}, sizes={parts})[{position}]"


def put_together(site: Site, position: int) -> str:
    """Of a split: the parts, concatenated."""
    return f"concatenate(*g, dimension={site.parameters['axis']})"


def turned(site: Site, position: int) -> str:
    """Of a reversal: itself."""
    return f"rev(g, dimensions={integers(site.parameters, 'dimensions')})"


def extreme(site: Site) -> str:
    """Of a maximum or minimum over dims: the mean of the tangents of the elements that are it."""
    shape, axes = site.shapes[0], integers(site.parameters, "axes")
    ones = tuple(1 if dim in axes else size for dim, size in enumerate(shape))
    found = f"x == reshape(result, dimensions=None, new_sizes={ones}, sharding=None)"
    where = f"convert_element_type({found}, new_dtype={DTYPES[site.dtypes[0] or 'f32'][0]}, weak_type=False)"
    over = f"axes={axes}, out_sharding=None"
    return f"reduce_sum(g * {where}, {over}) / reduce_sum({where}, {over})"


def real_only(row: str) -> Callable[[Site], str]:
    """A row that holds on the reals only."""
    return lambda site: "" if is_complex(site) else row


def conjugated(site: Site, position: int) -> str:
    """Of a conjugate: itself, or the real part where it was given reals."""
    return f"conj(g, input_dtype={site.parameters['input_dtype']})" if is_complex(site) else "real(g)"


def from_the_other_end(site: Site, position: int) -> str:
    """Of a cumulated sum."""
    return f"cumsum(g, axis={site.parameters['axis']}, reverse={not site.parameters['reverse']})"


def updated(site: Site, position: int) -> str:
    """Of an update: zeros where it went, and what was there."""
    return f"x: dynamic_update_slice(g, zeros(u), *i); u: dynamic_slice(g, *i, slice_sizes={site.shapes[1]})"


def looked_up(site: Site, position: int) -> str:
    """Of a lookup: what comes to each place is added up there."""
    numbers = required(site.parameters, "dimension_numbers")
    if not isinstance(numbers, Call):
        return ""
    renamed = ", ".join(
        f"{there}={whole_numbers(found, there)}"
        for here, there in _PLACES.items()
        if (found := numbers.keyword(here)) is not None
    )
    flags = ", ".join(f"{name}={site.parameters.get(name, False)}" for name in ("indices_are_sorted", "unique_indices"))
    return (
        f"x: scatter_add(zeros(x, indices), indices, g, dimension_numbers=ScatterDimensionNumbers({renamed}), "
        f"mode='{site.parameters.get('mode')}', {flags}, update_consts=(), update_jaxpr=sum_of({site.dtypes[0]}))"
    )


_PLACES: Final = {
    "offset_dims": "update_window_dims",
    "collapsed_slice_dims": "inserted_window_dims",
    "start_index_map": "scatter_dims_to_operand_dims",
    "operand_batching_dims": "operand_batching_dims",
    "start_indices_batching_dims": "scatter_indices_batching_dims",
}
"""The dims of a gather, and the same dims of a scatter."""


def added_up(site: Site, position: int) -> str:
    """Of updates that are added: the array's own is passed on, that of an update is looked up where it went."""
    numbers = required(site.parameters, "dimension_numbers")
    if not isinstance(numbers, Call):
        return ""
    said = {here: numbers.keyword(there) for here, there in _PLACES.items()}
    renamed = ", ".join(f"{here}={whole_numbers(found, here)}" for here, found in said.items() if found is not None)
    shape, _, update = site.shapes
    lone = {
        *whole_numbers(said["collapsed_slice_dims"] or (), ""),
        *whole_numbers(said["operand_batching_dims"] or (), ""),
    }
    windowed = iter(whole_numbers(said["offset_dims"] or (), "update_window_dims"))
    taken = tuple(1 if dim in lone else update[next(windowed)] for dim in range(len(shape)))
    flags = ", ".join(f"{name}={site.parameters.get(name, False)}" for name in ("indices_are_sorted", "unique_indices"))
    return (
        f"x: g; u: gather(g, indices, dimension_numbers=GatherDimensionNumbers({renamed}), fill_value=0, "
        f"mode='{site.parameters.get('mode')}', slice_sizes={taken}, {flags})"
    )


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    # linear beside each other: what one of them gives alone
    "add": "x: g; y: g",
    "add_any": "x: g; y: g",
    "sub": "x: g; y: -g",
    # nothing flows
    **dict.fromkeys(("stop_gradient", "floor", "ceil", "round"), "0"),
    "sign": real_only("0"),
    # elementwise
    "div": "y: -g * x * integer_pow(y, y=-2)",
    "rem": "x: g; y: -g * (sign(x / y) * floor(abs(x / y)))",
    "pow": power,
    "integer_pow": whole_power,
    "polynomial": polynomial,
    "max": f"x: {higher('x > y')}; y: {higher('y > x')}",
    "min": f"x: {higher('y > x')}; y: {higher('x > y')}",
    "clamp": BOUNDED,
    "atan2": "x: g * (y / (square(x) + square(y))); y: g * (-x / (square(x) + square(y)))",
    "abs": real_only("select_n(x >= 0, -g, g)"),
    "square": "g * (2 * x)",
    "one_minus_square": "g * (-2 * x)",
    "sqrt": "g * (0.5 / result)",
    "rsqrt": "g * (-0.5 * (result / x))",
    "cbrt": "g * (0.3333333333333333 * integer_pow(result, y=-2))",
    "exp": "g * result",
    "exp2": "0.6931471805599453 * (g * result)",
    "expm1": "g * exp(x)",
    "log": "g / x",
    "log2": "g / (x * 0.6931471805599453)",
    "log1p": "g / (x + 1)",
    "logistic": "g * (result * (1 - result))",
    "sin": "g * cos(x)",
    "cos": "-(g * sin(x))",
    "tan": "g * (1 + square(result))",
    "asin": "g * rsqrt(one_minus_square(x))",
    "acos": "g * -rsqrt(one_minus_square(x))",
    "atan": "g / (1 + square(x))",
    "sinh": "g * cosh(x)",
    "cosh": "g * sinh(x)",
    "tanh": "g * one_minus_square(result)",
    "asinh": "g * rsqrt(square(x) + 1)",
    "acosh": "g * (rsqrt(x - 1) * rsqrt(x + 1))",
    "atanh": "g / one_minus_square(x)",
    "erf": "1.1283791670955126 * (g * exp(-square(x)))",
    "erfc": "-1.1283791670955126 * (g * exp(-square(x)))",
    "erf_inv": "0.8862269254527579 * (g * exp(square(result)))",
    "lgamma": "g * digamma(x)",
    # rounding is passed through
    "reduce_precision": "g",
    # reductions
    "reduce_max": extreme,
    "reduce_min": extreme,
}
"""What is not written is not differentiated."""

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    # the parts of complex numbers, without conjugation
    "real": "complex(g, full(0, g))",
    "imag": "complex(full(0, g), -g)",
    "complex": "x: real(g); y: imag(-g)",
    "conj": conjugated,
    "convert_element_type": converted_back,
    # what looks along dims
    "slice": unsliced,
    "pad": unpadded,
    "concatenate": taken_apart,
    "split": put_together,
    "rev": turned,
    "cumsum": from_the_other_end,
    "stack": lambda site, position: f"unstack(g, axis={site.parameters['axis']})[{position}]",
    "unstack": lambda site, position: f"stack(*g, axis={site.parameters['axis']})",
    "dynamic_slice": "x: dynamic_update_slice(zeros(x), g, *i)",
    "dynamic_update_slice": updated,
    "gather": looked_up,
    "scatter-add": added_up,
}
