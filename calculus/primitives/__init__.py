"""THE TABLE: one declaration per primitive, by family. To add one, add its line to a family; what it takes to
differentiate it, where the declaration does not say it, to `calculus.primitives.differentials`; and what proofs
unfold, where it is more than its kernel element by element, to `calculus.primitives.definitions`."""

from __future__ import annotations

from typing import Final

from calculus.primitives.bits import BITS
from calculus.primitives.contraction import CONTRACTION
from calculus.primitives.convolution import CONVOLUTION
from calculus.primitives.creation import CREATION
from calculus.primitives.declaration import Primitive
from calculus.primitives.definitions import defined
from calculus.primitives.differentials import differentiable
from calculus.primitives.elementwise import ELEMENTWISE
from calculus.primitives.fourier import FOURIER
from calculus.primitives.gathering import GATHERING
from calculus.primitives.generators import GENERATORS
from calculus.primitives.grouped_products import GROUPED_PRODUCTS
from calculus.primitives.indexing import INDEXING
from calculus.primitives.linear_algebra import LINEAR_ALGEBRA
from calculus.primitives.pooling import POOLING
from calculus.primitives.randomness import RANDOMNESS
from calculus.primitives.reductions import REDUCTIONS
from calculus.primitives.scattering import SCATTERING
from calculus.primitives.shaping import SHAPING
from calculus.primitives.special import SPECIAL
from calculus.primitives.tiling import TILING

_FAMILIES = (
    ELEMENTWISE,
    BITS,
    SPECIAL,
    CONTRACTION,
    GROUPED_PRODUCTS,
    CONVOLUTION,
    POOLING,
    SHAPING,
    REDUCTIONS,
    LINEAR_ALGEBRA,
    FOURIER,
    INDEXING,
    GATHERING,
    SCATTERING,
    CREATION,
    RANDOMNESS,
    GENERATORS,
    TILING,
)

TABLE: Final[dict[str, Primitive]] = {
    primitive.name: defined(differentiable(primitive)) for family in _FAMILIES for primitive in family
}
