"""Tiny graph → drawing of its uops; run → drawing of the uops in frames, a frame a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eqsat.explanation.drawing import Box, Drawing, Edge, Frame, colour_of
from eqsat.explanation.explored_run import ExploredRun
from eqsat.explanation.price_text import micros
from ir.grammar import with_count
from ir.module.module import writers_of
from ir.tiny.graph import Graph, Imm, Node, Ref


def graph_to_drawing(graph: Graph, title: str) -> Drawing:
    """A box for every uop, with its name, its operation and its type."""
    boxes = {node.id: _box(graph, node) for node in graph.nodes}
    edges = tuple((ref, node.id) for node in graph.nodes for ref in dict.fromkeys(node.refs))
    return Drawing(title, boxes, edges)


def kernels_before(run: ExploredRun) -> Drawing:
    """The program as written: a kernel per uop."""
    return graph_to_drawing(run.setting.bound.graph, f"before: {with_count(run.kernels_before, 'kernel')}, one per uop")


def kernels_after(run: ExploredRun) -> Drawing:
    """The program as it runs: a frame for every kernel around the uops that it computes. A uop that several kernels
    compute has a box in each of them. A kernel that only copies a buffer has a box for the copy. Buffers that no kernel
    writes are boxes of their own."""
    return _KernelDrawing(run).drawing()


class _KernelDrawing:
    def __init__(self, run: ExploredRun) -> None:
        self.run = run
        self.graph = run.setting.bound.graph
        self.boxes: dict[str, Box] = {}
        self.edges: list[Edge] = []
        self._writers = writers_of(run.calls)

    def drawing(self) -> Drawing:
        frames = [self._frame(place) for place in range(len(self.run.calls))]
        for place in range(len(self.run.calls)):
            self._connect(place)
        count = with_count(len(frames), "kernel")
        return Drawing(f"after: {count}", self.boxes, tuple(dict.fromkeys(self.edges)), tuple(frames))

    def _frame(self, place: int) -> Frame:
        kernel, uops = self.run.kernels[place], self._uops(place)
        boxes = {uop: _box(self.graph, self.graph[uop]) for uop in uops}
        if not uops:
            boxes = {name: Box((name,), colour_of("PERMUTE")) for name in self.run.calls[place].writes}
        self.boxes |= {_inside(place, name): box for name, box in boxes.items()}
        title = f"{kernel.name}: {micros(kernel.estimated_ns)}, by {kernel.bound}"
        return Frame(title, tuple(_inside(place, name) for name in boxes))

    def _connect(self, place: int) -> None:
        """The arrows into a kernel, and those between its uops."""
        uops = self._uops(place)
        for uop in uops:
            self.edges += [(_inside(place, ref), _inside(place, uop)) for ref in self.graph[uop].refs if ref in uops]
        for name in self.run.calls[place].reads:
            readers = self._readers(uops, name) if uops else self.run.calls[place].writes
            for source in self._sources(name):
                self.edges += [(source, _inside(place, reader)) for reader in readers]

    def _uops(self, place: int) -> Sequence[Ref]:
        """The uops that a kernel computes, in the order of the program."""
        mine = set(self.run.kernels[place].uops)
        return [node.id for node in self.graph.nodes if node.id in mine]

    def _sources(self, buffer: str) -> Iterator[str]:
        """The boxes that a buffer comes from."""
        if buffer not in self._writers:
            self.boxes.setdefault(f"in:{buffer}", Box((buffer,), colour_of("INPUT")))
            yield f"in:{buffer}"
        for place in self._writers.get(buffer, ()):
            uops = self._uops(place) or self.run.calls[place].writes
            yield _inside(place, next((uop for uop in uops if self._buffer_of(uop) == buffer), uops[-1]))

    def _readers(self, uops: Sequence[Ref], buffer: str) -> list[Ref]:
        """The uops of a kernel that read a buffer as written; the first, if rewriting left none of them."""
        readers = [
            uop
            for uop in uops
            if any(ref not in uops and self._buffer_of(ref) == buffer for ref in self.graph[uop].refs)
        ]
        return readers or list(uops[:1])

    def _buffer_of(self, uop: Ref) -> str | None:
        """The name of the buffer that holds a value, if one does."""
        history = self.run.history
        class_ = history.view.tiny.get(uop)
        names: Mapping[int, str] = history.names
        return None if class_ is None else names.get(class_)


def _inside(place: int, uop: Ref) -> str:
    """The id of a uop's box in a kernel."""
    return f"{place}:{uop}"


def _box(graph: Graph, node: Node) -> Box:
    immediates = [str(operand) for operand in node.src if isinstance(operand, Imm)]
    name = str(node.arg["op"]).lower() if node.uop == "REDUCE" else node.op.fn
    if node.uop == "LOOP":
        name = f"loop {node.arg['graph']} {node.arg['result']}"
    head = str(node.arg["tensor_id"]) if node.uop == "INPUT" else f"{node.id} = {' '.join([name, *immediates])}"
    return Box((head, str(graph.types[node.id])), colour_of(node.uop), node.id in graph.outputs)
