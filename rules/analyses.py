"""Analyses of the classes of the e-graph: dtypes, which values hold an accumulator, and which kernels are worth having.

The result of a movement can always be read from its source through a map. A movement therefore keeps the kernel that it
was loaded with, but views are composed only down to buffers that are computed. No rule makes a kernel that writes a
moved result, unless a kernel needs this result in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from ir.term.language import (
    Analysis,
    App,
    At,
    Contract,
    EBin,
    ETern,
    EUn,
    EView,
    Fin,
    Gather,
    Imm,
    Index,
    Input,
    Load,
    PBin,
    PGather,
    PMax,
    PTern,
    PUn,
    Pure,
    PView,
    Reduce,
    Scan,
    Scatter,
    Sort,
    Store,
    Stream,
    sort_of,
)
from ir.term.rule import Clause, Condition, Equal, pattern_variables
from rules.concatenation import is_whole, placed_together
from rules.primitives import byte, byte_fills, element_of, is_outer, non_expanding

BufDtype = Analysis("BufDtype", Sort.BUF, True, "the dtype of a buffer's elements", steers=False)
ProDtype = Analysis("ProDtype", Sort.PRO, True, "the dtype of a value", steers=False)
AccDtype = Analysis("AccDtype", Sort.ACC, True, "the dtype of a finished accumulator", steers=False)
EpiDtype = Analysis("EpiDtype", Sort.EPI, True, "the dtype of a value", steers=False)
Varies = Analysis("Varies", Sort.PRO, False, "one of its terms is no number: it reads a buffer or an index")
HasFin = Analysis("HasFin", Sort.EPI, False, "one of its terms holds a finished accumulator")
CanFin = Analysis("CanFin", Sort.PRO, False, "it can be an epilogue: one of its terms reads a value with HasFin")
Output = Analysis("Output", Sort.BUF, False, "an output of the program (given)")
Computed = Analysis("Computed", Sort.BUF, False, "an input, or a result that is no view of another buffer (given)")
Inlined = Analysis("Inlined", Sort.BUF, False, "its readers may compute it again, through their maps (given)")
Open = Analysis("Open", Sort.BUF, False, "its readers may compute it: it has no barrier (given)")
Constant = Analysis("Constant", Sort.BUF, False, "it is known when the program is built (given for inputs)")
Weight = Analysis("Weight", Sort.BUF, False, "a constant that is no product made by a rule (given for loaded buffers)")
Runs = Analysis("Runs", Sort.BUF, False, "it is known only when the program runs (given for loaded buffers)")
Finite = Analysis("Finite", Sort.BUF, False, "its values are numbers if the inputs' are (given)", steers=False)
Wanted = Analysis("Wanted", Sort.EPI, False, "a kernel may compute it: memory needs it, or another such kernel does")
Own = Analysis("Own", Sort.PRO, False, "a uop computes it at its own index, or a rule made it a part of such a value")
OwnEpi = Analysis("OwnEpi", Sort.EPI, False, "as Own, for a value at the output index")
Statistic = Analysis("Statistic", Sort.EPI, False, "it is computed from finished reductions, at their own index")
Reduced = Analysis("Reduced", Sort.PRO, False, "one of its terms reads a stored accumulator")
Parted = Analysis(
    "Parted", Sort.BUF, False, "it may become a part of a merged product: a product, or a sum of a part and a constant"
)
Merged = Analysis(
    "Merged", Sort.BUF, False, "it is the merged product of a whole group of inputs, or computed from one"
)
LowRank = Analysis("LowRank", Sort.BUF, False, "one of its terms is a product that is larger than its factors")
Place = Analysis(
    "Place", Sort.BUF, True, "its place in the group of inputs that multiply one operand in the same way (given)"
)
Byte = Analysis("Byte", Sort.PRO, False, "its values are integers that i8 or u8 has", steers=False)
Short = Analysis(
    "Short", Sort.PRO, False, "its values are integers that i8 or u8 has, or differences of two", steers=False
)
Held = Analysis("Held", Sort.PRO, False, "a kernel that may be computed holds it")

ANALYSES = (
    *(BufDtype, ProDtype, AccDtype, EpiDtype, Varies, HasFin, CanFin),
    *(Output, Computed, Inlined, Open, Constant, Weight, Runs, Finite, Wanted, Own, OwnEpi, Statistic, Held),
    *(Reduced, LowRank, Parted, Merged, Place, Byte, Short),
)
GIVEN = (Output, Computed, Inlined, Open, Constant, Weight, Runs, Finite)
"""The analyses that are decided on the whole program, before any rule runs."""
STORED, PASSING = (Computed,), (Parted,)
"""The analyses that hold for a buffer that a rule introduces: for one that stays, and for one that is a step to
others."""
PARTS = (Own, OwnEpi)
"""The analyses that hold for the ops below a value that is loaded, or that is built by a rule that moves no view."""

A, B, p, q, r, a, e, f, g, m, n, o, t, d, k, axis = pattern_variables(
    "A:B B:B p:P q:P r:P a:A e:E f:E g:E m:S n:S o:S t:S d:S k:S axis:I"
)
_pro_ops = PUn(o, d, p), PBin(o, d, p, q), PTern(o, d, p, q, r)
_epi_ops = EUn(o, d, e), EBin(o, d, e, f), ETern(o, d, e, f, g)
_reduced, _product, _scanned = Reduce(o, d, k, p), Contract(d, k, p, q), Scan(o, d, axis, p)
_scattered = Scatter(o, t, k, axis, p, q, r)
_streamed, _gathered = Stream(o, d, k, p, q), Gather(A, m, p)
_read_a, _read_b = Load(A, m), Load(B, n)
_kernel, _stored = Store(e, t), Store(Pure(p), t)
_accumulated = Store(Fin(a), t)


def _holds(analysis: Analysis, term: App, *when: Condition) -> Clause:
    """The analysis holds for a term where the conditions do."""
    return Clause(analysis(term), when)


def _some_operand(analysis: Analysis, *terms: App) -> Iterator[Clause]:
    """The analysis holds for each of these terms where it holds for one operand."""
    for term in terms:
        for operand in term.operands:
            yield _holds(analysis, term, analysis(operand))


def _operands(analysis: Analysis, term: App, *when: Condition) -> Iterator[Clause]:
    """The analysis holds for the operands of a term, or of the accumulator that it finishes."""
    held = term.field("acc") if term.ctor is Fin else term
    assert isinstance(held, App)
    for operand in held.operands:
        if sort_of(operand) is analysis.over:
            yield Clause(analysis(operand), when, pattern=term)


def _bytes(analysis: Analysis) -> Iterator[Clause]:
    """The analysis holds for bytes, for numbers that a byte has, for views of them, and in a wider integer."""
    yield from (_holds(analysis, _read_a, Equal(BufDtype(A), element), byte_fills(m)) for element in ("i8", "u8"))
    yield _holds(analysis, Imm("i32", n, k), byte(n))
    yield _holds(analysis, PView(p, m), analysis(p), byte_fills(m))
    yield _holds(analysis, PUn("cast", "i32", p), analysis(p))


def _stored_where_read(analysis: Analysis) -> Iterator[Clause]:
    """The analysis holds for copies, for ops on one tensor, and for ops on two of which it holds."""
    yield _holds(analysis, Store(Pure(_read_a), t), analysis(A))
    yield _holds(analysis, Store(Pure(PUn(o, d, _read_a)), t), analysis(A))
    yield _holds(analysis, Store(Pure(PBin(o, d, _read_a, _read_b)), t), analysis(A), analysis(B))
    yield _holds(analysis, Store(Pure(PBin(o, d, _read_a, Imm(d, n, k))), t), analysis(A))


CLAUSES = (
    *(Clause(BufDtype(term), value=element_of(t)) for term in (Input(n, t), _kernel)),
    *(Clause(ProDtype(term), value=BufDtype(A)) for term in (_read_a, _gathered)),
    *(Clause(ProDtype(term), value=d) for term in (Imm(d, n, k), Index(d, m), *_pro_ops)),
    *(Clause(ProDtype(term), value=ProDtype(p)) for term in (PView(p, m), PGather(p, m, q), PMax(n, k, p))),
    Clause(ProDtype(At(e, t, m)), value=EpiDtype(e)),
    *(Clause(AccDtype(term), value=d) for term in (_reduced, _product, _streamed, _scanned)),
    Clause(AccDtype(_scattered), value=element_of(t)),
    Clause(EpiDtype(Pure(p)), value=ProDtype(p)),
    Clause(EpiDtype(Fin(a)), value=AccDtype(a)),
    *(Clause(EpiDtype(term), value=d) for term in _epi_ops),
    Clause(EpiDtype(EView(e, m)), value=EpiDtype(e)),
    *(_holds(Varies, term) for term in (_read_a, Index(d, m), _gathered, At(e, t, m))),
    *_some_operand(Varies, *_pro_ops, PView(p, m)),
    _holds(Varies, PGather(p, m, q), Varies(p)),
    _holds(HasFin, Fin(a)),
    *_some_operand(HasFin, *_epi_ops, EView(e, m)),
    _holds(CanFin, Load(_kernel, m), HasFin(e), non_expanding(m)),
    *_some_operand(CanFin, *_pro_ops),
    _holds(Runs, Store(Fin(Contract(d, k, _read_a, q)), t), Runs(A)),
    _holds(Runs, Store(Fin(Contract(d, k, p, _read_b)), t), Runs(B)),
    _holds(Parted, _accumulated, Computed(_accumulated), Runs(_accumulated)),
    _holds(Parted, Store(Pure(PBin("add", d, _read_a, _read_b)), t), Merged(A), Constant(B), Computed(B)),
    _holds(Merged, Store(Fin(Contract(d, k, p, _read_b)), t), is_whole(Place(B))),
    _holds(Merged, Store(Fin(Contract(d, k, _read_b, p)), t), is_whole(Place(B))),
    _holds(Merged, Store(Pure(PBin(o, d, _read_a, _read_b)), t), Merged(A), Constant(B)),
    _holds(Merged, Store(Pure(PBin(o, d, _read_a, _read_b)), t), Merged(A), Merged(B)),
    Clause(Place(Store(Pure(PBin("add", d, _read_a, _read_b)), t)), value=placed_together(Place(A), Place(B))),
    _holds(Reduced, Load(_accumulated, n)),
    _holds(LowRank, Store(Fin(Contract(d, k, _read_a, _read_b)), t), is_outer(m, n, t)),
    _holds(LowRank, Store(Pure(PBin("mul", d, _read_a, Imm(d, n, k))), t), LowRank(A)),
    *_stored_where_read(Constant),
    _holds(Constant, Store(Fin(Contract(d, k, _read_a, _read_b)), t), Constant(A), Constant(B)),
    _holds(Constant, Store(Fin(Reduce(o, d, k, _read_a)), t), Constant(A)),
    *_stored_where_read(Weight),
    Clause(Wanted(e), (Computed(_kernel),), pattern=_kernel),
    Clause(Wanted(e), (Output(_kernel),), pattern=_kernel),
    Clause(Wanted(e), pattern=Gather(_kernel, m, p)),
    *(clause for term in (At(e, t, m), *_epi_ops) for clause in _operands(Wanted, term)),
    Clause(Own(p), (Computed(_stored), Inlined(_stored)), pattern=_stored),
    Clause(OwnEpi(e), (Computed(_kernel), Inlined(_kernel)), pattern=_kernel),
    _holds(OwnEpi, Pure(p), Own(p)),
    _holds(Statistic, Fin(_reduced)),
    *_some_operand(Statistic, *_epi_ops[:2]),
    *(clause for term in (Pure(p), Fin(_reduced), Fin(_product)) for clause in _operands(Held, term, Wanted(term))),
    Clause(Held(q), (Wanted(Fin(_streamed)),), pattern=Fin(_streamed)),
    *(clause for term in (Fin(_scanned), Fin(_scattered)) for clause in _operands(Held, term, Wanted(term))),
    *(clause for term in (_gathered, *_pro_ops) for clause in _operands(Held, term, Held(term))),
    *_bytes(Byte),
    *_bytes(Short),
    _holds(Short, PBin("sub", "i32", p, q), Byte(p), Byte(q)),
)
