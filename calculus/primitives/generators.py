"""What keys are hashed by: counters and words of 32 bits, mixed element by element, so that a block of counters gives
its block of numbers wherever it lies; and the numbers of all elements of an array, from which counters are made.

Threefry and Philox are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from typing import Any, Final

from calculus.parameters import bad, sizes
from calculus.primitives.declaration import DtypesOf, Kernel, Primitive, SchemeOf, Site, same_dtype
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, creation, elementwise

_WORD: Final = "u32"


def _aligned(results: int) -> SchemeOf:
    """`([i,j], …) -> [i,j], …`: as many words come out as a counter has."""

    def scheme(site: Site) -> Scheme:
        one = elementwise(site.shapes)
        return Scheme(one.operands, one.results * results, one.sizes)

    return scheme


def _words(results: int) -> DtypesOf:
    def dtypes(site: Site) -> tuple[str, ...]:
        (found,) = same_dtype(site)
        if found != _WORD:
            raise refuse(
                "dtype",
                f"operand 0 is {found}, not {_WORD}",
                because="keys and counters are made of words of 32 bits",
                help="insert a convert_element_type",
                place=Place("operand", 0),
            )
        return (found,) * results

    return dtypes


def _threefry(rotations: tuple[tuple[int, ...], ...], pairs: tuple[tuple[tuple[int, int], ...], ...]) -> Kernel:
    """Twenty rounds of adding, rotating and mixing pairs of words, the key added after every fourth."""

    def kernel(np: Any, p: Any, *operands: Any) -> Any:
        count = len(operands) // 2
        keys, x = list(operands[:count]), [np.broadcast_arrays(*operands)[0] * np.uint32(0)] * count
        keys.append(np.bitwise_xor.reduce(np.stack(np.broadcast_arrays(*keys))) ^ np.uint32(0x1BD11BDA))
        x = [zero + word + key for zero, word, key in zip(x, operands[count:], keys, strict=False)]
        for number in range(20):
            for (a, b), left in zip(pairs[number % len(pairs)], rotations[number % 8], strict=True):
                x[a] = x[a] + x[b]
                x[b] = (x[b] << np.uint32(left) | x[b] >> np.uint32(32 - left)) ^ x[a]
            if number % 4 == 3:
                turn = number // 4 + 1
                x = [word + keys[(turn + at) % len(keys)] for at, word in enumerate(x)]
                x[-1] = x[-1] + np.uint32(turn)
        return x

    return kernel


def _philox(factors: tuple[int, ...], steps: tuple[int, ...]) -> Kernel:
    """Ten rounds: half of the words are multiplied, and both halves of the products change places with the others."""

    def kernel(np: Any, p: Any, *operands: Any) -> Any:
        count = len(factors)
        keys, x = list(operands[:count]), list(np.broadcast_arrays(*operands)[count:])
        for _ in range(10):
            products = [word.astype(np.uint64) * np.uint64(by) for word, by in zip(x[::2], factors, strict=True)]
            low = [one.astype(np.uint32) for one in products]
            high = [(one >> np.uint64(32)).astype(np.uint32) for one in products]
            mixed = [part ^ word ^ key for part, word, key in zip(reversed(high), x[1::2], keys, strict=True)]
            x = [word for pair in zip(mixed, reversed(low), strict=True) for word in pair]
            keys = [key + np.uint32(step) for key, step in zip(keys, steps, strict=True)]
        return x

    return kernel


def _hash(name: str, keys: int, kernel: Kernel, words: int) -> Primitive:
    operands = (*(f"k{number}" for number in range(keys)), *(f"x{number}" for number in range(words)))
    return Primitive(
        name, operands, f"; {' '.join(operands)}", _aligned(words), _words(words), kernel=kernel, accepts="u"
    )


def _numbered(site: Site) -> Scheme:
    """Two arrays made from nothing, alike and whole on every device, as JAX makes them."""
    shape = sizes(site.parameters, "shape")
    if not shape:
        raise bad("shape", "()", "a shape with a dim")
    one = creation(shape)
    return Scheme((), one.results * 2, one.sizes, dict.fromkeys(range(len(shape)), "whole"))


def _numbers(np: Any, p: Any) -> Any:
    shape = p["shape"]
    count = np.arange(np.prod(shape, dtype=np.uint64), dtype=np.uint64).reshape(shape)
    return [(count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32)]


_PAIRS: Final = (((0, 1), (2, 3)), ((0, 3), (2, 1)))

# fmt: off
GENERATORS = (
    _hash("threefry2x32", 2, _threefry(((13,), (15,), (26,), (6,), (17,), (29,), (16,), (24,)), (((0, 1),),)), 2),
    _hash("threefry4x32", 4, _threefry(
        ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)), _PAIRS), 4),
    _hash("philox2x32", 1, _philox((0xD256D193,), (0x9E3779B9,)), 2),
    _hash("philox4x32", 2, _philox((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)), 4),
    Primitive("iota_2x32_shape", (), "", _numbered, lambda site: (_WORD, _WORD), kernel=_numbers),
)
# fmt: on
