"""The history of a program's kernels: saturation is repeated with a trace, which gives the rewrites from the uops of a
kernel to its term.

Saturation is deterministic: the repeated run builds the e-graph that the kernels were chosen from. So compiling keeps
no trace, and programs from the cache or from a file are explained in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from eqsat.egraph.buffers import buffer_names, input_classes
from eqsat.egraph.enode import ENode
from eqsat.egraph.saturate import begin
from eqsat.egraph.tiny_to_term import tiny_to_terms
from eqsat.egraph.trace import Match, Trace
from eqsat.egraph.view import EGraphView
from eqsat.explanation.proof import Replay, Rewrite
from eqsat.options import Options
from eqsat.runtime.kernel_term import KernelTerm
from ir.diagnostics import Kind, fail
from ir.module.module import KernelCall
from ir.term.language import CTORS, App, Sort
from ir.tiny.graph import Graph
from rules import select

LONGEST = 400
"""Detours are removed from chains of at most this many rewrites: the time grows with rewrites times term size."""


@dataclass(frozen=True)
class Derivation:
    """The rewrites from the uops of a kernel (`start`) to its term (`end`); terms are those of `replay`.

    names: names of the terms that are uops, inputs, or buffers that the kernel reads. birth: if no uop writes the
    kernel's buffer, the rewrite that first built `start`.
    """

    replay: Replay
    start: int
    end: int
    rewrites: tuple[Rewrite, ...]
    names: Mapping[int, str]
    birth: Rewrite | None = None

    def wholes(self) -> list[int]:
        """The whole term before each rewrite, and after the last one."""
        terms = [self.start]
        for rewrite in self.rewrites:
            terms.append(self.replay.substitute(terms[-1], rewrite.path, rewrite.after))
        return terms


class History:
    """One saturation of a graph with its trace."""

    def __init__(self, graph: Graph, view: EGraphView, trace: Trace, prefix: str = "") -> None:
        """prefix: of the names of buffers that no uop writes."""
        self.graph, self.view, self.trace = graph, view, trace
        roots = [self.view.tiny[output] for output in graph.outputs]
        self.names = buffer_names(self.view, input_classes(self.view), roots, prefix)

    @staticmethod
    def again(graph: Graph, options: Options, constants: Collection[str] = (), prefix: str = "") -> History:
        """The history of a graph compiled with these options and constants. No time limit ends the saturation."""
        budget = msgspec.structs.replace(options.budget, seconds=None)
        saturation = begin(
            graph, select(options.rules, options.exactness), options.exactness, budget, traced=True, constants=constants
        )
        saturation.finish()
        return History(graph, saturation.view(), saturation.trace(), prefix)

    @cached_property
    def classes(self) -> Mapping[str, int]:
        """The Buf class of each buffer name."""
        return {name: class_ for class_, name in self.names.items()}

    @cached_property
    def _homes(self) -> Mapping[ENode, int]:
        """The class of every e-node."""
        return {node: number for number, nodes in self.view.classes.items() for node in nodes}

    @cached_property
    def _terms(self) -> Mapping[str, App]:
        """The term that each uop was loaded as."""
        return dict(tiny_to_terms(self.graph))

    @cached_property
    def _matches(self) -> Mapping[int, Sequence[tuple[int, Match]]]:
        """The matches, with their places in the trace, by the class of their left side."""
        matches: dict[int, list[tuple[int, Match]]] = {}
        for place, match in enumerate(self.trace.matches):
            root = _class_of(match.rule.lhs, match, self._homes)
            if root is not None:
                matches.setdefault(root, []).append((place, match))
        return matches

    def derivation(self, call: KernelCall, term: KernelTerm, output: int = 0) -> Derivation:
        """The rewrites that led to the term of one output of a kernel.

        Raises:
            EqsatError: ResourceExceeded if a time limit ended the saturation that chose the kernel, and the repeated
                saturation differs.
        """
        for loaded in self._replays(call, term):
            derivation = self._derivation_in(loaded, call, term, output)
            if derivation is not None:
                return derivation
        fail(
            Kind.RESOURCE_EXCEEDED,
            "explain",
            "no rewrites were found that lead to this kernel",
            at=call.name,
            hint="a saturation that was ended by the clock may find other kernels in another run",
        )

    def rules_between(self, uop: str, other: str) -> list[str]:
        """The names of the rules that make two uops equal, in their order; none if they are one term."""
        loaded = self._replay_of_all
        terms = {name: term for term, name in loaded.names.items()}
        wanted = [terms.get(name, loaded.buffers[self.view.tiny[name]]) for name in (uop, other)]
        return [rewrite.rule.name for rewrite in loaded.replay.explain(*wanted)]

    def _derivation_in(
        self, loaded: _LoadedReplay, call: KernelCall, term: KernelTerm, output: int
    ) -> Derivation | None:
        """The derivation in a replay; None if the replay has none."""
        replay, buffers, names = loaded
        written = self.classes[call.writes[output]]
        try:
            start = buffers[written] if written in buffers else replay.member(written)
            end = self._output_terms(replay, term, buffers)[output]
            others = self._names_of_rule_buffers(replay, call, buffers)
        except LookupError:
            return None
        if not replay.are_equal(start, end):
            return None
        rewrites = _without_detours(replay, start, list(replay.explain(start, end)))
        return Derivation(replay, start, end, rewrites, {**others, **names}, replay.birth(start))

    def _names_of_rule_buffers(self, replay: Replay, call: KernelCall, buffers: Mapping[int, int]) -> dict[int, str]:
        """Names of the buffers that the kernel reads and no uop writes, except constants, which no kernel writes."""
        edges = zip(call.reads, call.region.inputs, strict=True)
        classes = {name: self.classes[name] for name, edge in edges if name in self.classes and not edge.constant}
        return {replay.member(class_): name for name, class_ in classes.items() if class_ not in buffers}

    def _replays(self, call: KernelCall, term: KernelTerm) -> Iterator[_LoadedReplay]:
        """Replays that may hold a kernel's derivation: of its own uops, then of everything."""
        yield self._replay_of_kernel(call, term)
        yield self._replay_of_all

    def _replay_of_kernel(self, call: KernelCall, term: KernelTerm) -> _LoadedReplay:
        """A replay of the uops of a kernel, with the matches in classes below its outputs."""
        loaded = self._load_uops(call.uops, {self.classes[name] for name in sorted(term.reads)})
        written = [self.classes[name] for name in call.writes]
        cone = self.classes_below(written, {self.view.tiny[uop] for uop in call.uops})
        matches = sorted(numbered for class_ in cone for numbered in self._matches.get(class_, ()))
        loaded.replay.run(match for _, match in matches)
        return loaded

    @cached_property
    def _replay_of_all(self) -> _LoadedReplay:
        """A replay of all uops and all matches."""
        loaded = self._load_uops([node.id for node in self.graph.nodes])
        loaded.replay.run(self.trace.matches)
        return loaded

    def _load_uops(self, uops: Sequence[str], read: Collection[int] = ()) -> _LoadedReplay:
        """A replay with the terms of these uops. A result of another uop becomes a named leaf if it is an operand of
        these uops, or in a class of `read`."""
        replay = Replay(self._homes)
        nodes, chosen = self.graph.by_id, set(uops)
        needed = chosen.union(*(nodes[uop].refs for uop in uops))
        terms: dict[str, int] = {}
        buffers: dict[int, int] = {}
        names: dict[int, str] = {}
        for name, term in self._terms.items():
            class_ = self.view.tiny[name]
            if name not in needed and class_ not in read:
                continue
            is_input = term.ctor.name == "Input"
            if name in chosen or is_input:
                terms[name] = replay.load(term, terms)
            else:
                terms[name] = buffers[class_] if class_ in buffers else replay.leaf(self.names[class_], class_)
            buffers.setdefault(class_, terms[name])
            names.setdefault(terms[name], self.names[class_] if is_input or name not in chosen else name)
        return _LoadedReplay(replay, buffers, names)

    def classes_below(self, roots: Sequence[int], inside: set[int]) -> Iterator[int]:
        """The classes that terms of the roots consist of; a buffer's class only if it is in `inside`."""
        seen = set(roots)
        waiting = list(roots)
        while waiting:
            class_ = waiting.pop()
            yield class_
            for node in self.view.classes[class_]:
                for child in node.children:
                    if child not in seen and (self.view.sorts[child] is not Sort.BUF or child in inside):
                        seen.add(child)
                        waiting.append(child)

    def _output_terms(self, replay: Replay, term: KernelTerm, buffers: Mapping[int, int]) -> list[int]:
        """The terms of a kernel's outputs. Raises KeyError if the view does not hold one."""
        terms: list[int] = []
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
                        values.append(terms[int(arg)])
            terms.append(replay.add(str(ctor), values))
        return [number for number, (ctor, *_) in zip(terms, term.lines, strict=True) if ctor == "Store"]


class _LoadedReplay(NamedTuple):
    """A replay with loaded uops, the first term of each buffer's class, and the names of terms."""

    replay: Replay
    buffers: dict[int, int]
    names: dict[int, str]


def _class_of(pattern: App, match: Match, class_of: Mapping[ENode, int]) -> int | None:
    """The class of a pattern under the bindings of a match; None if the view lacks it."""
    args: list[int | str] = []
    for arg in pattern.args:
        if isinstance(arg, App):
            below = _class_of(arg, match, class_of)
            if below is None:
                return None
            args.append(below)
        else:
            args.append(arg if isinstance(arg, str | int) else match.binding[arg.name])  # type: ignore[union-attr]
    return class_of.get(ENode(pattern.ctor.name, tuple(args)))


def _without_detours(replay: Replay, start: int, rewrites: Sequence[Rewrite]) -> tuple[Rewrite, ...]:
    """The rewrites without those that lead back to an earlier term."""
    if len(rewrites) > LONGEST:
        return tuple(rewrites)
    steps: list[Rewrite] = []
    wholes = [start]
    place = {start: 0}
    for rewrite in rewrites:
        after = replay.substitute(wholes[-1], rewrite.path, rewrite.after)
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
