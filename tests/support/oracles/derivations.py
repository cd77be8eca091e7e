"""Replays chains of rewrites on arrays: every step must keep the value as exactly as its rule's level says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from eqsat.assembly.assemble import assemble
from eqsat.explanation.history import Derivation, History
from eqsat.explanation.proof import Replay, Rewrite
from eqsat.extraction.extract import extract
from eqsat.options import Options
from eqsat.runtime.kernel_term import kernel_term
from ir.module.module import KernelCall
from ir.post_order import post_order
from ir.pricer import Pricer
from ir.term.language import GIVEN, App, Sort, Term, Var
from ir.term.rule import Exactness
from ir.tiny.graph import Graph
from ir.tiny.playback import values as uop_values
from rules.soundness import agree
from tests.support.oracles.egraph_values import enode_value
from tests.support.stages.approximate import ApproximatePricer

Arrays = Mapping[str, np.ndarray]


def derivations(
    graph: Graph, options: Options | None = None, pricer: Pricer | None = None, constants: Sequence[str] = ()
) -> Iterator[tuple[History, KernelCall, Derivation]]:
    """The derivation of every kernel of a graph's cover, those that run when the program is built among them."""
    history = History.again(graph, options or Options(), constants)
    cover = extract(history.view, graph.outputs, pricer or ApproximatePricer(), constants=constants)
    calls = {call.writes[0]: call for call in assemble(cover, history.view, graph, constants).module.calls}
    for kernel in cover.kernels:
        call = calls[cover.names[kernel.writes[0]]]
        for output in range(len(kernel.writes)):
            yield history, call, history.derivation(call, kernel_term(kernel.trees, cover.names), output)


class Values:
    """The value of every term of a replay on these inputs."""

    def __init__(self, graph: Graph, history: History, derivation: Derivation, inputs: Arrays, wide: bool) -> None:
        uops = uop_values(graph, inputs, wide=wide)
        self._buffers = {history.names[home]: uops[name] for name, home in reversed([*history.view.tiny.items()])}
        self._replay, self._inputs, self._wide = derivation.replay, inputs, wide
        self._known: dict[int, np.ndarray] = {}

    def __call__(self, term: int) -> np.ndarray:
        for part in post_order([term], self._operands):
            if part not in self._known:
                self._known[part] = self._value(part)
        return self._known[term]

    def _value(self, term: int) -> np.ndarray:
        node = self._replay.nodes[term]
        if node.ctor == GIVEN.name:
            return self._buffers[node.name]
        return enode_value(node, self._known, self._inputs, self._wide)

    def _operands(self, term: int) -> tuple[int, ...]:
        return self._replay.nodes[term].children


def complaint(graph: Graph, history: History, derivation: Derivation, inputs: Arrays) -> str:
    """The first step that changes a value, in itself or of the whole; "" where none does."""
    for wide in (True, False):
        values = Values(graph, history, derivation, inputs, wide)
        wholes = derivation.wholes()
        for place, rewrite in enumerate(derivation.rewrites):
            if not wide and rewrite.rule.exactness is not Exactness.EXACT:
                continue
            for left, right in ((rewrite.before, rewrite.after), wholes[place : place + 2]):
                tolerance = _tolerance(rewrite, graph, wide)
                if not agree(values(left), values(right), tolerance, level=rewrite.rule.exactness):
                    return f"step {place}, {rewrite.rule.name}: {values(left)} → {values(right)}"
    return ""


def unmet(derivation: Derivation) -> str:
    """The first step by a rule that asks for another term, where that is no such term or was first built by the step
    itself; "" where there is none."""
    replay = derivation.replay
    for place, rewrite in enumerate(derivation.rewrites):
        left = rewrite.after if rewrite.backwards else rewrite.before
        bound: dict[str, int | str] = {}
        patterns, terms = rewrite.rule.patterns, (left, *rewrite.others)
        if len(patterns) != len(terms) or not all(
            _is_instance(replay, pattern, term, bound) for pattern, term in zip(patterns, terms, strict=True)
        ):
            return f"step {place}, {rewrite.rule.name}: {terms} are no {' and '.join(map(str, patterns))}"
        for other in rewrite.others:
            birth = replay.birth(_earliest(replay, other))
            if birth is not None and other in birth.others:
                return f"step {place}, {rewrite.rule.name}: {other} is there because it is there"
    return ""


def _earliest(replay: Replay, term: int) -> int:
    """The first term that is equal to this one."""
    return next(number for number in range(len(replay.nodes)) if replay.are_equal(number, term))


def _is_instance(replay: Replay, pattern: Term, term: int | str, bound: dict[str, int | str]) -> bool:
    """Whether a term is what a pattern asks for, its variables `bound` to texts or to equal terms."""
    match pattern:
        case Var(name=name, sort=Sort.STR | Sort.I64):
            return bound.setdefault(name, term) == term
        case Var(name=name):
            return replay.are_equal(int(bound.setdefault(name, term)), int(term))
        case App(ctor=ctor, args=args):
            node = replay.nodes[int(term)]
            pairs = zip(args, node.args, strict=False)
            return node.ctor == ctor.name and all(_is_instance(replay, term, arg, bound) for term, arg in pairs)
        case _:
            return pattern == term


def _tolerance(rewrite: Rewrite, graph: Graph, wide: bool) -> float:
    """For NumPy's elementary functions, which depend on an array's layout, and for the numbers that rules above
    REASSOCIATE compute, which are rounded in fp64, too."""
    if not wide or rewrite.rule.exactness < Exactness.ROUNDING:
        return 1e-9 if wide else 1e-6
    narrow = any(type_.dtype.name in ("fp16", "bf16") for type_ in graph.types.values())
    return 2.0**-8 if narrow else 1e-6
