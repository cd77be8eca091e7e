"""Matches of a trace as patterns over the terms of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from eqsat.egraph.enode import ENode
from eqsat.egraph.trace import Match
from ir.term.language import App, Var


class Below(NamedTuple):
    """A pattern's node among the operands of another."""

    place: int


class _PatternNode(NamedTuple):
    """A constructor in a pattern: over variables, texts and nodes that stand before it."""

    ctor: str
    args: tuple[Var | Below | str | int, ...]


class Pending:
    """A match on its way: the nodes of its patterns, operands first, and the same over classes of the view (none where
    the view has lost one); where the patterns' roots are; the classes in which something must happen before it applies
    again; the terms to which it was applied."""

    def __init__(self, match: Match, class_of: Mapping[ENode, int]) -> None:
        self.match = match
        self.pattern, self.roots = _joined(match.rule.patterns)
        self.spelled: list[ENode] = []
        self.applied: list[tuple[int, ...]] = []
        self.is_queued = True
        about: dict[int, None] = {}
        for node in self.pattern:
            spelled = ENode(node.ctor, tuple([self._value(arg, class_of) for arg in node.args]))
            if spelled not in class_of:
                self.spelled = []
                break
            self.spelled.append(spelled)
            about[class_of[spelled]] = None
        for var in _repeated(match.rule.patterns):
            about[int(match.binding[var])] = None
        self.about = tuple(about)

    def _value(self, arg: Var | Below | str | int, class_of: Mapping[ENode, int]) -> int | str:
        match arg:
            case Var():
                return self.match.binding[arg.name]
            case Below():
                return class_of[self.spelled[arg.place]]
            case _:
                return arg


@cache
def _flat(pattern: App) -> tuple[_PatternNode, ...]:
    """The nodes of a pattern, operands first."""
    nodes: list[_PatternNode] = []
    for arg in pattern.args:
        if isinstance(arg, App):
            below = _flat(arg)
            offset = len(nodes)
            nodes += [_shifted(node, offset) for node in below]
    args: list[Var | Below | str | int] = []
    end = -1
    for arg in pattern.args:
        if isinstance(arg, App):
            end += len(_flat(arg))
            args.append(Below(end))
        else:
            assert isinstance(arg, Var | str | int)
            args.append(arg)
    return (*nodes, _PatternNode(pattern.ctor.name, tuple(args)))


def _shifted(node: _PatternNode, offset: int) -> _PatternNode:
    args = tuple([Below(arg.place + offset) if isinstance(arg, Below) else arg for arg in node.args])
    return node._replace(args=args)


@cache
def _joined(patterns: Sequence[App]) -> tuple[tuple[_PatternNode, ...], tuple[int, ...]]:
    """The nodes of several patterns, and where their roots are."""
    nodes: list[_PatternNode] = []
    roots = []
    for pattern in patterns:
        offset = len(nodes)
        nodes += [_shifted(node, offset) for node in _flat(pattern)]
        roots.append(len(nodes) - 1)
    return tuple(nodes), tuple(roots)


@cache
def _repeated(patterns: Sequence[App]) -> tuple[str, ...]:
    """The variables of class sorts that stand in patterns more than once."""
    standing = [arg for node in _joined(patterns)[0] for arg in node.args if isinstance(arg, Var) and arg.sort.is_class]
    names = [each.name for each in standing]
    return tuple(sorted({name for name in names if names.count(name) > 1}))
