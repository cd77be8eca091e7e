"""How the kernels of a program came about: the saturation again, with a trace, and the rewrites that lead from the
uops of a kernel to its term.

Saturation is deterministic, so that the e-graph is the one that the kernels were chosen from, and compiling need not
keep a trace. Programs from the cache or from a file are explained in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from eqsat.egraph.enode import ENode
from eqsat.egraph.saturate import begin
from eqsat.egraph.tiny_to_term import tiny_to_terms
from eqsat.egraph.trace import Match, Trace
from eqsat.egraph.view import EGraphView
from eqsat.explanation.proof import Replay, Rewrite
from eqsat.extraction.candidates import buffer_names, input_classes
from eqsat.extraction.kernel_term import KernelTerm
from eqsat.options import Options
from ir.diagnostics import Kind, fail
from ir.module.module import KernelCall
from ir.term.language import CTORS, App, Sort
from ir.tiny.graph import Graph
from rules import select

LONGEST = 400
"""Rewrites of one kernel among which detours are looked for, in time that grows with their number times its size."""


@dataclass(frozen=True)
class Derivation:
    """The rewrites from the uops of a kernel (`start`) to its term (`end`), terms of `replay`.

    names: the terms that are uops, inputs or buffers that the kernel reads. birth: the rewrite that first built
    `start`, where no uop did: a buffer of a rule's own.
    """

    replay: Replay
    start: int
    end: int
    rewrites: tuple[Rewrite, ...]
    names: Mapping[int, str]
    birth: Rewrite | None = None

    def wholes(self) -> list[int]:
        """The whole term before each rewrite, and that after the last."""
        found = [self.start]
        for rewrite in self.rewrites:
            found.append(self.replay.replaced(found[-1], rewrite.path, rewrite.after))
        return found


class History:
    """One saturation of a graph, and all that matched in it."""

    def __init__(self, graph: Graph, view: EGraphView, trace: Trace) -> None:
        self.graph, self.view, self.trace = graph, view, trace
        roots = [self.view.tiny[each] for each in graph.outputs]
        self.names = buffer_names(self.view, input_classes(self.view), roots)

    @staticmethod
    def again(graph: Graph, options: Options, constants: Collection[str] = ()) -> History:
        """That of a graph that was compiled with these options and these inputs as constants; no clock ends it."""
        budget = msgspec.structs.replace(options.budget, seconds=None)
        saturation = begin(
            graph, select(options.rules, options.exactness), options.exactness, budget, traced=True, constants=constants
        )
        saturation.finish()
        return History(graph, saturation.view(), saturation.trace())

    @cached_property
    def classes(self) -> Mapping[str, int]:
        """Buf class by the name of its buffer."""
        return {name: each for each, name in self.names.items()}

    @cached_property
    def _homes(self) -> Mapping[ENode, int]:
        """The class of every e-node."""
        return {node: number for number, nodes in self.view.classes.items() for node in nodes}

    @cached_property
    def _terms(self) -> Mapping[str, App]:
        """What every uop was loaded as."""
        return dict(tiny_to_terms(self.graph))

    @cached_property
    def _matches(self) -> Mapping[int, Sequence[tuple[int, Match]]]:
        """The matches of each class, by what their left side is, with their places in the trace."""
        found: dict[int, list[tuple[int, Match]]] = {}
        for place, match in enumerate(self.trace.matches):
            root = _class_of(match.rule.lhs, match, self._homes)
            if root is not None:
                found.setdefault(root, []).append((place, match))
        return found

    def derivation(self, call: KernelCall, term: KernelTerm, output: int = 0) -> Derivation:
        """How the term of one output of a kernel came about.

        Raises:
            EqsatError: ResourceExceeded, where the saturation that chose the kernel was ended by the clock, and this
                one found something else.
        """
        for replayed in self._replays(call, term):
            found = self._derived(replayed, call, term, output)
            if found is not None:
                return found
        fail(
            Kind.RESOURCE_EXCEEDED,
            "explain",
            "no rewrites were found that lead to this kernel",
            at=call.name,
            hint="a saturation that was ended by the clock may find other kernels in another run",
        )

    def _derived(self, replayed: _Replayed, call: KernelCall, term: KernelTerm, output: int) -> Derivation | None:
        """The derivation that a replay holds; None where it has none."""
        replay, buffers, names = replayed
        written = self.classes[call.writes[output]]
        try:
            start = buffers[written] if written in buffers else replay.member(written)
            end = self._built(replay, term, buffers)[output]
            made = self._made(replay, call, buffers)
        except LookupError:
            return None
        if not replay.are_equal(start, end):
            return None
        rewrites = _without_detours(replay, start, list(replay.explain(start, end)))
        return Derivation(replay, start, end, rewrites, {**made, **names}, replay.birth(start))

    def _made(self, replay: Replay, call: KernelCall, buffers: Mapping[int, int]) -> dict[int, str]:
        """The names of what the kernel reads and rules made, but for constants, which no kernel writes as it runs."""
        edges = zip(call.reads, call.region.inputs, strict=True)
        homes = {name: self.classes.get(name) for name, edge in edges if not edge.constant}
        return {replay.member(home): name for name, home in homes.items() if home is not None and home not in buffers}

    def _replays(self, call: KernelCall, term: KernelTerm) -> Iterator[_Replayed]:
        """What may hold a kernel's derivation: its own uops, or else everything."""
        yield self._within(call, term)
        yield self._whole

    def _within(self, call: KernelCall, term: KernelTerm) -> _Replayed:
        """A replay of the uops of a kernel, with the matches below its outputs."""
        replayed = self._loaded(call.uops, {self.classes[name] for name in sorted(term.reads)})
        written = [self.classes[name] for name in call.writes]
        cone = self._below(written, {self.view.tiny[each] for each in call.uops})
        matches = sorted(numbered for each in cone for numbered in self._matches.get(each, ()))
        replayed.replay.run(match for _, match in matches)
        return replayed

    @cached_property
    def _whole(self) -> _Replayed:
        """A replay of everything."""
        replayed = self._loaded([node.id for node in self.graph.nodes])
        replayed.replay.run(self.trace.matches)
        return replayed

    def _loaded(self, uops: Sequence[str], read: Collection[int] = ()) -> _Replayed:
        """These uops, ready for a replay; what others compute is taken as given, as far as it is an operand of theirs
        or of the classes that are `read`."""
        replay = Replay(self._homes)
        nodes, chosen = self.graph.by_id, set(uops)
        needed = chosen.union(*(nodes[each].refs for each in uops))
        terms: dict[str, int] = {}
        buffers: dict[int, int] = {}
        names: dict[int, str] = {}
        for name, loaded in self._terms.items():
            home = self.view.tiny[name]
            if name not in needed and home not in read:
                continue
            given = loaded.ctor.name == "Input"
            if name in chosen or given:
                terms[name] = replay.load(loaded, terms)
            else:
                terms[name] = buffers[home] if home in buffers else replay.leaf(self.names[home], home)
            buffers.setdefault(home, terms[name])
            names.setdefault(terms[name], self.names[home] if given or name not in chosen else name)
        return _Replayed(replay, buffers, names)

    def _below(self, roots: Sequence[int], inside: set[int]) -> Iterator[int]:
        """The classes that terms of these classes are made of, without buffers other than those of `inside`."""
        seen = set(roots)
        waiting = list(roots)
        while waiting:
            each = waiting.pop()
            yield each
            for node in self.view.classes[each]:
                for child in node.children:
                    if child not in seen and (self.view.sorts[child] is not Sort.BUF or child in inside):
                        seen.add(child)
                        waiting.append(child)

    def _built(self, replay: Replay, term: KernelTerm, buffers: Mapping[int, int]) -> list[int]:
        """The terms of a kernel's outputs. Raises KeyError where the view does not hold them."""
        made: list[int] = []
        for ctor, *args in term.lines:
            values: list[int | str] = []
            for arg, sort in zip(args, CTORS[str(ctor)].args, strict=True):
                match sort:
                    case Sort.STR | Sort.I64:
                        values.append(arg)
                    case Sort.BUF:
                        buffer = self.classes[str(arg)]
                        values.append(buffers[buffer] if buffer in buffers else replay.member(buffer))
                    case _:
                        values.append(made[int(arg)])
            made.append(replay.add(str(ctor), values))
        return [each for each, (ctor, *_) in zip(made, term.lines, strict=True) if ctor == "Store"]


