"""Streams: a sum of exponentials whose scores are taken less their maximum is had in one pass over them.

The maximum, the exponentials and their sum read the scores one after another. In one pass the sum is kept relative to
the maximum so far, and is scaled by op(old − new) where that grows (Milakov & Gimelshein 2018). Three steps lead there,
and none knows of another reduction than its own:

    T = maxₖ x, T[m(i)] read along k        is  the greatest of x(m(i), k) over k
    Σₖ op(x − greatest of x)·q              is  stream(x, q)
    stream(T[m], q), T finished in a kernel is  stream(its accumulator, at m, q): scores need no memory

That the scores whose maximum was taken are those in the exponent is no condition of a rule: both are in one class of
the e-graph, or they are not. With the factor of a sum that does not depend on k (`rules.reductions`) and the statistic
that is finished on chip (`rules.rows`) this makes FlashAttention of scores, max, exp, sum, divide and weighted sum.

The level is `rounding`. No exponent is positive, neither before the sum is scaled nor after, so that a finite sum of
the |q| never overflows on the way; each scaling is by op(m − m') ≤ 1 and rounds once, as a term less the maximum does.
A row whose greatest score is infinite or NaN is NaN both ways.
"""

from __future__ import annotations

from ir.term.language import At, Contract, Fin, Imm, Load, PBin, PMax, PUn, PView, Reduce, Store, Stream
from ir.term.rule import Equal, Exactness, Rule, pattern_variables
from rules.analyses import HasFin, Held, ProDtype
from rules.primitives import (
    accumulates,
    domain,
    fill_of_reduction,
    invariant,
    one_of,
    picks,
    several,
    widening_cast,
)

FAMILY = "streams"

p, q, e, o, c, d, w, k, m, s, t = pattern_variables("p:P q:P e:E o:S c:S d:S w:S k:S m:S s:S t:S")

_greatest = Load(Store(Fin(Reduce("max", w, k, p)), t), m)
_along = fill_of_reduction(invariant(m, k), "max", w, k, ProDtype(p))
_weight = PUn(o, c, PBin("sub", c, p, PMax(s, k, p)))
_summable = (one_of(o, "exp exp2"), accumulates(c, d))
_scores = Load(Store(e, t), m)
_on_chip = At(e, t, m)


RULES = (
    Rule(
        "greatest_along_its_axis",
        FAMILY,
        "T = maxₖ p  ⊢  T[m(i)] = greatest of p(m(i), k) over k",
        _greatest,
        PUn("cast", w, PMax(domain(m), k, PView(p, _along))),
        (Held(_greatest), several(k), widening_cast(ProDtype(p), w), Equal(domain(_along), domain(m))),
    ),
    *(
        Rule(name, FAMILY, equation, lhs, Stream(o, d, k, p, value), _summable, Exactness.ROUNDING)
        for name, equation, lhs, value in (
            ("stream_sum", "Σₖ op(p − max p) ≈ stream(p, 1)", Reduce("sum", d, k, _weight), Imm(c, "1.0", s)),
            ("stream_weighted_left", "Σₖ op(p − max p)·q ≈ stream(p, q)", Contract(d, k, _weight, q), q),
            ("stream_weighted_right", "Σₖ q·op(p − max p) ≈ stream(p, q)", Contract(d, k, q, _weight), q),
        )
    ),
    Rule(
        "nest_scores",
        FAMILY,
        "T = e  ⊢  stream(T[m(i, k)], q) = stream(e at m(i, k), q)",
        Stream(o, d, k, _scores, q),
        Stream(o, d, k, _on_chip, q),
        (HasFin(e), picks(m, t, k)),
    ),
    Rule(
        "nest_into_maximum",
        FAMILY,
        "T = e  ⊢  maxₖ T[m(i, k)] = maxₖ (e at m(i, k))",
        Reduce("max", d, k, _scores),
        Reduce("max", d, k, _on_chip),
        (HasFin(e), picks(m, t, k)),
    ),
)
"""A maximum beside a stream of the same scores, as in log-sum-exp, finds them computed."""
