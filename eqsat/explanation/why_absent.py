"""Why no kernel computes a uop, and why a rule built nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

import msgspec

from eqsat.egraph.enode import ENode
from eqsat.egraph.trace import Match
from eqsat.explanation.chain import chains_at
from eqsat.explanation.explain import count_rules
from eqsat.explanation.history import History
from eqsat.explanation.setting import Setting
from eqsat.explanation.why_not import Launched
from eqsat.runtime.compiled import Compiled
from ir.diagnostics import EqsatError, Kind, fail
from ir.grammar import with_count
from ir.term.language import App, Term
from ir.term.rule import Rule
from ir.tiny.graph import Graph, Ref

Case = Literal["computed", "input", "equal", "constant", "unread", "placed", "readers", "rules", "loop", "part"]
MOST_STEPS = 6
"""Steps of chains that an answer names."""


class WhyAbsent(msgspec.Struct, frozen=True):
    """The answer for a uop.

    kind     computed  it is not absent: a kernel computes it
             input     it is an input
             equal     rules made it equal to another uop or input, which is computed or read instead
             constant  it is computed once, when the program is built
             unread    no output depends on it
             placed    it is a concatenation whose parts kernels write into their places
             readers   every uop that reads it is absent itself
             rules     a rule replaced what read it
             loop      it is a loop, whose graph's uops are computed
             part      it belongs to no part of the program that has kernels
    verdict  in one sentence; `rules` are those that did it, in their order, and `reasons` give the details
    """

    uop: str
    kind: Case
    verdict: str
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.uop}: {self.verdict}", *(f"  {reason}" for reason in self.reasons)])


def why_absent(chosen: Launched, uop: Ref) -> WhyAbsent:
    """Why no kernel computes a uop, or which kernel does. Raises EqsatError, InvalidOption, if there is no such uop."""
    certain = _computed(chosen, uop) or _without_kernels(chosen, uop)
    return (
        certain
        or _placed(chosen, uop)
        or _equal_to_other(chosen, uop)
        or _absent_readers(chosen, uop)
        or _replaced(chosen, uop)
    )


def why_absent_in_program(compiled: Compiled, uop: Ref) -> WhyAbsent:
    """The answer of `why_absent` for the part of a program that has the uop. Raises as `why_absent`."""
    parts = {part.number: part for part, _ in map(compiled.part_at, range(len(compiled.kernels)))}
    for part in parts.values():
        if uop in part.setting.bound.graph.by_id:
            return why_absent(part, uop)
    graph = compiled.bound.graph
    if uop in graph.by_id and graph[uop].uop == "LOOP":
        return WhyAbsent(uop, "loop", f"it is a loop: kernels compute the uops of its graph, {uop}/…")
    verdict = "it moves values between parts that are optimized by themselves"
    return _computed(compiled, uop) or _without_kernels(compiled, uop) or WhyAbsent(uop, "part", verdict)


def _computed(chosen: Launched | Compiled, uop: Ref) -> WhyAbsent | None:
    """The answer if a kernel computes the uop."""
    homes = [kernel for kernel in chosen.kernels if uop in kernel.uops]
    if not homes:
        return None
    names = ", ".join(f"{kernel.writes[0]} = {kernel.name}" for kernel in homes)
    return WhyAbsent(uop, "computed", f"it is not absent: {names} computes it")


def _without_kernels(chosen: Launched | Compiled, uop: Ref) -> WhyAbsent | None:
    """The answer if the graph says that no kernel may compute the uop, whatever the rules. Raises EqsatError,
    InvalidOption, if there is no such uop."""
    graph = chosen.setting.bound.graph
    if uop not in graph.by_id:
        near = [node.id for node in graph.nodes][:8]
        fail(Kind.INVALID_OPTION, "explain", f"there is no uop {uop!r}", hint=", ".join(near))
    if graph[uop].uop == "INPUT":
        return WhyAbsent(uop, "input", "it is an input, which kernels read")
    if uop not in _needed(graph):
        return WhyAbsent(uop, "unread", "no output depends on it")
    if _is_constant(graph, uop, chosen.setting):
        return WhyAbsent(uop, "constant", "it is computed once, when the program is built")
    return None


def _needed(graph: Graph) -> set[Ref]:
    """The uops that outputs depend on."""
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.id in needed:
            needed.update(node.refs)
    return needed


def _is_constant(graph: Graph, uop: Ref, setting: Setting) -> bool:
    known: set[Ref] = set()
    for node in graph.nodes:
        if node.arg["tensor_id"] in setting.bound.constants if node.uop == "INPUT" else known.issuperset(node.refs):
            known.add(node.id)
    return uop in known


def _placed(chosen: Launched, uop: Ref) -> WhyAbsent | None:
    """The answer if kernels write the parts of the uop's value into their places."""
    buffer = chosen.history.names.get(chosen.history.view.tiny[uop])
    writers = [f"{', '.join(kernel.writes)} = {kernel.name}" for kernel in chosen.kernels if buffer in kernel.fills]
    if not writers:
        return None
    verdict = "it moves nothing: kernels write the parts of its value into their places"
    return WhyAbsent(uop, "placed", verdict, (), tuple(writers))


