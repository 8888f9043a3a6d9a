"""One use of a declared primitive: what the rule looks at, gathered once."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from calculus.meshes import Mesh
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Literal
from calculus.schemes import Scheme
from calculus.types import ArrayType, Type, array_type

Operand: TypeAlias = "Type | Literal"


def operand_type(operand: Operand, wanted: Type | None = None) -> Type | None:
    """An operand's type. A literal that prints none (the older dialect) is a scalar, a number of the dtype that is
    wanted; `None` where nothing is."""
    if not isinstance(operand, Literal):
        return operand
    if operand.type is None and isinstance(wanted, ArrayType):
        return array_type(wanted.dtype if wanted.dtype_class != "o" else "f32")
    return operand.type


class Use(NamedTuple):
    """A primitive with its operands on a mesh. arrays: each operand's type, `None` for a literal. number: the result
    that is being derived. targeted: whether its sharding was asked for."""

    primitive: Primitive
    site: Site
    scheme: Scheme
    operands: tuple[Operand, ...]
    arrays: tuple[ArrayType | None, ...]
    mesh: Mesh
    number: int = 0
    targeted: bool = False

    @property
    def unasked(self) -> bool:
        """Whether the parameter that would ask for a sharding is printed, and asks for none: then nothing is left
        pending either. (Where it is not printed at all, the printed type says what was asked.)"""
        return not self.targeted and self.primitive.target in self.site.parameters
