"""The pass: what lies between the kernels of a cover is stored in the orders of axes that make the whole cheapest.

The caller's inputs and outputs lie as he gives and wants them; what is between kernels no one else sees, and a constant
may be kept in as many orders as its readers like. A kernel is priced at combinations of the orders of its buffers, each
distinct region once; the least sum is found by variable elimination over the kernels, again as long as it holds a
combination that was only estimated. Estimates are hopeful.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.layouts.copies import Copies
from eqsat.extraction.layouts.forms import Forms
from eqsat.extraction.layouts.min_sum import Cost, Labels, least
from eqsat.extraction.layouts.orders import has_orders, orders_of
from eqsat.extraction.layouts.times import Combination, Time, Times
from ir.diagnostics import Diagnostic, Kind, note
from ir.region.order import Order

STAGE = "layouts"
ROUNDS = 32
"""Candidates made before they are confined to what is priced."""
_DOUBT = 0.01
"""The share of the time of the kernels at a buffer by which another order must gain: prices of forms that differ by
less are not known to differ."""


def choose_layouts(cover: Cover, forms: Forms) -> Cover:
    """The cover with its buffers in the orders of the least predicted time, row-major where nothing is gained.

    Args:
        forms: may know the kernels of other covers.
    """
    running = [kernel for kernel in cover.kernels if kernel.price]
    found = orders_of(running, free_buffers(cover), forms.walks)
    choices = {buffer: orders for buffer, orders in found.items() if len(orders) > 1}
    number = {buffer: position for position, buffer in enumerate(choices)}
    counts = [len(orders) for orders in choices.values()]
    known: dict[tuple[object, ...], Times] = {}
    tables = [_Table(kernel, choices, forms, known) for kernel in running]
    doubts = [
        Cost((number[each],), np.where(np.arange(len(choices[each])) > 0, _DOUBT * table.kernel.time_ns, 0.0))
        for table in tables
        for each in sorted(table.near, key=number.__getitem__)
    ]
    confined = False
    for turn in itertools.count(1):
        believed = [table.cost(number, known_only=confined) for table in tables]
        labels = least(counts, [*believed, *doubts])
        if not [table for table in tables if table.learn(labels.chosen, number)]:
            break
        confined = turn >= ROUNDS
    chosen = {
        buffer: orders[label] for (buffer, orders), label in zip(choices.items(), labels.chosen, strict=True) if label
    }
    limits = _limits(cover, list(choices), labels)
    return replace(stored(cover, chosen, forms), diagnostics=(*cover.diagnostics, *limits))


class _Table:
    """What one kernel takes over the orders of the buffers that it reads and writes; `known` are the times of kernels
    over buffers of these orders, which those of one region share."""

    def __init__(
        self,
        kernel: CoverKernel,
        choices: Mapping[int, tuple[Order, ...]],
        forms: Forms,
        known: dict[tuple[object, ...], Times],
    ) -> None:
        self.kernel = kernel
        self.near = tuple(each for each in dict.fromkeys((*kernel.reads, *kernel.writes)) if each in choices)

        def time(labels: Combination) -> Time:
            orders = {each: choices[each][label] for each, label in zip(self.near, labels, strict=True)}
            form = forms.of(kernel, orders)
            return Time(form.time_ns, form.least_ns)

        places = {each: place for place, each in enumerate(self.near)}
        where = tuple(places.get(each) for each in (*kernel.reads, *kernel.writes))
        key = (id(kernel.region), where, *(choices[each] for each in self.near))
        if key not in known:
            known[key] = Times([len(choices[each]) for each in self.near], time)
        self._times = known[key]

    def cost(self, number: Mapping[int, int], known_only: bool) -> Cost:
        """Over the variables that the buffers are, ascending."""
        variables = [number[each] for each in self.near]
        table = self._times.only_known() if known_only else self._times.table
        return Cost(tuple(sorted(variables)), table.transpose(np.argsort(variables)))

    def learn(self, labels: Sequence[int], number: Mapping[int, int]) -> bool:
        """Price what was chosen; whether that was an estimate."""
        return self._times.learn(tuple(labels[number[each]] for each in self.near))


def free_buffers(cover: Cover) -> dict[int, tuple[int, ...]]:
    """The shapes of the buffers that only kernels see, and that have several axes to permute."""
    outputs = {buffer for _, buffer in cover.outputs}
    written = (
        (buffer, each.memref.shape)
        for kernel in cover.kernels
        if kernel.price
        for buffer, each in zip(kernel.writes, kernel.region.outputs, strict=True)
    )
    return {buffer: shape for buffer, shape in written if buffer not in outputs and has_orders(shape)}


def stored(cover: Cover, chosen: Mapping[int, Order], forms: Forms) -> Cover:
    """The cover with its buffers in these orders, and each constant in those that its readers like best."""
    copies = Copies(cover)
    kernels = []
    for kernel in cover.kernels:
        form = forms.of(kernel, chosen)
        reads = list(kernel.reads)
        for place, order in form.constants.items():
            reads[place] = copies.of(reads[place], order, kernel.region.inputs[place].memref)
        kernels.append(replace(kernel, reads=tuple(reads), region=form.region, price=form.price))
    built, running = ([kernel for kernel in kernels if bool(kernel.price) == runs] for runs in (False, True))
    return replace(
        cover,
        kernels=(*built, *copies.kernels, *running),
        names={**cover.names, **copies.names},
        constants=cover.constants | copies.names.keys(),
        orders={**chosen, **copies.orders},
    )


def _limits(cover: Cover, buffers: Sequence[int], labels: Labels) -> tuple[Diagnostic, ...]:
    """A word where the search was not exact."""
    if not labels.bound:
        return ()
    names = [cover.names[buffers[position]] for position in labels.bound]
    message = "some buffers stay row-major: with them the search for orders of axes would have been too wide"
    return (note(Kind.RESOURCE_EXCEEDED, STAGE, message, buffers=names),)
