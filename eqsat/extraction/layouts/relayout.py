"""The pass: what lies between the kernels of a cover is stored in the orders of axes that make the whole cheapest.

The caller's inputs and outputs lie as he gives and wants them; what is between kernels no one else sees, and a constant
may be kept in as many orders as its readers like. A kernel is priced at every combination of the orders of its buffers,
each distinct region once; the least sum is found by variable elimination over the kernels.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eqsat.extraction.cover import Cover
from eqsat.extraction.layouts.copies import Copies
from eqsat.extraction.layouts.forms import Forms
from eqsat.extraction.layouts.min_sum import Cost, Labels, least
from eqsat.extraction.layouts.orders import Walks, has_orders, orders_of
from ir.diagnostics import Diagnostic, Kind, note
from ir.pricer import Pricer
from ir.region_order import Order

STAGE = "layouts"
_DOUBT = 0.01
"""The share of the time of the kernels at a buffer by which another order must gain: prices of forms that differ by
less are not known to differ."""


def relaid(cover: Cover, pricer: Pricer) -> Cover:
    """The cover with its buffers in the orders of the least predicted time, row-major where nothing is gained."""
    running = [kernel for kernel in cover.kernels if kernel.price]
    walks = Walks()
    forms = Forms(pricer, walks)
    choices = {
        buffer: orders for buffer, orders in orders_of(running, free_buffers(cover), walks).items() if len(orders) > 1
    }
    number = {buffer: position for position, buffer in enumerate(choices)}
    counts = [len(orders) for orders in choices.values()]
    costs = []
    for kernel in running:
        near = sorted({*kernel.reads, *kernel.writes} & choices.keys(), key=number.__getitem__)
        combinations = itertools.product(*(choices[buffer] for buffer in near))
        times = [forms.of(kernel, dict(zip(near, orders, strict=True))).time_ns for orders in combinations]
        table = np.array(times, np.float64).reshape([len(choices[buffer]) for buffer in near])
        costs.append(Cost(tuple(number[buffer] for buffer in near), table))
        doubt = _DOUBT * kernel.time_ns
        costs += [Cost((number[each],), np.where(np.arange(len(choices[each])) > 0, doubt, 0.0)) for each in near]
    labels = least(counts, costs)
    chosen = {
        buffer: orders[label] for (buffer, orders), label in zip(choices.items(), labels.chosen, strict=True) if label
    }
    found = stored(cover, chosen, forms)
    limits = _limits(cover, list(choices), labels)
    return replace(found, priced=cover.priced + len(forms), diagnostics=(*cover.diagnostics, *limits))


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
