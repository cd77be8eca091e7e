"""Which inputs a region may write an output over: each element must be read where, and before, the output is written.

    y[i] = x[i] - rate·g[i]              y may lie over x
    y = scatter(x, index, updates)       y may lie over x
    y = scatter(2·x, index, updates)     y may not
    y[i] = x[i] - max of x               y may not: elements of x are read after others were written

A scatter over its source writes only the elements that have an update.
"""

from __future__ import annotations

from collections.abc import Iterator

from ir.index.map import AxisMap, compose, identity, project
from ir.region.region import Op, Operand, Region, behind

_POINTWISE = frozenset({"ewise", "unary", "cast", "copy", "index", "gather"})
"""The kinds of ops that compute a point of their value from the same point of the loops."""


def is_over_an_input(region: Region) -> bool:
    """Whether outputs of the region lie over inputs."""
    return not all(output.memref.noalias for output in region.outputs)


def may_overwrite(region: Region, output: str, read: str) -> bool:
    """Whether the output may be written over the input buffer `read`."""
    memrefs = {buffer.name: buffer.memref for buffer in region.buffers}
    before, after = memrefs[read], memrefs[output]
    if (before.shape, before.dtype, before.frame) != (after.shape, after.dtype, after.frame):
        return False
    here = identity(after.shape)
    if any(end.at is not None or end.map != here for end in region.yields):
        return False
    if not all(_is_at_its_point(region, let.name, let.op, read) for let in region.body):
        return False
    return all(place == here for place in _places(region, read, here))


def _is_at_its_point(region: Region, name: str, op: Op, read: str) -> bool:
    """Whether an op computes a point of its value from one point of what depends on the buffer `read`."""
    if op.kind == "gather":
        return op.operands[0].value != read
    if op.kind != "scatter":
        return op.kind in _POINTWISE
    source, *others = [operand.value if isinstance(operand, Operand) else "" for operand in op.inputs]
    is_result = all(end.value == name for end in region.yields)
    return source == read and is_result and read not in behind({let.name: let.op for let in region.body}, *others)


def _places(region: Region, read: str, here: AxisMap) -> Iterator[AxisMap]:
    """The places at which the buffer is read, as maps from the point that is written."""
    needed: dict[str, set[AxisMap]] = {end.value: {here} for end in region.yields}
    for let in reversed(region.body):
        for place in needed.get(let.name, ()):
            for operand in _sources(let.op):
                through = compose(operand.map, place)
                if operand.value == read:
                    yield through
                needed.setdefault(operand.value, set()).add(through)


def _sources(op: Op) -> Iterator[Operand]:
    """The operands that are read at a point of the value: of a scatter, its source alone."""
    if op.kind != "scatter":
        yield from op.operands
        return
    source = op.inputs[0]
    if isinstance(source, Operand):
        own = project(source.map, range(len(op.shape)))
        assert own is not None, "the source of a scatter does not depend on the updates"
        yield Operand(source.value, own)
