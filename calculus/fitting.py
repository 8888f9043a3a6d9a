"""Equations of derived programs, on operands that may be cut: at the types that are wanted, where they can have them.

A row of the table is written for arrays that lie on one device. Where a dim that it looks along is cut, its equations
keep it cut if a partitioner can (windows slide along it, and the size is divided evenly); else it is gathered first.
So is a dim that becomes a minor part of another one, or falls into parts that its axes cut across.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from calculus.building import Builder
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Atom, Parameters
from calculus.refusals import Refused
from calculus.schemes import Scheme
from calculus.types import ArrayType, Axes, Type, array_type


def fitted(
    builder: Builder, name: str, atoms: Sequence[Atom], parameters: Parameters, wanted: Sequence[Type | None]
) -> tuple[Atom, ...]:
    """The results of an equation: at the types that are wanted, or at those that follow; its result cut as the first
    operand is; or its operands gathered along the dims that it looks along, or, element by element, all cut as the
    first one is; or none of them reduced. Raises `Refused` where it has no type."""
    try:
        return builder.rather(name, atoms, parameters, wanted)
    except Refused:
        primitive = TABLE.get(name)
        if primitive is None or not atoms:
            raise
        types = [_array(builder, atom) for atom in atoms]
        site = Site(parameters, tuple(type.shape for type in types), tuple(type.dtype for type in types), (None,))
        scheme = primitive.scheme(site)
        if len(wanted) == 1 and (kept := _as_cut(primitive, site, scheme, types[0])) is not None:
            with suppress(Refused):
                return builder.emit(name, atoms, parameters, (kept,))
        looked = {factor for factor, role in scheme.roles.items() if role == "whole"}
        looked.update(factor for dims in (*scheme.results, *scheme.operands) for dim in dims for factor in dim[1:])
        whole = [
            builder.at(atom, uncut(type, [not looked.isdisjoint(dim) for dim in dims]))
            for atom, type, dims in zip(atoms, types, scheme.operands, strict=True)
        ]
        if all(one is other for one, other in zip(whole, atoms, strict=True)):
            if scheme.roles or any(len(dims) not in (0, types[0].rank) for dims in scheme.operands):
                return builder.rather(name, _copies(builder, atoms), parameters, wanted)
            whole = [atoms[0], *(_beside(builder, types[0], atom) for atom in atoms[1:])]
        try:
            return builder.rather(name, whole, parameters, wanted)
        except Refused:
            return builder.rather(name, _copies(builder, whole), parameters, wanted)


def _copies(builder: Builder, atoms: Sequence[Atom]) -> list[Atom]:
    """Operands of which none is reduced: what is linear already need not be transposed for free."""
    types = [_array(builder, atom) for atom in atoms]
    return [
        builder.at(
            atom,
            array_type(type.dtype, type.shape, type.axes, type.varying, type.unreduced, (), type.kind, type.memory),
        )
        for atom, type in zip(atoms, types, strict=True)
    ]


def _as_cut(primitive: Primitive, site: Site, scheme: Scheme, first: ArrayType) -> ArrayType | None:
    """The type of the result, cut as the first operand is; `None` where it has other dims."""
    shape = scheme.shape(scheme.results[0])
    if len(shape) != first.rank:
        return None
    (dtype,) = primitive.dtypes(site)
    return array_type(
        dtype, shape, first.axes, first.varying, first.unreduced, first.reduced, memory=first.memory
    )  # fmt: skip


def _beside(builder: Builder, first: ArrayType, atom: Atom) -> Atom:
    """An operand cut as another one is, dims of size 1 whole."""
    type = _array(builder, atom)
    if not type.rank:
        return atom
    lists = tuple(() if size == 1 else axes for size, axes in zip(type.shape, first.axes, strict=True))
    return builder.at(
        atom, array_type(type.dtype, type.shape, lists, type.varying, type.unreduced, type.reduced, memory=type.memory)
    )


def uncut(type: ArrayType, dims: Sequence[bool]) -> ArrayType:
    """A type some of whose dims are whole."""
    lists: tuple[Axes, ...] = tuple(() if whole else axes for whole, axes in zip(dims, type.axes, strict=True))
    return array_type(
        type.dtype, type.shape, lists, type.varying, type.unreduced, type.reduced, type.kind, type.memory
    )  # fmt: skip


def _array(builder: Builder, atom: Atom) -> ArrayType:
    found = builder.type_of(atom)
    assert isinstance(found, ArrayType)
    return found
