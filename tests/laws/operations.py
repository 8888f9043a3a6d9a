"""Real operations for the laws: an index scheme written out by hand, a signature, and the numpy function itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calculus.linearity import Relation, axis_scheme, relation
from calculus.signatures import Signature


@dataclass(frozen=True)
class Operation:
    """`indices`: per operand one letter per dim, capitals for dims that are needed whole. `kernel` takes the operands'
    blocks and then the local sizes of the dims in `grows`, which only the result has. `dtypes`, a letter per operand:
    i (random integers), f (floats), n (integers, none of them zero), b (bools), x (indices into a whole dim).
    `truth`: the results are truth values, of which there is no sum."""

    name: str
    indices: tuple[str, ...]
    result: str
    signature: str
    kernel: Callable[..., Any]
    roles: Mapping[str, str] = field(default_factory=dict)
    order: str | None = None
    join: str = ""
    dtypes: str = ""
    grows: str = ""
    accumulator: int | None = None
    truth: bool = False

    @property
    def relation(self) -> Relation:
        whole = {letter: "whole" for letter in "".join((*self.indices, self.result)) if letter.isupper()}
        scheme = axis_scheme(self.indices, self.result, {**whole, **self.roles}, self.accumulator)
        return relation(scheme, Signature.parse(self.signature, self.order, self.join).of(len(self.indices)))


def scattered(ufunc: Any) -> Callable[..., Any]:
    """`x[at] ∘= u`, an update at each place, of what is in the dims after the first."""

    def kernel(x: Any, at: Any, u: Any) -> Any:
        found = x.copy()
        ufunc.at(found, np.clip(at, 0, len(x) - 1), u)
        return found

    return kernel


def written(x: Any, at: Any, u: Any) -> Any:
    """`x[at] = u` at places that differ: the numbers in `at` count by their rank. Those outside are dropped."""
    found, ranks = x.copy(), np.argsort(np.argsort(at, kind="stable"), kind="stable")
    found[ranks[ranks < len(x)]] = u[ranks < len(x)]
    return found


def einsum(text: str) -> Callable[..., Any]:
    return lambda *arrays: np.einsum(text, *arrays)


OPERATIONS = [
    Operation("add", ("ij", "ij"), "ij", "x y", np.add, join="x | y"),
    Operation("sub", ("ij", "ij"), "ij", "x y", np.subtract, join="x | -y"),
    Operation("add a scalar", ("", "i"), "i", "x y", np.add, join="x | y"),
    Operation("mul", ("ij", "ij"), "ij", "x | y", np.multiply),
    Operation("mul by a scalar", ("", "i"), "i", "x | y", np.multiply),
    Operation("div", ("i", "i"), "i", "x / y", np.divide, dtypes="fn"),
    Operation("neg", ("ij",), "ij", "x", np.negative, join="-x"),
    Operation("cos", ("i",), "i", "/ x", np.cos),
    Operation("exp", ("i",), "i", "/ x", lambda x: np.exp(x / 8), join="x"),
    Operation("integer_pow", ("i",), "i", "/ x", np.square),
    Operation("floor", ("i",), "i", "; x", lambda x: np.floor_divide(x, 3), join="x"),
    Operation("max", ("i", "i"), "i", "/ x y", np.maximum, join="max(x y) | x | y"),
    Operation("min", ("i", "i"), "i", "/ x y", np.minimum, join="min(x y) | x | y"),
    Operation("gt", ("i", "i"), "i", "; x y", np.greater, join="x | -y", truth=True),
    Operation("select_n", ("i", "i", "i"), "i", "x y ; which", np.where, order="which x y", join="x y", dtypes="bii"),
    Operation(
        "select_n, scalar", ("", "i", "i"), "i", "x y ; which", np.where, order="which x y", join="x y", dtypes="bii"
    ),
    Operation("transpose", ("ij",), "ji", "x", np.transpose, join="x"),
    Operation("reshape, dims merged", ("iJ",), "i", "x", lambda x: x.reshape(-1), join="x"),
    Operation("reshape, a dim split", ("i",), "iJ", "x", lambda x: x.reshape(-1, 3), join="x"),
    Operation(
        "broadcast_in_dim", ("j",), "ij", "x", lambda x, i: np.broadcast_to(x, (i, *x.shape)), join="x", grows="i"
    ),
    Operation("reduce_sum", ("ij",), "j", "x", lambda x: x.sum(0), {"i": "sum"}),
    Operation("reduce_max", ("ij",), "j", "/ x", lambda x: x.max(0), {"i": "max"}, join="x"),
    Operation("reduce_min", ("ij",), "j", "/ x", lambda x: x.min(0), {"i": "min"}, join="x"),
    Operation("reduce_prod", ("ij",), "j", "/ x", lambda x: x.prod(0), {"i": "prod"}),
    Operation("reduce_or", ("ij",), "j", "; x", np.bitwise_or.reduce, {"i": "or"}),
    Operation("argmax", ("Ij",), "j", "; x", lambda x: x.argmax(0)),
    Operation("cumsum", ("Ij",), "Ij", "x", lambda x: x.cumsum(0)),
    Operation("cummax", ("Ij",), "Ij", "/ x", np.maximum.accumulate, join="max(x)"),
    Operation("sort", ("Ij",), "Ij", "/ x", lambda x: np.sort(x, axis=0)),
    Operation("rev", ("Ij",), "Ij", "x", lambda x: x[::-1], join="x"),
    Operation("slice", ("Ij",), "Kj", "x", lambda x: x[1:3], join="x"),
    Operation("pad", ("Ij", ""), "Kj", "x p", lambda x, p: np.pad(x, ((1, 2), (0, 0)), constant_values=p), join="x p"),
    Operation("concatenate", ("Ij", "Kj"), "Lj", "xs...", lambda *xs: np.concatenate(xs), join="xs"),
    Operation(
        "dynamic_slice", ("Ij", ""), "Kj", "x ; start", lambda x, s: x[np.clip(s, 0, 3) :][:2], join="x", dtypes="ix"
    ),
    Operation(
        "gather, batched",
        ("Ib", "b"),
        "b",
        "x ; index",
        lambda x, at: x[np.clip(at, 0, len(x) - 1), np.arange(len(at))],
        join="x",
        dtypes="ix",
    ),
    Operation(
        "scatter_add",
        ("Iw", "p", "pw"),
        "Iw",
        "x u ; at",
        scattered(np.add),
        {"p": "sum"},
        "x at u",
        "x",
        "ixi",
        accumulator=0,
    ),
    Operation(
        "scatter_sub",
        ("Iw", "p", "pw"),
        "Iw",
        "x u ; at",
        scattered(np.subtract),
        {"p": "sum"},
        "x at u",
        "x",
        "ixi",
        accumulator=0,
    ),
    Operation(
        "scatter_max",
        ("I", "p", "p"),
        "I",
        "/ x u ; at",
        scattered(np.maximum),
        {"p": "max"},
        "x at u",
        "max(x u) | x",
        "ixi",
        accumulator=0,
    ),
    Operation(
        "scatter_min",
        ("I", "p", "p"),
        "I",
        "/ x u ; at",
        scattered(np.minimum),
        {"p": "min"},
        "x at u",
        "min(x u) | x",
        "ixi",
        accumulator=0,
    ),
    Operation("scatter_mul", ("Iw", "P", "Pw"), "Iw", "x / u ; at", scattered(np.multiply), {}, "x at u", "", "ixi"),
    Operation("scatter", ("Iw", "C", "Cw"), "Iw", "x u ; at", written, {}, "x at u", "x u", "ixi"),
    Operation("dot_general", ("bk", "kj"), "bj", "x | y", np.matmul, {"k": "sum"}),
    Operation("dot_general, batched", ("bik", "bkj"), "bij", "x | y", np.matmul, {"k": "sum"}),
    Operation("inner product", ("k", "k"), "", "x | y", np.dot, {"k": "sum"}),
    Operation("outer product", ("i", "j"), "ij", "x | y", einsum("i,j->ij")),
    Operation("sum of an outer product", ("i", "j"), "", "x | y", einsum("i,j->"), {"i": "sum", "j": "sum"}),
    Operation("full", (), "ij", "", lambda i, j: np.full((i, j), 7), grows="ij"),
    Operation("iota", (), "Ij", "", lambda i, j: np.broadcast_to(np.arange(i)[:, None], (i, j)), grows="Ij"),
]
