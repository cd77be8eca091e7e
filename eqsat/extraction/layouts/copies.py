"""Copies of buffers in other orders of axes; those of constants are made once, when the program is built."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from eqsat.extraction.cover import Cover, CoverKernel
from ir.index.map import identity
from ir.names import new_name
from ir.region.order import Order, in_orders
from ir.region.region import Buffer, Definition, MemRef, Op, Operand, Region, Yield


class Copies:
    """The copies that a cover's kernels read, each made by a kernel that runs at compile time; under names that no
    buffer has."""

    def __init__(self, cover: Cover) -> None:
        self._names = cover.names
        self._taken = set(cover.names.values())
        self._next = max(cover.names, default=0) + 1
        self._known: dict[tuple[int, Order], int] = {}
        self.kernels: list[CoverKernel] = []
        self.names: dict[int, str] = {}
        self.orders: dict[int, Order] = {}

    def of(self, constant: int, order: Order, memref: MemRef) -> int:
        """The buffer that holds a constant, of this type, in an order."""
        if (constant, order) not in self._known:
            self._known[constant, order] = self._make(constant, order, memref)
        return self._known[constant, order]

    def _make(self, constant: int, order: Order, memref: MemRef) -> int:
        source, number = self._names[constant], self._next
        name = copy_name(source, order, self._taken)
        self._next += 1
        self._taken.add(name)
        self.names[number], self.orders[number] = name, order
        region = in_orders(copy_region(source, name, memref, constant=True), {name: order})
        self.kernels.append(CoverKernel((number,), (), (constant,), region, None))
        return number


def name_copies(
    names: Mapping[int, str], kernels: Iterable[CoverKernel], orders: Mapping[int, Order]
) -> dict[int, str]:
    """The names of buffers, with names for the copies that kernels write, which no uop of the program is."""
    named = dict(names)
    for kernel in kernels:
        if kernel.is_copy:
            (written,), (source,), (buffer,) = kernel.writes, kernel.reads, kernel.region.outputs
            order = orders.get(written, tuple(range(len(buffer.memref.shape))))
            named[written] = copy_name(named[source], order, named.values())
    return named


def copy_name(source: str, order: Order, taken: Collection[str]) -> str:
    """A name for the copy of a buffer in an order, unlike those that are taken."""
    return new_name(f"{source}_{''.join(map(str, order))}", taken)


def copy_region(source: str, name: str, memref: MemRef, *, constant: bool = False, cold: bool = False) -> Region:
    """The region that copies the buffer `source` of this type to `name`, row-major both."""
    itself = identity(memref.shape)
    op = Op("copy", "copy", memref.dtype, memref.shape, (Operand(source, itself),))
    value = f"{source}_copied"
    return Region(
        name="copy",
        inputs=(Buffer(source, memref, constant, cold),),
        outputs=(Buffer(name, memref),),
        body=(Definition(value, op),),
        yields=(Yield(value, name, itself),),
    )
