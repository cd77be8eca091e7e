"""The e-graph language. Its sorts decide which values can be one kernel:

    Buf   a tensor in memory
    Pro   a value that can be computed at any index inside a kernel
    Acc   the accumulator of one reduction
    Epi   a value at the output index of a kernel

Every extractable term of sort Buf is one legal kernel, so fusion is a rewrite that needs no check. Index maps are the
canonical texts of `ir.index.map.AxisMap`, types texts such as `fp32[4,8]`, sizes texts such as `[3,3]`. Every value has
a domain, which is a box of sizes; the reduced axes are the last of a Pro's.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Literal, TypeGuard, TypeVar

from ir.diagnostics import EqsatError, Kind, fail
from ir.grammar import with_article, with_count


class Sort(Enum):
    """A sort of the language. STR and I64 are egglog's own."""

    BUF = "Buf"
    PRO = "Pro"
    ACC = "Acc"
    EPI = "Epi"
    STR = "String"
    I64 = "i64"

    @property
    def is_class(self) -> bool:
        """Whether values of this sort are e-classes; others are texts and integers."""
        return self not in (Sort.STR, Sort.I64)

    @property
    def is_inline(self) -> bool:
        """Whether values of this sort stay inside a kernel."""
        return self.is_class and self is not Sort.BUF


FieldName = Literal["acc", "axis", "buffer", "domain", "dtype", "index", "map", "name",
                    "numbers", "op", "score", "sizes", "type", "value", "x", "y", "z"]  # fmt: skip
