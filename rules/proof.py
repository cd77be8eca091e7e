"""Proofs of index rules: both sides are followed to what they read at one point, and must come out as one tree.

A value at the point i is a tree: under the guard of a map the value at the point that it reads, else its fill; at the
leaves, operations on reads of variables and buffers. Maps stand for any maps. What the proofs assume of the primitives
is said in `_stages`, `_axiom` and `_Facts`; tests verify those contracts, with isl and on all small sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from ir.term.language import App, Fact, Prim, Primitive, Term, Var, subterms
from ir.term.rule import Equal, Rule
from rules.primitives import (
    compose,
    fill_beside,
    fill_everywhere,
    fill_of_binary,
    fill_of_contraction,
    fill_of_reduction,
    fill_of_ternary,
    fill_of_unary,
    filled_with,
    reads_all,
    undone,
    unguarded,
)

Tree: TypeAlias = "tuple[Any, ...]"
"""("if", guard, inside, outside), or an expression, whose first element names it."""
Point: TypeAlias = "tuple[Any, ...]"
"""The maps from the point i to this one, first to last; ("lift", point, sizes) for a point with reduced axes."""


class Unproved(Exception):  # noqa: N818 - a signal, not an error
    """Something is met of which nothing is assumed."""


@dataclass(frozen=True)
class _MapStage:
    """One map: its name, what it gives outside its guards, and the sizes over which it is lifted."""

    name: str
    fill: Tree
    lifted: Term | None = None


class _Facts:
    """What a rule's conditions say of its maps: the identities, those without a guard, those that others undo, and the
    fills that are known; and what its right side says: the maps that read nothing.

    A map that gives an index or says where to gather has no guard, or the left side would be ill-typed.
    """

    def __init__(self, rule: Rule) -> None:
        terms = [each for each in subterms(rule.lhs) if isinstance(each, App)]
        loads = [(each.field("map"), each.field("buffer")) for each in terms if each.ctor.name == "Load"]
        reads = {(read, buffer.field("type")) for read, buffer in loads if isinstance(buffer, App)}

        def asked(primitive: Primitive, *parameters: str) -> list[tuple[Term, ...]]:
            """The arguments for these parameters in each condition that calls the primitive."""
            calls = [each for each in rule.when if isinstance(each, Prim) and each.fn == primitive]
            return [tuple(map(call.argument, parameters)) for call in calls]

        self.identities = {str(view) for view, type_ in asked(reads_all, "view", "type") if (view, type_) in reads}
        self.total = {str(view) for (view,) in asked(unguarded, "view")}
        self.total |= {str(each.field("map")) for each in terms if each.ctor.name in ("Index", "Gather")}
        self.undone = {(str(view), str(back)) for view, back in asked(undone, "view", "back")}
        self.total |= {back for _, back in self.undone}
        self.empty = _empty_views(rule)
        self.domains: dict[Point, set[str]] = {}
        self.types: set[tuple[Term, Term]] = set()
        self.closed = False
        self.fills: dict[str, Tree] = {
            str(view): ("imm", *filled) for view, *filled in asked(filled_with, "view", "element", "number")
        }
        self.kept = {each.left.term for each in rule.when if isinstance(each, Equal) and isinstance(each.left, Fact)
                     and _keeps(rule.lhs, each.left.term, each.right)}  # fmt: skip

    def check_domain(self, point: Point, sizes: Term) -> None:
        """The sizes of what is read at a point: the left side tells them, the right side must have said ones."""
        known = self.domains.setdefault(point, set())
        if self.closed and str(sizes) not in known:
            raise Unproved
        known.add(str(sizes))

    def check_type(self, value: Term, type_: Term) -> None:
        """The type of what is stored or finished, likewise."""
        if self.closed and (value, type_) not in self.types:
            raise Unproved
        self.types.add((value, type_))

    def fill(self, name: str) -> Tree:
        return self.fills.get(name, ("fill", name))


def _empty_views(rule: Rule) -> dict[Prim, str]:
    """Calls that give the one value of a view of the left side, in the dtype of what it reads, and the view's name."""
    apps = [each for each in subterms(rule.lhs) if isinstance(each, App)]
    reads = [(each.field("map"), each.field("buffer")) for each in apps if each.ctor.name == "Load"]
    reads += [(each.field("map"), each.field("x")) for each in apps if each.ctor.name in ("PView", "EView")]
    calls = [each for each in subterms(rule.rhs) if isinstance(each, Prim) and each.fn == fill_everywhere]
    return {
        call: _name(view)
        for call in calls
        for view, element in [(call.argument("view"), call.argument("element"))]
        if isinstance(element, Fact) and (view, element.term) in reads
    }


