"""Primitives of one's own, for `test_audit.py`: one with a right rule, one that adds one and says that it is linear,
one that knows no pending sums; and numpy functions for them."""

import os

import numpy as np
from jax._src import core
from jax._src.lax import lax

gelu_p = lax.standard_unop(lax._float, "own_gelu")
doubled_p = lax.standard_primitive(  # type: ignore[attr-defined, no-untyped-call]
    lambda x: x.shape,
    lambda x: x.dtype,
    "own_doubled",
    sharding_rule=lambda x: x.sharding,
    vma_rule=lambda x: x.mat.varying,
    ur_rule=lambda x: (core.getu(x)[0], core.getr(x), None),
)
weighted_p = lax.standard_naryop([lax._float, lax._float], "own_weighted")


def gelu(x):  # type: ignore[no-untyped-def]
    return x / (1 + np.exp(-1.702 * x))


def doubled(x):  # type: ignore[no-untyped-def]
    return 2 * x + 1


def weighted(x, y):  # type: ignore[no-untyped-def]
    return 2 * x - y


def mirrored(x):  # type: ignore[no-untyped-def]
    return x[::-1]


class Doing:
    """What a process of the audit might do; two ends it."""

    version = "1"

    def __init__(self, running):  # type: ignore[no-untyped-def]
        self.running = running

    def square(self, number):  # type: ignore[no-untyped-def]
        if number == 2:
            self.running("two")
            os._exit(3)
        return number * number
