"""Random instances of the left side of a rule: ground terms of fitting shapes and dtypes, over random inputs and
maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import DType, TensorType
from ir.index.expr import interval
from ir.index.map import AxisMap, axis_map, identity, parse_map
from ir.term.language import (
    App,
    At,
    Contract,
    EView,
    Fin,
    Gather,
    Imm,
    Index,
    Input,
    Load,
    PBin,
    PMax,
    PUn,
    Pure,
    PView,
    Reduce,
    Scan,
    Scatter,
    Sort,
    Store,
    Stream,
    Term,
    Var,
)
from ir.term.text import number_text, parse_number, parse_sizes, sizes_text, type_text
from ir.uop.table import FUNCTIONS
from rules.operand_dtypes import dtype_named, operands_of, summands_of
from rules.random_maps import (
    MAX_ELEMENTS,
    Cut,
    Shape,
    Unfit,
    beside,
    convolution,
    invariant_map,
    part,
    pick,
    random_map,
    widen,
)
from rules.styles import LARGE, Array, Style

T = TypeVar("T")

ELEMENTS = (
    *("fp32", "fp32", "fp32", "fp16", "bf16", "fp64", "bool"),
    *("i32", "i8", "u8", "i16", "i64", "u16", "u32", "u64"),
)
"""The dtypes of values; a dtype that is listed several times is picked more often."""
MAX_TERMS = 24
"""The most terms of one reduction, unless a single axis has more."""
FILLS = (0.0, 0.0, 0.0, 1.0, -1.0, -0.0, 0.5, math.inf, -math.inf, math.nan)
"""The fills of maps of floats."""
CONSTANTS = (0.0, 1.0, -2.0, 0.5, -0.0, -1.0, 3.0, 255.0, math.log2(math.e), math.log(2))
"""The floats for constants of patterns: rules name many of these numbers."""
TAME = ("add", "sub", "mul", "max", "neg")
"""The ops in random values."""


class Instance:
    """A ground instance of the left side of a rule, its `term`. binding: of the pattern's variables. inputs: the arrays
    by name. others: the instances of the further patterns that must match."""

    def __init__(
        self,
        pattern: App,
        rng: np.random.Generator,
        style: Style = Style(),  # noqa: B008 - immutable
        elements: Sequence[str] = ELEMENTS,
        others: Sequence[App] = (),
        choices: Mapping[str, Collection[str]] = MappingProxyType({}),
        alike: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """style: the sizes of axes and the numbers of the inputs. elements: the dtypes that the value may have. others:
        further patterns, which share variables with the first. choices: the words that variables may stand for. alike:
        buffers that have the dtype of another buffer, or of their product (""). Raises Unfit where this attempt
        fails."""
        self.binding: dict[str, Term] = {}
        self.inputs: dict[str, Array] = {}
        self._types: dict[str, TensorType] = {}
        self._sources: dict[str, Shape] = {}
        self._rng = rng
        self._style = style
        self._choices, self._alike_buffers = choices, alike
        self._cut: Cut | None = None
        self._window: Shape = ()
        self._reduced: Shape = ()
        self._paired = bool(others)
        self._convolution = None if others or not _is_bare_product(pattern) else convolution(rng, (0.0, 0.0, 1.0))
        element = dtype_named(pattern) or self._pick(elements)
        type_ = TensorType.of(element, self._convolution.outputs if self._convolution else self._shape())
        self._wraps = bool(style.specials) and not type_.dtype.is_float
        self.term = self._make(pattern, type_)
        self.others = tuple(self._make(other, self._alike(type_)) for other in others)

    def _make(self, pattern: App, type_: TensorType) -> App:
        make = self._buffer if pattern.ctor.result is Sort.BUF else self._value
        term = make(pattern, type_)
        assert isinstance(term, App)
        return term

    def _alike(self, type_: TensorType) -> TensorType:
        """A type of the same dtype. Now and then one axis has another size: the size of the part beside a part, if
        there is one."""
        if not type_.rank or self._rng.integers(2):
            return type_
        at, _, size = self._cut or (int(self._rng.integers(type_.rank)), 0, self._pick(self._style.extents.axes))
        return TensorType.of(type_.dtype, (*type_.shape[:at], size, *type_.shape[at + 1 :]))

    @property
    def is_plain(self) -> bool:
        """Whether the inputs are ordinary numbers only."""
        return not self._style.specials

    @property
    def is_large(self) -> bool:
        """Whether large numbers are among the inputs: sides are then compared in fp64 alone, as narrow floats
        overflow."""
        return self._style.specials is LARGE

    def _pick(self, options: Sequence[T]) -> T:
        return pick(self._rng, options)

    def _shape(self) -> Shape:
        shape = tuple(self._pick(self._style.extents.axes) for _ in range(self._pick((0, 1, 2, 2, 3))))
        return shape if math.prod(shape) <= MAX_ELEMENTS else ()

    def _field(self, field: Term, options: Sequence[T]) -> T:
        """A text or integer of the pattern: the literal, the binding of the variable, or one of `options`."""
        fixed = self.binding.get(field.name) if isinstance(field, Var) else field
        if fixed is not None:
            if fixed not in options:
                raise Unfit
            return fixed  # type: ignore[return-value]
        assert isinstance(field, Var)
        allowed = self._choices.get(field.name)
        chosen = self._pick(options if allowed is None else [option for option in options if option in allowed])
        self.binding[field.name] = chosen  # type: ignore[assignment]
        return chosen

    def _bind(self, pattern: Var, type_: TensorType, make: Callable[[TensorType], App]) -> Term:
        """The term that a variable stands for. Where the variable occurs again, it must fit the same shape and
        dtype."""
        if pattern.name not in self.binding:
            self.binding[pattern.name] = make(type_)
            self._types[pattern.name] = type_
        if self._types[pattern.name] != type_:
            raise Unfit
        return self.binding[pattern.name]

    def _buffer(self, pattern: Term, type_: TensorType) -> Term:
        match pattern:
            case Var():
                return self._bind(pattern, type_, self._input)
            case App(ctor=ctor, fields={"value": value, "type": text}) if ctor is Store:
                return Store(self._value(value, type_), self._field(text, [type_text(type_)]))
            case App(ctor=ctor, fields={"name": name, "type": text}) if ctor is Input:
                fresh = self._input(type_)
                return Input(self._field(name, [str(fresh.field("name"))]), self._field(text, [type_text(type_)]))
        raise TypeError(f"{pattern} is no buffer")

    def _input(self, type_: TensorType) -> App:
        name = f"X{len(self.inputs)}"
        self.inputs[name] = self._style.array(self._rng, type_, self._wraps)
        return Input(name, type_text(type_))

    def _value(self, pattern: Term, type_: TensorType) -> Term:
        if isinstance(pattern, Var):
            leaves = {Sort.PRO: self._leaf, Sort.EPI: self._epilogue, Sort.ACC: self._accumulator}
            return self._bind(pattern, type_, leaves[pattern.sort])
        maker = _MAKERS.get(pattern.ctor.name) if isinstance(pattern, App) else None
        if maker is None or not isinstance(pattern, App):
            fail(Kind.UNSOUND_RULE, "rules", f"no instances can be made of {pattern}", hint="see rules.instances")
        return maker(self, pattern, type_)

    def _leaf(self, type_: TensorType) -> App:
        """A random value for a variable: a number, a read, or an op on reads."""
        kind = self._rng.integers(4)
        if kind == 0:
            return Imm(type_.dtype.name, number_text(self._number(type_), type_.dtype), sizes_text(type_.shape))
        view, shape = self.view(type_.shape)
        read = Load(self._random_buffer(TensorType.of(type_.dtype, shape)), str(view))
        tame = [op for op in TAME if ((type_.dtype.name,) * FUNCTIONS[op].arity) in operands_of(op, type_.dtype.name)]
        if kind == 1 and tame:
            op = self._pick(tame)
            if op == "neg":
                return PUn(op, type_.dtype.name, read)
            return PBin(op, type_.dtype.name, read, self._leaf(type_))
        return read

    def _random_buffer(self, type_: TensorType) -> App:
        """An input or, now and then, the stored result of a reduction."""
        if self._rng.integers(3):
            return self._input(type_)
        inner = TensorType.of(type_.dtype, (*type_.shape, 2))
        read = Load(self._input(inner), str(identity(inner.shape)))
        return Store(Fin(Reduce("max", type_.dtype.name, "[2]", read)), type_text(type_))

    def _epilogue(self, type_: TensorType) -> App:
        return Pure(self._leaf(type_)) if self._rng.integers(2) else Fin(self._accumulator(type_))

    def _accumulator(self, type_: TensorType) -> App:
        sizes = (self._pick((1, 2, 3)),)
        inner = TensorType.of(type_.dtype, type_.shape + sizes)
        op = "max" if type_.dtype.is_bool else self._pick(("sum", "max"))
        return Reduce(op, type_.dtype.name, sizes_text(sizes), self._leaf(inner))

    def _number(self, type_: TensorType) -> float:
        return self._pick((0, 1, 2, 3)) if not type_.dtype.is_float else self._pick((0.0, 1.0, -2.0, 0.5, -0.0))

    def _constant(self, element: DType) -> float:
        """A number for which a rule may have a condition: an identity, an annihilator, an end of the dtype."""
        if element.is_float:
            return self._pick((*CONSTANTS, math.inf, -math.inf) if self._style.specials else CONSTANTS)
        return self._pick((0, 1, 2, 3, -1, element.lowest, element.highest))

    def _load(self, pattern: App, type_: TensorType) -> App:
        self._repeat_map(pattern.field("buffer"), pattern.field("map"), type_)
        read, shape = self._map(pattern.field("map"), type_, (0.0, 1.0))
        return Load(self._buffer(pattern.field("buffer"), TensorType.of(type_.dtype, shape)), read)

    def _view(self, pattern: App, type_: TensorType) -> App:
        read, shape = self._map(pattern.field("map"), type_, self._fills(type_))
        ctor = PView if pattern.ctor is PView else EView
        return ctor(self._value(pattern.field("x"), TensorType.of(type_.dtype, shape)), read)

    def _at(self, pattern: App, type_: TensorType) -> App:
        read, shape = self._map(pattern.field("map"), type_, self._fills(type_))
        inner = TensorType.of(type_.dtype, shape)
        return At(
            self._value(pattern.field("value"), inner), self._field(pattern.field("type"), [type_text(inner)]), read
        )

    def _map(self, field: Term, type_: TensorType, fills: Sequence[float]) -> tuple[str, Shape]:
        """The text of a map from the domain of `type_`, and the shape that it reads. A map that occurs again reads the
        same shape; a literal map reads the smallest shape that it fits."""
        if isinstance(field, Var) and field.name not in self._sources:
            if self._convolution:
                view, shape = self._convolution.reads[len(self._sources)]
            else:
                view, shape = self.view(type_.shape, fills)
            self._sources[field.name] = shape
            return self._field(field, [str(view)]), shape
        text = str(self.binding[field.name] if isinstance(field, Var) else field)
        fixed = parse_map(text)
        if fixed.sizes != type_.shape:
            raise Unfit
        if isinstance(field, Var):
            return text, self._sources[field.name]
        return text, tuple(max(0, interval(expr, fixed.interior)[1]) + 1 for expr in fixed.exprs)

    def _repeat_map(self, buffer: Term, field: Term, type_: TensorType) -> None:
        """Bind the map of a buffer that occurs again: to the map that has read it, where the domains fit, or to a map
        beside."""
        held = buffer.field("value") if isinstance(buffer, App) and buffer.ctor is Store else buffer
        if not (isinstance(held, Var) and held.name in self._types and isinstance(field, Var)):
            return
        shape = self._types[held.name].shape
        reads = [parse_map(str(self.binding[name])) for name, source in self._sources.items() if source == shape]
        alike = [view for view in reads if len(view.sizes) == type_.rank and not view.is_empty]
        if alike and field.name not in self.binding:
            self._field(field, [str(self._near(self._pick(alike), type_, shape))])
            self._sources[field.name] = shape

    def _near(self, map_: AxisMap, type_: TensorType, shape: Shape) -> AxisMap:
        """A map from another domain that reads a buffer of this shape at the elements that `found` reads, around them,
        or beside them."""
        own = type_.rank - len(self._window)
        if map_.sizes[own:] != type_.shape[own:] and 0 not in type_.shape:
            fills = (0, 1, math.inf) if type_.dtype.is_float else (0, 1)
            return widen(self._rng, map_, type_.shape, len(self._window), shape, self._pick(fills))
        same = axis_map(type_.shape, map_.exprs, map_.guards)
        if self._rng.integers(2):
            return same
        return beside(same, shape, self._cut or Cut(0, 0, 0))

    def _fills(self, type_: TensorType) -> Sequence[float]:
        return FILLS if type_.dtype.is_float else (0, 0, 1)

    def _imm(self, pattern: App, type_: TensorType) -> App:
        number = pattern.field("value")
        wanted = self.binding.get(number.name) if isinstance(number, Var) else number
        text = number_text(self._constant(type_.dtype) if wanted is None else parse_number(str(wanted)), type_.dtype)
        return Imm(
            self._field(pattern.field("dtype"), [type_.dtype.name]),
            self._field(number, [text]),
            self._field(pattern.field("sizes"), [sizes_text(type_.shape)]),
        )

    def _index(self, pattern: App, type_: TensorType) -> App:
        if type_.dtype.is_bool or not type_.shape:
            raise Unfit
        view, _ = self.view(type_.shape, (0,))
        coordinates = view.exprs if view.exprs and not view.guards else identity(type_.shape).exprs
        coordinate = str(axis_map(type_.shape, [self._pick(coordinates)]))
        return Index(
            self._field(pattern.field("dtype"), [type_.dtype.name]), self._field(pattern.field("map"), [coordinate])
        )

    def _gather(self, pattern: App, type_: TensorType) -> App:
        places = TensorType.of(type_.dtype, (*type_.shape, self._pick((1, 2, 3, 4))))
        read, shape = self._map(pattern.field("map"), places, self._fills(type_))
        source = TensorType.of(type_.dtype, shape)
        index = TensorType.of(self._pick(("i32", "i32", "i64", "i8", "u64")), type_.shape)
        if pattern.ctor is Gather:
            held = self._buffer(pattern.field("buffer"), source)
        else:
            held = self._value(pattern.field("x"), source)
        return App(pattern.ctor, (held, read, self._value(pattern.field("index"), index)))

    def _operation(self, pattern: App, type_: TensorType) -> App:
        """An elementwise op; its operands have dtypes for which the op gives the dtype of the value."""
        count = len(pattern.operands)
        ops = [op for op in _OPS if FUNCTIONS[op].arity == count and operands_of(op, type_.dtype.name)]
        op = self._field(pattern.field("op"), ops)
        element = self._field(pattern.field("dtype"), [type_.dtype.name])
        elements = (self._pick(ELEMENTS),) if op == "cast" else self._pick(operands_of(op, element))
        operands = [
            self._value(operand, TensorType.of(name, type_.shape))
            for operand, name in zip(pattern.operands, elements, strict=True)
        ]
        return App(pattern.ctor, (op, element, *operands))

    def _reduction(self, pattern: App, type_: TensorType) -> App:
        op = self._field(pattern.field("op"), ("max", "min") if type_.dtype.is_bool else ("sum", "max", "min", "prod"))
        element = self._field(pattern.field("dtype"), [type_.dtype.name])
        sizes = self._sizes(pattern.field("sizes"))
        self._reduced = parse_sizes(sizes)
        inner = TensorType.of(self._pick(summands_of(type_.dtype.name)), type_.shape + self._reduced)
        return Reduce(op, element, sizes, self._value(pattern.field("x"), inner))

    def _contraction(self, pattern: App, type_: TensorType) -> App:
        if type_.dtype.is_bool:
            raise Unfit
        element = self._field(pattern.field("dtype"), [type_.dtype.name])
        sizes = self._sizes(pattern.field("sizes"))
        self._window = self._reduced = parse_sizes(sizes)
        shape = type_.shape + self._reduced
        operands = [
            self._value(operand, TensorType.of(self._factor(operand, element), shape)) for operand in pattern.operands
        ]
        return Contract(element, sizes, *operands)

    def _factor(self, pattern: Term, element: str) -> str:
        """The dtype of a factor of a product."""
        buffer = pattern.field("buffer") if isinstance(pattern, App) and pattern.ctor is Load else None
        other = self._alike_buffers.get(buffer.name) if isinstance(buffer, Var) else None
        if other in self._types:
            return self._types[other].dtype.name
        return element if other == "" else self._pick(summands_of(element))

    def _stream(self, pattern: App, type_: TensorType) -> App:
        """A stream; scores and values are floats, as their sum is."""
        if not type_.dtype.is_float:
            raise Unfit
        op = self._field(pattern.field("op"), ("exp", "exp2"))
        element, sizes = pattern.field("dtype"), pattern.field("sizes")
        product = self._contraction(Contract(element, sizes, *pattern.operands), type_)
        return Stream(op, product.field("dtype"), product.field("sizes"), *product.operands)

    def _greatest(self, pattern: App, type_: TensorType) -> App:
        if type_.dtype.is_bool:
            raise Unfit
        suffixes = [sizes_text(type_.shape[at:]) for at in range(len(type_.shape)) if 0 not in type_.shape[at:]]
        domain = self._field(pattern.field("domain"), [sizes_text(type_.shape)])
        return PMax(domain, self._field(pattern.field("sizes"), suffixes), self._value(pattern.field("x"), type_))

    def _scan(self, pattern: App, type_: TensorType) -> App:
        if not type_.shape or type_.dtype.is_bool:
            raise Unfit
        return Scan(
            self._field(pattern.field("op"), ("sum", "max", "prod")),
            self._field(pattern.field("dtype"), [type_.dtype.name]),
            self._field(pattern.field("axis"), range(len(type_.shape))),
            self._value(pattern.field("x"), type_),
        )

    def _scatter(self, pattern: App, type_: TensorType) -> App:
        if not type_.shape:
            raise Unfit
        along = int(self._field(pattern.field("axis"), range(len(type_.shape))))
        count = self._pick((1, 2, 4))
        sizes = tuple(count if axis == along else size for axis, size in enumerate(type_.shape))
        ops = ("last", "max", "min") if type_.dtype.is_bool else ("last", "sum", "max", "min", "prod")
        return Scatter(
            self._field(pattern.field("op"), ops),
            self._field(pattern.field("type"), [type_text(type_)]),
            self._field(pattern.field("sizes"), [sizes_text(sizes)]),
            along,
            self._value(pattern.field("x"), type_),
            self._value(pattern.field("index"), TensorType.of("i32", sizes)),
            self._value(pattern.field("value"), TensorType.of(type_.dtype, sizes)),
        )

    def _wrap(self, pattern: App, type_: TensorType) -> App:
        (operand,) = pattern.operands
        return App(pattern.ctor, (self._value(operand, type_),))

    def _sizes(self, field: Term) -> str:
        known = self.binding.get(field.name) if isinstance(field, Var) else field
        if known is not None:
            return str(known)
        if self._convolution:
            sizes = self._convolution.reduced
        elif self._paired and self._window and self._rng.integers(4):
            sizes = tuple(size + self._pick((0, 1, 2)) for size in self._window)
        else:
            sizes = tuple(self._pick(self._style.extents.reduced) for _ in range(self._pick((1, 1, 2))))
            sizes = sizes if math.prod(sizes) <= MAX_TERMS else sizes[:1]
        return self._field(field, [sizes_text(sizes)])

    def view(self, domain: Shape, fills: Sequence[float] = (0.0, 1.0)) -> tuple[AxisMap, Shape]:
        """A random map from `domain`, and the shape that it reads. With several patterns the map often reads a part of
        a buffer; under a reduction it is now and then constant along the reduced axes."""
        own = len(domain) - len(self._reduced)
        if self._paired and domain and self._cut is None and self._rng.integers(2):
            view, shape, self._cut = part(self._rng, domain)
            return view, shape
        if self._reduced and domain[own:] == self._reduced and not self._rng.integers(4):
            return invariant_map(self._rng, domain, own, fills)
        return random_map(self._rng, domain, fills)


def _is_bare_product(pattern: App) -> bool:
    """Whether a pattern is a product of any two buffers and nothing else: rules about these are about convolutions."""
    if pattern.ctor is Fin:
        (inner,) = pattern.operands
        return isinstance(inner, App) and _is_bare_product(inner)
    if pattern.ctor is not Contract:
        return False
    reads = [part for part in pattern.operands if isinstance(part, App) and part.ctor is Load]
    return len(reads) == 2 and all(isinstance(field, Var) for read in reads for field in read.args)


_OPS = tuple(FUNCTIONS)


_MAKERS: Mapping[str, Callable[[Instance, App, TensorType], App]] = {
    "Load": Instance._load,
    "Imm": Instance._imm,
    "Index": Instance._index,
    **dict.fromkeys(("Gather", "PGather"), Instance._gather),
    **dict.fromkeys(("PUn", "PBin", "PTern", "EUn", "EBin", "ETern"), Instance._operation),
    **dict.fromkeys(("PView", "EView"), Instance._view),
    "At": Instance._at,
    "Reduce": Instance._reduction,
    "Contract": Instance._contraction,
    "Stream": Instance._stream,
    "PMax": Instance._greatest,
    "Scan": Instance._scan,
    "Scatter": Instance._scatter,
    **dict.fromkeys(("Pure", "Fin"), Instance._wrap),
}