def _equal_to_other(chosen: Launched, uop: Ref) -> WhyAbsent | None:
    """The answer if the uop's value is that of another uop, which a kernel computes or which is an input."""
    history, graph = chosen.history, chosen.setting.bound.graph
    class_ = history.view.tiny[uop]
    used = {name for kernel in chosen.kernels for name in kernel.uops}
    equals = [other_uop for other_uop, other in history.view.tiny.items() if other == class_ and other_uop != uop]
    twin = next((equal for equal in equals if equal in used or graph[equal].uop == "INPUT"), None)
    if twin is None:
        return None
    steps = history.rules_between(uop, twin)
    name = graph[twin].arg["tensor_id"] if graph[twin].uop == "INPUT" else twin
    verdict = f"it is equal to {name}: {count_rules(steps) if steps else 'both are the same uop of the same operands'}"
    return WhyAbsent(uop, "equal", verdict, tuple(dict.fromkeys(steps)))


def _absent_readers(chosen: Launched, uop: Ref) -> WhyAbsent | None:
    """The answer if all uops that read the uop are absent."""
    graph = chosen.setting.bound.graph
    used = {name for kernel in chosen.kernels for name in kernel.uops}
    readers = [node.id for node in graph.consumers[uop]]
    if uop in graph.outputs or used.intersection(readers):
        return None
    answers = [why_absent(chosen, reader) for reader in readers]
    rules = tuple(dict.fromkeys(rule for answer in answers for rule in answer.rules))
    verdict = f"only {', '.join(readers)} {'read' if len(readers) > 1 else 'reads'} it, and no kernel computes that"
    return WhyAbsent(uop, "readers", verdict, rules, tuple(map(str, answers)))


def _replaced(chosen: Launched, uop: Ref) -> WhyAbsent:
    """The answer by the chains of the kernels that compute the uop's readers: steps after which nothing names it."""
    readers = {node.id for node in chosen.setting.bound.graph.consumers[uop]}
    steps = []
    for place, kernel in enumerate(chosen.kernels):
        if readers.intersection(kernel.uops):
            try:
                steps += [step for chain in chains_at(chosen, place) for step in chain.steps]
            except EqsatError:
                continue
    replacing = [step for step in steps if _names(step.before, uop) and not _names(step.after, uop)] or steps
    rules = tuple(dict.fromkeys(step.rule for step in replacing))
    reasons = tuple(f"{step.rule}: {step.before} → {step.after}" for step in replacing[:MOST_STEPS])
    return WhyAbsent(uop, "rules", f"rules replaced it: {', '.join(rules) or 'none is known'}", rules, reasons)


def _names(text: str, uop: Ref) -> bool:
    """Whether a term's text names a uop."""
    before, match, after = text.partition(uop)
    inside = (before[-1:] + after[:1]).replace("_", "a")
    return bool(match) and not any(letter.isalnum() for letter in inside)


class WhyUnused(msgspec.Struct, frozen=True):
    """Why no e-node is a rule's work. matches: of the rule. first: by rule, how often it had built before what this
    rule would build. built: the e-nodes that the rule built first."""

    rule: str
    matches: int
    built: int
    first: Mapping[str, int]
    verdict: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.verdict}"


def why_unused(history: History, rule: Rule, is_reachable: bool) -> WhyUnused:
    """The fate of a rule's matches. is_reachable: whether the program has the ops and dtypes that the rule names."""
    built = sum(name == rule.name for name in history.view.rules.values())
    matches = [match for match in history.trace.matches if match.rule.name == rule.name]
    homes = {node: number for number, nodes in history.view.classes.items() for node in nodes}
    first: Counter[str] = Counter()
    for match in matches:
        node = _node_of(rule.rhs, match, homes)
        if node is not None and history.view.rules.get(node, rule.name) != rule.name:
            first[history.view.rules[node]] += 1
        elif node is not None and node in homes and node not in history.view.rules:
            first["the program as it was loaded"] += 1
    if not matches:
        nothing = "no term matches its left side and fulfils its conditions"
        verdict = nothing if is_reachable else "the program has none of the ops or dtypes that it names"
    elif built:
        verdict = f"{with_count(len(matches), 'match', 'matches')}; it built {with_count(built, 'e-node')} first"
    else:
        who = ", ".join(f"{name} ({count})" for name, count in first.most_common())
        reason = f"what it builds was there before, by {who}" if who else "it made terms equal, and built none"
        verdict = f"{with_count(len(matches), 'match', 'matches')}; {reason}"
    return WhyUnused(rule.name, len(matches), built, dict(first), verdict)


def _node_of(pattern: Term, match: Match, homes: Mapping[ENode, int]) -> ENode | None:
    """The e-node that a match builds for a pattern; None for a variable, and for what the e-graph lacks."""
    if not isinstance(pattern, App):
        return None
    args: list[int | str] = []
    for arg in pattern.args:
        if isinstance(arg, App):
            node = _node_of(arg, match, homes)
            if node is None or node not in homes:
                return None
            args.append(homes[node])
        elif isinstance(arg, str | int):
            args.append(arg)
        elif arg in match.texts:
            args.append(match.texts[arg])
        else:
            args.append(match.binding[arg.name])  # type: ignore[union-attr]
    return ENode(pattern.ctor.name, tuple(args))
