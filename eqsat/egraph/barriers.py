"""Barriers: uops whose readers do not compute them.

A program sets barriers, and so does a quantized network: a tensor that is rounded to bytes is stored, since its readers
load a quarter of the bytes from which it is computed. The network then falls into many small problems. Where only
elementwise uops read the bytes, up to the next rounding, one kernel may compute them all.

A rule that lets a reader compute a stored value has a read of a Store on its left side. In a program with barriers,
these rules match only where the stored buffer is `Open`: where no uop with a barrier is loaded as this buffer. Other
programs run the rules as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from eqsat.looping.stored_bytes import stored_bytes
from eqsat.looping.uop_key import uop_key
from ir.term.language import App, Sort, Store, sort_of, subterms
from ir.term.rule import Condition, Rule
from ir.tiny.graph import Graph, Imm, Ref
from rules.analyses import Open


def closed_uops(graph: Graph) -> frozenset[Ref]:
    """The uops with a barrier, the `stored_bytes`, and the uops that compute the same as these: the e-graph holds equal
    uops once."""
    first: dict[object, Ref] = {}
    same: dict[Ref, Ref] = {}
    for node in graph.nodes:
        operands = (read if isinstance(read, Imm) else same[read] for read in node.src)
        same[node.id] = first.setdefault(uop_key(node, operands), node.id)
    bytes_ = stored_bytes(graph)
    closed = {same[node.id] for node in graph.nodes if (node.barrier and node.uop != "INPUT") or node.id in bytes_}
    return frozenset(uop for uop, equal in same.items() if equal in closed)


def respect_barriers(rules: Sequence[Rule]) -> list[Rule]:
    """The rules, each with the condition that the stored buffers that its left side reads are open."""
    return [replace(rule, when=(*rule.when, *dict.fromkeys(_conditions(rule))), opens=True) for rule in rules]


def _conditions(rule: Rule) -> Iterator[Condition]:
    for pattern in rule.patterns:
        for reader in subterms(pattern):
            if isinstance(reader, App) and sort_of(reader) is not Sort.BUF:
                stores = (arg for arg in reader.args if isinstance(arg, App) and arg.ctor is Store)
                yield from (Open(store) for store in stores)