class _Replayed(NamedTuple):
    """A replay, the first term of each buffer, and the terms that have names."""

    replay: Replay
    buffers: dict[int, int]
    names: dict[int, str]


def _class_of(pattern: App, match: Match, home: Mapping[ENode, int]) -> int | None:
    """The class that a match was about; None where the view has lost it."""
    args: list[int | str] = []
    for arg in pattern.args:
        if isinstance(arg, App):
            below = _class_of(arg, match, home)
            if below is None:
                return None
            args.append(below)
        else:
            args.append(arg if isinstance(arg, str | int) else match.binding[arg.name])  # type: ignore[union-attr]
    return home.get(ENode(pattern.ctor.name, tuple(args)))


def _without_detours(replay: Replay, start: int, rewrites: Sequence[Rewrite]) -> tuple[Rewrite, ...]:
    """The rewrites without those that lead back to a term that was there before."""
    if len(rewrites) > LONGEST:
        return tuple(rewrites)
    steps: list[Rewrite] = []
    wholes = [start]
    place = {start: 0}
    for rewrite in rewrites:
        after = replay.replaced(wholes[-1], rewrite.path, rewrite.after)
        if after in place:
            keep = place[after]
            for dropped in wholes[keep + 1 :]:
                del place[dropped]
            del steps[keep:], wholes[keep + 1 :]
        else:
            steps.append(rewrite)
            place[after] = len(wholes)
            wholes.append(after)
    return tuple(steps)
