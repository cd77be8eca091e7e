"""Inputs in other orders of axes: copies that kernels of their own make in every run, where their readers gain more.

The caller's inputs are row-major, while a kernel may read another order many times faster: a convolution of images
NCHW gathers single elements, one of NHWC copies 16 bytes at once.

    Y = conv(X)                      167.9 µs
    X' = X as i0,i2,i3,i1             15.2 µs
    Y = conv(X')                      73.2 µs
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import msgspec

from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.layouts.choose_layouts import DOUBT, store_in_orders
from eqsat.extraction.layouts.copies import copy_name, copy_region
from eqsat.extraction.layouts.orders import has_orders, order_of_walk
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels
from ir.region.order import Order, settle


def turn_inputs(cover: Cover, inputs: Collection[int], permuted: PermutedKernels) -> Cover:
    """The cover in which kernels read copies of `inputs` in other orders, where the copies cost less than they save."""
    for source in sorted({read for kernel in cover.kernels for read in kernel.reads} & set(inputs)):
        turned = (_read_copies(cover, source, order, permuted) for order in _orders(cover, source, permuted))
        best = min(filter(None, turned), key=lambda other: other.time_ns, default=cover)
        readers = sum(kernel.time_ns for kernel in cover.kernels if source in kernel.reads)
        if best.time_ns < cover.time_ns - DOUBT * readers:
            cover = best
    return cover


def _orders(cover: Cover, source: int, permuted: PermutedKernels) -> Iterator[Order]:
    """The orders in which kernels walk an input, but for row-major; each once."""
    orders: dict[Order, None] = {}
    for kernel in cover.kernels:
        rank = len(kernel.region.outputs[0].memref.shape)
        for walk in permuted.walks.of(kernel.region) if kernel.price else ():
            if walk.position < len(kernel.reads) and kernel.reads[walk.position] == source:
                shape = kernel.region.inputs[walk.position].memref.shape
                for terms_last in (True, False):
                    order = settle(order_of_walk(walk, tuple(range(rank)), terms_last), shape)
                    if has_orders(shape) and order != tuple(range(len(shape))):
                        orders[order] = None
    yield from orders


def _read_copies(cover: Cover, source: int, order: Order, permuted: PermutedKernels) -> Cover | None:
    """The cover in which those kernels read a copy of an input in an order that are faster with it; None where there
    are none, or no kernel copies."""
    number = max(cover.names) + 1
    readers = [kernel for kernel in cover.kernels if source in kernel.reads and kernel.price]
    moved = {id(kernel): _reading(kernel, source, number) for kernel in readers}
    faster = {
        id(kernel) for kernel in readers if permuted.of(moved[id(kernel)], {number: order}).time_ns < kernel.time_ns
    }
    if not faster:
        return None
    first = readers[0]
    memref = first.region.inputs[first.reads.index(source)].memref
    name = copy_name(cover.names[source], order, {*cover.names.values()})
    region = copy_region(cover.names[source], name, memref, cold=True)
    copy = CoverKernel((number,), (), (source,), region, permuted.price(region))
    if copy.price is None:
        return None
    kernels = (moved[id(kernel)] if id(kernel) in faster else kernel for kernel in cover.kernels)
    built = [kernel for kernel in cover.kernels if kernel.price is None]
    running = [kernel for kernel in kernels if kernel.price is not None]
    wider = replace(cover, kernels=(*built, copy, *running), names={**cover.names, number: name})
    return store_in_orders(wider, {number: order}, permuted)


def _reading(kernel: CoverKernel, source: int, other: int) -> CoverKernel:
    """The kernel with another buffer in an input's place, which a kernel has just written."""
    inputs = tuple(
        msgspec.structs.replace(buffer, cold=False) if read == source else buffer
        for read, buffer in zip(kernel.reads, kernel.region.inputs, strict=True)
    )
    reads = tuple(other if read == source else read for read in kernel.reads)
    return replace(kernel, reads=reads, region=msgspec.structs.replace(kernel.region, inputs=inputs))
