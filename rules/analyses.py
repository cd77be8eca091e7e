"""What the e-graph knows of its classes: dtypes, who holds an accumulator, and what kernels are worth having.

A movement's result can always be read from its source through a map. So a movement keeps the kernel that it
entered with, but views are composed only down to buffers that were computed, and no kernel is made to write a
moved result unless somebody needs it in memory as it stands.
"""

from __future__ import annotations

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
    PMax,
    PTern,
    PUn,
    Pure,
    PView,
    Reduce,
    Scan,
    Sort,
    Store,
    Stream,
)
from ir.term.rule import Clause, Condition, pattern_variables
from rules.concatenation import is_whole, placed_together
from rules.primitives import element_of, is_outer, non_expanding

BufDtype = Analysis("BufDtype", Sort.BUF, True, "the dtype of a buffer's elements", steers=False)
ProDtype = Analysis("ProDtype", Sort.PRO, True, "the dtype of a value", steers=False)
AccDtype = Analysis("AccDtype", Sort.ACC, True, "the dtype of a finished accumulator", steers=False)
EpiDtype = Analysis("EpiDtype", Sort.EPI, True, "the dtype of a value", steers=False)
Varies = Analysis("Varies", Sort.PRO, False, "some form of it is no number: it reads a buffer or an index")
HasFin = Analysis("HasFin", Sort.EPI, False, "some form of it holds a finished accumulator")
CanFin = Analysis("CanFin", Sort.PRO, False, "it can be an epilogue: some form of it reads what HasFin can give")
Output = Analysis("Output", Sort.BUF, False, "an output of the program (given)")
Computed = Analysis("Computed", Sort.BUF, False, "an input, or a result that no view of another gives (given)")
Inlined = Analysis("Inlined", Sort.BUF, False, "it may be computed again where it is read through a map (given)")
Constant = Analysis("Constant", Sort.BUF, False, "it is known when the program is built (given for inputs)")
Weight = Analysis("Weight", Sort.BUF, False, "the same, and no product that a rule made (given for what is loaded)")
Runs = Analysis("Runs", Sort.BUF, False, "it is not known before the program runs (given for what is loaded)")
Finite = Analysis("Finite", Sort.BUF, False, "its values are numbers if the inputs' are (given)", steers=False)
Wanted = Analysis("Wanted", Sort.EPI, False, "a kernel may compute it: it is needed in memory, or in such a kernel")
Own = Analysis("Own", Sort.PRO, False, "a uop computes it at its own index, or a rule made it a part of that")
OwnEpi = Analysis("OwnEpi", Sort.EPI, False, "the same for values at the output index")
Statistic = Analysis("Statistic", Sort.EPI, False, "it is computed from finished reductions, at their own index")
Reduced = Analysis("Reduced", Sort.PRO, False, "some form of it reads an accumulator as it was stored")
Parted = Analysis("Parted", Sort.BUF, False, "it may become a part of something larger: a product, or made of a part")
Merged = Analysis("Merged", Sort.BUF, False, "it is the product of a whole group of inputs, or made of that")
LowRank = Analysis("LowRank", Sort.BUF, False, "some form of it is a product that is larger than its factors")
Place = Analysis("Place", Sort.BUF, True, "its place among the inputs that multiply one operand alike (given)")
Held = Analysis("Held", Sort.PRO, False, "a kernel that may be computed holds it")

ANALYSES = (
    *(BufDtype, ProDtype, AccDtype, EpiDtype, Varies, HasFin, CanFin),
    *(Output, Computed, Inlined, Constant, Weight, Runs, Finite, Wanted, Own, OwnEpi, Statistic, Held),
    *(Reduced, LowRank, Parted, Merged, Place),
)
GIVEN = (Output, Computed, Inlined, Constant, Weight, Runs, Finite)
"""Decided on the whole program before any rule runs."""
STORED, PASSING = (Computed,), (Parted,)
"""They hold for the buffers that rules introduce: for those to stay, and for those on the way to others."""
PARTS = (Own, OwnEpi)
"""They hold for the ops below a value that is loaded, or built by a rule that moves no view."""

b, c, p, q, r, a, e, f, g, m, n, o, t, d, k, axis = pattern_variables(
    "b:B c:B p:P q:P r:P a:A e:E f:E g:E m:S n:S o:S t:S d:S k:S axis:I"
)


def _holds(analysis: Analysis, term: App, *when: Condition) -> Clause:
    return Clause(analysis(term), when)


_stored = Store(Pure(p), t)

