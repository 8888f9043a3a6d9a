"""One use of a declared primitive: what the rule looks at, gathered once."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from calculus.meshes import Mesh
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Literal
from calculus.schemes import Scheme
from calculus.types import ArrayType, Type

Operand: TypeAlias = "Type | Literal"


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
