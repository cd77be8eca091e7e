"""Which axis of a contraction is batch, m, n or k: by the operands that move along it."""

from __future__ import annotations

from codegen.where.sites import scope_axes
from ir.axis_map import support
from ir.poly_core import Roles
from ir.region import Op, Operand


def roles_of(op: Op) -> Roles:
    """The roles of a contraction's axes, from the supports of its two operands' maps."""
    lhs, rhs = (support(each.map) if isinstance(each, Operand) else frozenset() for each in op.inputs)
    names = scope_axes(op.domain, op.reduced)
    kept = len(op.domain) - op.reduced
    groups: dict[str, list[str]] = {"batch": [], "m": [], "n": [], "k": list(names[kept:])}
    for axis in range(kept):
        role = "m" if axis not in rhs else "batch" if axis in lhs else "n"
        groups[role].append(names[axis])
    return Roles(**{role: tuple(axes) for role, axes in groups.items()})
