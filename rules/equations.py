"""The equation of a rule, printed from its two sides.

An equation holds at every point i of a domain. There, and below a reduction over k at (i, k), a variable is written
without its coordinates: `p` is p(i) or p(i, k). The notation:

    Σₖ p, ⊕ₖ p     a reduction over k; ⊕ where its op is a variable
    p ∘ q, o(p)    an op that is a variable; ± is + or −, ∘′ is an op that is computed from ∘
    d(p)           p cast to the dtype d
    T[m(i)]        the tensor T, read through the map m
    {p}            the tensor that holds p
    ⟨p⟩[m(i)]      p, finished inside the kernel before it is read
    p at n(i)      p, taken at n(i); of a variable p(n(i))
    m(i, q)        m at the point i and the index q of a gather, one of |m|
    A·B            in families of matrix products: a contraction, or the product of two numbers; maps are left out
    , M = …        the tensor that a letter stands for where several reads share the tensor
    [A|0], [0|A]   A with zeros after it, or before it

Where a condition names a number or an op, the equation has it in the place of the variable. Changes that alter no value
(a value passes into an epilogue, a number is computed) are written only where both sides look alike without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

from ir.term.language import App, Load, Prim, Sort, Store, Term, Var, subterms
from ir.term.rule import Exactness, Rule
from ir.term.text import parse_sizes

MATRICES = (
    "products",
    "distribution",
    "scaling",
    "centring",
    "enlarging",
    "merging",
    "stacking",
    "winograd",
    "zero_points",
    "quantized",
)
"""The families of matrix products: their equations leave out the maps."""

_LETTERS = "MNPQUV"
"""Of tensors that several reads share."""
_LOOSE, _CHOICE, _COMPARED, _SUM, _PRODUCT, _POWER, _TIGHT = range(7)
_INFIX = {
    **dict.fromkeys(("cmplt", "cmple", "cmpgt", "cmpge", "cmpeq", "cmpne"), _COMPARED),
    **dict.fromkeys(("add", "sub", "±"), _SUM),
    **dict.fromkeys(("mul", "fdiv", "quotient", "and", "or", "xor", "mod", "∘", "∘′"), _PRODUCT),
    "pow": _POWER,
}
_SIGNS = {
    "add": " + ", "sub": " − ", "mul": "·", "fdiv": " / ", "quotient": " / ", "mod": " mod ", "pow": "^",
    "and": " ∧ ", "or": " ∨ ", "cmplt": " < ", "cmple": " ≤ ", "cmpgt": " > ", "cmpge": " ≥ ", "cmpeq": " = ",
    "cmpne": " ≠ ",
}  # fmt: skip
_REDUCTIONS = {"sum": "Σ", "prod": "Π", "max": "max", "min": "min"}
_BELOW = str.maketrans("kj", "ₖⱼ")
_NUMBERS = {"is_lowest": "lowest", "is_highest": "highest", "all_ones": "¬0"}
"""Primitive of a condition → the word for the number that it asks for."""
_NAMED = {"log2_e": "log₂e", "ln_2": "ln 2"}
_PARTS = {
    "first": "[{}|0]",
    "second": "[0|{}]",
    "of_first": "first part of {}",
    "of_second": "second part of {}",
    "weights": "[0 {} 0]",
    "first_block": "[{}|0]",
    "second_block": "[0|{}]",
}
"""How a tensor is written that is read through a map of `merged`, `adjacent` or `enlarged`, by the part of the
primitive's answer; of `first_block` and `second_block`, by the primitive."""
_OF_PARTS = ("merged", "adjacent", "enlarged")


class _Text(NamedTuple):
    """A text, and how tightly the operator on top of it binds."""

    text: str
    binds: int = _TIGHT

    def within(self, binds: int) -> str:
        """The text as an operand of an operator that binds so tightly: in brackets where it binds less."""
        return self.text if self.binds > binds else f"({self.text})"


Point = Sequence[str]
"""The coordinates at which a value is taken: coordinates of the output, then reduced coordinates."""


def equation(rule: Rule) -> str:
    """Both sides, with = where they are the same numbers, else ≈."""
    styles = [_Style(maps=False), _Style(), _Style(marks=True)][rule.family not in MATRICES :]
    rhs, named = _name_repeated(rule.rhs) if rule.family in MATRICES else (rule.rhs, {})
    sides = ([_Side(rule, style).text(side).text for side in (rule.lhs, rhs)] for style in styles)
    left, right = next((texts for texts in sides if texts[0] != texts[1]), ("", ""))
    meanings = [f"{name} = {_Side(rule, styles[0]).text(tensor).text}" for name, tensor in named.items()]
    return ", ".join([f"{left} {'=' if rule.exactness is Exactness.EXACT else '≈'} {right}", *meanings])


