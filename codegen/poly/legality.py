"""Whether a region may be one kernel, by the sites of its values and the patterns of its contractions.

An elementwise value can be computed at any point, so it forbids nothing. An accumulator is finished in the outer scope,
inside the loops over the axes on which it depends and outside the other loops. This file checks that all accumulators
can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from codegen.poly.stream_roles import holds_contraction, stream_roles
from codegen.poly.value_sites import ACCUMULATORS, Sites, outer_scope
from ir.diagnostics import Kind
from ir.index.facts import picked_axes
from ir.index.injective import is_injective
from ir.index.map import AxisMap, identity, support
from ir.poly.core import Site, StreamRoles
from ir.poly.indexbook import MOST_PIECES
from ir.poly.view import PolyView
from ir.region.region import Definition, Operand, Region


@dataclass(frozen=True)
class Candidate:
    """A region that may become a kernel, and the sites of its values."""

    region: Region
    view: PolyView
    sites: Sites

    @cached_property
    def accumulators(self) -> list[tuple[Definition, list[Site]]]:
        """The accumulators that are used, with their sites."""
        lets = [let for let in self.region.body if let.op.kind in ACCUMULATORS]
        return [(let, sites) for let in lets if (sites := self.sites.of(let.name))]

    @cached_property
    def finished(self) -> Mapping[str, frozenset[int] | None]:
        """`finished_at` of every accumulator in the outer scope, at its first site."""
        outer = outer_scope(self.region)
        return {
            let.name: finished_at(sites[0].map, let.op.shape) if sites[0].scope == outer else None
            for let, sites in self.accumulators
        }

    @cached_property
    def streams(self) -> StreamRoles | str | None:
        """The loops of the region's streams, or why there can be no tiles of scores; None without streams."""
        if not any(let.op.kind == "stream" for let, _ in self.accumulators):
            return None
        return stream_roles(self.accumulators, outer_scope(self.region))

    @cached_property
    def carried(self) -> Mapping[str, int | None]:
        """Scan → the outer axis along which the scan carries its value; None where that axis has one point."""
        return {let.name: _scanned_axis(let, sites[0]) for let, sites in self.accumulators if let.op.kind == "scan"}


_Rule = Callable[[Candidate], Iterator[str]]


def reason_against(candidate: Candidate) -> tuple[Kind | None, str]:
    """The kind of diagnostic and the reason why the region can be no kernel; (None, "") if it can be one."""
    in_tiles = isinstance(candidate.streams, StreamRoles) or holds_contraction(candidate.accumulators)
    loops: tuple[_Rule, ...] = (_streams,) if in_tiles else (_accumulators, _contractions, _scans, _scatters)
    rules: tuple[tuple[Kind, _Rule], ...] = (
        (Kind.UNSUPPORTED_OP, _outputs),
        (Kind.EXCESSIVE_PIECEWISE, _pieces),
        (Kind.NON_SCOP, _gathers),
        *((Kind.UNSUPPORTED_OP, rule) for rule in loops),
    )
    return next(((kind, reason) for kind, rule in rules for reason in rule(candidate)), (None, ""))


def finished_at(view: AxisMap, sizes: tuple[int, ...]) -> frozenset[int] | None:
    """The output axes (of more than one point) on which an accumulator of these sizes, read at `view`, depends: the
    axes that `view` picks, or all axes if no two outputs read one point of the accumulator. None if the kernel would
    compute a point repeatedly, or compute points that are padding."""
    picked = picked_axes(view, sizes)
    if picked is not None:
        return frozenset(picked)
    if view.guards or not is_injective(view):
        return None
    return frozenset(axis for axis, size in enumerate(view.sizes) if size != 1)


def _outputs(candidate: Candidate) -> Iterator[str]:
    """Why an output breaks the rule: an output is written once, is no input, and is written over the domain of the
    first output: at the same points, or at some of their axes."""
    first, *_ = candidate.region.outputs
    places = {written.buffer: written.at for written in candidate.region.yields}
    names = [written.buffer for written in candidate.region.yields]
    inputs = {buffer.name for buffer in candidate.region.inputs}
    for buffer in candidate.region.outputs:
        if names.count(buffer.name) != 1:
            yield f"output `{buffer.name}` is written {names.count(buffer.name)} times"
        if buffer.name in inputs:
            yield f"output `{buffer.name}` overwrites an input"
        at = places.get(buffer.name)
        if at is None and buffer.memref.shape != first.memref.shape:
            yield f"outputs `{first.name}` and `{buffer.name}` have different domains"
        if at is not None and (at.is_empty or picked_axes(at, buffer.memref.shape) is None):
            yield f"the axes of output `{buffer.name}` are none of those of `{first.name}`"


def _pieces(candidate: Candidate) -> Iterator[str]:
    """A read has few guards: a value that is padded many times is cheaper to store."""
    for read in candidate.sites.reads:
        if len(read.map.guards) >= MOST_PIECES:
            yield f"`{read.value}` reads `{read.source}` in {len(read.map.guards) + 1} pieces"


