"""Copies of inputs and outputs, made by kernels of their own in every run, in orders of axes that other kernels like.

The caller's tensors are row-major, while a kernel may read or write another order several times faster: a convolution
of images NCHW gathers single elements, one of NHWC copies 16 bytes at once.

    Y = conv(X)                       167.9 µs
    X' = X as i0,i2,i3,i1             15.2 µs
    Y = conv(X')                      73.2 µs

The copies are there before orders are chosen. A copy that is row-major is idle: it takes no time, and is removed in the
end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.layouts.copies import copy_region, name_copies
from eqsat.extraction.layouts.orders import has_orders
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels
from ir.region.region import Buffer


def add_copies(cover: Cover, permuted: PermutedKernels) -> Cover:
    """The cover with idle copies of the inputs and outputs whose kernels lose more time to orders of axes than a copy
    takes. Kernels read the copy of an input. They write an output as before, and the copy takes its place in the
    outputs."""
    numbers = count(max(cover.names, default=0) + 1)
    copies: dict[int, CoverKernel] = {}
    for buffer, (end, lost_ns) in _ends(cover, permuted).items():
        region = copy_region("original", "copy", end.memref, cold=end.cold)
        price = permuted.price(region)
        if price is not None and price.time_ns < lost_ns:
            copies[buffer] = CoverKernel((next(numbers),), (), (buffer,), region, price.idle())
    written = {buffer for kernel in cover.kernels for buffer in kernel.writes}
    copy_of = {buffer: copy.writes[0] for buffer, copy in copies.items()}
    of_inputs = {buffer: copy for buffer, copy in copy_of.items() if buffer not in written}
    of_outputs = {buffer: copy for buffer, copy in copy_of.items() if buffer in written}
    return replace(
        cover,
        kernels=tuple(_with_copies(cover.kernels, copies, of_inputs)),
        outputs=tuple((node, of_outputs.get(buffer, buffer)) for node, buffer in cover.outputs),
        names={**cover.names, **{copy: cover.names[buffer] for buffer, copy in copy_of.items()}},
    )


def remove_idle_copies(cover: Cover) -> Cover:
    """The cover without the copies that are row-major, of buffers that are. The others are named after their orders."""
    copies = {kernel.writes[0]: kernel.reads[0] for kernel in cover.kernels if is_end_copy(kernel)}
    idle = {copy: source for copy, source in copies.items() if not {copy, source} & cover.orders.keys()}
    kernels = [_reading(kernel, idle) for kernel in cover.kernels if kernel.writes[0] not in idle]
    names = {buffer: name for buffer, name in cover.names.items() if buffer not in copies}
    return replace(
        cover,
        kernels=tuple(kernels),
        outputs=tuple((node, idle.get(buffer, buffer)) for node, buffer in cover.outputs),
        names=name_copies(names, filter(is_end_copy, kernels), cover.orders),
    )


def is_end_copy(kernel: CoverKernel) -> bool:
    """Whether a kernel copies an input or an output."""
    return kernel.is_copy and kernel.price is not None


def _ends(cover: Cover, permuted: PermutedKernels) -> dict[int, tuple[Buffer, float]]:
    """The inputs and outputs that kernels read or write when the program runs, and that have several orders: the buffer
    in a region, and the ns that its kernels lose to orders of axes."""
    outputs = {buffer for _, buffer in cover.outputs}
    written = {buffer for kernel in cover.kernels for buffer in kernel.writes}
    ends: dict[int, tuple[Buffer, float]] = {}
    for kernel in cover.kernels:
        lost_ns = kernel.time_ns - permuted.of(kernel, {}).roofline_ns if kernel.price else 0.0
        for number, buffer in zip((*kernel.reads, *kernel.writes), kernel.region.buffers, strict=True):
            is_end = number in outputs if number in written else number not in cover.constants
            is_end &= number not in cover.free
            if kernel.price and is_end and has_orders(buffer.memref.shape):
                first, before_ns = ends.get(number, (buffer, 0.0))
                ends[number] = first, before_ns + lost_ns
    return ends


def _with_copies(
    kernels: tuple[CoverKernel, ...], copies: Mapping[int, CoverKernel], of_inputs: Mapping[int, int]
) -> Iterator[CoverKernel]:
    """The kernels with each copy of an input before its first reader, and each copy of an output behind its writer."""
    copied = set[int]()
    for kernel in kernels:
        if kernel.price:
            for read in sorted(of_inputs.keys() & {*kernel.reads} - copied):
                yield copies[read]
            copied.update(kernel.reads)
        yield _reading(kernel, of_inputs) if kernel.price else kernel
        yield from (copies[buffer] for buffer in kernel.writes if buffer in copies)


def _reading(kernel: CoverKernel, others: Mapping[int, int]) -> CoverKernel:
    """The kernel with other buffers in the places of those that it reads."""
    return replace(kernel, reads=tuple(others.get(read, read) for read in kernel.reads))