CLAUSES = (
    Clause(BufDtype(Input(n, t)), value=element_of(t)),
    Clause(BufDtype(Store(e, t)), value=element_of(t)),
    Clause(ProDtype(Load(b, m)), value=BufDtype(b)),
    Clause(ProDtype(Imm(d, n, k)), value=d),
    Clause(ProDtype(Index(d, m)), value=d),
    Clause(ProDtype(Gather(b, m, axis, p)), value=BufDtype(b)),
    Clause(ProDtype(PUn(o, d, p)), value=d),
    Clause(ProDtype(PBin(o, d, p, q)), value=d),
    Clause(ProDtype(PTern(o, d, p, q, r)), value=d),
    Clause(ProDtype(PView(p, m)), value=ProDtype(p)),
    Clause(ProDtype(PMax(n, k, p)), value=ProDtype(p)),
    Clause(ProDtype(At(e, t, m)), value=EpiDtype(e)),
    Clause(AccDtype(Reduce(o, d, k, p)), value=d),
    Clause(AccDtype(Contract(d, k, p, q)), value=d),
    Clause(AccDtype(Stream(o, d, k, p, q)), value=d),
    Clause(AccDtype(Scan(o, d, axis, p)), value=d),
    Clause(EpiDtype(Pure(p)), value=ProDtype(p)),
    Clause(EpiDtype(Fin(a)), value=AccDtype(a)),
    Clause(EpiDtype(EUn(o, d, e)), value=d),
    Clause(EpiDtype(EBin(o, d, e, f)), value=d),
    Clause(EpiDtype(ETern(o, d, e, f, g)), value=d),
    Clause(EpiDtype(EView(e, m)), value=EpiDtype(e)),
    _holds(Varies, Load(b, m)),
    _holds(Varies, Index(d, m)),
    _holds(Varies, Gather(b, m, axis, p)),
    _holds(Varies, At(e, t, m)),
    _holds(Varies, PUn(o, d, p), Varies(p)),
    _holds(Varies, PBin(o, d, p, q), Varies(p)),
    _holds(Varies, PBin(o, d, p, q), Varies(q)),
    _holds(Varies, PTern(o, d, p, q, r), Varies(p)),
    _holds(Varies, PTern(o, d, p, q, r), Varies(q)),
    _holds(Varies, PTern(o, d, p, q, r), Varies(r)),
    _holds(Varies, PView(p, m), Varies(p)),
    _holds(HasFin, Fin(a)),
    _holds(HasFin, EUn(o, d, e), HasFin(e)),
    _holds(HasFin, EBin(o, d, e, f), HasFin(e)),
    _holds(HasFin, EBin(o, d, e, f), HasFin(f)),
    _holds(HasFin, ETern(o, d, e, f, g), HasFin(e)),
    _holds(HasFin, ETern(o, d, e, f, g), HasFin(f)),
    _holds(HasFin, ETern(o, d, e, f, g), HasFin(g)),
    _holds(HasFin, EView(e, m), HasFin(e)),
    _holds(CanFin, Load(Store(e, t), m), HasFin(e), non_expanding(m)),
    _holds(CanFin, PUn(o, d, p), CanFin(p)),
    _holds(CanFin, PBin(o, d, p, q), CanFin(p)),
    _holds(CanFin, PBin(o, d, p, q), CanFin(q)),
    _holds(CanFin, PTern(o, d, p, q, r), CanFin(p)),
    _holds(CanFin, PTern(o, d, p, q, r), CanFin(q)),
    _holds(CanFin, PTern(o, d, p, q, r), CanFin(r)),
    _holds(Runs, Store(Fin(Contract(d, k, Load(b, m), q)), t), Runs(b)),
    _holds(Runs, Store(Fin(Contract(d, k, p, Load(c, n))), t), Runs(c)),
    _holds(Parted, Store(Fin(a), t), Computed(Store(Fin(a), t)), Runs(Store(Fin(a), t))),
    _holds(Parted, Store(Pure(PBin("add", d, Load(b, m), Load(c, n))), t), Merged(b), Constant(c), Computed(c)),
    _holds(Merged, Store(Fin(Contract(d, k, p, Load(c, n))), t), is_whole(Place(c))),
    _holds(Merged, Store(Fin(Contract(d, k, Load(c, n), p)), t), is_whole(Place(c))),
    _holds(Merged, Store(Pure(PBin(o, d, Load(b, m), Load(c, n))), t), Merged(b), Constant(c)),
    _holds(Merged, Store(Pure(PBin(o, d, Load(b, m), Load(c, n))), t), Merged(b), Merged(c)),
    Clause(Place(Store(Pure(PBin("add", d, Load(b, m), Load(c, n))), t)), value=placed_together(Place(b), Place(c))),
    _holds(Reduced, Load(Store(Fin(a), t), n)),
    _holds(LowRank, Store(Fin(Contract(d, k, Load(b, m), Load(c, n))), t), is_outer(m, n, t)),
    _holds(LowRank, Store(Pure(PBin("mul", d, Load(b, m), Imm(d, n, k))), t), LowRank(b)),
    _holds(Constant, Store(Pure(Load(b, m)), t), Constant(b)),
    _holds(Constant, Store(Pure(PUn(o, d, Load(b, m))), t), Constant(b)),
    _holds(Constant, Store(Pure(PBin(o, d, Load(b, m), Load(c, n))), t), Constant(b), Constant(c)),
    _holds(Constant, Store(Pure(PBin(o, d, Load(b, m), Imm(d, n, k))), t), Constant(b)),
    _holds(Constant, Store(Fin(Contract(d, k, Load(b, m), Load(c, n))), t), Constant(b), Constant(c)),
    _holds(Constant, Store(Fin(Reduce(o, d, k, Load(b, m))), t), Constant(b)),
    _holds(Weight, Store(Pure(Load(b, m)), t), Weight(b)),
    _holds(Weight, Store(Pure(PUn(o, d, Load(b, m))), t), Weight(b)),
    _holds(Weight, Store(Pure(PBin(o, d, Load(b, m), Load(c, n))), t), Weight(b), Weight(c)),
    _holds(Weight, Store(Pure(PBin(o, d, Load(b, m), Imm(d, n, k))), t), Weight(b)),
    Clause(Wanted(e), (Computed(Store(e, t)),), pattern=Store(e, t)),
    Clause(Wanted(e), (Output(Store(e, t)),), pattern=Store(e, t)),
    Clause(Wanted(e), pattern=Gather(Store(e, t), m, axis, p)),
    Clause(Wanted(e), pattern=At(e, t, m)),
    Clause(Wanted(e), pattern=EUn(o, d, e)),
    Clause(Wanted(e), pattern=EBin(o, d, e, f)),
    Clause(Wanted(f), pattern=EBin(o, d, e, f)),
    Clause(Wanted(e), pattern=ETern(o, d, e, f, g)),
    Clause(Wanted(f), pattern=ETern(o, d, e, f, g)),
    Clause(Wanted(g), pattern=ETern(o, d, e, f, g)),
    Clause(Own(p), (Computed(_stored), Inlined(_stored)), pattern=_stored),
    Clause(OwnEpi(e), (Computed(Store(e, t)), Inlined(Store(e, t))), pattern=Store(e, t)),
    _holds(OwnEpi, Pure(p), Own(p)),
    _holds(Statistic, Fin(Reduce(o, d, k, p))),
    _holds(Statistic, EUn(o, d, e), Statistic(e)),
    _holds(Statistic, EBin(o, d, e, f), Statistic(e)),
    _holds(Statistic, EBin(o, d, e, f), Statistic(f)),
    Clause(Held(p), (Wanted(Pure(p)),), pattern=Pure(p)),
    Clause(Held(p), (Wanted(Fin(Reduce(o, d, k, p))),), pattern=Fin(Reduce(o, d, k, p))),
    Clause(Held(p), (Wanted(Fin(Contract(d, k, p, q))),), pattern=Fin(Contract(d, k, p, q))),
    Clause(Held(q), (Wanted(Fin(Contract(d, k, p, q))),), pattern=Fin(Contract(d, k, p, q))),
    Clause(Held(q), (Wanted(Fin(Stream(o, d, k, p, q))),), pattern=Fin(Stream(o, d, k, p, q))),
    Clause(Held(p), (Wanted(Fin(Scan(o, d, axis, p))),), pattern=Fin(Scan(o, d, axis, p))),
    Clause(Held(p), (Held(Gather(b, m, axis, p)),), pattern=Gather(b, m, axis, p)),
    Clause(Held(p), (Held(PUn(o, d, p)),), pattern=PUn(o, d, p)),
    Clause(Held(p), (Held(PBin(o, d, p, q)),), pattern=PBin(o, d, p, q)),
    Clause(Held(q), (Held(PBin(o, d, p, q)),), pattern=PBin(o, d, p, q)),
    Clause(Held(p), (Held(PTern(o, d, p, q, r)),), pattern=PTern(o, d, p, q, r)),
    Clause(Held(q), (Held(PTern(o, d, p, q, r)),), pattern=PTern(o, d, p, q, r)),
    Clause(Held(r), (Held(PTern(o, d, p, q, r)),), pattern=PTern(o, d, p, q, r)),
)