"""The names of the arguments of constructors."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Ctor:
    """A constructor: the names and sorts of its arguments, the sort of its result, and its meaning."""

    name: str
    fields: tuple[tuple[FieldName, Sort], ...]
    result: Sort
    doc: str

    @cached_property
    def args(self) -> tuple[Sort, ...]:
        return tuple(sort for _, sort in self.fields)

    @cached_property
    def places(self) -> Mapping[FieldName, int]:
        """Field → its place among the arguments."""
        return {field: place for place, (field, _) in enumerate(self.fields)}

    def place(self, field: FieldName) -> int:
        """The place of a field among the arguments. Raises TypeError if the constructor does not have the field."""
        if field not in self.places:
            raise TypeError(f"{self.name} has no {field}, but {', '.join(self.places)}")
        return self.places[field]

    def by_field(self, args: Sequence[_T]) -> dict[str, _T]:
        """Field → argument."""
        return {field: arg for (field, _), arg in zip(self.fields, args, strict=True)}

    def __call__(self, *args: Term) -> App:
        return App(self, args)


@dataclass(frozen=True)
class Var:
    """A pattern variable of a rule."""

    name: str
    sort: Sort

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Primitive:
    """A pure function on texts (index algebra, properties of ops) that rules may call.

    `fn` must be importable by its module and name; integers reach it as texts. An empty answer means that the rule does
    not apply. A primitive that `steers` guides the search: the check of a rule assumes that it answers. sign: a text
    that the first argument contains wherever the function answers; the engine looks for it without a call.
    """

    fn: Callable[..., str]
    steers: bool = False
    sign: str = ""

    def __post_init__(self) -> None:
        if "<" in self.fn.__qualname__:
            raise TypeError(f"{self.fn.__qualname__} is not importable: define it at the top of a module")

    @property
    def name(self) -> str:
        return self.fn.__name__

    @property
    def path(self) -> str:
        """The place to import it from: `module:name`."""
        return f"{self.fn.__module__}:{self.fn.__name__}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, as in the text of the meaning."""
        return tuple(name.rstrip("_") for name in _signature(self.fn).parameters)

    @property
    def meaning(self) -> str:
        """The first sentence of the docstring, ready to follow other words: no full stop; "" without a docstring."""
        sentence = " ".join((inspect.getdoc(self.fn) or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]

    def answer(self, *texts: str) -> str:
        """The function's answer for these texts.

        Raises:
            EqsatError: UnsoundRule, if the function fails or returns no text; any EqsatError that it raises itself.
        """
        try:
            answer = self.fn(*texts)
        except EqsatError:
            raise
        except Exception as error:  # a primitive may be any user's function
            message = f"the primitive {self.name} failed: {type(error).__name__}: {error}"
            fail(Kind.UNSOUND_RULE, "rules", message, given=list(texts))
        if not isinstance(answer, str):
            message = f"the primitive {self.name} answered {answer!r}, {with_article(type(answer).__name__)}"
            hint = 'a text, as f"[{rows},{columns}]" for sizes; "" where the rule does not apply'
            fail(Kind.UNSOUND_RULE, "rules", message, hint=hint, given=list(texts))
        return answer

    def __call__(self, *args: Term) -> Prim:
        return Prim(self, args)


@dataclass(frozen=True)
class Prim:
    """A call of a primitive: a text computed while a rule matches."""

    fn: Primitive
    args: tuple[Term, ...]

    def __post_init__(self) -> None:
        wanted = _signature(self.fn.fn)
        try:
            wanted.bind(*self.args)
        except TypeError as error:
            raise TypeError(f"{self.fn.name}{wanted} is given {', '.join(map(str, self.args))}: {error}") from None
        for arg in self.args:
            if sort_of(arg).is_class:
                raise TypeError(f"{self.fn.name} takes texts and integers, got {arg}")

    @property
    def arguments(self) -> dict[str, Term]:
        """Parameter → argument."""
        return dict(zip(self.fn.parameters, self.args, strict=False))

    def argument(self, parameter: str) -> Term:
        """The argument of a parameter. Raises TypeError if the primitive does not have the parameter."""
        arguments = self.arguments
        if parameter not in arguments:
            raise TypeError(f"{self.fn.name} has no {parameter}, but {', '.join(arguments)}")
        return arguments[parameter]

    def __str__(self) -> str:
        return f"{self.fn.name}({', '.join(map(str, self.args))})"


@lru_cache(maxsize=1024)
def _signature(fn: Callable[..., str]) -> inspect.Signature:
    return inspect.signature(fn)


@dataclass(frozen=True)
class Analysis:
    """A property of e-classes, derived bottom-up: a fact that holds or not, or (`valued`) a text per class.

    Two different texts for one class are a contradiction and stop the engine: this detects unsound rules. A fact that
    `steers` guides the search and says nothing about values; the check of a rule assumes that it holds.
    """

    name: str
    over: Sort
    valued: bool
    doc: str
    steers: bool = True

    def __call__(self, term: Term) -> Fact:
        return Fact(self, term)


@dataclass(frozen=True)
class Fact:
    """The answer of an analysis for a term: a condition of a rule and, if valued, a text."""

    analysis: Analysis
    term: Term

    def __post_init__(self) -> None:
        if sort_of(self.term) is not self.analysis.over:
            raise TypeError(f"{self.analysis.name} is a property of {self.analysis.over.value}: {self.term}")

    def __str__(self) -> str:
        return f"{self.analysis.name}({self.term})"


@dataclass(frozen=True)
class App:
    """A constructor applied to terms. A wrong sort is a TypeError as soon as the term is written."""

    ctor: Ctor
    args: tuple[Term, ...]
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.args) != len(self.ctor.args):
            raise TypeError(
                f"{self.ctor.name} takes {with_count(len(self.ctor.args), 'argument')}, got {len(self.args)}"
            )
        for (name, wanted), arg in zip(self.ctor.fields, self.args, strict=True):
            given = sort_of(arg)
            if given is not wanted:
                raise TypeError(
                    f"{self.ctor.name}.{name} is {with_article(wanted.value)}, got {with_article(given.value)}: {arg}"
                )
        object.__setattr__(self, "_hash", hash((self.ctor.name, self.args)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[App], tuple[Ctor, tuple[Term, ...]]]:
        return App, (self.ctor, self.args)  # texts hash differently in every process

    @property
    def operands(self) -> tuple[Term, ...]:
        """The arguments that are terms, without texts and integers."""
        return tuple(arg for arg, sort in zip(self.args, self.ctor.args, strict=True) if sort.is_class)

    def field(self, name: FieldName) -> Term:
        """The argument of this name. Raises TypeError if the constructor does not have the field."""
        return self.args[self.ctor.place(name)]

    @property
    def fields(self) -> dict[str, Term]:
        """Field → argument."""
        return self.ctor.by_field(self.args)

    def __str__(self) -> str:
        return f"{self.ctor.name}({', '.join(map(str, self.args))})"


Term = App | Var | Prim | Fact | str | int


def sort_of(term: Term) -> Sort:
    """The sort of a term; texts and integers have egglog's own sorts."""
    match term:
        case App():
            return term.ctor.result
        case Var():
            return term.sort
        case Prim() | Fact() | str():
            return Sort.STR
        case int():
            return Sort.I64


def subterms(term: Term) -> Iterator[Term]:
    """The term and all terms below it, parents first."""
    waiting: list[Term] = [term]
    while waiting:
        part = waiting.pop()
        yield part
        match part:
            case App(args=args) | Prim(args=args):
                waiting.extend(reversed(args))
            case Fact():
                waiting.append(part.term)


def variables(term: Term) -> Mapping[str, Var]:
    """The pattern variables of a term by name; one name with two sorts is a TypeError."""
    by_name: dict[str, Var] = {}
    for part in subterms(term):
        if isinstance(part, Var) and by_name.setdefault(part.name, part) != part:
            raise TypeError(f"the variable {part.name} has two sorts in {term}")
    return by_name


def substitute(term: Term, binding: Mapping[str, Term]) -> Term:
    """The term with its variables replaced; variables without a binding stay."""
    match term:
        case Var():
            return binding.get(term.name, term)
        case App():
            return App(term.ctor, tuple(substitute(arg, binding) for arg in term.args))
        case Prim():
            return Prim(term.fn, tuple(substitute(arg, binding) for arg in term.args))
        case Fact():
            return Fact(term.analysis, substitute(term.term, binding))
        case _:
            return term


_S, _I, _B, _P, _A, _E = Sort.STR, Sort.I64, Sort.BUF, Sort.PRO, Sort.ACC, Sort.EPI

Input = Ctor("Input", (("name", _S), ("type", _S)), _B, "an input or a constant of the program")
Store = Ctor("Store", (("value", _E), ("type", _S)), _B, "the tensor one kernel writes")

Load = Ctor("Load", (("buffer", _B), ("map", _S)), _P, "a read: the buffer at map(index)")
Imm = Ctor("Imm", (("dtype", _S), ("value", _S), ("sizes", _S)), _P, "a number, the same at every index of a domain")
Index = Ctor("Index", (("dtype", _S), ("map", _S)), _P, "the index itself: the one coordinate of map(index)")
Table = Ctor(
    "Table",
    (("dtype", _S), ("numbers", _S), ("sizes", _S)),
    _P,
    "the numbers of a small tensor of these sizes, row-major: a constant of a rule, computed when the program is built",
)
Gather = Ctor(
    "Gather",
    (("buffer", _B), ("map", _S), ("index", _P)),
    _P,
    "a read at a computed place: the buffer at map(point, index), where the map's last axis is the index, clamped into "
    "the axis",
)
PUn = Ctor("PUn", (("op", _S), ("dtype", _S), ("x", _P)), _P, "a unary op; dtype is the result's")
PBin = Ctor("PBin", (("op", _S), ("dtype", _S), ("x", _P), ("y", _P)), _P, "a binary op")
PTern = Ctor("PTern", (("op", _S), ("dtype", _S), ("x", _P), ("y", _P), ("z", _P)), _P, "a ternary op")
At = Ctor(
    "At",
    (("value", _E), ("type", _S), ("map", _S)),
    _P,
    "a value of this type, finished inside the kernel before it is read at map(index)",
)
PView = Ctor("PView", (("x", _P), ("map", _S)), _P, "x at map(index)")
PGather = Ctor("PGather", (("x", _P), ("map", _S), ("index", _P)), _P, "x at a computed place, as a Gather's")
PMax = Ctor(
    "PMax",
    (("domain", _S), ("sizes", _S), ("x", _P)),
    _P,
    "the greatest of x, of these sizes, over its last axes, at each of their points",
)

Reduce = Ctor("Reduce", (("op", _S), ("dtype", _S), ("sizes", _S), ("x", _P)), _A, "x reduced over its last axes")
Contract = Ctor(
    "Contract", (("dtype", _S), ("sizes", _S), ("x", _P), ("y", _P)), _A, "the sum of x·y over the last axes"
)
Stream = Ctor(
    "Stream",
    (("op", _S), ("dtype", _S), ("sizes", _S), ("score", _P), ("value", _P)),
    _A,
    "the sum of op(score − max score)·value over the last axes in one pass; op is exp or exp2",
)
Scan = Ctor("Scan", (("op", _S), ("dtype", _S), ("axis", _I), ("x", _P)), _A, "x accumulated along an axis")
Scatter = Ctor(
    "Scatter",
    (("op", _S), ("type", _S), ("sizes", _S), ("axis", _I), ("x", _P), ("index", _P), ("value", _P)),
    _A,
    "x of this type, with `value`, of these sizes, combined in at the positions `index` along an axis; index has the "
    "sizes of value",
)

Pure = Ctor("Pure", (("x", _P),), _E, "a value without an accumulator")
Fin = Ctor("Fin", (("acc", _A),), _E, "a finished accumulator")
EUn = Ctor("EUn", (("op", _S), ("dtype", _S), ("x", _E)), _E, "a unary op")
EBin = Ctor("EBin", (("op", _S), ("dtype", _S), ("x", _E), ("y", _E)), _E, "a binary op")
ETern = Ctor("ETern", (("op", _S), ("dtype", _S), ("x", _E), ("y", _E), ("z", _E)), _E, "a ternary op")
EView = Ctor("EView", (("x", _E), ("map", _S)), _E, "x at map(index)")

CTORS: Mapping[str, Ctor] = {
    ctor.name: ctor
    for ctor in (
        *(Input, Store),
        *(Load, Imm, Index, Table, Gather, PUn, PBin, PTern, At, PView, PGather, PMax),
        *(Reduce, Contract, Stream, Scan, Scatter),
        *(Pure, Fin, EUn, EBin, ETern, EView),
    )
}

GIVEN = Ctor("Buffer", (("name", _S),), _B, "a buffer that is taken as given: a leaf of explanations, in no e-graph")

COMPUTING = frozenset({Gather, PUn, PBin, PTern, EUn, EBin, ETern, Fin})
"""The constructors that compute a value from others; reads, numbers, views and changes of sort do not."""


def is_op(term: Term) -> TypeGuard[App]:
    """Whether a term is a value computed from others."""
    return isinstance(term, App) and term.ctor in COMPUTING
