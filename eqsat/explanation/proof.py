"""Why two terms of an e-graph are equal: the saturation is replayed from its trace, and every union keeps its reason.

A saturated e-graph forgets how it came about: its nodes speak of classes, not of the terms that a rule met. The replay
keeps every term as it was built, and unites terms for a reason only: a match of the trace, or equal operands of one
constructor (congruence). The reasons form a forest, and the way between two terms in it is a proof (Nieuwenhuis and
Oliveras, "Proof-producing congruence closure", 2005).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from eqsat.egraph.enode import ENode
from eqsat.egraph.trace import Match
from eqsat.explanation.pending import Below, Pending
from ir.term.language import GIVEN, App, Fact, Prim, Term, Var
from ir.term.rule import Rule

Path = tuple[int, ...]
"""Places among the children of nodes, from the root of a term down."""


class Rewrite(NamedTuple):
    """At this path of a term `before` became `after` by the rule; backwards: by its equation from right to left.
    others: the terms that its conditions ask for; each was there, or is equal to one that was."""

    rule: Rule
    backwards: bool
    before: int
    after: int
    path: Path = ()
    others: tuple[int, ...] = ()


class _Reason(NamedTuple):
    """Two terms are equal by a rule that leads from `left` to `right` where there are `others`; without a rule:
    because their operands are."""

    rule: Rule | None
    left: int
    right: int
    others: tuple[int, ...] = ()


class _Equality(NamedTuple):
    """What is to be explained: two equal terms at a path."""

    left: int
    right: int
    path: Path


class Replay:
    """Terms, numbered, hash-consed and united. `nodes[k]` is the k-th; its operands of class sorts are terms.

    Args:
        class_of: the e-nodes of the e-graph that the trace led to, each with its class; every term belongs to one.
    """

    def __init__(self, class_of: Mapping[ENode, int]) -> None:
        self.nodes: list[ENode] = []
        self._class_of = class_of
        self._home: list[int] = []
        self._members: dict[int, list[int]] = {}
        self._spelled: dict[ENode, list[int]] = {}
        self._ids: dict[ENode, int] = {}
        self._canonical: dict[ENode, int] = {}
        self._parent: list[int] = []
        self._readers: list[list[int]] = []
        self._towards: dict[int, tuple[int, _Reason]] = {}
        self._stirred: deque[int] = deque()
        self._births: dict[int, Rewrite] = {}

    def leaf(self, name: str, home: int) -> int:
        """The buffer of that name, of a class of the view."""
        node = ENode(GIVEN.name, (name,))
        return self._ids[node] if node in self._ids else self._new(node, node, home)

    def add(self, ctor: str, args: Sequence[int | str]) -> int:
        """A constructor over terms. Raises KeyError for a term that the view does not hold."""
        node = ENode(ctor, tuple(args))
        if node in self._ids:
            return self._ids[node]
        spelled = self._in_view(node)
        return self._new(node, spelled, self._class_of[spelled])

    def load(self, term: Term, known: Mapping[str, int | str], texts: Mapping[Term, str] | None = None) -> int:
        """A term whose variables are these terms and texts, and whose primitives answered with `texts`."""

        def value(each: Term) -> int | str:
            match each:
                case App():
                    return self.add(each.ctor.name, [value(arg) for arg in each.args])
                case Var():
                    return known[each.name]
                case Prim() | Fact():
                    return (texts or {})[each]
                case _:
                    return each

        return int(value(term))

    def member(self, home: int) -> int:
        """The first term of a class of the view. Raises LookupError where none was built."""
        return self._members[home][0]

    def birth(self, term: int) -> Rewrite | None:
        """The rewrite whose result first held a term; None for what was loaded."""
        return self._births.get(term)

    def are_equal(self, a: int, b: int) -> bool:
        """Whether they have been united."""
        return self._find(a) == self._find(b)

    def run(self, matches: Iterable[Match]) -> None:
        """Apply every match to all terms that it was about, as soon as they are there."""
        listeners: dict[int, list[Pending]] = {}
        queue: deque[Pending] = deque()
        for match in matches:
            pending = Pending(match, self._class_of)
            if pending.spelled:
                queue.append(pending)
                for home in pending.about:
                    listeners.setdefault(home, []).append(pending)
        self._stirred.clear()
        while queue:
            current = queue.popleft()
            current.is_queued = False
            self._apply(current)
            while self._stirred:
                for pending in listeners.get(self._stirred.popleft(), ()):
                    if not pending.is_queued:
                        pending.is_queued = True
                        queue.append(pending)

    def explain(self, a: int, b: int) -> Iterator[Rewrite]:
        """The rewrites that lead from one term to an equal one, in order."""
        tasks: list[Rewrite | _Equality] = [_Equality(a, b, ())]
        while tasks:
            task = tasks.pop()
            if isinstance(task, Rewrite):
                yield task
            else:
                told = [each for reason, on in self._between(task.left, task.right) for each in self._told(reason, on)]
                tasks.extend(each._replace(path=task.path + each.path) for each in reversed(told))

    def replaced(self, whole: int, path: Path, after: int) -> int:
        """The term with `after` at a path."""
        above: list[tuple[ENode, int]] = []
        for place in path:
            above.append((self.nodes[whole], place))
            whole = self.nodes[whole].children[place]
        for node, place in reversed(above):
            changed = node.over([after if k == place else child for k, child in enumerate(node.children)])
            after = self.add(changed.ctor, changed.args)
        return after

    def _told(self, reason: _Reason, forwards: bool) -> list[Rewrite | _Equality]:
        """A reason as a rewrite, or as what is to be explained of the operands."""
        before, after = (reason.left, reason.right) if forwards else (reason.right, reason.left)
        if reason.rule is not None:
            return [Rewrite(reason.rule, not forwards, before, after, others=reason.others)]
        pairs = enumerate(zip(self.nodes[before].children, self.nodes[after].children, strict=True))
        return [_Equality(one, other, (place,)) for place, (one, other) in pairs if one != other]

    def _between(self, a: int, b: int) -> list[tuple[_Reason, bool]]:
        """The reasons from a to b, each with whether it is passed from left to right."""
        up, down = self._rootwards(a), self._rootwards(b)
        while up and down and up[-1] == down[-1]:
            up.pop()
            down.pop()
        return [
            *((reason, reason.left == start) for start, reason in up),
            *((reason, reason.right == start) for start, reason in reversed(down)),
        ]

    def _rootwards(self, each: int) -> list[tuple[int, _Reason]]:
        """The reasons from a term to the root of its tree, each with the term at which it starts."""
        found = []
        while each in self._towards:
            following, reason = self._towards[each]
            found.append((each, reason))
            each = following
        return found

    def _apply(self, pending: Pending) -> None:
        """Apply a match to the terms for which that has not been done."""
        roots = self._distinct(pending.spelled[pending.roots[0]])
        found = [(root, bound) for root in roots for bound in self._met(pending, root)]
        for root, bound in found:
            met = (self._find(root), *map(self._find, bound.values()))
            if any(tuple(map(self._find, each)) == met for each in pending.applied):
                continue
            pending.applied.append(met)
            rule, known = pending.match.rule, {**pending.match.binding, **bound}
            left, *others = (self.load(pattern, known) for pattern in rule.patterns)
            first = len(self.nodes)
            right = self.load(rule.rhs, known, pending.match.texts)
            rewrite = Rewrite(rule, False, left, right, others=tuple(others))
            self._births |= dict.fromkeys(range(first, len(self.nodes)), rewrite)
            self._unite(left, right, _Reason(rule, left, right, rewrite.others))

    def _met(self, pending: Pending, root: int) -> list[dict[str, int]]:
        """The ways in which a term is the left side of a match, and others are what its conditions ask for."""
        lhs, *others = pending.roots
        several = list(self._bindings(pending, lhs, root, {}))
        for place in others:
            terms = self._distinct(pending.spelled[place])
            several = [
                more for each in several for term in terms for more in self._bindings(pending, place, term, each)
            ]
        return several

    def _bindings(self, pending: Pending, place: int, term: int, bound: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """The ways in which a term is what the pattern's node at this place was about: its variables of class sorts,
        beside those that are bound already."""
        several: list[dict[str, int]] = [dict(bound)]
        for wanted, arg in zip(pending.pattern[place].args, self.nodes[term].args, strict=True):
            if isinstance(wanted, Var) and wanted.sort.is_class:
                several = [each for each in several if self._agrees(each, wanted.name, int(arg))]
            elif isinstance(wanted, Below):
                others = self._distinct(pending.spelled[wanted.place], int(arg))
                several = [
                    longer
                    for each in several
                    for other in others
                    for longer in self._bindings(pending, wanted.place, other, each)
                ]
        yield from several

    def _agrees(self, bound: dict[str, int], name: str, term: int) -> bool:
        """Whether a variable is free, and bound from now on, or stands for this term already."""
        return self.are_equal(bound.setdefault(name, term), term)

    def _distinct(self, spelled: ENode, equal: int | None = None) -> list[int]:
        """The terms of one root over classes of the view (those equal to one); of congruent ones the first."""
        return [
            each
            for each in self._spelled.get(spelled, ())
            if (equal is None or self.are_equal(each, equal)) and self._canonical[self._key(each)] == each
        ]

    def _in_view(self, node: ENode) -> ENode:
        """A term's root over classes of the view."""
        return node.over([self._home[child] for child in node.children])

    def _key(self, term: int) -> ENode:
        """A term's root over what its operands are united with."""
        node = self.nodes[term]
        return node.over(map(self._find, node.children))

    def _new(self, node: ENode, spelled: ENode, home: int) -> int:
        term = len(self.nodes)
        self.nodes.append(node)
        self._home.append(home)
        self._parent.append(term)
        self._readers.append([])
        self._ids[node] = term
        self._spelled.setdefault(spelled, []).append(term)
        self._members.setdefault(home, []).append(term)
        self._stirred.append(home)
        for child in node.children:
            self._readers[self._find(child)].append(term)
        other = self._canonical.setdefault(self._key(term), term)
        if other != term:
            self._unite(term, other, _Reason(None, term, other))
        return term

    def _find(self, term: int) -> int:
        parent = self._parent
        while parent[term] != term:
            parent[term] = parent[parent[term]]
            term = parent[term]
        return term

    def _unite(self, a: int, b: int, reason: _Reason) -> None:
        """Make two terms equal, and all that this makes equal."""
        waiting = deque([(a, b, reason)])
        while waiting:
            a, b, reason = waiting.popleft()
            small, large = self._find(a), self._find(b)
            if small == large:
                continue
            if len(self._readers[small]) > len(self._readers[large]):
                small, large, a, b = large, small, b, a
            self._reroot(a)
            self._towards[a] = b, reason
            self._parent[small] = large
            self._stirred.append(self._home[a])
            moved, self._readers[small] = self._readers[small], []
            for reader in moved:
                other = self._canonical.setdefault(self._key(reader), reader)
                if self._find(other) != self._find(reader):
                    waiting.append((reader, other, _Reason(None, reader, other)))
            self._readers[large].extend(moved)

    def _reroot(self, term: int) -> None:
        """Turn the reasons from a term to the root of its tree, so that it is the root."""
        reasons = []
        each = term
        while each in self._towards:
            following, reason = self._towards.pop(each)
            reasons.append((following, each, reason))
            each = following
        for start, end, reason in reasons:
            self._towards[start] = end, reason
