"""A small Llama, in plain JAX, with explicit shardings over ('data', 'model').

A name says which: `llama_fsdp_grad_scan8` is the gradient of the loss, weights sharded and gathered at use, eight
layers under a `scan`. The printed programs are those in tests/golden/corpus of the same names, byte for byte
(tests/test_bench.py), so that the text that is read and the program that JAX checks are one. `make bench` measures
these too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from verifier.with_jax.gradients import Array, Sample
from verifier.with_jax.meshes import abstract

Tree: TypeAlias = "dict[str, Any]"

AXES: Final = {"data": 4, "model": 2}

BATCH, TOKENS, VOCABULARY, WIDTH, HEADS, HEAD, HIDDEN = 16, 16, 256, 64, 8, 8, 128

#: kind of weight -> shape
SHAPES: Final[Mapping[str, tuple[int, ...]]] = {
    "embedding": (VOCABULARY, WIDTH),
    "project": (WIDTH, HEADS, HEAD),
    "merge": (HEADS, HEAD, WIDTH),
    "widen": (WIDTH, HIDDEN),
    "narrow": (HIDDEN, WIDTH),
    "gain": (WIDTH,),
    "unembedding": (WIDTH, VOCABULARY),
}

#: weights of a layer, each with its kind. The order of their names is the order of a program's inputs.
LAYER: Final = {
    "down": "narrow",
    "gate": "widen",
    "keys": "project",
    "norm_1": "gain",
    "norm_2": "gain",
    "output": "merge",
    "queries": "project",
    "up": "widen",
    "values": "project",
}
OUTSIDE: Final = {"embedding": "embedding", "norm": "gain", "unembedding": "unembedding"}

#: how weights are laid out, by mode: kind -> the axis that cuts each dim; kinds that are not named are whole
CUTS: Final[Mapping[str, Mapping[str, tuple[str | None, ...]]]] = {
    "dp": {},
    "dpr": {},
    "fsdp": {
        "embedding": (None, "data"),
        "project": ("data", None, None),
        "merge": (None, None, "data"),
        "widen": ("data", None),
        "narrow": (None, "data"),
        "unembedding": ("data", None),
    },
    "tp": {
        "project": (None, "model", None),
        "merge": ("model", None, None),
        "widen": (None, "model"),
        "narrow": ("model", None),
    },
}

_NAME: Final = re.compile(rf"llama_({'|'.join(CUTS)})_(fwd|grad)_(unroll|scan)([1-9]\d?)")


@dataclass(frozen=True)
class Llama:
    """One program. mode: the layout of its weights (`dp` replicated, `dpr` reduced over data, `fsdp` sharded over
    data and gathered at use, `tp` sharded over model). gradient: of the loss, else the logits. scanned: the layers are
    iterations of a scan, else written out."""

    mode: str
    gradient: bool
    scanned: bool
    layers: int

    @classmethod
    def named(cls, name: str) -> Llama:
        """The program of this name. Raises `ValueError` if there is none."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise ValueError(
                f"{name} is no program: write llama_MODE_KIND_unrollN or llama_MODE_KIND_scanN, MODE one of "
                f"{', '.join(CUTS)}, KIND fwd or grad, N from 1 to 99"
            )
        return cls(found[1], found[2] == "grad", found[3] == "scan", int(found[4]))

    def sample(self, again: bool = False) -> Sample:
        """The loss as a function of weights and text. again: with layers that are computed again in the backward
        pass."""
        mesh = ", ".join(f"{name}={size}" for name, size in AXES.items())
        weights = jax.tree.map(lambda one: Array(one.shape, one.sharding.spec), self.weights(abstract(mesh)))
        text = Array((BATCH, TOKENS), P("data", None), "int32")

        def loss(weights: Tree, tokens: Any, targets: Any) -> Any:
            found: Llama = _Again(self.mode, True, self.scanned, self.layers) if again else self
            return found.loss(weights, tokens, targets)

        return Sample(loss, (weights, text, text), mesh)

    def trace(self) -> Any:
        """The program as JAX holds it, a `jax.core.Jaxpr`. Needs eight devices."""
        mesh = jax.make_mesh(tuple(AXES.values()), tuple(AXES))
        with jax.set_mesh(mesh):
            text = jax.ShapeDtypeStruct((BATCH, TOKENS), jnp.int32, sharding=jax.NamedSharding(mesh, P("data", None)))
            if self.gradient:
                traced = jax.jit(jax.value_and_grad(self.loss)).trace(self.weights(mesh), text, text)
            else:
                traced = jax.jit(self.logits).trace(self.weights(mesh), text)
        return traced.jaxpr.jaxpr

    def weights(self, mesh: Any) -> Tree:
        """The types of all weights; a scan takes those of all layers stacked."""

        def type_of(kind: str, stack: tuple[int, ...] = ()) -> jax.ShapeDtypeStruct:
            spec = self.spec(kind)
            spec = P(*[None] * len(stack), *spec.partitions, reduced=spec.reduced)
            return jax.ShapeDtypeStruct(stack + SHAPES[kind], jnp.float32, sharding=jax.NamedSharding(mesh, spec))

        if self.scanned:
            layers: Any = {name: type_of(kind, (self.layers,)) for name, kind in LAYER.items()}
        else:
            layers = [{name: type_of(kind) for name, kind in LAYER.items()} for _ in range(self.layers)]
        return {"layers": layers, **{name: type_of(kind) for name, kind in OUTSIDE.items()}}

    def spec(self, kind: str) -> P:
        """How weights of a kind are stored."""
        cut = CUTS[self.mode].get(kind, (None,) * len(SHAPES[kind]))
        # Gains stay replicated: JAX refuses to multiply a reduced array by one that is sharded on the same axis.
        return P(*cut, reduced={"data"} if self.mode == "dpr" and kind != "gain" else set())

    def at_use(self, weight: jax.Array, kind: str) -> jax.Array:
        """A weight as it is used: whole, where it is stored in pieces."""
        return jax.reshard(weight, P(*[None] * weight.ndim)) if self.mode == "fsdp" else weight

    def loss(self, weights: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        """The mean of the cross entropy."""
        likely = jax.nn.log_softmax(self.logits(weights, tokens), -1)
        return -jnp.sum(likely * jax.nn.one_hot(targets, VOCABULARY, dtype=jnp.float32)) / (BATCH * TOKENS)

    def logits(self, weights: Tree, tokens: jax.Array) -> jax.Array:
        """The network: tokens i32[16@data,16] to logits f32[16@data,16,256]."""
        embedding = self.at_use(weights["embedding"], "embedding")
        stream = jax.nn.one_hot(tokens, VOCABULARY, dtype=jnp.float32) @ embedding
        if self.scanned:
            stream, _ = jax.lax.scan(lambda stream, layer: (self.layer(layer, stream), None), stream, weights["layers"])
        else:
            for layer in weights["layers"]:
                stream = self.layer(layer, stream)
        stream = normalised(stream, self.at_use(weights["norm"], "gain"))
        return stream @ self.at_use(weights["unembedding"], "unembedding")

    def layer(self, weights: Tree, stream: jax.Array) -> jax.Array:
        """Attention, then the feed-forward network, each added to the stream."""

        def use(name: str) -> jax.Array:
            return self.at_use(weights[name], LAYER[name])

        # Under tp the contracted dims are sharded on model, so the sum needs a target.
        target = P("data", None, None) if self.mode == "tp" else None
        calm = normalised(stream, use("norm_1"))
        queries, keys, values = (jnp.einsum("btw,whk->bthk", calm, use(name)) for name in ("queries", "keys", "values"))
        attended = attention(turned(queries), turned(keys), values)
        stream = stream + jnp.einsum("bthk,hkw->btw", attended, use("output"), out_sharding=target)
        calm = normalised(stream, use("norm_2"))
        hidden = jax.nn.silu(calm @ use("gate")) * (calm @ use("up"))
        if target is None:
            return stream + hidden @ use("down")
        return stream + jnp.einsum("btf,fw->btw", hidden, use("down"), out_sharding=target)


class _Again(Llama):
    """One whose layers are computed again in the backward pass."""

    def layer(self, weights: Tree, stream: jax.Array) -> jax.Array:
        """A layer that saves only its inputs."""
        found: jax.Array = jax.checkpoint(super().layer)(weights, stream)
        return found


def transformers() -> Iterator[tuple[str, Callable[[], Sample]]]:
    """The loss of every layout, with layers in a loop and written out, saved and computed again, by name."""
    for mode in CUTS:
        for scanned, layers in ((False, 2), (True, 3)):
            for again in (False, True):
                one = Llama(mode, True, scanned, layers)
                name = f"llama_{mode}_{'scan' if scanned else 'unroll'}{layers}{'_again' if again else ''}"
                yield name, functools.partial(one.sample, again)


def normalised(stream: jax.Array, gain: jax.Array) -> jax.Array:
    """Divided by the root of the mean square of its last dim."""
    mean = jnp.mean(jnp.square(stream), -1, keepdims=True)
    return (stream * jax.lax.rsqrt(mean + 1e-6)) * gain


def turned(heads: jax.Array) -> jax.Array:
    """Each pair of coordinates of a head turned by an angle that grows with the position."""
    half = HEAD // 2
    speed = 1.0 / (10000.0 ** (jnp.arange(half, dtype=jnp.float32) / half))
    angle = jnp.arange(TOKENS, dtype=jnp.float32)[:, None] * speed[None, :]
    cosine, sine = (function(angle)[None, :, None, :] for function in (jnp.cos, jnp.sin))
    first, second = heads[..., :half], heads[..., half:]
    return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], -1)


def attention(queries: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
    """Causal attention of every head: f32[b,t,h,k] each."""
    scores = jnp.einsum("bthk,bshk->bhts", queries, keys) / jnp.float32(HEAD**0.5)
    rows, columns = (jax.lax.broadcasted_iota(jnp.int32, (TOKENS, TOKENS), dim) for dim in (0, 1))
    scores = jnp.where((rows >= columns)[None, None], scores, -jnp.inf)
    return jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(scores, -1), values)
