"""Rules that would fuse a producer into the kernel that reads it, and the conditions that fail there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.explanation.history import History
from ir.term.language import App, Fact, FieldName, Load, Prim, Pure, Store, Term, Var
from ir.term.rule import Condition, Equal, Exists, Rule, steers

Binding = Mapping[str, int | str]

_MOVED = ("Load", "PView", "EView", "PGather", "PMax", "Pure")
"""Constructors that only move a value, and compute nothing."""


class Attempt(NamedTuple):
    """A rule tried at a read. failed: the conditions that fail there, in words, first those about values, then those
    that only steer the search; empty if the rule applied."""

    rule: Rule
    failed: tuple[str, ...]


class Attempts:
    """The rules of a program, tried on its e-graph."""

    def __init__(self, history: History, rules: Sequence[Rule]) -> None:
        self._view: EGraphView = history.view
        self._facts = history.trace.facts
        self._fusing = [(rule, path) for rule in rules if (path := _path_to_read(rule.lhs)) is not None]
        self._class_of = {node: number for number, nodes in self._view.classes.items() for node in nodes}
        self._parents: dict[int, list[ENode]] = {}
        for nodes in self._view.classes.values():
            for node in nodes:
                for child in node.children:
                    self._parents.setdefault(child, []).append(node)

    def at(self, read: ENode) -> list[Attempt]:
        """The rules that have a read as their left side, tried at this read; the fewest failed conditions first."""
        best_of_rule: dict[str, Attempt] = {}
        for rule, path in self._fusing:
            for binding in self._bindings(rule.lhs, path, read):
                conditions = sorted(rule.when, key=steers)
                failed = tuple(text for condition in conditions if (text := self._failure(condition, binding)))
                best = best_of_rule.get(rule.name)
                if best is None or len(failed) < len(best.failed):
                    best_of_rule[rule.name] = Attempt(rule, failed)
        return sorted(best_of_rule.values(), key=lambda attempt: len(attempt.failed))

    def inlined_forms(self, read: ENode, given: Collection[int]) -> list[ENode]:
        """Other e-nodes that rules made equal to the read, also within an epilogue. A mere read counts only if its
        buffer is `given`."""
        class_ = self._class_of[read]
        epilogue = self._class_of.get(ENode("Pure", (class_,)))
        nodes = [*self._view.classes[class_], *(self._view.classes[epilogue] if epilogue is not None else ())]
        return [node for node in nodes if node.ctor not in _MOVED or (node.ctor == "Load" and node.buffer in given)]

    def _bindings(self, lhs: App, path: Sequence[FieldName], read: ENode) -> Iterator[dict[str, int | str]]:
        """The bindings with which the left side matches so that its read is this one."""
        tops = [(read, self._class_of[read])]
        for _ in path:
            tops = [(parent, self._class_of[parent]) for _, class_ in tops for parent in self._parents.get(class_, ())]
        patterns = [lhs]
        for field in path:
            below = patterns[-1].field(field)
            assert isinstance(below, App)
            patterns.append(below)
        for top, _ in dict.fromkeys(tops):
            yield from self._at_node(lhs, top, {}, (read, patterns[-1]))

    def _at_node(
        self, pattern: App, node: ENode, binding: dict[str, int | str], fixed: tuple[ENode, App]
    ) -> Iterator[dict[str, int | str]]:
        """The bindings with which a pattern matches a node; `fixed`: the read and its part of the pattern."""
        if node.ctor != pattern.ctor.name or (pattern is fixed[1] and node != fixed[0]):
            return
        bindings = [binding]
        for wanted, arg in zip(pattern.args, node.args, strict=True):
            bindings = [longer for bound in bindings for longer in self._at_argument(wanted, arg, bound, fixed)]
        yield from bindings

    def _at_argument(
        self, wanted: Term, arg: int | str, binding: dict[str, int | str], fixed: tuple[ENode, App]
    ) -> Iterator[dict[str, int | str]]:
        match wanted:
            case Var():
                if binding.get(wanted.name, arg) == arg:
                    yield {**binding, wanted.name: arg}
            case App():
                for node in self._view.classes[int(arg)]:
                    yield from self._at_node(wanted, node, binding, fixed)
            case _:
                if wanted == arg:
                    yield binding

    def _failure(self, condition: Condition, binding: Binding) -> str:
        """Why a condition fails, in words; "" if it holds, or if that cannot be decided."""
        match condition:
            case Equal():
                left, right = (self._text(side, binding) for side in (condition.left, condition.right))
                if left is not None and left == right:
                    return ""
                undefined = self._undefined_primitive(condition.left if left is None else condition.right, binding)
                return self._refusal(undefined, binding) if undefined else f"{condition}; here `{left}` and `{right}`"
            case Exists():
                return ""
            case Fact() if condition.analysis.valued:
                return ""
            case Fact():
                holds = self._text(condition, binding) is not None
                return "" if holds else f"{condition}: {condition.analysis.doc}"
            case Prim():
                return "" if self._text(condition, binding) else self._refusal(condition, binding)
        return ""

    def _refusal(self, call: Prim, binding: Binding) -> str:
        """A primitive that has no result, with its arguments."""
        asked = {name: self._text(arg, binding) for name, arg in zip(call.fn.parameters, call.args, strict=True)}
        given = ", ".join(f"{name} is `{text}`" for name, text in asked.items() if text)
        return f"{call}" + (f": {call.fn.meaning}" if call.fn.meaning else "") + (f"; here {given}" if given else "")

    def _undefined_primitive(self, term: Term, binding: Binding) -> Prim | None:
        """The innermost primitive that has all its arguments but no result; None if there is none."""
        below = (self._undefined_primitive(arg, binding) for arg in term.args) if isinstance(term, Prim) else ()
        undefined = next((primitive for primitive in below if primitive is not None), None)
        if undefined is None and isinstance(term, Prim) and self._text(term, binding) is None:
            return term
        return undefined

    def _text(self, term: Term, binding: Binding) -> str | None:
        """The value of a text, a primitive or a fact; None for a fact that does not hold, or a primitive without
        result."""
        match term:
            case Prim():
                texts = [self._text(arg, binding) for arg in term.args]
                return None if None in texts else term.fn.answer(*map(str, texts)) or None
            case Fact():
                class_ = self._class(term.term, binding)
                return None if class_ is None else self._facts[term.analysis.name].get(class_)
            case Var():
                return str(binding[term.name]) if term.name in binding else None
            case _:
                return str(term)

    def _class(self, term: Term, binding: Binding) -> int | None:
        """The class of a term; None if the e-graph does not hold the term."""
        match term:
            case Var():
                return int(binding[term.name]) if term.name in binding else None
            case App():
                args = [
                    self._class(arg, binding) if isinstance(arg, App) else self._argument(arg, binding)
                    for arg in term.args
                ]
                return None if None in args else self._class_of.get(ENode(term.ctor.name, tuple(args)))  # type: ignore[arg-type]
        return None

    def _argument(self, term: Term, binding: Binding) -> int | str | None:
        match term:
            case Var():
                return binding.get(term.name)
            case str() | int():
                return term
            case _:
                return self._text(term, binding)


def _path_to_read(lhs: App) -> tuple[FieldName, ...] | None:
    """The path in a left side to its only part, a read of what a kernel stores; None for any other left side."""
    match lhs:
        case App(ctor=ctor, fields={"x": App() as value}) if ctor is Pure and _path_to_read(value) == ():
            return ("x",)
        case App(ctor=ctor, fields={"buffer": App(ctor=below)}) if ctor is Load and below is Store:
            return ()
    return None