def _gathers(candidate: Candidate) -> Iterator[str]:
    """A gather reads a buffer in memory, not a value that the kernel computes."""
    inputs = {buffer.name for buffer in candidate.region.inputs}
    for let in candidate.region.body:
        source = let.op.inputs[0] if let.name in candidate.view.non_scop else None
        if isinstance(source, Operand) and source.value not in inputs:
            yield f"`{let.name}` gathers from `{source.value}`, which is not in memory"


def _accumulators(candidate: Candidate) -> Iterator[str]:
    """Every accumulator has one site, in the outer scope, and their sets of outer axes are nested."""
    placed: list[tuple[str, frozenset[int]]] = []
    for let, sites in candidate.accumulators:
        nested = next((site.scope for site in sites if site.scope != outer_scope(candidate.region)), None)
        if nested is not None:
            yield f"`{let.name}` is accumulated inside `{nested}`"
            return
        if len(sites) > 1:
            yield f"`{let.name}` is read at {len(sites)} different maps of the output"
            return
        axes = candidate.finished[let.name]
        if axes is None:
            yield f"`{let.name}` is read at {sites[0].map}: its points would be padded or computed repeatedly"
            return
        placed.append((let.name, axes))
    placed.sort(key=lambda value: len(value[1]))
    for (inner, fewer), (name, more) in pairwise(placed):
        if not fewer <= more:
            yield f"no order of the output's axes finishes both `{inner}` and `{name}` before their readers"


def _contractions(candidate: Candidate) -> Iterator[str]:
    """Contractions share one tile of sums: they have one domain, the same roles and one site, and there is no other
    accumulator."""
    several = [(let, sites) for let, sites in candidate.accumulators if let.op.kind == "contraction"]
    if not several:
        return
    first, place = several[0]
    for let, sites in candidate.accumulators:
        if let.op.kind != "contraction":
            yield f"`{let.name}` ({let.op.kind}) shares the kernel with the contraction `{first.name}`"
        elif (let.op.domain, let.op.reduced) != (first.op.domain, first.op.reduced) or sites[0].map != place[0].map:
            yield f"contractions `{first.name}` and `{let.name}` have different domains"
        elif candidate.view.pattern(let.name).roles != candidate.view.pattern(first.name).roles:
            yield f"contractions `{first.name}` and `{let.name}` give their axes different roles"
    if not _covers(candidate, first):
        yield f"`{first.name}` would be repeated over output axes that it does not have"


def _streams(candidate: Candidate) -> Iterator[str]:
    """All accumulators are streams of one score, maxima of that score, or the contraction in the score."""
    if isinstance(candidate.streams, str):
        yield candidate.streams


def _scans(candidate: Candidate) -> Iterator[str]:
    """Every scan runs over the whole output, and all scans run along one axis."""
    along = None
    for let, sites in candidate.accumulators:
        if let.op.kind != "scan":
            continue
        if not _covers(candidate, let):
            yield f"`{let.name}` would be repeated over output axes that it does not have"
        if picked_axes(sites[0].map, let.op.shape) is None:
            yield f"`{let.name}` is a scan read at {sites[0].map}, which does not just pick axes of the output"
        if along not in (None, candidate.carried[let.name]):
            yield f"`{let.name}` scans along another axis than the scan before it"
        along = candidate.carried[let.name]


def _scatters(candidate: Candidate) -> Iterator[str]:
    """A scatter is the only accumulator. Updates are combined in the memory of the only output, so that the output has
    the scatter's dtype and is computed from the scatter element by element."""
    for let, sites in candidate.accumulators:
        if let.op.kind != "scatter":
            continue
        if len(candidate.accumulators) > 1:
            yield f"the scatter `{let.name}` shares the kernel with another accumulator"
        if len(candidate.region.outputs) > 1:
            yield f"the kernel of the scatter `{let.name}` has other results"
        if candidate.region.outputs[0].memref.dtype != let.op.dtype:
            yield f"the result of the scatter `{let.name}` has another dtype than the scatter"
        if any(site.map != identity(candidate.region.outputs[0].memref.shape) for site in sites):
            yield f"the scatter `{let.name}` is read at {sites[0].map}, not element by element"
        source, *updates = (operand for operand in let.op.inputs)
        free = ((source, len(let.op.shape)), *((operand, let.op.axis) for operand in updates))
        if any(isinstance(operand, Operand) and axis in support(operand.map) for operand, axis in free):
            yield f"the operands of the scatter `{let.name}` depend on more axes than their own"


def _scanned_axis(let: Definition, site: Site) -> int | None:
    own = let.op.shape
    picked = picked_axes(site.map, own)
    along = let.op.axis or 0
    if picked is None or own[along] == 1:
        return None
    return picked[sum(size != 1 for size in own[:along])]


def _covers(candidate: Candidate, let: Definition) -> bool:
    """Whether the value has every output axis of more than one point."""
    outer = candidate.region.outputs[0].memref.shape
    axes = candidate.finished[let.name]
    return axes is not None and len(axes) == sum(size != 1 for size in outer)
