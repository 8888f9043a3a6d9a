"""Fourier transforms of the last dims, which are needed whole: linear, over the complex numbers or, where one side is
real, over the real ones. A complex array that stands for a real one has half of its last dim, n // 2 + 1 elements.
"""

from __future__ import annotations

from typing import Any, Final

from calculus.parameters import bad, integer, required, sizes
from calculus.primitives.declaration import INEXACT, Primitive, Site, complex_dtype, real_dtype, same_dtype
from calculus.primitives.linear_algebra import on_matrices
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape

_KINDS: Final = ("FFT", "IFFT", "RFFT", "IRFFT")
"""By the numbers that JAX prints."""


def kind(site: Site) -> str:
    """Which transform: FFT, IFFT, RFFT or IRFFT."""
    value = required(site.parameters, "fft_type")
    number = _KINDS.index(name) if (name := str(value).rpartition(".")[2]) in _KINDS else integer(value, "fft_type")
    if not 0 <= number < len(_KINDS):
        raise bad("fft_type", str(number), ", ".join(f"{kind} ({at})" for at, kind in enumerate(_KINDS)))
    return _KINDS[number]


def _halved(lengths: Shape) -> Shape:
    last = lengths[-1]
    if not isinstance(last, int):
        raise refuse(
            "unmodelled-construct",
            f"a real transform of {last} elements",
            because="half of a symbolic size is not computed",
            help="use a number for the last dim",
        )
    return (*lengths[:-1], last // 2 + 1)


def _scheme(site: Site) -> Scheme:
    """`[b,I,J] -> [b,K,L]`."""
    how, lengths, shape = kind(site), sizes(site.parameters, "fft_lengths"), site.shapes[0]
    if not 0 < len(lengths) <= min(3, len(shape)):
        raise bad("fft_lengths", str(list(lengths)), f"one to three sizes, for the last of {len(shape)} dims")
    before = _halved(lengths) if how == "IRFFT" else lengths
    after = _halved(lengths) if how == "RFFT" else lengths
    if shape[len(shape) - len(lengths) :] != before:
        raise refuse(
            "shape",
            f"{how} of lengths {list(lengths)} of {list(shape)}",
            because=f"its last dims have sizes {list(before)}",
            help="pad or slice it first",
            place=Place("operand", 0),
        )
    made = dict(zip("JKL", after, strict=False))
    names = "".join(made)
    return on_matrices(site, "ABC"[: len(lengths)], names, lambda site, sizes: sizes.update(made))


def _dtypes(site: Site) -> tuple[str, ...]:
    (found,) = same_dtype(site)
    how = kind(site)
    if found not in (("f32", "f64") if how == "RFFT" else ("c64", "c128")):
        raise refuse(
            "dtype",
            f"{how} of {found}",
            because="it takes real numbers of 32 or 64 bits" if how == "RFFT" else "it takes complex numbers",
            help="insert a convert_element_type",
            place=Place("operand", 0),
        )
    return ({"RFFT": complex_dtype, "IRFFT": real_dtype}.get(how, str)(found),)


def _fft(np: Any, p: Any, x: Any) -> Any:
    kind, lengths = _KINDS[int(p["fft_type"])], p["fft_lengths"]
    function = getattr(np.fft, f"{kind.lower()}n")
    found = function(x, lengths, axes=range(x.ndim - len(lengths), x.ndim))
    return found.astype(x.dtype if kind in ("FFT", "IFFT") else found.dtype)


FOURIER = (Primitive("fft", ("x",), "x", _scheme, _dtypes, kernel=_fft, accepts=INEXACT, window="halo"),)