def _name_repeated(side: Term) -> tuple[Term, Mapping[str, Term]]:
    """A side in which letters stand for the tensors that several reads share; and letter → tensor, the innermost
    first."""
    named: dict[str, Term] = {}
    for letter in _LETTERS:
        counts = Counter(part for part in subterms(side) if isinstance(part, App) and _is_computed(part))
        repeated = [part for part, count in counts.items() if count > 1]
        if not repeated:
            break
        least = min(repeated, key=lambda part: sum(1 for _ in subterms(part)))
        side, named[letter] = _replaced(side, least, Var(letter, Sort.BUF)), least
    return side, named


def _is_computed(term: App) -> bool:
    """Whether a term stores a tensor that is no table of numbers."""
    return term.ctor is Store and any(isinstance(part, App) and part.ctor is Load for part in subterms(term))


def _replaced(term: Term, part: Term, by: Term) -> Term:
    if term == part:
        return by
    return App(term.ctor, tuple(_replaced(arg, part, by) for arg in term.args)) if isinstance(term, App) else term


def add_equation(rule: Rule) -> Rule:
    """The rule with the equation that its sides print as."""
    return replace(rule, equation=equation(rule))


class _Style(NamedTuple):
    """maps: coordinates are written. marks: so are the changes that alter no value."""

    maps: bool = True
    marks: bool = False


