"""Matches of a trace as patterns over the terms of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from eqsat.egraph.enode import ENode
from eqsat.egraph.trace import Match
from ir.term.language import App, Var


class Below(NamedTuple):
    """Refers to another node of the pattern, by its place, as an operand."""

    place: int


class _PatternNode(NamedTuple):
    """A node of a pattern. Its arguments are variables, texts, numbers, and earlier nodes."""

    ctor: str
    args: tuple[Var | Below | str | int, ...]


class Pending:
    """A match that a replay still has to apply, perhaps to several terms.

    pattern: the nodes of the rule's patterns, operands first. roots: places of the patterns' roots. view_nodes: the
    pattern's nodes as e-nodes of the view; empty if the view lacks one. watched: the match may apply again after a
    change in one of these classes of the view. applied: the terms that it was applied to."""

    def __init__(self, match: Match, class_of: Mapping[ENode, int]) -> None:
        self.match = match
        self.pattern, self.roots = _join_patterns(match.rule.patterns)
        self.view_nodes: list[ENode] = []
        self.applied: list[tuple[int, ...]] = []
        self.is_queued = True
        watched: dict[int, None] = {}
        for node in self.pattern:
            view_node = ENode(node.ctor, tuple([self._value(arg, class_of) for arg in node.args]))
            if view_node not in class_of:
                self.view_nodes = []
                break
            self.view_nodes.append(view_node)
            watched[class_of[view_node]] = None
        for var in _repeated_variables(match.rule.patterns):
            watched[int(match.binding[var])] = None
        self.watched = tuple(watched)

    def _value(self, arg: Var | Below | str | int, class_of: Mapping[ENode, int]) -> int | str:
        match arg:
            case Var():
                return self.match.binding[arg.name]
            case Below():
                return class_of[self.view_nodes[arg.place]]
            case _:
                return arg


@cache
def _flatten(pattern: App) -> tuple[_PatternNode, ...]:
    """The nodes of a pattern, operands first."""
    nodes: list[_PatternNode] = []
    for arg in pattern.args:
        if isinstance(arg, App):
            below = _flatten(arg)
            offset = len(nodes)
            nodes += [_shift(node, offset) for node in below]
    args: list[Var | Below | str | int] = []
    end = -1
    for arg in pattern.args:
        if isinstance(arg, App):
            end += len(_flatten(arg))
            args.append(Below(end))
        else:
            assert isinstance(arg, Var | str | int)
            args.append(arg)
    return (*nodes, _PatternNode(pattern.ctor.name, tuple(args)))


def _shift(node: _PatternNode, offset: int) -> _PatternNode:
    args = tuple([Below(arg.place + offset) if isinstance(arg, Below) else arg for arg in node.args])
    return node._replace(args=args)


@cache
def _join_patterns(patterns: Sequence[App]) -> tuple[tuple[_PatternNode, ...], tuple[int, ...]]:
    """The nodes of several patterns in one sequence, and the places of the roots."""
    nodes: list[_PatternNode] = []
    roots = []
    for pattern in patterns:
        offset = len(nodes)
        nodes += [_shift(node, offset) for node in _flatten(pattern)]
        roots.append(len(nodes) - 1)
    return tuple(nodes), tuple(roots)


@cache
def _repeated_variables(patterns: Sequence[App]) -> tuple[str, ...]:
    """The class variables that occur in the patterns more than once."""
    args = [arg for node in _join_patterns(patterns)[0] for arg in node.args]
    names = [arg.name for arg in args if isinstance(arg, Var) and arg.sort.is_class]
    return tuple(sorted({name for name in names if names.count(name) > 1}))
