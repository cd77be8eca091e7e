"""Which values lie between parts alone, so that their buffers may have any order of axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from eqsat.looping.parts import Part, PartLoop, Steps, parts_of
from ir.tiny.graph import Ref


class PartGroup(NamedTuple):
    """The parts that run once each, in the program or in each trip of one loop. edges: the values that one of these
    parts computes when the program runs, and that nothing but others of them reads."""

    parts: tuple[Part, ...]
    edges: frozenset[Ref]


def part_groups(steps: Steps, kept: Iterable[Ref]) -> Iterator[PartGroup]:
    """The groups of these steps and of the loops in them. kept: the values that must be row-major: those that are
    handed out of the steps."""
    parts = tuple(step for step in steps if isinstance(step, Part))
    loops = [step for step in steps if isinstance(step, PartLoop)]
    read = {(ref, tensor in part.constants) for part in parts for tensor, ref in part.reads.items()}
    written = {ref for part in parts for ref in part.graph.outputs}
    others = {*kept, *(ref for loop in loops for ref in _values_read(loop))}
    known = {ref for ref, is_constant in read if is_constant}
    yield PartGroup(parts, frozenset(written & {ref for ref, _ in read} - others - known))
    for loop in loops:
        yield from part_groups(loop.steps, _values_left(loop))


def edges_of_equals(parts: Sequence[Part], edges: AbstractSet[Ref]) -> Iterator[Ref]:
    """Of parts that are equal but for names: the inputs and outputs of the first that are edges in any of them."""
    for refs in zip(*((*part.reads.values(), *part.graph.outputs) for part in parts), strict=True):
        if not edges.isdisjoint(refs):
            yield refs[0]


def _values_read(loop: PartLoop) -> Iterator[Ref]:
    """The values outside a loop that it reads."""
    yield from (state.initial for state in loop.states)
    yield from (scanned.whole for scanned in loop.scanned)
    for part in parts_of(loop.steps):
        yield from part.reads.values()
    for step in loop.steps:
        if isinstance(step, PartLoop):
            yield from _values_read(step)


def _values_left(loop: PartLoop) -> Iterator[Ref]:
    """The values that each trip leaves behind."""
    yield from (state.after for state in loop.states)
    yield from (stacked.element for stacked in loop.stacked)
