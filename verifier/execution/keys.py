"""Random keys in numpy: threefry, as JAX counts with it. A key is one number of 64 bits, its first word the high one.

JAX draws an element's bits from the element's own number in the array (`jax_threefry_partitionable`, the default since
0.5), so that a block of the array needs no other block's draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from calculus.parameters import integer, sizes
from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import NO_PARAMETERS
from verifier.devices import Array


def _hashed(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Threefry of counters under keys, which broadcast against them from the left."""
    kernel = TABLE["threefry2x32"].kernel
    assert kernel is not None
    shape = (*key.shape, *high.shape[key.ndim :]) if high.ndim >= key.ndim else key.shape
    words = [np.asarray(key >> np.uint64(32), np.uint32), np.asarray(key & np.uint64(0xFFFFFFFF), np.uint32)]
    spread = [word.reshape((*word.shape, *(1,) * (len(shape) - word.ndim))) for word in words]
    first, second = kernel(np, NO_PARAMETERS, *spread, high, low)
    return first, second


def _counters(keys: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The numbers of an array's elements, two words each, beside keys."""
    count = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64).reshape(shape)
    count = count.reshape((*(1,) * keys.ndim, *shape))
    return (count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32)


def _joined(high: Array, low: Array) -> Array:
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def _shape(site: Site) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes(site.parameters, "shape"))


def _bits(site: Site, keys: Array) -> list[Array]:
    width = integer(site.parameters["bit_width"], "bit_width")
    high, low = _hashed(keys, *_counters(keys, _shape(site)))
    return [_joined(high, low) if width == 64 else (high ^ low).astype(f"uint{width}")]


def _split(site: Site, keys: Array) -> list[Array]:
    return [_joined(*_hashed(keys, *_counters(keys, _shape(site))))]


def _seeded(seed: Array) -> Array:
    """The key of a seed: its bits, as two words."""
    if seed.dtype.itemsize <= 4:
        return seed.astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)
    return seed.view(np.uint64)


def _seed(site: Site, seed: Array) -> list[Array]:
    return [_seeded(np.ascontiguousarray(seed)).reshape(seed.shape)]


def _fold_in(site: Site, keys: Array, data: Array) -> list[Array]:
    keys, data = np.broadcast_arrays(keys, data)
    counter = _seeded(np.ascontiguousarray(data)).reshape(data.shape)
    return [_joined(*_hashed(keys, (counter >> np.uint64(32)).astype(np.uint32), counter.astype(np.uint32)))]


def _unwrap(site: Site, keys: Array) -> list[Array]:
    return [np.stack([(keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32)], -1)]


def _wrap(site: Site, words: Array) -> list[Array]:
    return [_joined(words[..., 0], words[..., 1])]


def _generated(site: Site, key: Array) -> list[Array]:
    """What a platform's own generator draws, only the platform says: here numpy's Philox, of the key."""
    random = np.random.Generator(np.random.Philox([int(word) for word in key.reshape(-1)][:2]))
    name = str(site.parameters["dtype"])
    bits = random.integers(0, np.iinfo(name).max, _shape(site), name, endpoint=True)
    return [key + key.dtype.type(1), bits]


DRAWN: Final[dict[str, Callable[..., list[Any]]]] = {
    "random_bits": _bits,
    "random_split": _split,
    "random_seed": _seed,
    "random_fold_in": _fold_in,
    "random_unwrap": _unwrap,
    "random_wrap": _wrap,
    "random_clone": lambda site, keys: [keys],
    "rng_bit_generator": _generated,
}
"""What of keys is computed, by primitive. (A sample of a gamma distribution is not: it is drawn by rejection.)"""
