"""Proofs of index rules: both sides are followed to the elements that they read at one point, and must give one tree.

A value at the point i is a tree. For a map, the tree has the value at the point that the map reads, under the guard of
the map, and else the fill. The leaves are operations on reads of variables and buffers. Maps stand for any maps.
`_stages`, `_axiom` and `_Facts` hold the assumptions of the proofs about primitives; tests verify these assumptions
with isl and on all small sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from ir.term.language import App, Fact, Prim, Primitive, Term, Var, subterms
from ir.term.rule import Equal, Rule
from rules.choices import compose_beside, outer_domain, total
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
"""The maps from the point i to this one, first to last. They may start from ("lift", point, sizes), a point with
reduced axes, or from ("at", point, index), a point and the value of the index of a gather there."""
CHOICE = "choice"
"""The sizes over which the map of a view is lifted that moves the point of a gather, and not its index."""


class Unproved(Exception):  # noqa: N818 - a signal, not an error
    """The proof meets a term of which it assumes nothing."""


@dataclass(frozen=True)
class _MapStage:
    """One map: its name, its value outside its guards, and the sizes over which it is lifted."""

    name: str
    fill: Tree
    lifted: Term | None = None


class _Facts:
    """The facts about the maps of a rule. Its conditions name the identities, the maps without a guard, the maps that
    other maps undo, and the known fills; its right side names the maps that read nothing.

    A map of an index has no guard, or the left side would be ill-typed.
    """

    def __init__(self, rule: Rule) -> None:
        terms = [term for term in subterms(rule.lhs) if isinstance(term, App)]
        loads = [(term.field("map"), term.field("buffer")) for term in terms if term.ctor.name == "Load"]
        reads = {(read, buffer.field("type")) for read, buffer in loads if isinstance(buffer, App)}

        def arguments_of(primitive: Primitive, *parameters: str) -> list[tuple[Term, ...]]:
            """The arguments for these parameters in each condition that calls the primitive."""
            calls = [condition for condition in rule.when if isinstance(condition, Prim) and condition.fn == primitive]
            return [tuple(map(call.argument, parameters)) for call in calls]

        self.identities = {
            str(view) for view, type_ in arguments_of(reads_all, "view", "type") if (view, type_) in reads
        }
        self.total = {str(view) for (view,) in arguments_of(unguarded, "view")}
        self.total |= {str(term.field("map")) for term in terms if term.ctor.name == "Index"}
        self.undone = {(str(view), str(back)) for view, back in arguments_of(undone, "view", "back")}
        self.total |= {back for _, back in self.undone}
        self.empty = _empty_views(rule)
        self.domains: dict[Point, set[str]] = {}
        self.types: set[tuple[Term, Term]] = set()
        self.closed = False
        self.fills: dict[str, Tree] = {
            str(view): ("imm", *filled) for view, *filled in arguments_of(filled_with, "view", "element", "number")
        }
        equal = [condition for condition in rule.when if isinstance(condition, Equal)]
        dtypes = [(condition.left.term, condition.right) for condition in equal if isinstance(condition.left, Fact)]
        self.kept = {operand for operand, element in dtypes if _keeps(rule.lhs, operand, element)}

    def check_domain(self, point: Point, sizes: Term) -> None:
        """Check the sizes of the domain at a point: the right side must have sizes that the left side has there."""
        known = self.domains.setdefault(point, set())
        if self.closed and str(sizes) not in known:
            raise Unproved
        known.add(str(sizes))

    def check_type(self, value: Term, type_: Term) -> None:
        """Check the type of a stored or finished value: the right side must have a type that the left side has."""
        if self.closed and (value, type_) not in self.types:
            raise Unproved
        self.types.add((value, type_))

    def fill(self, name: str) -> Tree:
        return self.fills.get(name, ("fill", name))


def _empty_views(rule: Rule) -> dict[Prim, str]:
    """The calls that give the fill of a view of the left side that reads nothing, each with the name of the view."""
    apps = [term for term in subterms(rule.lhs) if isinstance(term, App)]
    reads = [(app.field("map"), app.field("buffer")) for app in apps if app.ctor.name == "Load"]
    reads += [(app.field("map"), app.field("x")) for app in apps if app.ctor.name in ("PView", "EView")]
    calls = [term for term in subterms(rule.rhs) if isinstance(term, Prim) and term.fn == fill_everywhere]
    return {
        call: _name(view)
        for call in calls
        for view, element in [(call.argument("view"), call.argument("element"))]
        if isinstance(element, Fact) and (view, element.term) in reads
    }


def _keeps(lhs: App, operand: Term, element: Term) -> bool:
    """Whether the left side casts `operand` to `element`, which is its own dtype by a condition."""
    apps = [term.fields for term in subterms(lhs) if isinstance(term, App)]
    return {"op": "cast", "dtype": element, "x": operand} in apps


@lru_cache(maxsize=4096)
def is_proved(rule: Rule) -> bool:
    """Whether both sides of a rule are one tree, for all maps, operations and operands."""
    try:
        facts = _Facts(rule)
        left = _value_at(rule.lhs, (), facts)
        facts.closed = True
        return left == _value_at(rule.rhs, (), facts)
    except Unproved:
        return False


def _value_at(term: Term, point: Point, facts: _Facts) -> Tree:
    """The value of a term at a point."""
    if isinstance(term, Var):
        return "value", term.name, point
    if not isinstance(term, App):
        raise Unproved
    match term.ctor.name, term.fields:
        case ("Pure", {"x": value}) | ("Fin", {"acc": value}):
            return _value_at(value, point, facts)
        case "Store", {"value": value, "type": type_}:
            facts.check_type(value, type_)
            return _value_at(value, point, facts)
        case "Input", {"name": name, "type": type_}:
            return "input", name, type_, point
        case "Imm", {"dtype": element, "value": number, "sizes": sizes}:
            facts.check_domain(point, sizes)
            if isinstance(number, Prim) and number in facts.empty and element == number.argument("element"):
                return facts.fill(facts.empty[number])
            return "imm", element, number
        case ("Load", {"buffer": source, "map": read}) | (("PView" | "EView"), {"x": source, "map": read}):
            return _through(_stages(read, source, facts), point, facts, lambda at: _value_at(source, at, facts))
        case "At", {"value": value, "type": type_, "map": read}:
            facts.check_type(value, type_)
            return _through(_stages(read, value, facts), point, facts, lambda at: _value_at(value, at, facts))
        case "Index", {"dtype": element, "map": read}:
            return "index", element, _total(read, point, facts)
        case ("Gather", {"buffer": source, "map": read, "index": index}) | (
            "PGather",
            {"x": source, "map": read, "index": index},
        ):
            if not facts.closed:
                facts.check_domain(point, outer_domain(read))
            chosen: Point = ("at", point, _value_at(index, point, facts))
            return _through(_stages(read, source, facts), chosen, facts, lambda at: _value_at(source, at, facts))
        case (("PUn" | "PBin" | "PTern" | "EUn" | "EBin" | "ETern"), {"op": op, "dtype": element}):
            values = [_value_at(operand, point, facts) for operand in term.operands]
            if op == "cast" and term.field("x") in facts.kept:
                return values[0]
            return _join(values, lambda *leaves: _axiom("op", (op, element), leaves, facts), lambda guard: True)
        case "Reduce", {"op": op, "dtype": element, "sizes": sizes}:
            return _accumulate((op, element, sizes), term.operands, point, facts)
        case "Contract", {"dtype": element, "sizes": sizes}:
            return _accumulate(("contract", element, sizes), term.operands, point, facts)
        case "Stream", {"op": op, "dtype": element, "sizes": sizes}:
            return _accumulate(("stream", op, element, sizes), term.operands, point, facts)
    raise Unproved


def _accumulate(head: tuple[Term, ...], operands: Sequence[Term], point: Point, facts: _Facts) -> Tree:
    """A reduction; guards that do not depend on the reduced axes come out of it."""
    inner = ("lift", point, head[-1])
    values = [_value_at(operand, inner, facts) for operand in operands]
    return _join(values, lambda *leaves: _axiom("reduce", head, leaves, facts), lambda guard: "lift" not in guard[1])


def _through(stages: Sequence[_MapStage], point: Point, facts: _Facts, value: Callable[[Point], Tree]) -> Tree:
    """The value at the point to which the maps lead, under their guards."""
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
    elif stage.lifted == CHOICE:
        if point[:1] != ("at",) or len(point) != 3:
            raise Unproved
        outer = point[1]
        after = ("at", (*outer, stage.name), _inside(point[2], (stage.name, outer)))
    else:
        if point[:1] != ("lift",) or point[2] != stage.lifted:
            raise Unproved
        outer = point[1]
        after = ("lift", (*outer, stage.name), stage.lifted)
    inside = _through(others, after, facts, value)
    return inside if stage.name in facts.total else _branch((stage.name, outer), inside, stage.fill)


def _total(read: Term, point: Point, facts: _Facts) -> Point:
    """The point to which a map leads; the map must have no guard."""
    stages = _stages(read, None, facts)
    if any(stage.name not in facts.total or stage.lifted is not None for stage in stages):
        raise Unproved
    return (*point, *(stage.name for stage in stages))


def _stages(read: Term, source: Term | None, facts: _Facts) -> list[_MapStage]:
    """The maps that an argument stands for, the outermost first; `source` is the term that is read through them.

    compose(m, n) is m after n. A primitive of fills changes the fills of a map alone; for reductions the map is lifted,
    too. The operand whose dtype such a primitive takes must be `source`.
    """
    match read:
        case Var():
            return [_MapStage(read.name, facts.fill(read.name))]
        case Prim(fn=fn, arguments={"read": outer, "view": inner}) if fn == compose:
            return [*_stages(inner, None, facts), *_stages(outer, source, facts)]
        case Prim(fn=fn, arguments={"read": outer, "view": inner}) if fn == compose_beside:
            return [_MapStage(_name(inner), facts.fill(_name(inner)), CHOICE), *_stages(outer, source, facts)]
        case Prim(fn=fn, arguments={"view": view}) if fn == total:
            return [_MapStage(_name(view), ("zero",))]
        case Prim(fn=fn, arguments={"view": view, "op": op, "result": element, **others}) if fn in _FILLS_OF_OPS:
            place = int(str(others.pop("side", 0)))
            operands = tuple(others.values())
            if place >= len(operands):
                raise Unproved
            _demand_dtype(operands[place], source)
            return [_MapStage(_name(view), ("before", _name(view), op, element, operands, place))]
        case Prim(fn=fn) if fn == fill_beside:
            view, op, element, known, number, side = map(
                read.argument, ("view", "op", "result", "element", "number", "side")
            )
            return [_MapStage(_name(view), ("beside", _name(view), op, element, ("imm", known, number), side))]
        case Prim(fn=fn) if fn == fill_of_reduction:
            view, op, element, sizes, operand = map(read.argument, ("view", "op", "result", "sizes", "x"))
            _demand_dtype(operand, source)
            return [_MapStage(_name(view), ("kept", _name(view), (op, element, sizes)), sizes)]
        case Prim(fn=fn, arguments={"view": view, "sizes": sizes}) if fn == fill_of_contraction:
            return [_MapStage(_name(view), ("kept", _name(view), ("contract", sizes)), sizes)]
    raise Unproved


_FILLS_OF_OPS = (fill_of_unary, fill_of_binary, fill_of_ternary)


def _name(view: Term) -> str:
    if not isinstance(view, Var):
        raise Unproved
    return view.name


def _demand_dtype(element: Term, source: Term | None) -> None:
    """Require that `element` is the dtype of `source`."""
    if not isinstance(element, Fact) or element.term != source:
        raise Unproved


def _axiom(kind: str, head: tuple[Term, ...], leaves: tuple[Tree, ...], facts: _Facts) -> Tree:
    """An operation on values. On fills that a primitive chose for the operation, it gives the fill of the view."""
    match kind, leaves:
        case "op", (("before", name, op, element, operands, 0), *_):
            same = [(*leaves[0][:-1], place) for place in range(len(leaves))]
            if (op, element) == head and len(operands) == len(leaves) and list(leaves) == same:
                return facts.fill(name)
        case "op", (("beside", name, op, element, number, "1"), other) if (op, element) == head and number == other:
            return facts.fill(name)
        case "op", (other, ("beside", name, op, element, number, "0")) if (op, element) == head and number == other:
            return facts.fill(name)
        case "reduce", (("kept", name, reduction),) if reduction == head:
            return facts.fill(name)
        case "reduce", (("kept", name, ("contract", sizes)) as one, other) if one == other and sizes == head[-1]:
            return facts.fill(name)
    return kind, head, leaves


def _join(trees: Sequence[Tree], leaf: Callable[..., Tree], comes_out: Callable[[tuple[str, Point]], bool]) -> Tree:
    """`leaf` of several trees, under the guards of all that come out of it."""
    guard = next((tree[1] for tree in trees if tree[0] == "if" and comes_out(tree[1])), None)
    if guard is None:
        return leaf(*trees)
    inside, outside = ([tree[place] if tree[:2] == ("if", guard) else tree for tree in trees] for place in (2, 3))
    return _branch(guard, _join(inside, leaf, comes_out), _join(outside, leaf, comes_out))


def _inside(tree: Tree, guard: tuple[str, Point]) -> Tree:
    """The value where the guard holds."""
    return tree[2] if tree[:2] == ("if", guard) else tree


def _branch(guard: tuple[str, Point], inside: Tree, outside: Tree) -> Tree:
    return inside if inside == outside else ("if", guard, inside, outside)
