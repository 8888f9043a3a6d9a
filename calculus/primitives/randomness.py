"""Keys and what is drawn from them. A key is an element of its own dtype, so a new key keeps its old one's dims; the
words of a raw key are one more dim, which no device can do without.
"""

from __future__ import annotations

from calculus.parameters import bad, integer, required, sizes
from calculus.primitives.declaration import Primitive, Site, like_operands, named_dtype
from calculus.primitives.elementwise import aligned
from calculus.programs import Call
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape
from calculus.types import DTYPES, dtype_class

_WORD_BITS = 32


def _words(dtype: str) -> int:
    """How many 32-bit words a key has."""
    return DTYPES[dtype][1] // _WORD_BITS if dtype in DTYPES else 2


def _extended(keys: Shape, extra: Shape) -> Scheme:
    """`[i] -> [i,j]`, the new dims made whole on every device."""
    kept = tuple((dim,) for dim in range(len(keys)))
    made = range(len(keys), len(keys) + len(extra))
    return Scheme((kept,), ((*kept, *((dim,) for dim in made)),), (*keys, *extra), dict.fromkeys(made, "whole"))


def _bits_scheme(site: Site) -> Scheme:
    return _extended(site.shapes[0], sizes(site.parameters, "shape"))


def _split_scheme(site: Site) -> Scheme:
    return _extended(site.shapes[0], sizes(site.parameters, "shape"))


def _unwrap_scheme(site: Site) -> Scheme:
    return _extended(site.shapes[0], (_words(site.dtypes[0] or ""),))


def _wrap_scheme(site: Site) -> Scheme:
    """`[i,j] -> [i]`, the words j of each key needed whole."""
    shape, words = site.shapes[0], _words(_key_dtype(site))
    if not shape or shape[-1] != words:
        raise refuse(
            "shape",
            f"a key is made of {words} words, and the operand's dims are {list(shape)}",
            because="the last dim holds the words of one key",
            place=Place("operand", 0),
        )
    indices = tuple((dim,) for dim in range(len(shape)))
    return Scheme((indices,), (indices[:-1],), shape, {len(shape) - 1: "whole"})


def _key_dtype(site: Site) -> str:
    """`key<fry>`, from `impl=fry`, or from `impl=PRNGSpec("threefry2x32")` and the like."""
    impl = required(site.parameters, "impl")
    name = impl.arguments[0] if isinstance(impl, Call) and impl.arguments else impl
    found = {"threefry2x32": "fry", "rbg": "rbg", "unsafe_rbg": "urbg"}.get(str(name), str(name))
    if not isinstance(name, str):
        raise bad("impl", str(impl), "the name of a generator")
    return f"key<{found}>"


def _key(site: Site) -> tuple[str, ...]:
    return (_key_dtype(site),)


def _same_key(site: Site) -> tuple[str, ...]:
    dtype = site.dtypes[0] or ""
    if not dtype.startswith("key<"):
        raise refuse("dtype", f"operand 0 is {dtype}, not a key", place=Place("operand", 0))
    return (dtype,)


def _bits_dtype(site: Site) -> tuple[str, ...]:
    _same_key(site)
    width = integer(required(site.parameters, "bit_width"), "bit_width")
    if width not in (8, 16, 32, 64):
        raise bad("bit_width", str(width), "8, 16, 32 or 64")
    return (f"u{width}",)


def _folded(site: Site) -> tuple[str, ...]:
    _words_of(site, 1)
    return _same_key(site)


def _wrapped(site: Site) -> tuple[str, ...]:
    _words_of(site, 0)
    return _key(site)


def _words_of(site: Site, index: int) -> None:
    dtype = site.dtypes[index]
    if dtype not in (None, "u32"):
        raise refuse(
            "dtype",
            f"operand {index} is {dtype}, not u32",
            because="keys are made of words of 32 bits",
            help="insert a convert_element_type",
            place=Place("operand", index),
        )


def _raw_dtype(site: Site) -> tuple[str, ...]:
    _same_key(site)
    return ("u32",)


def _gamma_scheme(site: Site) -> Scheme:
    """`([b], [b,J]) -> [b,J]`: a key is split among the elements that share it, so these are needed whole."""
    keys, shape = site.shapes
    if shape[: len(keys)] != keys:
        raise refuse(
            "shape",
            f"keys of shape {list(keys)} for an array of shape {list(shape)}",
            because="the dims of the keys are the first ones of the array",
            help="split the key first",
            place=Place("operand", 0),
        )
    indices = tuple((dim,) for dim in range(len(shape)))
    return Scheme(
        (indices[: len(keys)], indices), (indices,), shape, dict.fromkeys(range(len(keys), len(shape)), "whole")
    )


def _gamma_dtype(site: Site) -> tuple[str, ...]:
    _same_key(site)
    (found,) = like_operands(1)(site)
    if dtype_class(found) != "f":
        raise refuse("dtype", f"operand 1 is {found}, not a floating dtype", place=Place("operand", 1))
    return (found,)


#: raw keys of the generator that a platform brings, by dtype: how many words they have
_RAW_KEYS = {"u32": 4, "u64": 2}


def _generator_scheme(site: Site) -> Scheme:
    """`[K] -> [L], [I,J]`: the next key, and the bits, made whole on every device, or where a target says."""
    key, dtype = site.shapes[0], site.dtypes[0] or ""
    if key != (_RAW_KEYS.get(dtype),):
        raise refuse(
            "shape",
            f"a key of {dtype}{list(key)}",
            because="a raw key is 4 words of 32 bits, or 2 of 64",
            place=Place("operand", 0),
        )
    shape = sizes(site.parameters, "shape")
    made = range(2, 2 + len(shape))
    results = (((1,),), tuple((dim,) for dim in made))
    return Scheme((((0,),),), results, (*key, *key, *shape), dict.fromkeys((0, 1, *made), "whole"))


def _generator_dtypes(site: Site) -> tuple[str, ...]:
    (bits,) = named_dtype("dtype")(site)
    if bits not in ("u8", "u16", "u32", "u64"):
        raise bad("dtype", bits, "an unsigned dtype of 8 to 64 bits")
    return (site.dtypes[0] or "u32", bits)


RANDOMNESS = (
    Primitive("random_bits", ("key",), "; key", _bits_scheme, _bits_dtype, accepts="o"),
    Primitive("random_split", ("key",), "; key", _split_scheme, _same_key, accepts="o"),
    Primitive("random_unwrap", ("key",), "; key", _unwrap_scheme, _raw_dtype, accepts="o"),
    Primitive("random_wrap", ("words",), "; words", _wrap_scheme, _wrapped, accepts="u"),
    Primitive("random_clone", ("key",), "; key", aligned, _same_key, accepts="o"),
    Primitive("random_seed", ("seed",), "; seed", aligned, _key, accepts="iu"),
    # a sample's derivative is in its parameter; it has no kernel here, as keys are JAX's own
    Primitive("random_gamma", ("key", "a"), "/ a ; key", _gamma_scheme, _gamma_dtype, accepts="o", window="halo"),
    # which bits a platform's own generator gives, only the platform says, and on every placement the same
    Primitive(
        "rng_bit_generator",
        ("key",),
        "; key",
        _generator_scheme,
        _generator_dtypes,
        target="out_sharding",
        accepts="u",
    ),
    Primitive("random_fold_in", ("key", "data"), "; key data", aligned, _folded, accepts="o"),
)
