"""The modules of a program's parts → its module: calls and slots of all parts, and the loops that repeat calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from eqsat.assembly.distinct_regions import DistinctRegions
from eqsat.assembly.place_slots import place_slots
from eqsat.looping.parts import LoopElement, Part, PartLoop, State, Steps, parts_of
from ir.dtype import TensorType
from ir.module.loop import Copy, Loop, LoopWindow
from ir.module.module import KernelCall, Module, Slot
from ir.names import new_name
from ir.region.region import MemRef
from ir.tiny.graph import Graph, Ref


def link(steps: Steps, modules: Sequence[Module], graph: Graph, signature: Sequence[str], alignment: int = 1) -> Module:
    """The module of a program of several parts, whose modules these are, in the order of `parts_of`. signature: the
    names of its arguments. alignment: kernels read and write buffers that begin at multiples of so many bytes."""
    by_part = dict(zip(map(id, parts_of(steps)), modules, strict=True))
    linker = _Linker(by_part, graph, signature, alignment)
    loops = linker.over(steps)
    outputs = tuple((output, linker.slot_of(linker.value(output))) for output in graph.outputs)
    slots = linker.slots
    for _, name in outputs:
        if slots[name].role == "arena":
            slots[name] = msgspec.structs.replace(slots[name], role="output")
    calls = (*linker.once, *linker.calls)
    module = Module("program", tuple(slots.values()), calls, tuple(signature), outputs, 0, loops)
    return place_slots(module)


class _LoopMemory(NamedTuple):
    """The memory of a loop that is being linked. claimable: the slots that its own kernels write and that may become
    windows."""

    windows: list[LoopWindow]
    loads: list[Copy]
    copies: list[Copy]
    claimable: set[str]


class _Linker:
    """held: the slot that holds each value. once, calls: the calls that run when the program is built, and those of a
    run."""

    def __init__(self, modules: Mapping[int, Module], graph: Graph, signature: Sequence[str], alignment: int) -> None:
        self.modules = modules
        self.alignment = alignment
        self.graph = graph
        self.held: dict[Ref, str] = {}
        self.slots: dict[str, Slot] = {}
        self.once: list[KernelCall] = []
        self.calls: list[KernelCall] = []
        self._regions = DistinctRegions()
        self._call_names: set[str] = set()
        self._slot_names = {*graph.inputs}
        for name, node in graph.inputs.items():
            type_ = graph.types[node.id]
            self.held[node.id] = name
            if name in signature:
                self.slots[name] = Slot(name, memref_of(type_), "input")

    def value(self, ref: Ref) -> Ref:
        """The id of a value: of a tensor that several uops declare, the first one's."""
        node = self.graph[ref]
        return self.graph.inputs[node.arg["tensor_id"]].id if node.uop == "INPUT" else ref

    def slot_of(self, value: Ref) -> str:
        """The slot that holds a value. A constant that no part reads gets one."""
        name = self.held[value]
        if name not in self.slots:
            self.slots[name] = Slot(name, memref_of(self.graph.types[value]), "constant")
        return name

    def over(self, steps: Steps) -> tuple[Loop, ...]:
        """Adds the calls of steps; returns the loops among them."""
        loops = []
        for step in steps:
            if isinstance(step, Part):
                self._add_part(step)
            else:
                loops.append(self._loop(step))
        return tuple(loops)

    def _add_part(self, part: Part) -> set[str]:
        """Adds the calls and slots of a part; returns the slots that its running calls write."""
        module = self.modules[id(part)]
        names: dict[str, str] = {}
        written = {name for call in module.calls for name in call.writes}
        for slot in module.slots:
            if slot.name in written:
                names[slot.name] = self._fresh(slot.name)
                role = "constant" if slot.role == "constant" else "arena"
                own = msgspec.structs.replace(slot, name=names[slot.name], role=role, first=0, last=0, offset=0)
                self.slots[own.name] = own
            else:
                names[slot.name] = self.held[part.reads[slot.name]]
                if names[slot.name] not in self.slots:
                    self.slots[slot.name] = slot
                    self._slot_names.add(slot.name)
        for call in module.calls:
            args = tuple(names[arg] for arg in call.args)
            named = msgspec.structs.replace(
                call, name=self._call_name(call), region=self._regions.of(call.region), args=args
            )
            (self.calls if call.when == "run" else self.once).append(named)
        self.held |= {output: names[slot] for output, slot in module.outputs}
        return {names[name] for call in module.running for name in call.writes}

    def _fresh(self, wish: str) -> str:
        name = new_name(wish, self._slot_names)
        self._slot_names.add(name)
        return name

    def _call_name(self, call: KernelCall) -> str:
        """A name for a call that no other call has: `dot_add`, `dot_add_2`, …."""
        name = new_name(call.name, self._call_names)
        self._call_names.add(name)
        return name

    # loops

    def _loop(self, loop: PartLoop) -> Loop:
        body = _LoopMemory([], [], [], set())
        for state in loop.states:
            self._read_state(loop, state, body)
        for scanned in loop.scanned:
            whole = self.slot_of(scanned.whole)
            self._window(scanned.element, scanned.type, body, *self._walk(loop, scanned.type, whole))
        first = len(self.calls)
        inner = []
        for step in loop.steps:
            if isinstance(step, Part):
                body.claimable.update(self._add_part(step))
            else:
                inner.append(self._loop(step))
        for state in loop.states:
            self._write_state(loop, state, body)
        for stacked in loop.stacked:
            self._write_stacked(loop, stacked, body)
        return Loop(
            name=loop.name,
            trips=loop.trips,
            first=first,
            end=len(self.calls),
            windows=tuple(body.windows),
            loads=tuple(body.loads),
            copies=tuple(body.copies),
            loops=tuple(inner),
        )

    def _walk(self, loop: PartLoop, element: TensorType, whole: str) -> tuple[tuple[str, ...], int, int]:
        """A window that walks over the elements of a slot: the slot, the first byte, and the step."""
        nbytes = element.nbytes
        return ((whole,), (loop.trips - 1) * nbytes, -nbytes) if loop.reverse else ((whole,), 0, nbytes)

    def _window(
        self,
        value: Ref,
        type_: TensorType,
        body: _LoopMemory,
        tensors: tuple[str, ...],
        start: int = 0,
        step: int = 0,
        initial: str | None = None,
    ) -> None:
        """A value of the loop that lies in other slots."""
        name = self._fresh(value)
        self.slots[name] = Slot(name, memref_of(type_), "window")
        self.held[value] = name
        body.windows.append(LoopWindow(name, tensors, start, step, initial))
        if not self._is_aligned(start, step):
            self.held[value] = self._fresh(f"{value}.aligned")
            self.slots[self.held[value]] = Slot(self.held[value], memref_of(type_), "arena")
            body.loads.append(Copy(name, self.held[value], type_.nbytes))

    def _is_aligned(self, start: int, step: int) -> bool:
        return start % self.alignment == 0 and step % self.alignment == 0

    def _read_state(self, loop: PartLoop, state: State, body: _LoopMemory) -> None:
        """The state before a trip: it alternates between two slots, of which the last trip writes the result's."""
        initial = self.slot_of(state.initial)
        result = self._fresh(state.result)
        self.slots[result] = Slot(result, memref_of(state.type), "arena")
        self.held[state.result] = result
        if loop.trips == 1:
            self._window(state.before, state.type, body, (initial,))
            return
        other = self._fresh(f"{result}.other")
        self.slots[other] = Slot(other, memref_of(state.type), "arena")
        read = (other, result) if loop.trips % 2 else (result, other)
        self._window(state.before, state.type, body, read, initial=initial)

    def _write_state(self, loop: PartLoop, state: State, body: _LoopMemory) -> None:
        (read,) = [window for window in body.windows if window.slot == self.held[state.before]]
        tensors = (self.held[state.result],) if loop.trips == 1 else (*read.tensors[1:], *read.tensors[:1])
        self._write(state.after, state.type, body, tensors, 0, 0)

    def _write_stacked(self, loop: PartLoop, stacked: LoopElement, body: _LoopMemory) -> None:
        name = self._fresh(stacked.whole)
        shape = (loop.trips, *stacked.type.shape)
        self.slots[name] = Slot(name, memref_of(TensorType.of(stacked.type.dtype, shape)), "arena")
        self.held[stacked.whole] = name
        self._write(stacked.element, stacked.type, body, *self._walk(loop, stacked.type, name))

    def _write(
        self, value: Ref, type_: TensorType, body: _LoopMemory, tensors: tuple[str, ...], start: int, step: int
    ) -> None:
        """A value that every trip leaves in other slots: written there by its kernel, or copied."""
        source = self.slot_of(value)
        if source in body.claimable and self._is_aligned(start, step):
            body.claimable.remove(source)
            self.slots[source] = msgspec.structs.replace(self.slots[source], role="window")
            body.windows.append(LoopWindow(source, tensors, start, step))
            return
        target = self._fresh(f"{value}.kept")
        self.slots[target] = Slot(target, memref_of(type_), "window")
        body.windows.append(LoopWindow(target, tensors, start, step))
        body.copies.append(Copy(source, target, type_.nbytes))


def memref_of(type_: TensorType) -> MemRef:
    """The memory of a row-major tensor."""
    return MemRef(type_.shape, type_.dtype.name)
