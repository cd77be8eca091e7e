"""Terms in mathematical notation: `relu(Σ[i2<8] x[i0, i2]·w[i2, i1] + b[i1])`.

Braces hold the content of a tensor without a name, angle brackets a value that is stored on chip. `(v at [0, i1])` is a
value at other coordinates. A read at the kernel's own coordinates has no brackets.
"""

from __future__ import annotations

from collections.abc import Callable

from eqsat.egraph.enode import ENode
from ir.index.expr import axis_names
from ir.index.map import AxisMap, identity
from ir.term.language import App, Term
from ir.uop.table import BITCASTS

INFIX = {
    "add": " + ",
    "sub": " − ",
    "mul": "·",
    "fdiv": " / ",
    "quotient": " / ",
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
    "shl": " << ",
    "shr": " >> ",
}
_WORDS = {"PMax": "greatest"}
"""Constructors that are not written by their own names."""
REDUCTIONS = {"sum": "Σ", "prod": "Π", "max": "max", "min": "min"}
DEPTH = 9
"""Nested constructors that are written; deeper ones become an ellipsis."""

_LOOSE, _SUM, _PRODUCT, _TIGHT = range(4)
_BINDS = {"add": _SUM, "sub": _SUM, "mul": _PRODUCT, "fdiv": _PRODUCT, "quotient": _PRODUCT}


class Notation:
    """Writes terms.

    Args:
        node: the constructor and arguments of a term number; arguments of class sorts are term numbers.
        name: the name of a buffer; None to write the buffer's content.
        shape: of a buffer.
        marked: also write `pure`, the mark where a value enters an epilogue, which computes nothing.
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
        """The text of a term; a buffer with a name is written as its name."""
        return self._text(term, depth, _LOOSE)

    def with_marks(self) -> Notation:
        """The same notation with marks."""
        return Notation(self._node, self._name, self._shape, marked=True)

    def definition(self, term: int, depth: int = DEPTH) -> str:
        """The content of a buffer, even if the buffer has a name."""
        node = self._node(term)
        return self._text(node.value, depth, _LOOSE) if node.ctor == "Store" else self(term, depth)

    def _text(self, term: int, depth: int, within: int) -> str:
        name = self._name(term)
        if name is not None:
            return name
        if depth <= 0:
            return "…"
        node = self._node(term)

        def below(child: int, within: int = _LOOSE) -> str:
            return self._text(child, depth - 1, within)

        match node.ctor:
            case "Input" | "Buffer":
                return node.name
            case "Store":
                return f"{{{below(node.value)}}}"
            case "Pure" if self._marked:
                return f"pure({below(node.x)})"
            case "Pure":
                return self._text(node.x, depth, within)
            case "Fin":
                return self._text(node.acc, depth, within)
            case "Load":
                return self._read(node.buffer, node.map, depth)
            case "PView" | "EView":
                return f"({below(node.x, _TIGHT)} at {_coordinates(node.map)})"
            case "At":
                return f"⟨{below(node.value)}⟩{_coordinates(node.map)}"
            case "Imm":
                return node.number
            case "Table":
                return f"table[{', '.join(map(str, node.sizes))}]"
            case "Index":
                return ", ".join(map(str, node.map.exprs))
            case "Gather":
                return f"{self._text(node.buffer, 2, _TIGHT)}{_coordinates(node.map, below(node.index))}"
            case "PGather":
                return f"({below(node.x, _TIGHT)} at {_coordinates(node.map, below(node.index))})"
            case "Scatter":
                index, value = below(node.index), below(node.value)
                return f"scatter.{node.op}[i{node.axis}]({below(node.x)}, at {index}: {value})"
            case "PUn" | "EUn" if node.op == "cast":
                return f"{node.dtype}({below(node.x)})"
            case "PUn" | "EUn" if node.op in BITCASTS:
                return f"{node.op}_{node.dtype}({below(node.x)})"
            case "PUn" | "EUn":
                return _unary(node.op, below(node.x, _TIGHT))
            case "PBin" | "EBin" if node.op in INFIX:
                binds = _BINDS.get(node.op, _TIGHT)
                text = f"{below(node.x, binds)}{INFIX[node.op]}{below(node.y, binds + 1)}"
                return f"({text})" if within > binds else text
            case "PBin" | "EBin" | "PTern" | "ETern":
                return f"{node.op}({', '.join(map(below, node.children))})"
            case "Reduce":
                text = f"{REDUCTIONS[node.op]}{self._over(term, node)} {below(node.x, _PRODUCT)}"
                return f"({text})" if within > _LOOSE else text
        return self._application(term, node, depth)

    def _application(self, term: int, node: ENode, depth: int) -> str:
        """A constructor without special notation: its op, the axes that it runs over, its operands."""
        fields = node.fields
        head = _WORDS.get(node.ctor, node.ctor.lower()) + (f".{node.op}" if "op" in fields else "")
        over = self._over(term, node) if "sizes" in fields else ""
        over += f"[i{node.axis}]" if "axis" in fields else ""
        texts = [self._text(child, depth - 1, _LOOSE) for child in node.children]
        return f"{head}{over}({', '.join(texts)})" + (_coordinates(node.map) if "map" in fields else "")

    def _read(self, buffer: int, read: AxisMap, depth: int) -> str:
        tensor = self._text(buffer, depth - 1, _TIGHT)
        shape = self._shape(buffer)
        if shape is not None and read == identity(shape):
            return tensor
        return f"({tensor}{_coordinates(read)})" if read.guards else f"{tensor}{_coordinates(read)}"

    def _over(self, term: int, node: ENode) -> str:
        """The reduced axes of a term with this root: the last axes of the operands' domain."""
        outer = self._rank(term)
        if outer is None:
            return f"[{', '.join(map(str, node.sizes))}]"
        return f"[{', '.join(f'i{outer + place}<{size}' for place, size in enumerate(node.sizes))}]"

    def _rank(self, term: int) -> int | None:
        """The rank of a term's domain, from the first map or type below it; None if there is none."""
        reduced = 0
        while True:
            node = self._node(term)
            fields = node.fields
            if "map" in fields:
                return len(node.map.sizes) - reduced
            if node.ctor == "Imm":
                return len(node.sizes) - reduced
            if "type" in fields:
                return node.type.rank - reduced
            reduced += len(node.sizes) if "sizes" in fields else 0
            if not node.children:
                return None
            term, *_ = node.children


