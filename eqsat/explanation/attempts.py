"""Which rules would bring a producer into the kernel that reads it, and which of their conditions fail there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.explanation.history import History
from ir.term.language import App, Fact, FieldName, Load, Prim, Pure, Store, Term, Var
from ir.term.rule import Condition, Equal, Exists, Rule, steers

Binding = Mapping[str, int | str]

_MOVED = ("Load", "PView", "EView", "PMax", "Pure")
"""What says of a value only where it is."""


class Attempt(NamedTuple):
    """A rule at a read: the conditions that fail there, in words, those about values before those that only steer the
    search; none where the rule applied."""

    rule: Rule
    failed: tuple[str, ...]


class Attempts:
    """The rules of a program against one of its e-graphs."""

    def __init__(self, history: History, rules: Sequence[Rule]) -> None:
        self._view: EGraphView = history.view
        self._facts = history.trace.facts
        self._fusing = [(rule, path) for rule in rules if (path := _way_to_read(rule.lhs)) is not None]
        self._homes = {node: number for number, nodes in self._view.classes.items() for node in nodes}
        self._parents: dict[int, list[ENode]] = {}
        for nodes in self._view.classes.values():
            for node in nodes:
                for child in node.children:
                    self._parents.setdefault(child, []).append(node)

    def at(self, read: ENode) -> list[Attempt]:
        """What the rules whose left side is a read made of this one, those that failed least first."""
        found: dict[str, Attempt] = {}
        for rule, path in self._fusing:
            for binding in self._fits(rule.lhs, path, read):
                conditions = sorted(rule.when, key=steers)
                failed = tuple(text for each in conditions if (text := self._failure(each, binding)))
                best = found.get(rule.name)
                if best is None or len(failed) < len(best.failed):
                    found[rule.name] = Attempt(rule, failed)
        return sorted(found.values(), key=lambda each: len(each.failed))

    def inlined(self, read: ENode, given: Collection[int]) -> list[ENode]:
        """What else stands for this read: what a rule made of it, also in an epilogue, a read of what is `given` among
        it."""
        home = self._homes[read]
        epilogue = self._homes.get(ENode("Pure", (home,)))
        made = [*self._view.classes[home], *(self._view.classes[epilogue] if epilogue is not None else ())]
        return [node for node in made if node.ctor not in _MOVED or (node.ctor == "Load" and node.buffer in given)]

    def _fits(self, lhs: App, path: Sequence[FieldName], read: ENode) -> Iterator[dict[str, int | str]]:
        """The ways in which the left side fits with its read at this one."""
        tops = [(read, self._homes[read])]
        for _ in path:
            tops = [(parent, self._homes[parent]) for _, home in tops for parent in self._parents.get(home, ())]
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
        """The bindings with which a node is what a pattern says; the pattern's read is one that is given."""
        if node.ctor != pattern.ctor.name or (pattern is fixed[1] and node != fixed[0]):
            return
        several = [binding]
        for wanted, arg in zip(pattern.args, node.args, strict=True):
            several = [more for each in several for more in self._at_argument(wanted, arg, each, fixed)]
        yield from several

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
        """What is wrong where a condition fails; "" where it holds, or where that cannot be told."""
        match condition:
            case Equal():
                left, right = (self._text(each, binding) for each in (condition.left, condition.right))
                if left is not None and left == right:
                    return ""
                silent = self._silent(condition.left if left is None else condition.right, binding)
                return f"{condition}; here `{left}` and `{right}`" if silent is None else self._refused(silent, binding)
            case Exists():
                return ""
            case Fact() if condition.analysis.valued:
                return ""
            case Fact():
                holds = self._text(condition, binding) is not None
                return "" if holds else f"{condition}: {condition.analysis.doc}"
            case Prim():
                return "" if self._text(condition, binding) else self._refused(condition, binding)
        return ""

    def _refused(self, call: Prim, binding: Binding) -> str:
        """A primitive that answers nothing, with what it was asked."""
        asked = {name: self._text(arg, binding) for name, arg in zip(call.fn.parameters, call.args, strict=True)}
        given = ", ".join(f"{name} is `{text}`" for name, text in asked.items() if text)
        return f"{call}" + (f": {call.fn.meaning}" if call.fn.meaning else "") + (f"; here {given}" if given else "")

    def _silent(self, term: Term, binding: Binding) -> Prim | None:
        """The first primitive that has all it takes and does not answer."""
        below = (self._silent(arg, binding) for arg in term.args) if isinstance(term, Prim) else ()
        found = next((each for each in below if each is not None), None)
        if found is None and isinstance(term, Prim) and self._text(term, binding) is None:
            return term
        return found

    def _text(self, term: Term, binding: Binding) -> str | None:
        """What a text, a primitive or a fact says; None for a fact that does not hold, or what has no answer."""
        match term:
            case Prim():
                texts = [self._text(arg, binding) for arg in term.args]
                return None if None in texts else term.fn.answer(*map(str, texts)) or None
            case Fact():
                home = self._class(term.term, binding)
                return None if home is None else self._facts[term.analysis.name].get(home)
            case Var():
                return str(binding[term.name]) if term.name in binding else None
            case _:
                return str(term)

    def _class(self, term: Term, binding: Binding) -> int | None:
        """The class of a term over classes."""
        match term:
            case Var():
                return int(binding[term.name]) if term.name in binding else None
            case App():
                args = [
                    self._class(arg, binding) if isinstance(arg, App) else self._argument(arg, binding)
                    for arg in term.args
                ]
                return None if None in args else self._homes.get(ENode(term.ctor.name, tuple(args)))  # type: ignore[arg-type]
        return None

    def _argument(self, term: Term, binding: Binding) -> int | str | None:
        match term:
            case Var():
                return binding.get(term.name)
            case str() | int():
                return term
            case _:
                return self._text(term, binding)


def _way_to_read(lhs: App) -> tuple[FieldName, ...] | None:
    """Where a left side is a read of what a kernel stores, and nothing more; None where it is something else."""
    match lhs:
        case App(ctor=ctor, args=(App() as value,)) if ctor is Pure and _way_to_read(value) == ():
            return ("x",)
        case App(ctor=ctor, args=(App(ctor=below), _)) if ctor is Load and below is Store:
            return ()
    return None