def _keeps(lhs: App, operand: Term, element: Term) -> bool:
    """Whether the left side casts `operand` to `element`, which a condition says it is in."""
    apps = [each.fields for each in subterms(lhs) if isinstance(each, App)]
    return {"op": "cast", "dtype": element, "x": operand} in apps


@lru_cache(maxsize=4096)
def proved(rule: Rule) -> bool:
    """Whether both sides of a rule are one tree, whatever its maps, operations and operands."""
    try:
        facts = _Facts(rule)
        left = _at(rule.lhs, (), facts)
        facts.closed = True
        return left == _at(rule.rhs, (), facts)
    except Unproved:
        return False


def _at(term: Term, point: Point, facts: _Facts) -> Tree:
    """The value of a term at a point."""
    if isinstance(term, Var):
        return "value", term.name, point
    if not isinstance(term, App):
        raise Unproved
    match term.ctor.name, term.args:
        case (("Pure" | "Fin"), (value,)):
            return _at(value, point, facts)
        case "Store", (value, type_):
            facts.check_type(value, type_)
            return _at(value, point, facts)
        case "Input", (name, type_):
            return "input", name, type_, point
        case "Imm", (element, number, sizes):
            facts.check_domain(point, sizes)
            if isinstance(number, Prim) and number in facts.empty and element == number.argument("element"):
                return facts.fill(facts.empty[number])
            return "imm", element, number
        case (("Load" | "PView" | "EView"), (source, read)):
            return _through(_stages(read, source, facts), point, facts, lambda at: _at(source, at, facts))
        case "At", (value, type_, read):
            facts.check_type(value, type_)
            return _through(_stages(read, value, facts), point, facts, lambda at: _at(value, at, facts))
        case "Index", (element, read):
            return "index", element, _total(read, point, facts)
        case "Gather", (source, read, axis, index):
            return "gather", source, axis, _total(read, point, facts), _at(index, point, facts)
        case (("PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern"), (op, element, *operands)):
            values = [_at(each, point, facts) for each in operands]
            if op == "cast" and operands[0] in facts.kept:
                return values[0]
            return _joined(values, lambda *leaves: _axiom("op", (op, element), leaves, facts), lambda guard: True)
        case "Reduce", (op, element, sizes, operand):
            return _accumulated((op, element, sizes), [operand], point, facts)
        case "Contract", (element, sizes, *operands):
            return _accumulated(("contract", element, sizes), operands, point, facts)
        case "Stream", (op, element, sizes, *operands):
            return _accumulated(("stream", op, element, sizes), operands, point, facts)
    raise Unproved


def _accumulated(head: tuple[Term, ...], operands: Sequence[Term], point: Point, facts: _Facts) -> Tree:
    """A reduction; guards that say nothing of the reduced axes stand before it."""
    inner = ("lift", point, head[-1])
    values = [_at(each, inner, facts) for each in operands]
    return _joined(values, lambda *leaves: _axiom("reduce", head, leaves, facts), lambda guard: "lift" not in guard[1])


def _through(stages: Sequence[_MapStage], point: Point, facts: _Facts, value: Callable[[Point], Tree]) -> Tree:
    """The value at the point that the maps lead to, under their guards."""
    if not stages:
        return value(point)
    stage, *others = stages
    if not facts.closed:
        facts.check_domain(point, f"domain({stage.name})")
    if stage.name in facts.empty.values() and stage.lifted is None:
        return stage.fill
    if stage.name in facts.identities:
        return _through(others, point, facts, value)
    if point and (stage.name, point[-1]) in facts.undone:
        return _through(others, point[:-1], facts, value)
    if stage.lifted is None:
        outer, after = point, (*point, stage.name)
    else:
        if point[:1] != ("lift",) or point[2] != stage.lifted:
            raise Unproved
        outer = point[1]
        after = ("lift", (*outer, stage.name), stage.lifted)
    inside = _through(others, after, facts, value)
    return inside if stage.name in facts.total else _branch((stage.name, outer), inside, stage.fill)