def _unary(op: str, operand: str) -> str:
    bare = operand[1:-1] if _is_wrapped(operand) else operand
    return f"−{operand}" if op == "neg" else f"{op}({bare})"


def _is_wrapped(text: str) -> bool:
    """Whether one pair of parentheses encloses the whole text."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return False
    return text.startswith("(")


def term_text(term: Term, marked: bool = False) -> str:
    """A ground term in this notation, without a depth limit."""
    numbers: dict[Term, int] = {}
    nodes: list[ENode] = []

    def number(part: Term) -> int | str:
        if not isinstance(part, App):
            assert isinstance(part, int | str)
            return part
        if part not in numbers:
            nodes.append(ENode(part.ctor.name, tuple(map(number, part.args))))
            numbers[part] = len(nodes) - 1
        return numbers[part]

    def shape(buffer: int) -> tuple[int, ...]:
        return nodes[buffer].type.shape

    root = int(number(term))
    return Notation(nodes.__getitem__, lambda _: None, shape, marked)(root, depth=len(nodes))


def read_text(read: AxisMap) -> str:
    """A map and the domain of the read: `[i0, 2*i1] for i0<4, i1<8`."""
    over = ", ".join(f"i{axis}<{size}" for axis, size in enumerate(read.sizes))
    return _coordinates(read) + (f" for {over}" if over else "")


def _coordinates(read: AxisMap, index: str | None = None) -> str:
    """`[i0, 2·i1] if 0≤i1<3 else 0`; `index` is the text of the last axis, where this is the index of a gather."""
    names = axis_names(len(read.sizes))
    if index is not None:
        names[-1] = index
    at = f"[{', '.join(expr.text(tuple(names)) for expr in read.exprs)}]"
    return " ".join([at, *(guard.text(tuple(names)) for guard in read.guards)])
