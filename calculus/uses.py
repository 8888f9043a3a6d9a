"""One use of a declared primitive: what the rule looks at, gathered once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from calculus.meshes import Mesh
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Literal
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme
from calculus.types import DTYPES, ArrayType, Type, array_type

Operand: TypeAlias = "Type | Literal"


def operand_type(operand: Operand, wanted: Type | None = None) -> Type | None:
    """An operand's type. A literal that prints none (the older dialect) is a scalar, a number of the dtype that is
    wanted; `None` where nothing is."""
    if not isinstance(operand, Literal):
        return operand
    literal_fits(operand)
    if operand.type is None and isinstance(wanted, ArrayType):
        return array_type(wanted.dtype if wanted.dtype_class != "o" else "f32")
    return operand.type


def literal_fits(literal: Literal, place: Place | None = None) -> None:
    """Refuses a literal whose type is not that of the value it writes: `dtype` where no element of that dtype is
    written so, `inconsistent-type` where the type is not a lone number's, the same on every device."""
    found = _misfit(literal)
    if found is not None:
        code, message, because = found
        raise refuse(
            code, message, because=because, help="write the literal at the type that its value has", place=place
        )


@lru_cache(maxsize=4096)
def _misfit(literal: Literal) -> tuple[str, str, str] | None:
    type, text = literal.type, literal.text
    if type is None:
        return None  # the older dialect prints none
    if not isinstance(type, ArrayType):
        return "dtype", f"literal {text} is printed as {type}, which is not an array", "a literal is a number"
    array = text.startswith("[")
    if type.rank and not array:
        return "inconsistent-type", f"literal {text} is printed as {type}", "a literal is one number: it has no dims"
    if not type.plain or type.memory:
        because = "a literal stands in the program's text, so every device has all of it"
        return "inconsistent-type", f"literal {text} is printed as {type}", because
    if array or _writes(text, type.dtype, type.dtype_class):
        return None
    return "dtype", f"literal {text} is printed as {type}", f"no element of {type.dtype} is written {text}"


def _writes(text: str, dtype: str, kind: str) -> bool:
    """Whether an element of this dtype can be written so. A float may round; an integer must be in range."""
    if kind == "o":
        return text == "(b'',)" if dtype == "float0" else dtype not in DTYPES
    if kind == "b" or text in ("True", "False"):
        return kind == "b" and text in ("True", "False")
    if kind in "iu":
        bits = DTYPES[dtype][1]
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if kind == "i" else (0, 2**bits)
        return _INTEGER.fullmatch(text) is not None and low <= int(text) < high
    try:
        complex(text)
    except ValueError:
        return False
    return kind == "c" or not text.endswith(("j", "j)"))


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")


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