def _total(read: Term, point: Point, facts: _Facts) -> Point:
    """The point that a map leads to, which must have no guard."""
    stages = _stages(read, None, facts)
    if any(stage.name not in facts.total or stage.lifted is not None for stage in stages):
        raise Unproved
    return (*point, *(stage.name for stage in stages))


def _stages(read: Term, source: Term | None, facts: _Facts) -> list[_MapStage]:
    """The maps that an argument stands for, the outermost first; `source` is what is read through them.

    compose(m, n) is m after n. The primitives that give fills leave a map what it is but for them: those of
    reductions are lifted, and the dtype that they take for an operand's must be that of `source`.
    """
    match read:
        case Var():
            return [_MapStage(read.name, facts.fill(read.name))]
        case Prim(fn=fn, args=(outer, inner)) if fn == compose:
            return [*_stages(inner, None, facts), *_stages(outer, source, facts)]
        case Prim(fn=fn, args=(view, op, element, *rest)) if fn in _OPERANDS:
            operands, place = (rest, 0) if fn == fill_of_unary else (rest[:-1], int(str(rest[-1])))
            if place >= len(operands):
                raise Unproved
            _demand_dtype(operands[place], source)
            return [_MapStage(_name(view), ("before", _name(view), op, element, tuple(operands), place))]
        case Prim(fn=fn, args=(view, op, element, known, number, side)) if fn == fill_beside:
            return [_MapStage(_name(view), ("beside", _name(view), op, element, ("imm", known, number), side))]
        case Prim(fn=fn, args=(view, op, element, sizes, operand)) if fn == fill_of_reduction:
            _demand_dtype(operand, source)
            return [_MapStage(_name(view), ("kept", _name(view), (op, element, sizes)), sizes)]
        case Prim(fn=fn, args=(view, sizes)) if fn == fill_of_contraction:
            return [_MapStage(_name(view), ("kept", _name(view), ("contract", sizes)), sizes)]
    raise Unproved


_OPERANDS = (fill_of_unary, fill_of_binary, fill_of_ternary)


def _name(view: Term) -> str:
    if not isinstance(view, Var):
        raise Unproved
    return view.name


def _demand_dtype(told: Term, source: Term | None) -> None:
    if not isinstance(told, Fact) or told.term != source:
        raise Unproved


def _axiom(kind: str, head: tuple[Term, ...], leaves: tuple[Tree, ...], facts: _Facts) -> Tree:
    """An operation on values; on the fills that a primitive found for it, it is the fill they were found for."""
    match kind, leaves:
        case "op", (("before", name, op, element, operands, 0), *_):
            same = [(*leaves[0][:-1], place) for place in range(len(leaves))]
            if (op, element) == head and len(operands) == len(leaves) and list(leaves) == same:
                return facts.fill(name)
        case "op", (("beside", name, *told, number, "1"), other) if (*told,) == head and number == other:
            return facts.fill(name)
        case "op", (other, ("beside", name, *told, number, "0")) if (*told,) == head and number == other:
            return facts.fill(name)
        case "reduce", (("kept", name, told),) if told == head:
            return facts.fill(name)
        case "reduce", (("kept", name, ("contract", sizes)) as one, other) if one == other and sizes == head[-1]:
            return facts.fill(name)
    return kind, head, leaves


def _joined(trees: Sequence[Tree], leaf: Callable[..., Tree], hoisted: Callable[[tuple[str, Point]], bool]) -> Tree:
    """`leaf` of several trees, under the guards of all."""
    guard = next((tree[1] for tree in trees if tree[0] == "if" and hoisted(tree[1])), None)
    if guard is None:
        return leaf(*trees)
    inside, outside = ([tree[place] if tree[:2] == ("if", guard) else tree for tree in trees] for place in (2, 3))
    return _branch(guard, _joined(inside, leaf, hoisted), _joined(outside, leaf, hoisted))


def _branch(guard: tuple[str, Point], inside: Tree, outside: Tree) -> Tree:
    return inside if inside == outside else ("if", guard, inside, outside)
