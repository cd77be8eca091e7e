"""The tables of a saturated e-graph → an EGraphView, whose numbers depend on structure alone.

Classes are numbered in the order in which a walk from the loaded terms reaches them: first the classes of the terms,
then the classes that their nodes read. egglog's own ids do not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from eqsat.egraph.egglog_text import LOADED, witness
from eqsat.egraph.engine import Row
from eqsat.egraph.enode import ENode, renumber
from eqsat.egraph.view import EGraphView
from ir.post_order import post_order
from ir.term.language import CTORS, App, Term, Var

VIEWED = frozenset({LOADED, *CTORS, *map(witness, CTORS)})
"""The tables that a view is read from."""

_Value = int | str
_CTOR_ORDER = {name: position for position, name in enumerate(CTORS)}


def read_view(
    tables: Mapping[str, Sequence[Row]], terms: Sequence[tuple[str, App]], rules: Sequence[str]
) -> EGraphView:
    """The view of an e-graph whose i-th loaded term is `terms[i]`. If several rules built a node, it belongs to the
    first of `rules`."""
    raw, roots = _raw_classes(tables), _roots(tables)
    number = _number_classes(raw, [roots[index] for index in range(len(terms))])
    classes: dict[int, tuple[ENode, ...]] = {}
    for old, new in number.items():
        nodes = [renumber(*node, number) for node in raw[old]]
        classes[new] = tuple(sorted(nodes, key=_final_order) if len(nodes) > 1 else nodes)
    tiny = {name: number[roots[index]] for index, (name, _) in enumerate(terms)}
    loaded, rule_of = set(_loaded_nodes(classes, terms, tiny)), _rules_of_nodes(tables, number, rules)
    present = (node for nodes in classes.values() for node in nodes)
    return EGraphView(
        classes=classes,
        sorts={new: CTORS[nodes[0].ctor].result for new, nodes in classes.items()},
        tiny=tiny,
        rules={node: rule_of[node] for node in present if node in rule_of and node not in loaded},
    )


def class_numbers(tables: Mapping[str, Sequence[Row]]) -> Mapping[int | str, int]:
    """The number that `read_view` gives each raw class, of those that the loaded terms reach."""
    roots = _roots(tables)
    return _number_classes(_raw_classes(tables), [roots[index] for index in range(len(roots))])


def _raw_classes(tables: Mapping[str, Sequence[Row]]) -> Mapping[_Value, list[ENode]]:
    raw = defaultdict[_Value, list[ENode]](list)
    for ctor in CTORS:
        for args, value in tables[ctor]:
            raw[value].append(ENode(ctor, args))
    return raw


def _roots(tables: Mapping[str, Sequence[Row]]) -> Mapping[_Value, _Value]:
    """The raw class of every loaded term."""
    return {index: value for (index,), value in tables[LOADED]}


def _number_classes(raw: Mapping[_Value, list[ENode]], roots: Sequence[_Value]) -> dict[_Value, int]:
    """The number of every raw class that the roots reach, in ascending order of number."""
    number = {root: position for position, root in enumerate(dict.fromkeys(roots))}
    queue = list(number)
    unseen = len(raw)

    def order(node: ENode) -> tuple[object, ...]:
        children = [number.get(child, unseen) for child in node.children]
        return _CTOR_ORDER[node.ctor], list(map(str, node.texts)), children

    for current in queue:
        nodes = raw[current]
        for node in sorted(nodes, key=order) if len(nodes) > 1 else nodes:
            for child in node.children:
                if child not in number:
                    number[child] = len(number)
                    queue.append(child)
    return number


def _final_order(node: ENode) -> tuple[object, ...]:
    return _CTOR_ORDER[node.ctor], node.args


def _rules_of_nodes(
    tables: Mapping[str, Sequence[Row]], number: Mapping[_Value, int], rules: Sequence[str]
) -> dict[ENode, str]:
    """The first rule that built each node; loaded nodes may be among them."""
    precedence = {name: position for position, name in enumerate(rules)}
    rule_of: dict[ENode, str] = {}
    for ctor in CTORS:
        for (*args, last), _ in tables[witness(ctor)]:
            try:
                node, rule = renumber(ctor, args, number), str(last)
            except KeyError:  # no loaded term reaches the node
                continue
            if precedence[rule] < precedence.get(rule_of.get(node, ""), len(precedence)):
                rule_of[node] = rule
    return rule_of


def _loaded_nodes(
    classes: Mapping[int, Sequence[ENode]], terms: Sequence[tuple[str, App]], tiny: Mapping[str, int]
) -> Iterator[ENode]:
    """The nodes that the terms were loaded as."""
    class_of = {node: number for number, nodes in classes.items() for node in nodes}
    node_of: dict[App, ENode] = {}

    def value(arg: Term) -> _Value:
        match arg:
            case Var():
                return tiny[arg.name]
            case App():
                return class_of[node_of[arg]]
            case str() | int():
                return arg
        raise TypeError(f"{arg} is not ground")

    loaded = [term for _, term in terms]
    for term in post_order(loaded, lambda term: [arg for arg in term.args if isinstance(arg, App)]):
        node_of[term] = ENode(term.ctor.name, tuple(map(value, term.args)))
        yield node_of[term]
