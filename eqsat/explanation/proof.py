"""Proofs that two terms of an e-graph are equal: the saturation is replayed from its trace, with a reason per union.

The nodes of a saturated e-graph refer to classes, not to the terms that a rule matched. The replay keeps every term as
it was built. It unites two terms for one of two reasons only: a match of the trace, or equal operands of the same
constructor (congruence). The reasons form a forest, and the path between two terms in the forest is a proof
(Nieuwenhuis and Oliveras, "Proof-producing congruence closure", 2005).
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
"""From the root of a term down: at each node the place of the child to go to."""


class Rewrite(NamedTuple):
    """At `path` of a term, the rule turned `before` into `after`; backwards: its equation was used from right to left.
    others: terms that match the patterns of the rule's conditions."""

    rule: Rule
    backwards: bool
    before: int
    after: int
    path: Path = ()
    others: tuple[int, ...] = ()


class _Reason(NamedTuple):
    """Why two terms are equal: the rule leads from `left` to `right`, given the terms `others`; without a rule: the
    operands are equal."""

    rule: Rule | None
    left: int
    right: int
    others: tuple[int, ...] = ()


class _Equality(NamedTuple):
    """Two equal terms at a path, whose equality has still to be explained."""

    left: int
    right: int
    path: Path


class Replay:
    """Terms, numbered, hash-consed and united. `nodes[k]` is the root of the k-th term; its operands are term numbers.

    Args:
        class_of: each e-node of the e-graph (the "view") that the trace led to, and its class. Every term of the
            replay belongs to a class of the view.
    """

    def __init__(self, class_of: Mapping[ENode, int]) -> None:
        self.nodes: list[ENode] = []
        self._class_of = class_of
        self._class: list[int] = []
        self._members: dict[int, list[int]] = {}
        self._by_view_node: dict[ENode, list[int]] = {}
        self._ids: dict[ENode, int] = {}
        self._canonical: dict[ENode, int] = {}
        self._parent: list[int] = []
        self._readers: list[list[int]] = []
        self._proof_edge: dict[int, tuple[int, _Reason]] = {}
        self._changed: deque[int] = deque()
        self._births: dict[int, Rewrite] = {}

    def leaf(self, name: str, class_: int) -> int:
        """The term of a buffer with this name, in this class of the view."""
        node = ENode(GIVEN.name, (name,))
        return self._ids[node] if node in self._ids else self._new(node, node, class_)

    def add(self, ctor: str, args: Sequence[int | str]) -> int:
        """The term of a constructor over terms. Raises KeyError for a term that the view does not hold."""
        node = ENode(ctor, tuple(args))
        if node in self._ids:
            return self._ids[node]
        view_node = self._in_view(node)
        return self._new(node, view_node, self._class_of[view_node])

    def load(self, term: Term, known: Mapping[str, int | str], texts: Mapping[Term, str] | None = None) -> int:
        """Builds a term. `known`: the values of its variables; `texts`: the results of its primitives and facts."""

        def value(part: Term) -> int | str:
            match part:
                case App():
                    return self.add(part.ctor.name, [value(arg) for arg in part.args])
                case Var():
                    return known[part.name]
                case Prim() | Fact():
                    return (texts or {})[part]
                case _:
                    return part

        return int(value(term))

    def member(self, class_: int) -> int:
        """The first term of a class of the view. Raises LookupError where none was built."""
        return self._members[class_][0]

    def birth(self, term: int) -> Rewrite | None:
        """The rewrite whose result first contained a term; None for a term that was loaded."""
        return self._births.get(term)

    def are_equal(self, a: int, b: int) -> bool:
        """Whether the terms have been united."""
        return self._find(a) == self._find(b)

    def run(self, matches: Iterable[Match]) -> None:
        """Apply every match to all terms that it fits, as soon as they exist."""
        listeners: dict[int, list[Pending]] = {}
        queue: deque[Pending] = deque()
        for match in matches:
            pending = Pending(match, self._class_of)
            if pending.view_nodes:
                queue.append(pending)
                for class_ in pending.watched:
                    listeners.setdefault(class_, []).append(pending)
        self._changed.clear()
        while queue:
            current = queue.popleft()
            current.is_queued = False
            self._apply(current)
            while self._changed:
                for pending in listeners.get(self._changed.popleft(), ()):
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
                steps = [
                    s
                    for reason, is_forwards in self._reasons_between(task.left, task.right)
                    for s in self._expand(reason, is_forwards)
                ]
                tasks.extend(step._replace(path=task.path + step.path) for step in reversed(steps))

    def substitute(self, whole: int, path: Path, after: int) -> int:
        """The term `whole` with `after` at the path."""
        above: list[tuple[ENode, int]] = []
        for place in path:
            above.append((self.nodes[whole], place))
            whole = self.nodes[whole].children[place]
        for node, place in reversed(above):
            changed = node.over([after if k == place else child for k, child in enumerate(node.children)])
            after = self.add(changed.ctor, changed.args)
        return after

    def _expand(self, reason: _Reason, is_forwards: bool) -> list[Rewrite | _Equality]:
        """A reason as a rewrite, or as equalities of the operands that are to be explained."""
        before, after = (reason.left, reason.right) if is_forwards else (reason.right, reason.left)
        if reason.rule is not None:
            return [Rewrite(reason.rule, not is_forwards, before, after, others=reason.others)]
        pairs = enumerate(zip(self.nodes[before].children, self.nodes[after].children, strict=True))
        return [_Equality(one, other, (place,)) for place, (one, other) in pairs if one != other]

    def _reasons_between(self, a: int, b: int) -> list[tuple[_Reason, bool]]:
        """The reasons on the path from a to b, and whether the path follows each from left to right."""
        up, down = self._reasons_to_root(a), self._reasons_to_root(b)
        while up and down and up[-1] == down[-1]:
            up.pop()
            down.pop()
        return [
            *((reason, reason.left == start) for start, reason in up),
            *((reason, reason.right == start) for start, reason in reversed(down)),
        ]

    def _reasons_to_root(self, term: int) -> list[tuple[int, _Reason]]:
        """The reasons from a term to the root of its tree, each with the term where it starts."""
        reasons = []
        while term in self._proof_edge:
            following, reason = self._proof_edge[term]
            reasons.append((term, reason))
            term = following
        return reasons

    def _apply(self, pending: Pending) -> None:
        """Apply a match to all terms that it fits and has not been applied to."""
        roots = self._representatives(pending.view_nodes[pending.roots[0]])
        bindings = [(root, bound) for root in roots for bound in self._bindings_of_match(pending, root)]
        for root, bound in bindings:
            matched = (self._find(root), *map(self._find, bound.values()))
            if any(tuple(map(self._find, earlier)) == matched for earlier in pending.applied):
                continue
            pending.applied.append(matched)
            rule, known = pending.match.rule, {**pending.match.binding, **bound}
            left, *others = (self.load(pattern, known) for pattern in rule.patterns)
            first = len(self.nodes)
            right = self.load(rule.rhs, known, pending.match.texts)
            rewrite = Rewrite(rule, False, left, right, others=tuple(others))
            self._births |= dict.fromkeys(range(first, len(self.nodes)), rewrite)
            self._unite(left, right, _Reason(rule, left, right, rewrite.others))

    def _bindings_of_match(self, pending: Pending, root: int) -> list[dict[str, int]]:
        """The bindings with which a term is the left side of a match, and other terms satisfy its conditions."""
        lhs, *others = pending.roots
        bindings = list(self._bindings(pending, lhs, root, {}))
        for place in others:
            terms = self._representatives(pending.view_nodes[place])
            bindings = [
                longer for bound in bindings for term in terms for longer in self._bindings(pending, place, term, bound)
            ]
        return bindings

    def _bindings(self, pending: Pending, place: int, term: int, bound: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """The bindings of class variables with which a term fits the pattern's node at this place; each extends the
        variables that are bound already."""
        bindings: list[dict[str, int]] = [dict(bound)]
        for wanted, arg in zip(pending.pattern[place].args, self.nodes[term].args, strict=True):
            if isinstance(wanted, Var) and wanted.sort.is_class:
                bindings = [candidate for candidate in bindings if self._agrees(candidate, wanted.name, int(arg))]
            elif isinstance(wanted, Below):
                others = self._representatives(pending.view_nodes[wanted.place], int(arg))
                bindings = [
                    longer
                    for candidate in bindings
                    for other in others
                    for longer in self._bindings(pending, wanted.place, other, candidate)
                ]
        yield from bindings

    def _agrees(self, bound: dict[str, int], name: str, term: int) -> bool:
        """Binds a free variable to the term. False if the variable stands for another term already."""
        return self.are_equal(bound.setdefault(name, term), term)

    def _representatives(self, view_node: ENode, equal: int | None = None) -> list[int]:
        """The terms with this root over classes of the view, and equal to `equal` if given; one of congruent terms."""
        return [
            term
            for term in self._by_view_node.get(view_node, ())
            if (equal is None or self.are_equal(term, equal)) and self._canonical[self._key(term)] == term
        ]

    def _in_view(self, node: ENode) -> ENode:
        """A term's root with the operands' classes in the view."""
        return node.over([self._class[child] for child in node.children])

    def _key(self, term: int) -> ENode:
        """A term's root with the operands' union-find roots."""
        node = self.nodes[term]
        return node.over(map(self._find, node.children))

    def _new(self, node: ENode, view_node: ENode, class_: int) -> int:
        term = len(self.nodes)
        self.nodes.append(node)
        self._class.append(class_)
        self._parent.append(term)
        self._readers.append([])
        self._ids[node] = term
        self._by_view_node.setdefault(view_node, []).append(term)
        self._members.setdefault(class_, []).append(term)
        self._changed.append(class_)
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
        """Make two terms equal, and all terms that are congruent then."""
        waiting = deque([(a, b, reason)])
        while waiting:
            a, b, reason = waiting.popleft()
            small, large = self._find(a), self._find(b)
            if small == large:
                continue
            if len(self._readers[small]) > len(self._readers[large]):
                small, large, a, b = large, small, b, a
            self._make_root(a)
            self._proof_edge[a] = b, reason
            self._parent[small] = large
            self._changed.append(self._class[a])
            moved, self._readers[small] = self._readers[small], []
            for reader in moved:
                other = self._canonical.setdefault(self._key(reader), reader)
                if self._find(other) != self._find(reader):
                    waiting.append((reader, other, _Reason(None, reader, other)))
            self._readers[large].extend(moved)

    def _make_root(self, term: int) -> None:
        """Reverse the reasons from a term to the root of its tree, so that the term becomes the root."""
        reasons = []
        while term in self._proof_edge:
            following, reason = self._proof_edge.pop(term)
            reasons.append((following, term, reason))
            term = following
        for start, end, reason in reasons:
            self._proof_edge[start] = end, reason
