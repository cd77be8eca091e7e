"""Classifies a contraction as a matrix product or a convolution: the ContractionPattern of seed 000 §5.

A contraction is a convolution when a coordinate of an operand is a window: affine, over an axis of the output and a
reduced axis. Every other contraction is a matrix product. Its batch axes are the axes of the output along which both
operands move. Strided or re-split coordinates stand in `affine_offsets`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from codegen.poly.contraction_roles import op_groups
from ir.index.expr import AxisExpr, FloorDiv
from ir.poly.block import Pattern
from ir.region.region import Op, Operand


def pattern_of(op: Op, names: tuple[str, ...]) -> Pattern:
    """The pattern of a contraction op over axes of these names.

    Every coordinate of an operand is in its `_idx`: an axis, "0" for a constant 0, or a key of `affine_offsets`.
    The key is the first output axis in the coordinate, or `lhs.2` where there is none or the name is taken.
    """
    kept = len(op.domain) - op.reduced
    plain = {expr.text(names) for operand in op.inputs for expr in _coordinates(operand)} & set(names)
    offsets: dict[str, AxisExpr] = {}
    lhs, rhs = (
        _indices(side, _coordinates(operand), names, kept, plain, offsets)
        for side, operand in zip(("lhs", "rhs"), op.inputs, strict=True)
    )
    batch, m, n = (tuple(names[axis] for axis in group) for group in op_groups(op))
    windowed = any(_is_window(expr, kept) for operand in op.inputs for expr in _coordinates(operand))
    return Pattern(
        pattern="conv" if windowed else "matmul",
        lhs_idx=lhs,
        rhs_idx=rhs,
        out_idx=names[:kept],
        reduce_idx=names[kept:],
        affine_offsets=offsets,
        batch_idx=batch,
        m_idx=m,
        n_idx=n,
        groups=_groups(op, batch, names) if windowed else 1,
    )


def _coordinates(operand: object) -> tuple[AxisExpr, ...]:
    return operand.map.exprs if isinstance(operand, Operand) else ()


def _indices(
    side: str,
    coordinates: Sequence[AxisExpr],
    names: tuple[str, ...],
    kept: int,
    plain: set[str],
    offsets: dict[str, AxisExpr],
) -> tuple[str, ...]:
    """The index of each coordinate of one operand. A coordinate that is neither 0 nor an axis goes to `offsets`; its
    key is no axis that one of the operands reads as it stands."""
    indices: list[str] = []
    for position, coordinate in enumerate(coordinates):
        text = coordinate.text(names)
        if text == "0" or text in plain:
            indices.append(text)
            continue
        own = [names[axis] for axis in sorted(coordinate.axes) if axis < kept]
        taken = not own or own[0] in plain or own[0] in offsets
        key = f"{side}.{position}" if taken else own[0]
        offsets[key] = coordinate
        indices.append(key)
    return tuple(indices)


def _is_window(expr: AxisExpr, kept: int) -> bool:
    moving = {axis for axis in expr.axes if axis < kept}
    return expr.is_affine and bool(moving) and len(moving) < len(expr.axes)


def _groups(op: Op, batch: tuple[str, ...], names: tuple[str, ...]) -> int:
    """The number of groups of a convolution. A group is an axis of its own, or a block of output channels, which an
    operand reads at floor(channel / size)."""
    sizes = dict(zip(names, op.domain, strict=True))
    groups = {name: sizes[name] for name in batch}
    for operand in op.inputs:
        for expr in _coordinates(operand):
            for term, _ in expr.terms:
                if isinstance(term, FloorDiv) and len(term.expr.axes) == 1:
                    name = names[min(term.expr.axes)]
                    if name in groups:
                        groups[name] = -(-sizes[name] // term.divisor)
    return math.prod(groups.values())
