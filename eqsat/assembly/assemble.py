"""A cover → the module: calls in order, slots with roles, lifetimes, and offsets in the arena."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from eqsat.assembly.place_slots import place_slots
from eqsat.egraph.buffers import input_classes
from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.enumeration.kernel_tree import rules_of, subtrees
from ir.module.module import KernelCall, Module, Role, Slot
from ir.names import new_name
from ir.pricer import Price
from ir.region.order import reorder
from ir.region.region import MemRef, Region
from ir.tiny.graph import Graph
from ir.uop.table import UOpKind


class AssembledModule(NamedTuple):
    """The module, and the prices of the calls that run, in order; a price holds the plan to lower."""

    module: Module
    prices: tuple[Price, ...]


def assemble(
    cover: Cover, view: EGraphView, graph: Graph, constants: Iterable[str] = (), name: str = "program"
) -> AssembledModule:
    """The module of a cover of `graph`'s e-graph; `constants` are the inputs bound when the program is built."""
    known = set(constants)
    kernels = sorted(cover.kernels, key=lambda kernel: kernel.price is not None)
    names = _kernel_names(kernels)
    regions = _regions_by_first(kernels, names)
    slice_of = _Slices(view, graph, kernels, cover.constants)
    slices = [slice_of(kernel) for kernel in kernels]
    calls = tuple(
        KernelCall(
            name=name,
            region=regions[kernel.region],
            args=tuple(cover.names[buffer] for buffer in (*kernel.reads, *kernel.writes)),
            when="run" if kernel.price else "compile",
            uops=uops,
            rules=rules_of(view, kernel.trees),
            tags=_tags(graph, uops),
        )
        for kernel, name, uops in zip(kernels, names, slices, strict=True)
    )
    inputs = input_classes(view)
    slots = tuple(_slots(cover, graph, inputs, known, kernels))
    outputs = tuple((output, cover.names[buffer]) for output, buffer in cover.outputs)
    signature = tuple(tensor for tensor in graph.inputs if tensor not in known)
    module = Module(name, slots, calls, signature, outputs)
    return AssembledModule(place_slots(module), tuple(kernel.price for kernel in kernels if kernel.price))


def _tags(graph: Graph, uops: Iterable[str]) -> tuple[str, ...]:
    """The tags of uops, each once. Movements are left out if other uops have tags."""
    nodes = [graph.by_id[ref] for ref in uops if graph.by_id[ref].tag is not None]
    computing = [node for node in nodes if node.op.kind is not UOpKind.MOVEMENT]
    return tuple(dict.fromkeys(node.tag for node in computing or nodes if node.tag is not None))


def _kernel_names(kernels: Sequence[CoverKernel]) -> list[str]:
    """A name per kernel, from its ops and a number: `dot_add`, `dot_add_2`, …. Kernels that run when the program is
    built are numbered after the others."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for place in sorted(range(len(kernels)), key=lambda place: kernels[place].price is None):
        names[place] = new_name(kernels[place].region.name, taken)
        taken.add(names[place])
    return [names[place] for place in range(len(kernels))]


def _regions_by_first(kernels: Sequence[CoverKernel], names: Sequence[str]) -> Mapping[Region, Region]:
    """The regions, each with the name of the first kernel that has it."""
    named: dict[Region, Region] = {}
    for kernel, name in sorted(zip(kernels, names, strict=True), key=lambda pair: pair[0].price is None):
        if kernel.region not in named:
            named[kernel.region] = msgspec.structs.replace(kernel.region, name=name)
    return named


def _slots(
    cover: Cover, graph: Graph, inputs: Mapping[str, int], known: set[str], kernels: Iterable[CoverKernel]
) -> list[Slot]:
    """One slot per tensor: the signature's inputs, the constants in use, the results of each kernel."""
    used = {read for kernel in cover.kernels for read in kernel.reads} | {buffer for _, buffer in cover.outputs}
    results = {buffer for _, buffer in cover.outputs}
    slots = []
    for tensor, node in graph.inputs.items():
        if tensor not in known or inputs[tensor] in used:
            type_ = graph.types[node.id]
            role: Role = "constant" if tensor in known else "input"
            memref, order = MemRef(type_.shape, type_.dtype.name), cover.orders.get(inputs[tensor])
            slots.append(Slot(tensor, memref if order is None else reorder(memref, order), role, order=order))
    for kernel in kernels:
        for buffer, output in zip(kernel.writes, kernel.region.outputs, strict=True):
            written = "output" if buffer in results else "arena"
            role = written if kernel.price else "constant"  # type: ignore[assignment]
            slots.append(Slot(cover.names[buffer], output.memref, role, order=cover.orders.get(buffer)))
    return slots


class _Slices:
    """The Tiny nodes that a kernel computes."""

    def __init__(
        self, view: EGraphView, graph: Graph, kernels: Sequence[CoverKernel], constants: frozenset[int] = frozenset()
    ) -> None:
        self._view, self._nodes, self._constants = view, graph.by_id, constants
        self._first: dict[int, str] = {}
        for node in graph.nodes:
            self._first.setdefault(view.tiny[node.id], node.id)
        self._written = {buffer for kernel in kernels for buffer in kernel.writes}
        self._readers: dict[int, list[CoverKernel]] = {}
        for kernel in kernels:
            for read in kernel.reads:
                self._readers.setdefault(read, []).append(kernel)

    def __call__(self, kernel: CoverKernel) -> tuple[str, ...]:
        """The nodes between a kernel's outputs and its reads. If rules made its outputs: the nodes that they serve.
        None of a copy to another order of axes."""
        if kernel.is_copy:
            return ()
        if self._first.keys() & kernel.writes or not kernel.price:
            return self._nodes_between(kernel.writes, kernel.reads)
        return self._nodes_served(kernel)

    def _nodes_between(self, buffers: Iterable[int], sources: Iterable[int]) -> tuple[str, ...]:
        """The nodes from the sources (excluded) to these buffers."""
        stops = set(sources)
        covered: set[str] = set()
        waiting = [self._first[buffer] for buffer in buffers if buffer in self._first]
        while waiting:
            ref = waiting.pop()
            node = self._nodes[ref]
            if self._view.tiny[ref] not in stops and node.uop != "INPUT" and ref not in covered:
                covered.add(ref)
                waiting.extend(node.refs)
        return tuple(ref for ref in self._nodes if ref in covered)

    def _nodes_served(self, kernel: CoverKernel) -> tuple[str, ...]:
        """For a kernel whose outputs no uop writes: the nodes of the results that need these outputs, except nodes that
        the kernels of those results compute themselves."""
        results: dict[int, None] = {}
        done: set[ENode] = set()
        waiting, seen = list(kernel.writes), set(kernel.writes)
        while waiting:
            for reader in self._readers.get(waiting.pop(), ()):
                done.update(tree.node for tree in subtrees(*reader.trees) if tree.kids)
                results |= dict.fromkeys(buffer for buffer in reader.writes if buffer in self._first)
                fresh = [buffer for buffer in reader.writes if buffer not in self._first and buffer not in seen]
                waiting += fresh
                seen.update(fresh)
        return tuple(
            ref
            for ref in self._nodes_between(results, (self._written | self._constants) - results.keys())
            if done.isdisjoint(self._values(ref))
        )

    def _values(self, ref: str) -> Iterator[ENode]:
        """The nodes that compute what a uop stores."""
        for store in self._view.stores(self._view.tiny[ref]):
            for node in self._view.classes[store.value]:
                yield node
                if node.ctor == "Pure":
                    yield from self._view.classes[node.x]
