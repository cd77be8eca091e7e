"""Orders of axes for the covers of several parts at once: a buffer between two parts has one order in both.

The covers become one cover, in which the input of a part is the buffer of the part that computes it. Its orders are
chosen, and the kernels go back to their parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.layouts.choose_layouts import choose_layouts
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels


class PartCover(NamedTuple):
    """The row-major cover of a part. edges: of its buffers, by their values, those that lie between parts."""

    cover: Cover
    edges: Mapping[str, int]


def choose_neighbouring_layouts(parts: Sequence[PartCover], permuted: PermutedKernels) -> list[Cover]:
    """The covers of parts, in the order in which they run, with their buffers in the orders of the least predicted time
    of all together."""
    if len(parts) == 1:
        return [choose_layouts(parts[0].cover, permuted)]
    numbers = _number(parts)
    chosen = choose_layouts(_merge(parts, numbers), permuted)
    home: dict[int, int] = {}
    for place, own in enumerate(numbers):
        for number in own.values():
            home.setdefault(number, place)
    kernels: list[list[CoverKernel]] = [[] for _ in parts]
    for kernel in chosen.kernels:
        known = (*kernel.writes, *kernel.reads) if kernel.is_copy else kernel.writes
        kernels[next(home[buffer] for buffer in known if buffer in home)].append(kernel)
    return [_part_of(chosen, *each) for each in zip(parts, numbers, kernels, strict=True)]


def _number(parts: Sequence[PartCover]) -> list[dict[int, int]]:
    """Per part: its buffers → their numbers among those of all parts. A buffer between parts has one number, which it
    gets in the part that writes it."""
    numbers: list[dict[int, int]] = []
    values: dict[str, int] = {}
    count = 0
    for cover, edges in parts:
        written = {buffer for kernel in cover.kernels for buffer in kernel.writes}
        known = {buffer: values[value] for value, buffer in edges.items() if value in values and buffer not in written}
        fresh = [buffer for buffer in cover.names if buffer not in known]
        numbers.append({**known, **{buffer: count + place for place, buffer in enumerate(fresh)}})
        values |= {value: numbers[-1][buffer] for value, buffer in edges.items() if value not in values}
        count += len(fresh)
    return numbers


def _merge(parts: Sequence[PartCover], numbers: Sequence[Mapping[int, int]]) -> Cover:
    """All parts as one cover."""
    kernels: list[CoverKernel] = []
    outputs: list[tuple[str, int]] = []
    names: dict[int, str] = {}
    constants: set[int] = set()
    for (cover, edges), number in zip(parts, numbers, strict=True):
        kernels += (_renumbered(kernel, number) for kernel in cover.kernels)
        outputs += ((value, number[buffer]) for value, buffer in cover.outputs if value not in edges)
        names = {**{number[buffer]: name for buffer, name in cover.names.items()}, **names}
        constants.update(number[buffer] for buffer in cover.constants if buffer in number)
    kernels.sort(key=lambda kernel: kernel.price is not None)
    return Cover(tuple(kernels), tuple(outputs), names, frozenset(constants))


def _renumbered(kernel: CoverKernel, number: Mapping[int, int]) -> CoverKernel:
    return replace(
        kernel,
        writes=tuple(number[buffer] for buffer in kernel.writes),
        reads=tuple(number[buffer] for buffer in kernel.reads),
    )


def _part_of(chosen: Cover, part: PartCover, number: Mapping[int, int], kernels: Iterable[CoverKernel]) -> Cover:
    """The cover of a part with the orders that were chosen; its copies get numbers of their own."""
    kernels, cover = list(kernels), part.cover
    own = {other: buffer for buffer, other in number.items()}
    copies = [buffer for kernel in kernels for buffer in kernel.writes if buffer not in own]
    own |= {copy: max(cover.names, default=0) + place for place, copy in enumerate(copies, 1)}
    held = dict(chosen.outputs)
    return replace(
        cover,
        kernels=tuple(_renumbered(kernel, own) for kernel in kernels),
        outputs=tuple((value, own[held[value]] if value in held else buffer) for value, buffer in cover.outputs),
        names={**cover.names, **{own[copy]: chosen.names[copy] for copy in copies}},
        constants=cover.constants | {own[copy] for copy in copies if copy in chosen.constants},
        orders={buffer: chosen.orders[other] for other, buffer in own.items() if other in chosen.orders},
        diagnostics=(*cover.diagnostics, *chosen.diagnostics),
    )
