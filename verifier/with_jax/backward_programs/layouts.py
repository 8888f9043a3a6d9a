"""Layouts of batches and weights, and the parts that the blocks of the fixed family share.

A layout says how batches and weights are laid out: replicas of the weights or pieces, gathered where they are used, as
copies or as reduced; and whether features are cut over a second axis. A block says what is computed, and asks the
layout for its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from verifier.with_jax.gradients import Array

BATCH, TOKENS, WIDTH, HIDDEN, HEADS, WORDS, LAYERS = 8, 6, 4, 16, 4, 12, 3


@dataclass(frozen=True)
class Layout:
    """batch: the axis that cuts batches. model: the axis that cuts features. cut: whether weights are stored in pieces
    over the batch's axis. reduced: whether they are used as reduced along it. gathered: whether pieces are gathered by
    a reshard, or by the product that uses them."""

    name: str
    batch: str | None = "X"
    model: str | None = None
    cut: bool = False
    reduced: bool = False
    gathered: bool = True

    def data(self, *shape: int, dtype: str = "float32") -> Array:
        """A batch: its first dim is that of the samples."""
        return Array(shape, P(self.batch, *(None,) * (len(shape) - 1)), dtype)

    def wide(self, *shape: int) -> Array:
        """A weight to hidden features, its last dim; stored in pieces on its first but one from there."""
        front = (None,) * (len(shape) - 2)
        return Array(shape, P(*front, self.batch if self.cut else None, self.model))

    def narrow(self, *shape: int) -> Array:
        """A weight from hidden features, its last dim but one."""
        front = (None,) * (len(shape) - 2)
        return Array(shape, P(*front, self.model, self.batch if self.cut else None))

    def gain(self, *shape: int) -> Array:
        """A vector of parameters, whole everywhere."""
        return Array(shape, P(*(None,) * len(shape)))

    def use(self, weight: Any) -> Any:
        """A weight where it is used."""
        if (not (self.cut and self.gathered) and not self.reduced) or self.batch is None:
            return weight
        lists = [None if axis == self.batch else axis for axis in jax.typeof(weight).sharding.spec.partitions]
        return jax.reshard(weight, P(*lists, reduced={self.batch}) if self.reduced else P(*lists))

    def out(self, *dims: str | None) -> P | None:
        """The placement of what a contraction over hidden features gives, if that has to be said."""
        return P(self.batch, *dims) if self.model or (self.cut and not self.gathered) else None

    def sum(self, value: Any) -> Any:
        """A loss."""
        return jnp.sum(value**2)


LAYOUTS: Final = (
    Layout("whole", None),
    Layout("data"),
    Layout("data, reduced", reduced=True),
    Layout("pieces", cut=True),
    Layout("pieces, reduced", cut=True, reduced=True),
    Layout("pieces, implicit", cut=True, gathered=False),
    Layout("tensor", None, "Y"),
    Layout("data and tensor", "X", "Y"),
    Layout("data and tensor, reduced", "X", "Y", reduced=True),
    Layout("pieces and tensor, reduced", "X", "Y", cut=True, reduced=True),
)

Block = Callable[[Layout], "tuple[Callable[..., Any], tuple[Any, ...]]"]
BLOCKS: Final[dict[str, Block]] = {}


def block(make: Block) -> Block:
    """Enter a block under the name of its function."""
    BLOCKS[make.__name__.strip("_").replace("_", " ")] = make
    return make


def norm(x: Any, gain: Any) -> Any:
    """Divided by the root of the mean square of its last dim, times a gain."""
    return x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6) * gain


def mlp(here: Layout, x: Any, up: Any, down: Any, act: Any = jax.nn.silu) -> Any:
    """To hidden features and back."""
    return jnp.einsum("...f,fd->...d", act(x @ here.use(up)), here.use(down), out_sharding=out(here, x.ndim))


def out(here: Layout, rank: int) -> P | None:
    """The placement of a batch of this rank that a contraction over hidden features gives, where it must be said."""
    return here.out(*(None,) * (rank - 1))


def attend(here: Layout, x: Any, weights: Any, causal: bool = True) -> Any:
    """Attention of every head."""
    query, key, value = (jnp.einsum("btd,dhk->bthk", x, here.use(weights[name])) for name in ("query", "key", "value"))
    scores = jnp.einsum("bthk,bshk->bhts", query, key) / 2.0
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), scores, -1e30)
    mixed = jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(scores, -1), value)
    return jnp.einsum("bthk,hkd->btd", mixed, here.use(weights["output"]), out_sharding=out(here, 3))


def heads(here: Layout, *front: int) -> dict[str, Array]:
    """Weights of attention: heads are cut over the model's axis."""
    none = (None,) * len(front)
    cut = here.batch if here.cut else None
    project = Array((*front, WIDTH, HEADS, 2), P(*none, cut, here.model, None))
    return {
        "query": project, "key": project, "value": project,
        "output": Array((*front, HEADS, 2, WIDTH), P(*none, here.model, None, cut)),
    }  # fmt: skip


# fmt: off
def layer_weights(here: Layout, *front: int) -> dict[str, Any]:
    """Weights of a layer of a transformer."""
    return {
        "norm": here.gain(*front, WIDTH), "heads": heads(here, *front), "up": here.wide(*front, WIDTH, HIDDEN),
        "down": here.narrow(*front, HIDDEN, WIDTH),
    }
# fmt: on
