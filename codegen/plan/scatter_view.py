"""A scatter as its templates see it: the loops that write the source, and the axes over which updates are combined.

A scatter over [i0, N, i2] with K updates runs in two steps, and a third if the region applies functions to it:

    result[i0, n, i2] = source[i0, n, i2]                              a nest of its own
    for k in 0 .. K:  n = index[i0, k, i2]; result[i0, n, i2] = result[i0, n, i2] ∘ updates[i0, k, i2]
    result[i0, n, i2] = function(result[i0, n, i2])                    a nest of its own
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from codegen.plan.region_loops import Axes, RegionLoops
from codegen.poly.analyse import analyse
from ir.index.map import identity, project, support
from ir.poly.core import PolyCore
from ir.region.overwrite import is_over_an_input
from ir.region.region import Definition, Number, Op, Operand, Region, Yield, behind

COMBINING = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""The elementwise function that combines an element with an update; the last update needs none."""


@dataclass(frozen=True, eq=False)
class ScatterView:
    """A region whose result is a scatter."""

    region: Region
    core: PolyCore
    scatter: Definition

    @property
    def op(self) -> Op:
        return self.scatter.op

    @property
    def axis(self) -> int:
        """The axis of the result along which updates are scattered."""
        assert self.op.axis is not None
        return self.op.axis

    @property
    def result(self) -> str:
        """The buffer of the result."""
        return self.region.outputs[0].name

    @property
    def is_in_place(self) -> bool:
        """Whether the result lies over the source, which then needs no nest."""
        return is_over_an_input(self.region)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.op.shape

    @property
    def slots(self) -> int:
        """Positions along the axis."""
        return self.shape[self.axis]

    @property
    def count(self) -> int:
        """Updates at each point of the other axes."""
        return self.op.domain[-1]

    @property
    def index(self) -> Operand | Number:
        return self.op.inputs[1]

    @property
    def updates(self) -> Operand | Number:
        return self.op.inputs[2]

    @property
    def combination(self) -> str | None:
        """The elementwise function of an element and an update; None where the update replaces the element."""
        return COMBINING.get(self.op.fn)

    @cached_property
    def index_dtype(self) -> str:
        """The dtype of the index."""
        if isinstance(self.index, Number):
            return self.index.dtype
        dtypes = {buffer.name: buffer.memref.dtype for buffer in self.region.inputs}
        return dtypes[self.index.value] if self.index.value in dtypes else self.loops.ops[self.index.value].dtype

    @cached_property
    def index_axes(self) -> frozenset[int]:
        """The axes of the result on which the index depends."""
        return support(self.index.map) if isinstance(self.index, Operand) else frozenset()

    @cached_property
    def loops(self) -> RegionLoops:
        """The loops of the whole region."""
        return RegionLoops(self.region, self.core)

    @cached_property
    def groups(self) -> Sequence[Axes]:
        """The axes of the result in row-major order, merged where possible; the axis of the scatter is alone."""
        return self.loops.groups_around(self.axis)

    @cached_property
    def source(self) -> RegionLoops:
        """The loops of the region that writes the source to the result."""
        region = _source_region(self.region, self.scatter)
        return RegionLoops(region, analyse(region).core)

    @cached_property
    def finish(self) -> RegionLoops | None:
        """The loops of the region that applies functions to the finished elements of the result, which it reads as its
        input `before`; None if there is nothing to apply."""
        if self.region.yields[0].value == self.scatter.name:
            return None
        region = _finishing_region(self.region, self.scatter, self.before)
        return RegionLoops(region, analyse(region).core)

    @property
    def before(self) -> str:
        """The name of the result as the input of `finish`."""
        return f"{self.result}.before"

    def extent(self, axes: Sequence[int]) -> int:
        """Points of a loop over these axes of the result."""
        return math.prod(self.shape[axis] for axis in axes)


def scatter_view(region: Region, core: PolyCore) -> ScatterView | None:
    """The view of a legal region whose result is a scatter; None for any other region."""
    return next((ScatterView(region, core, let) for let in region.body if let.op.kind == "scatter"), None)


def _source_region(region: Region, scatter: Definition) -> Region:
    """The region with the source alone in place of the scatter."""
    op = scatter.op
    source = op.inputs[0]
    needed: set[str] = set()
    if isinstance(source, Operand):
        own = project(source.map, range(len(op.shape)))
        assert own is not None, "the source of a scatter does not depend on the updates"
        needed = set(behind({let.name: let.op for let in region.body}, source.value))
        source = Operand(source.value, own)
    copy = Op(kind="copy", fn="copy", dtype=op.dtype, domain=op.shape, inputs=(source,))
    body = (*(let for let in region.body if let.name in needed), msgspec.structs.replace(scatter, op=copy))
    return msgspec.structs.replace(
        region,
        inputs=tuple(buffer for buffer in region.inputs if buffer.name in needed),
        body=body,
        yields=(Yield(scatter.name, region.outputs[0].name, identity(op.shape)),),
    )


def _finishing_region(region: Region, scatter: Definition, before: str) -> Region:
    """The region with a read of the buffer `before` in place of the scatter."""
    op = scatter.op
    read = Operand(before, identity(op.shape))
    copy = Op(kind="copy", fn="copy", dtype=op.dtype, domain=op.shape, inputs=(read,))
    ops = {let.name: let.op for let in region.body} | {scatter.name: copy}
    needed = set(behind(ops, *(end.value for end in region.yields)))
    body = (msgspec.structs.replace(scatter, op=copy) if let is scatter else let for let in region.body)
    (output,) = region.outputs
    return msgspec.structs.replace(
        region,
        inputs=(
            *(buffer for buffer in region.inputs if buffer.name in needed),
            msgspec.structs.replace(output, name=before),
        ),
        body=tuple(let for let in body if let.name in needed),
    )
