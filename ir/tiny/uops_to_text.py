"""Uops → Tiny text, a uop a line. `ir.tiny.text_to_source` reads the text back to equal uops.

%x: fp32[n, 8] = input()
%y: fp32[n] = reduce(%x, axes=[1], op=SUM)
return %y
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ir.tiny.implied_arg import shorten_arg, type_of_source
from ir.tiny.node import GraphCall, Imm, Node, Ref, StatedType
from ir.tiny.words import id_text, string_text, value_text, word_text

Stated = Mapping[Ref, StatedType]

INDENT = "  "


def body_lines(
    uops: Iterable[Node | GraphCall], stated: Stated, outputs: Sequence[Ref] | None, dims: Mapping[str, int]
) -> Iterator[str]:
    """The lines of a program or of a graph's body: known sizes, uops, and what it returns, if that is stated."""
    if dims:
        yield "dims " + ", ".join(f"{word_text(symbol)}={size}" for symbol, size in dims.items())
    for uop in uops:
        yield _call_line(uop, stated) if isinstance(uop, GraphCall) else _node_line(uop, stated.get(uop.id))
    if outputs is not None:
        yield f"return {_refs_text(outputs)}".rstrip()


def graph_lines(name: str, uops: Sequence[Node | GraphCall], body: Iterable[str]) -> Iterator[str]:
    """The lines of a named graph, whose first `count_parameters(uops)` uops are not in `body` but in the head."""
    head = [uop for uop in uops[: count_parameters(uops)] if isinstance(uop, Node)]
    parameters = ", ".join(f"%{id_text(node.id)}: {_stated_text(type_of_source(node))}" for node in head)
    yield f"graph @{id_text(name)}({parameters}) {{"
    yield from (INDENT + line for line in body)
    yield "}"


def count_parameters(uops: Sequence[Node | GraphCall]) -> int:
    """The uops at the beginning that the head of a graph can state: inputs whose type says all."""
    count = 0
    for uop in uops:
        if not isinstance(uop, Node) or uop.uop != "INPUT" or uop.tag is not None or uop.calls or uop.barrier:
            break
        stated = type_of_source(uop)
        if stated is None or shorten_arg(uop, stated):
            break
        count += 1
    return count


def type_text(stated: StatedType) -> str:
    """A type: "fp32[n, 8]"; an axis with a name is "rows=8"."""
    sizes = map(value_text, stated.shape)
    axes = (f"{word_text(name)}={size}" if name else size for name, size in zip(stated.names, sizes, strict=True))
    return f"{stated.dtype}[{', '.join(axes)}]"


def _stated_text(stated: StatedType | None) -> str:
    return "" if stated is None else type_text(stated)


def _node_line(node: Node, stated: StatedType | None) -> str:
    stated = stated or type_of_source(node)
    operands = [
        value_text(operand.value) if isinstance(operand, Imm) else f"%{id_text(operand)}" for operand in node.src
    ]
    attributes = [f"{key}={value_text(value)}" for key, value in shorten_arg(node, stated).items()]
    words = [*operands, *attributes, *_tag(node.tag), *_calls(node.calls), *_barrier(node)]
    return f"{_typed(node.id, stated)} = {node.op.fn}({', '.join(words)})"


def _call_line(call: GraphCall, stated: Stated) -> str:
    results = ", ".join(_typed(ref, stated.get(ref)) for ref in call.results)
    operands = [f"%{id_text(ref)}" for ref in call.refs]
    return f"{results} = call @{id_text(call.graph)}({', '.join([*operands, *_tag(call.tag)])})"


def _typed(ref: Ref, stated: StatedType | None) -> str:
    return f"%{id_text(ref)}" if stated is None else f"%{id_text(ref)}: {type_text(stated)}"


def _tag(tag: str | None) -> list[str]:
    return [] if tag is None else [f"tag={string_text(tag)}"]


def _calls(calls: tuple[Ref, ...]) -> list[str]:
    return [f"calls={value_text(calls)}"] if calls else []


def _barrier(node: Node) -> list[str]:
    return ["barrier=true"] if node.barrier else []


def _refs_text(refs: Iterable[Ref]) -> str:
    return ", ".join(f"%{id_text(ref)}" for ref in refs)
