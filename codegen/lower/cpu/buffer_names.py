"""Names of a contraction's buffers that its region does not have: packed constants and scratch."""

from __future__ import annotations

from codegen.plan.contraction_view import Contraction
from ir.names import new_name
from ir.region.region import Region


def packed_name(view: Contraction, side: int) -> str:
    """The name of the packed operand as a buffer."""
    return unused_name(f"{view.operand(side).value}_packed{side}", view.region)


def unused_name(name: str, region: Region) -> str:
    """`name`, or `name` with a number if a buffer of the region has the name."""
    return new_name(name, {buffer.name for buffer in (*region.inputs, *region.outputs)})
