"""Terms as people write them: `relu(Σ[i2<8] x[i0, i2]·w[i2, i1] + b[i1])`.

A tensor that is written by its content stands in braces, a value that is finished on chip in angle brackets, a value
that is taken at other places is `(v at [0, i1])`; a read in place has no brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.egraph.view import ENode
from ir.axis_map import AxisMap, identity, parse_map
from ir.term import CTORS, App, Sort, Term
from ir.term_text import parse_sizes, parse_type

INFIX = {
    "add": " + ",
    "sub": " − ",
    "mul": "·",
    "fdiv": " / ",
    "idiv": " // ",
    "mod": " mod ",
    "pow": "^",
    "cmplt": " < ",
    "cmple": " ≤ ",
    "cmpgt": " > ",
    "cmpge": " ≥ ",
    "cmpeq": " = ",
    "cmpne": " ≠ ",
    "and": " ∧ ",
    "or": " ∨ ",
    "xor": " ⊕ ",
}
_WORDS = {"PMax": "greatest"}
"""Constructors that are not written by their names."""
REDUCTIONS = {"sum": "Σ", "prod": "Π", "max": "max", "min": "min"}
DEPTH = 9
"""Constructors below one another that are written; what lies deeper is an ellipsis."""

_LOOSE, _SUM, _PRODUCT, _TIGHT = range(4)
_BINDS = {"add": _SUM, "sub": _SUM, "mul": _PRODUCT, "fdiv": _PRODUCT}


class Notation:
    """Writes terms.

    Args:
        node: a term's constructor and arguments; those of class sorts are terms.
        name: what stands for a buffer, where it has a name of its own.
        shape: of a buffer.
        marked: also write where a value passes into an epilogue (`pure`), which computes nothing.
    """

    def __init__(
        self,
        node: Callable[[int], ENode],
        name: Callable[[int], str | None],
        shape: Callable[[int], tuple[int, ...] | None],
        marked: bool = False,
    ) -> None:
        self._node, self._name, self._shape, self._marked = node, name, shape, marked

    def __call__(self, term: int, depth: int = DEPTH) -> str:
        """The term; a buffer with a name stands for itself."""
        return self._text(term, depth, _LOOSE)

    def marked(self) -> Notation:
        """The notation that writes marks as well."""
        return Notation(self._node, self._name, self._shape, marked=True)

    def definition(self, term: int, depth: int = DEPTH) -> str:
        """What a buffer holds, though it has a name."""
        node = self._node(term)
        return self._text(int(node.args[0]), depth, _LOOSE) if node.ctor == "Store" else self(term, depth)

    def _text(self, term: int, depth: int, within: int) -> str:
        name = self._name(term)
        if name is not None:
            return name
        if depth <= 0:
            return "…"
        node = self._node(term)
        args = node.args

        def below(place: int, within: int = _LOOSE) -> str:
            return self._text(int(args[place]), depth - 1, within)

        match node.ctor:
            case "Input" | "Buffer":
                return str(args[0])
            case "Store":
                return f"{{{below(0)}}}"
            case "Pure" if self._marked:
                return f"pure({below(0)})"
            case "Pure" | "Fin":
                return self._text(int(args[0]), depth, within)
            case "Load":
                return self._read(int(args[0]), parse_map(str(args[1])), depth)
            case "PView" | "EView":
                return f"({below(0, _TIGHT)} at {_coordinates(parse_map(str(args[1])))})"
            case "At":
                return f"⟨{below(0)}⟩{_coordinates(parse_map(str(args[2])))}"
            case "Imm":
                return str(args[1])
            case "Index":
                return ", ".join(map(str, parse_map(str(args[1])).exprs))
            case "Gather":
                return self._gather(int(args[0]), parse_map(str(args[1])), int(args[2]), below(3))
            case "PUn" | "EUn":
                return f"{args[1]}({below(2)})" if args[0] == "cast" else _unary(str(args[0]), below(2, _TIGHT))
            case "PBin" | "EBin" if str(args[0]) in INFIX:
                binds = _BINDS.get(str(args[0]), _TIGHT)
                text = f"{below(2, binds)}{INFIX[str(args[0])]}{below(3, binds + 1)}"
                return f"({text})" if within > binds else text
            case "PBin" | "EBin":
                return f"{args[0]}({below(2)}, {below(3)})"
            case "PTern" | "ETern":
                return f"{args[0]}({below(2)}, {below(3)}, {below(4)})"
            case "Reduce":
                text = f"{REDUCTIONS[str(args[0])]}{self._over(term, str(args[2]))} {below(3, _PRODUCT)}"
                return f"({text})" if within > _LOOSE else text
        return self._applied(term, node, depth)

    def _applied(self, term: int, node: ENode, depth: int) -> str:
        """Any other constructor: its op, what it runs over, its operands."""
        ctor = CTORS[node.ctor]
        fields = {field: arg for (field, _), arg in zip(ctor.fields, node.args, strict=True)}
        head = _WORDS.get(ctor.name, ctor.name.lower()) + (f".{fields['op']}" if "op" in fields else "")
        over = self._over(term, str(fields["sizes"])) if "sizes" in fields else ""
        over += f"[i{fields['axis']}]" if "axis" in fields else ""
        texts = [
            self._text(int(arg), depth - 1, _LOOSE)
            for arg, sort in zip(node.args, ctor.args, strict=True)
            if sort not in (Sort.STR, Sort.I64)
        ]
        reads = [_coordinates(parse_map(str(fields["map"])))] if "map" in fields else []
        return f"{head}{over}({', '.join(texts)}){''.join(reads)}"

    def _read(self, buffer: int, read: AxisMap, depth: int) -> str:
        held = self._text(buffer, depth - 1, _TIGHT)
        shape = self._shape(buffer)
        if shape is not None and read == identity(shape):
            return held
        return f"({held}{_coordinates(read)})" if read.guards else f"{held}{_coordinates(read)}"

    def _gather(self, buffer: int, read: AxisMap, axis: int, index: str) -> str:
        at = [index if place == axis else str(expr) for place, expr in enumerate(read.exprs)]
        return f"{self._text(buffer, 2, _TIGHT)}[{', '.join(at)}]"

    def _over(self, term: int, sizes: str) -> str:
        """The reduced axes, which are the last of the operands' domain."""
        counts = parse_sizes(sizes)
        outer = self._rank(term)
        if outer is None:
            return f"[{', '.join(map(str, counts))}]"
        return f"[{', '.join(f'i{outer + place}<{count}' for place, count in enumerate(counts))}]"

    def _rank(self, term: int) -> int | None:
        """The rank of a term's domain: the first map below it tells."""
        reduced = 0
        while True:
            node = self._node(term)
            fields = {field: arg for (field, _), arg in zip(CTORS[node.ctor].fields, node.args, strict=True)}
            if "map" in fields:
                return len(parse_map(str(fields["map"])).sizes) - reduced
            if node.ctor == "Imm":
                return len(parse_sizes(str(fields["sizes"]))) - reduced
            if "type" in fields:
                return len(parse_type(str(fields["type"])).shape) - reduced
            reduced += len(parse_sizes(str(fields["sizes"]))) if "sizes" in fields else 0
            operands = [arg for arg, sort in zip(node.args, CTORS[node.ctor].args, strict=True) if _is_term(sort)]
            if not operands:
                return None
            term = int(operands[0])