class _Side:
    """Writes one side of a rule."""

    def __init__(self, rule: Rule, style: _Style) -> None:
        self._maps, self._marks = style
        conditions = [condition for condition in rule.when if isinstance(condition, Prim)]
        self._known = {term: word for condition in conditions for term, word in _known_words(condition)}

    def text(self, term: Term, point: Point = ("i",), own: Point = ("i",)) -> _Text:
        """A value at a point; `own` is the point at which a variable needs no coordinates."""

        def below(part: Term) -> _Text:
            return self.text(part, point, own)

        if isinstance(term, Var):
            return _Text(term.name if point == own or not self._maps else f"{term.name}({', '.join(point)})")
        assert isinstance(term, App), term
        match term.ctor.name, term.fields:
            case "Input", {"name": name}:
                return _Text(str(name))
            case "Store", {"value": value}:
                held = self.text(value)
                return _Text(f"{{{held.text}}}") if self._maps else held
            case "Pure", {"x": value} if self._marks:
                return _Text(f"pure({below(value).text})")
            case ("Pure", {"x": value}) | ("Fin", {"acc": value}):
                return below(value)
            case "Load", {"buffer": buffer, "map": read}:
                return self._read(self.text(buffer), read, point)
            case (("PView" | "EView"), {"x": value, "map": read}):
                value = value.field("x") if _is_pure(value) and not self._marks else value
                if isinstance(value, Var) or not self._maps:
                    return self.text(value, _coordinates(read, point), own)
                whole = self.text(value, own, own).within(_POWER)
                return _Text(f"{whole} at {', '.join(_coordinates(read, point))}", _LOOSE)
            case "At", {"value": value, "map": read}:
                return self._read(_Text(f"⟨{self.text(value).text}⟩"), read, point)
            case "Imm", {"value": number}:
                return self._number(number)
            case "Table", {"numbers": numbers, "sizes": sizes}:
                return _Text(
                    f"[{numbers}]{sizes}" if self._marks else f"T{'×'.join(map(str, parse_sizes(str(sizes))))}"
                )
            case "Index", {"map": read}:
                return _Text(_coordinates(read, point)[0])
            case "Gather", {"buffer": buffer, "map": read, "index": index}:
                head = "gather " if self._marks else ""
                at = _coordinates(read, (*point, below(index).text))
                return _Text(f"{head}{self.text(buffer).text}[{', '.join(at)}]")
            case "PGather", {"x": value, "map": read, "index": index}:
                at = _coordinates(read, (*point, below(index).text))
                if isinstance(value, Var):
                    return self.text(value, at, own)
                return _Text(f"{self.text(value, own, own).within(_POWER)} at {', '.join(at)}", _LOOSE)
            case (("PUn" | "EUn"), {"op": "cast", "dtype": element, "x": value}):
                return _Text(f"{element}({below(value).text})")
            case (("PUn" | "EUn"), {"op": op, "x": value}):
                return _unary(str(op), below(value))
            case (("PBin" | "EBin"), {"op": op, "x": x, "y": y}):
                return _binary(self._op(op), below(x), below(y))
            case (("PTern" | "ETern"), {"op": "where"}):
                condition, then, other = (below(operand).within(_CHOICE) for operand in term.operands)
                return _Text(f"{condition} ? {then} : {other}", _CHOICE)
            case (("PTern" | "ETern"), {"op": op}):
                return _Text(f"{op}({', '.join(below(operand).text for operand in term.operands)})")
            case "Reduce", {"op": op, "sizes": sizes, "x": value}:
                return self._write_reduction(_REDUCTIONS.get(str(self._known.get(op, op)), "⊕"), sizes, (value,), point)
            case "Contract", {"sizes": sizes, "x": x, "y": y}:
                if self._maps and not self._marks:
                    return self._write_reduction("Σ", sizes, (x, y), point)
                return (
                    _binary("mul", below(x), below(y)) if not self._maps else self._write_call("contract", sizes, x, y)
                )
            case "Stream", {"sizes": sizes, "score": score, "value": value}:
                return self._write_call("stream", sizes, score, value)
            case "PMax", {"sizes": sizes, "x": value}:
                return self._write_reduction("max", sizes, (value,), ("i",))
        raise TypeError(f"{term.ctor.name} has no notation")

    def _read(self, held: _Text, read: Term, point: Point) -> _Text:
        if self._maps:
            return _Text(f"{held.text}[{', '.join(_coordinates(read, point))}]")
        part = _part(read)
        if not part:
            return held
        return _Text(part.format(held.text)) if part[0] == "[" else _Text(part.format(held.within(_POWER)), _LOOSE)

    def _write_reduction(self, sign: str, sizes: Term, factors: Sequence[Term], point: Point) -> _Text:
        """A reduction of a value, or of a product."""
        inner = (*point, *_axes(sizes)) if self._maps else point
        texts = [self.text(factor, inner, inner) for factor in factors]
        held = texts[0].within(_SUM) if len(texts) == 1 else _binary("mul", *texts).text
        over = "".join(_axes(sizes)).translate(_BELOW) if self._maps else ""
        return _Text(f"{sign}{over} {held}", _LOOSE)

    def _write_call(self, name: str, sizes: Term, *operands: Term) -> _Text:
        inner = ("i", *_axes(sizes))
        return _Text(f"{name}({', '.join(self.text(operand, inner, inner).text for operand in operands)})")

    def _op(self, op: Term) -> str:
        if isinstance(op, Prim):
            return "∘′"
        known = self._known.get(op)
        return "±" if known == "add" else "∘" if isinstance(op, Var) else str(op)

    def _number(self, number: Term) -> _Text:
        if isinstance(number, Prim):
            return self._write_computed(number)
        word = str(self._known.get(number, number)).removesuffix(".0").replace("-", "−")
        return _Text(word, _LOOSE if word[0] == "−" else _TIGHT)

    def _write_computed(self, number: Prim) -> _Text:
        """A number that a primitive computes."""
        match number.fn.name, number.arguments:
            case "fold_unary", {"op": op, "result": element, "number": operand}:
                result = _unary(str(element if op == "cast" else op), self._number(operand))
                return _Text(f"the number {result.text}", _LOOSE) if self._marks else result
            case (("fold_binary" | "regroup"), {"op": op, "left": left, "right": right}):
                result = _binary(self._op(op), self._number(left), self._number(right))
                return _Text(f"the number {result.text}", _LOOSE) if self._marks else result
            case "negative", {"number": operand}:
                return _unary("neg", self._number(operand))
            case (("exact_reciprocal" | "reciprocal"), {"number": operand}):
                return _Text(f"1/{operand}", _PRODUCT)
            case "product_of_divisors", {"left": left, "right": right}:
                return _binary("mul", self._number(left), self._number(right))
            case "power_of_two_mask", {"number": operand}:
                return _binary("sub", self._number(operand), _Text("1"))
            case "times", {"number": operand}:
                return _binary("mul", _Text("n"), self._number(operand))
            case "repeats", _:
                return _Text("n")
            case "choice_size", {"view": view}:
                return _Text(f"|{view}|")
            case "highest_choice", {"view": view}:
                return _Text(f"|{view}| − 1", _SUM)
            case "fill_everywhere", {"view": view}:
                return _Text(f"fill of {view}", _LOOSE)
            case "of_equals", _:
                return _Text("a number", _LOOSE)
            case (("decided" | "compared_with_number" | "compared_with_index"), _):
                return _Text("true or false", _LOOSE)
        raise TypeError(f"{number.fn.name} has no notation")


