"""The pass: buffers between the kernels of a cover are stored in the orders of axes that make the whole cheapest.

The caller's inputs and outputs are row-major; copies of them may have other orders (`end_copies`). No one else sees the
buffers between kernels, and a constant may be stored in as many orders as its readers like. A kernel is priced at
combinations of the orders of its buffers, each distinct region once. Variable elimination over the kernels finds the
least sum, again as long as the sum holds a combination that was only estimated. Estimates are optimistic: a combination
that no price contradicts is tried. Then single buffers are tried in their other orders.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.layouts.copies import Copies
from eqsat.extraction.layouts.end_copies import add_copies, is_end_copy, remove_idle_copies
from eqsat.extraction.layouts.min_sum import MOST, Cost, least
from eqsat.extraction.layouts.orders import has_orders, orders_of
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels
from eqsat.extraction.layouts.single_changes import change_single_labels
from eqsat.extraction.layouts.times import Combination, Times
from ir.diagnostics import Diagnostic, Kind, note
from ir.region.order import Order

STAGE = "layouts"
ROUNDS = 32
"""Choices of all orders that are made before the choice is confined to combinations that are priced."""
DOUBT = 0.01
"""The share of the time of the kernels at a buffer by which another order must gain: prices that differ by
less are not known to differ."""
COPY_DOUBT = 0.5
"""The share of its own time by which a copy of an input or output must gain more than it takes."""


def choose_layouts(cover: Cover, permuted: PermutedKernels) -> Cover:
    """The cover with its buffers in the orders of the least predicted time, row-major where nothing is gained.

    Args:
        permuted: shared between covers, whose kernels are often the same.
    """
    return remove_idle_copies(_choose_orders(add_copies(cover, permuted), permuted))


def _choose_orders(cover: Cover, permuted: PermutedKernels) -> Cover:
    """The cover with the buffers between its kernels in the orders of the least predicted time."""
    running = [kernel for kernel in cover.kernels if kernel.price]
    orders_of_buffer = orders_of(running, free_buffers(cover), permuted.walks)
    several = {buffer: orders for buffer, orders in orders_of_buffer.items() if len(orders) > 1}
    left_out = _beyond_tables(running, several)
    choices = {buffer: orders for buffer, orders in several.items() if buffer not in left_out}
    number = {buffer: position for position, buffer in enumerate(choices)}
    counts = [len(orders) for orders in choices.values()]
    tables = [_Table(kernel, choices, number, permuted) for kernel in running]
    doubts = [doubt for table in tables for doubt in table.doubts()]
    confined = False
    for turn in itertools.count(1):
        believed = [table.cost(known_only=confined) for table in tables]
        labels = least(counts, [*believed, *doubts])
        if not [table for table in tables if table.learn(labels.chosen)]:
            break
        confined = turn >= ROUNDS
    near = [[table for table in tables if buffer in table.near] for buffer in choices]
    changed = change_single_labels(labels.chosen, counts, near, doubts)
    chosen = {buffer: orders[label] for (buffer, orders), label in zip(choices.items(), changed, strict=True) if label}
    fixed = {list(choices)[place] for place in labels.fixed}
    limits = _note_limits(cover, [buffer for buffer in several if buffer in left_out | fixed])
    return replace(store_in_orders(cover, chosen, permuted), diagnostics=(*cover.diagnostics, *limits))


class _Table:
    """The times of one kernel over the orders of the buffers that it reads and writes; kernels of one region share
    them. `number`: the place of each buffer among labels."""

    def __init__(
        self,
        kernel: CoverKernel,
        choices: Mapping[int, tuple[Order, ...]],
        number: Mapping[int, int],
        permuted: PermutedKernels,
    ) -> None:
        self.kernel = kernel
        self._choices, self._number = choices, number
        self.near = tuple(buffer for buffer in dict.fromkeys((*kernel.reads, *kernel.writes)) if buffer in choices)

        def time(labels: Combination) -> tuple[float, float]:
            orders = {buffer: choices[buffer][label] for buffer, label in zip(self.near, labels, strict=True)}
            best = permuted.of(kernel, orders)
            return best.time_ns, best.least_ns

        places = {buffer: place for place, buffer in enumerate(self.near)}
        where = tuple(places.get(buffer) for buffer in (*kernel.reads, *kernel.writes))
        key = (id(kernel.region), where, *(choices[buffer] for buffer in self.near))
        if key not in permuted.times:
            permuted.times[key] = Times([len(choices[buffer]) for buffer in self.near], time)
        self._times = permuted.times[key]

    @property
    def least(self) -> float:
        """The ns that the kernel would take if no time were lost to orders."""
        return self._times.least

    def doubts(self) -> Iterator[Cost]:
        """What the orders of a buffer must gain beside the times that are predicted."""
        for buffer in sorted(self.near, key=self._number.__getitem__):
            labels = np.arange(len(self._choices[buffer]))
            gain = COPY_DOUBT * self._times.table if is_end_copy(self.kernel) else DOUBT * self.kernel.time_ns
            yield Cost((self._number[buffer],), np.where(labels > 0, gain, 0.0))

    def cost(self, known_only: bool) -> Cost:
        """The cost over the variables of the buffers, ascending."""
        variables = [self._number[buffer] for buffer in self.near]
        table = self._times.only_known() if known_only else self._times.table
        return Cost(tuple(sorted(variables)), table.transpose(np.argsort(variables)))

    def learn(self, labels: Sequence[int]) -> bool:
        """Price the chosen combination; whether its time was an estimate before."""
        return self._times.learn(self._own(labels))

    def price(self, labels: Sequence[int]) -> float:
        """The ns of the kernel with these labels of all buffers."""
        return self._times.price(self._own(labels))

    def _own(self, labels: Sequence[int]) -> Combination:
        return tuple(labels[self._number[buffer]] for buffer in self.near)


def free_buffers(cover: Cover) -> dict[int, tuple[int, ...]]:
    """The shapes of the buffers that only kernels see, and that have several axes to permute."""
    outputs = {buffer for _, buffer in cover.outputs}
    running = [kernel for kernel in cover.kernels if kernel.price]
    written = {buffer for kernel in running for buffer in kernel.writes}
    touched = (
        (buffer, operand.memref.shape)
        for kernel in running
        for buffer, operand in zip(
            (*kernel.writes, *kernel.reads), (*kernel.region.outputs, *kernel.region.inputs), strict=True
        )
    )
    return {
        buffer: shape
        for buffer, shape in touched
        if buffer in cover.free or (buffer in written and buffer not in outputs)
        if has_orders(shape)
    }


def store_in_orders(cover: Cover, chosen: Mapping[int, Order], permuted: PermutedKernels) -> Cover:
    """The cover with its buffers in these orders, and each constant in the orders that its readers like best."""
    copies = Copies(cover)
    kernels = []
    for kernel in cover.kernels:
        best = permuted.of(kernel, chosen)
        reads = list(kernel.reads)
        for place, order in best.constants.items():
            reads[place] = copies.of(reads[place], order, kernel.region.inputs[place].memref)
        kernels.append(replace(kernel, reads=tuple(reads), region=best.region, price=best.price))
    built, running = ([kernel for kernel in kernels if bool(kernel.price) == runs] for runs in (False, True))
    return replace(
        cover,
        kernels=(*built, *copies.kernels, *running),
        names={**cover.names, **copies.names},
        constants=cover.constants | copies.names.keys(),
        orders={**cover.orders, **chosen, **copies.orders},
    )


def _beyond_tables(kernels: Sequence[CoverKernel], choices: Mapping[int, tuple[Order, ...]]) -> set[int]:
    """The buffers that stay row-major since a kernel reads so many that the table of its times would be too large. The
    first ones that a kernel reads keep their orders."""
    left_out: set[int] = set()
    for kernel in kernels:
        entries = 1
        for buffer in dict.fromkeys((*kernel.writes, *kernel.reads)):
            if buffer in choices and buffer not in left_out:
                entries *= len(choices[buffer])
                if entries > MOST:
                    left_out.add(buffer)
    return left_out


def _note_limits(cover: Cover, buffers: Sequence[int]) -> tuple[Diagnostic, ...]:
    """A note where the search left these buffers out."""
    if not buffers:
        return ()
    names = [cover.names[buffer] for buffer in buffers]
    message = "some buffers stay row-major: with them the search for orders of axes would have been too wide"
    return (note(Kind.RESOURCE_EXCEEDED, STAGE, message, buffers=names),)