def _is_term(sort: Sort) -> bool:
    return sort not in (Sort.STR, Sort.I64)


def _unary(op: str, operand: str) -> str:
    bare = operand[1:-1] if _is_wrapped(operand) else operand
    return f"−{operand}" if op == "neg" else f"{op}({bare})"


def _is_wrapped(text: str) -> bool:
    """Whether one pair of parentheses holds all of it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return False
    return text.startswith("(")


def written(term: Term, marked: bool = False) -> str:
    """A ground term, whole."""
    numbers: dict[Term, int] = {}
    nodes: list[ENode] = []

    def number(each: Term) -> int | str:
        if not isinstance(each, App):
            assert isinstance(each, int | str)
            return each
        if each not in numbers:
            nodes.append(ENode(each.ctor.name, tuple(map(number, each.args))))
            numbers[each] = len(nodes) - 1
        return numbers[each]

    def shape(buffer: int) -> tuple[int, ...]:
        return parse_type(str(nodes[buffer].args[1])).shape

    root = int(number(term))
    return Notation(nodes.__getitem__, lambda _: None, shape, marked)(root, depth=len(nodes))


def read_text(read: str) -> str:
    """A map as a read of so many points: `[i0, 2*i1] for i0<4, i1<8`."""
    view = parse_map(read)
    over = ", ".join(f"i{axis}<{size}" for axis, size in enumerate(view.sizes))
    return _coordinates(view) + (f" for {over}" if over else "")


def _coordinates(read: AxisMap) -> str:
    """`[i0, 2·i1] if 0≤i1<3 else 0`."""
    guards: Sequence[str] = [str(guard) for guard in read.guards]
    at = f"[{', '.join(map(str, read.exprs))}]"
    return " ".join([at, *guards])