def _is_pure(term: Term) -> TypeGuard[App]:
    return isinstance(term, App) and term.ctor.name == "Pure"


def _known_words(condition: Prim) -> list[tuple[Term, str]]:
    """The variable of which a condition says which number or op it is, and the word for it."""
    match condition.fn.name, condition.arguments:
        case "one_of", {"text": Var() as variable, "words": str() as words}:
            first = words.split()[0]
            return [(variable, first)] if words in ("max min", "add sub") or first[-1].isdigit() else []
        case "is_number", {"number": number, "name": name}:
            return [(number, _NAMED[str(name)])]
        case name, {"number": number} if name in _NUMBERS:
            return [(number, _NUMBERS[name])]
    return []


def _unary(op: str, operand: _Text) -> _Text:
    match op:
        case "neg":
            return _Text(f"−{operand.within(_POWER)}", _LOOSE)
        case "not":
            return _Text(f"¬{operand.within(_POWER)}")
        case "abs":
            return _Text(f"|{operand.text}|")
        case "sqrt":
            return _Text(f"√{operand.within(_POWER)}")
    return _Text(f"{op}({operand.text})")


def _binary(op: str, left: _Text, right: _Text) -> _Text:
    if op == "idiv":
        return _Text(f"⌊{left.within(_PRODUCT)} / {right.within(_PRODUCT)}⌋")
    if op not in _INFIX:
        return _Text(f"{op}({left.text}, {right.text})")
    binds = _INFIX[op]
    return _Text(f"{left.within(binds)}{_SIGNS.get(op, f' {op} ')}{right.within(binds)}", binds)


def _axes(sizes: Term) -> Point:
    """The reduced coordinates."""
    match sizes:
        case "[]":
            return ()
        case Prim(arguments={"outer": Var() as outer, "inner": Var() as inner}) if sizes.fn.name == "joined":
            return outer.name, inner.name
        case Prim():
            return ("k′",)
    return (str(sizes),)


def _coordinates(read: Term, point: Point) -> Point:
    """The coordinates that a map gives at a point."""
    if isinstance(read, Var):
        return (f"{read.name}({', '.join(point)})",)
    assert isinstance(read, Prim), read
    match read.fn.name, read.arguments:
        case "compose", {"read": outer, "view": inner}:
            return _coordinates(outer, _coordinates(inner, point))
        case "in_place", _:
            return point
        case (("fill_of_reduction" | "fill_of_contraction"), {"view": view, "sizes": sizes}):
            kept = len(point) - len(_axes(sizes))
            return *_coordinates(view, point[:kept]), *point[kept:]
        case "index_and_number", {"view": view, "number": number}:
            return (f"({view} ∘ {number})({', '.join(point)})",)
        case "index_and_index", {"left": left, "right": right}:
            return (f"({left} ± {right})({', '.join(point)})",)
        case "picked", {"read": view, "view": index}:
            return _coordinates(view, (*point, *_coordinates(index, point)))
        case "choices_together", {"read": outer, "view": inner}:
            return (f"({outer}∘{inner})({', '.join(point)})",)
        case (("compose_beside" | "outer_choice"), {"read": outer, "view": inner}):
            return _coordinates(outer, (*_coordinates(inner, point[:-1]), point[-1]))
        case _, {"view": view} | {"read": view}:
            return _coordinates(view, point)
    raise TypeError(f"{read.fn.name} has no notation")


def _part(read: Term) -> str:
    """How a tensor is written that is read through a map; "" where the map leaves no mark."""
    match read:
        case Prim(arguments={"part": "first", "x": view} | {"part": "second", "y": view}) if read.fn.name == "joint":
            return _part(view)
        case Prim(arguments={"part": str() as part}) if read.fn.name in _OF_PARTS:
            return _PARTS.get(part, "")
        case Prim():
            return _PARTS.get(read.fn.name, "")
    return ""
