"""Checks by isl, once per lowered kernel, what code generation takes for granted of a contraction.

- The pattern (`codegen.poly.contraction_pattern`) describes the accesses of the block.
- The loops run over every term of every element of the outputs exactly once.
- The loops load the elements that the contraction reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ir.diagnostics import Kind, fail
from ir.index.isl import isl_read
from ir.index.isl_text import box, expression, tuple_name
from ir.index.map import axis_map
from ir.poly.block import PolyBlock
from ir.poly.core import PolyCore, Roles
from ir.poly.view import PolyView
from ir.poly.view_isl import domain, relation

if TYPE_CHECKING:
    import islpy

STAGE = "poly_core"


def check_contractions(view: PolyView, core: PolyCore) -> None:
    """Check every contraction of a legal region.

    Raises:
        EqsatError: UnsoundRule, where a check fails: a defect of eqsat.
    """
    shape = tuple(size for _, size in core.outer)
    for block in view.blocks:
        if block.attrs is None:
            continue
        reads = [relation(block, access) for access in block.reads]
        wrong = "" if pattern_holds(block, reads) else f"its accesses are not those of a {block.attrs.pattern}"
        if not wrong and block.name == core.contraction and core.roles is not None:
            wrong = wrong_loops(core.roles, block, reads, shape)
        if wrong:
            hint = "a defect of eqsat: please report it, with the program"
            fail(Kind.UNSOUND_RULE, STAGE, f"contraction `{block.name}`: {wrong}", at=core.region, hint=hint)


def pattern_holds(block: PolyBlock, reads: Sequence[islpy.Map]) -> bool:
    """Whether the pattern of a contraction of two tensors describes its `reads`, and exactly the reduced axes are no
    axes of its value."""
    import islpy

    pattern = block.attrs
    if pattern is None or len(reads) != 2:
        return False
    if (pattern.out_idx, pattern.reduce_idx) != (block.own_axes, block.reduced_axes):
        return False
    within = domain(block)
    offsets = {index: expression(offset, block.axes) for index, offset in pattern.affine_offsets.items()}
    for access, read, indices in zip(block.reads, reads, (pattern.lhs_idx, pattern.rhs_idx), strict=True):
        coordinates = ", ".join(offsets.get(index, index) for index in indices)
        by_pattern = islpy.Map(f"{{ [{', '.join(block.axes)}] -> {tuple_name(access.tensor)}[{coordinates}] }}")
        if not read.is_subset(by_pattern.intersect_domain(within)):
            return False
    return True


def wrong_loops(roles: Roles, block: PolyBlock, reads: Sequence[islpy.Map], shape: tuple[int, ...]) -> str:
    """The defect of the loops of the contraction `block`, for outputs of `shape`; empty if there is none."""
    import islpy

    if 0 in roles.sizes:
        return ""
    rank = len(block.own_axes)
    visited = isl_read(axis_map(roles.sizes, (*roles.out.exprs, *roles.point.exprs[rank:])))
    if not (visited.is_injective() and visited.range().is_equal(_box((*shape, *block.sizes[rank:])))):
        return "its loops do not run over every term of every element once"
    point = isl_read(roles.point)
    if not point.range().is_subset(_box(block.sizes)):
        return "its loops leave its domain"
    for access, read, loads in zip(block.reads, reads, roles.reads, strict=True):
        wanted = point.apply_range(read)
        loaded = [isl_read(load.map) for load in loads if load.buffer == access.tensor]
        name = tuple_name(access.tensor)
        if any(not load.set_tuple_name(islpy.dim_type.out, name).is_equal(wanted) for load in loaded):
            return f"its loops do not load `{access.tensor}` where it is read"
    return ""


def _box(sizes: tuple[int, ...]) -> islpy.Set:
    import islpy

    names = [f"x{axis}" for axis in range(len(sizes))]
    return islpy.Set(f"{{ [{', '.join(names)}] : {' and '.join(box(sizes, names)) or '1 = 1'} }}")
