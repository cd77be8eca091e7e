"""A cover → the module: calls in order, slots with their roles, lifetimes, and places in the arena."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from eqsat.assembly.arena import Interval, pack
from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import input_classes
from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.extraction.kernel_tree import rules_of, subtrees
from ir.module.module import KernelCall, Module, Role, Slot
from ir.pricer import Price
from ir.region.region import MemRef, Region
from ir.tiny.graph import Graph


class AssembledModule(NamedTuple):
    """The module, and the price of each call that runs, in order: the plan that won is the plan to lower."""

    module: Module
    prices: tuple[Price, ...]


def assemble(
    cover: Cover, view: EGraphView, graph: Graph, constants: Iterable[str] = (), name: str = "program"
) -> AssembledModule:
    """The module of a cover of `graph`'s e-graph; `constants` are the inputs bound when the program is built."""
    known = set(constants)
    ordered = [each for each in cover.kernels if not each.price] + [each for each in cover.kernels if each.price]
    names = _kernel_names(ordered)
    regions = _regions_by_first(ordered, names)
    slice_of = _Slices(view, graph, ordered, cover.constants)
    calls = tuple(
        KernelCall(
            name=name,
            region=regions[kernel.region],
            args=tuple(cover.names[buffer] for buffer in (*kernel.reads, *kernel.writes)),
            when="run" if kernel.price else "compile",
            uops=slice_of(kernel),
            rules=rules_of(view, kernel.trees),
        )
        for kernel, name in zip(ordered, names, strict=True)
    )
    inputs = input_classes(view)
    slots, arena_bytes = _placed(_slots(cover, graph, inputs, known, ordered), calls)
    outputs = tuple((output, cover.names[buffer]) for output, buffer in cover.outputs)
    signature = tuple(tensor for tensor in graph.inputs if tensor not in known)
    module = Module(name, slots, calls, signature, outputs, arena_bytes)
    return AssembledModule(module, tuple(kernel.price for kernel in ordered if kernel.price))


def _kernel_names(kernels: Sequence[CoverKernel]) -> list[str]:
    """A name per kernel, by what it does and which it is of those that do it: `dot_add`, `dot_add_2`, …; those that run
    when the program is built are counted after the others."""
    names: dict[int, str] = {}
    counts = Counter[str]()
    for place in sorted(range(len(kernels)), key=lambda place: kernels[place].price is None):
        title = kernels[place].region.name
        counts[title] += 1
        names[place] = title if counts[title] == 1 else f"{title}_{counts[title]}"
    return [names[place] for place in range(len(kernels))]


def _regions_by_first(kernels: Sequence[CoverKernel], names: Sequence[str]) -> Mapping[Region, Region]:
    """The regions, each under the name of the first kernel that it is."""
    named: dict[Region, Region] = {}
    for kernel, name in sorted(zip(kernels, names, strict=True), key=lambda each: each[0].price is None):
        if kernel.region not in named:
            named[kernel.region] = msgspec.structs.replace(kernel.region, name=name)
    return named


def _slots(
    cover: Cover, graph: Graph, inputs: Mapping[str, int], known: set[str], kernels: Iterable[CoverKernel]
) -> list[Slot]:
    """Every tensor once: the signature's inputs, the constants in use, what each kernel writes."""
    used = {read for kernel in cover.kernels for read in kernel.reads} | {buffer for _, buffer in cover.outputs}
    results = {buffer for _, buffer in cover.outputs}
    slots = []
    for tensor, node in graph.inputs.items():
        if tensor not in known or inputs[tensor] in used:
            type_ = graph.types[node.id]
            role: Role = "constant" if tensor in known else "input"
            slots.append(Slot(tensor, MemRef(type_.shape, type_.dtype.name), role))
    for kernel in kernels:
        for buffer, output in zip(kernel.writes, kernel.region.outputs, strict=True):
            written = "output" if buffer in results else "arena"
            role = written if kernel.price else "constant"  # type: ignore[assignment]
            slots.append(Slot(cover.names[buffer], output.memref, role, order=cover.orders.get(buffer)))
    return slots


def _placed(slots: list[Slot], calls: tuple[KernelCall, ...]) -> tuple[tuple[Slot, ...], int]:
    """The slots with lifetimes, those of the arena with offsets; and the arena's size in bytes."""
    touched: dict[str, list[int]] = {}
    for position, call in enumerate(calls):
        for arg in call.args:
            touched.setdefault(arg, []).append(position)
    lived = [
        msgspec.structs.replace(slot, first=touched[slot.name][0], last=touched[slot.name][-1])
        if slot.name in touched
        else slot
        for slot in slots
    ]
    held = [slot for slot in lived if slot.role == "arena"]
    offsets, size = pack([Interval(slot.first, slot.last, slot.memref.nbytes) for slot in held])
    place = {slot.name: offset for slot, offset in zip(held, offsets, strict=True)}
    return tuple(msgspec.structs.replace(slot, offset=place.get(slot.name, 0)) for slot in lived), size


class _Slices:
    """The Tiny nodes that a kernel stands for."""

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
        """Those behind its outputs, down to what it reads; where rules made its outputs, what they are made for."""
        if self._first.keys() & kernel.writes or not kernel.price:
            return self._behind(kernel.writes, kernel.reads)
        return self._served(kernel)

    def _behind(self, buffers: Iterable[int], sources: Iterable[int]) -> tuple[str, ...]:
        """Backwards from these buffers to the sources."""
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

    def _served(self, kernel: CoverKernel) -> tuple[str, ...]:
        """What lies between the results that are computed from buffers of rules alone, this one among them, and the
        buffers before: without what the kernels that write these results compute themselves."""
        results: dict[int, None] = {}
        done: set[ENode] = set()
        waiting, met = list(kernel.writes), set(kernel.writes)
        while waiting:
            for reader in self._readers.get(waiting.pop(), ()):
                done.update(each.node for each in subtrees(*reader.trees) if each.kids)
                results |= dict.fromkeys(buffer for buffer in reader.writes if buffer in self._first)
                fresh = [each for each in reader.writes if each not in self._first and each not in met]
                waiting += fresh
                met.update(fresh)
        return tuple(
            ref
            for ref in self._behind(results, (self._written | self._constants) - results.keys())
            if done.isdisjoint(self._values(ref))
        )

    def _values(self, ref: str) -> Iterator[ENode]:
        """The nodes that compute what a uop stores."""
        for store in self._view.stores(self._view.tiny[ref]):
            for node in self._view.classes[store.value]:
                yield node
                if node.ctor == "Pure":
                    yield from self._view.classes[node.x]
