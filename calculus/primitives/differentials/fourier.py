"""Rows of the Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from calculus.parameters import dims
from calculus.primitives.declaration import Site
from calculus.primitives.fourier import kind


def transformed_back(site: Site, position: int) -> str:
    """The matrix of a transform is symmetric. Where half of the last dim stands for all of it, what it stands for twice
    counts twice: all but the first element and, of an even number, the last."""
    lengths = dims(site.parameters, "fft_lengths")
    if not all(isinstance(length, int) for length in lengths):
        return ""
    how, whole = kind(site), prod(length for length in lengths if isinstance(length, int))
    same = f"fft_lengths={lengths}, fft_type="
    if how in ("FFT", "IFFT"):
        return f"fft(g, {same}{('FFT', 'IFFT').index(how)})"
    last = lengths[-1]
    assert isinstance(last, int)

    def halved(of: str, once: str, twice: str) -> str:
        ends = f"select_n(places({of}, -1) == 0, {twice}, {once})"
        return ends if last % 2 else f"select_n(places({of}, -1) == {last // 2}, {ends}, {once})"

    if how == "RFFT":
        return f"{whole} * fft({halved('g', 'conj(g)', '0.5 * conj(g)')}, {same}3)"
    return f"t = fft(g, {same}2); c = {1 / whole!r} * conj(t); {halved('t', 'c', '2 * c')}"


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {"fft": transformed_back}
