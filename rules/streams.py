"""Streams: a sum of exponentials of scores less their maximum is computed in one pass over the scores.

The maximum, the exponentials and their sum read the scores one after another. In one pass the sum is kept relative to
the maximum so far, and is scaled by op(old − new) where the maximum grows (Milakov & Gimelshein 2018). Three steps lead
there, each of which knows one reduction:

    {maxₖ x}[m(i)], read along k               is  the greatest of x(m(i), k) over k
    Σₖ op(x − greatest of x)·q                 is  stream(x, q)
    stream({T}[m], q), T finished in a kernel  is  stream(⟨T⟩[m], q): the scores need no memory

No condition says that the scores in the exponent are the scores whose maximum was taken: both are in one class of the
e-graph, or the pattern does not match. With the factor of a sum that does not depend on k (`rules.reductions`) and the
statistic that is finished on chip (`rules.rows`), these rules make FlashAttention of scores, max, exp, sum, divide and
weighted sum.

The level is `rounding`. No exponent is positive, neither before the sum is scaled nor after, so that a finite sum of
the |q| does not overflow on the way. Each scaling is by op(m − m') ≤ 1 and rounds once, as a term less the maximum
does. A row whose greatest score is infinite or NaN is NaN both ways.
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
from rules.sides import SIDES, on_side

FAMILY = "streams"

p, q, e, o, c, d, k, m, s, t = pattern_variables("p:P q:P e:E o:S c:S d:S k:S m:S s:S t:S")

_greatest = Load(Store(Fin(Reduce("max", d, k, p)), t), m)
_along = fill_of_reduction(invariant(m, k), "max", d, k, ProDtype(p))
_weight = PUn(o, c, PBin("sub", c, p, PMax(s, k, p)))
_summable = (one_of(o, "exp exp2"), accumulates(c, d))
_scores = Load(Store(e, t), m)
_on_chip = At(e, t, m)
_nests = (HasFin(e), picks(m, t, k))


def _weigh(side: str) -> Rule:
    """The exponentials stand on this side of the product."""
    rule = Rule(f"stream_weighted_{side}", FAMILY, "", Contract(d, k, _weight, q), Stream(o, d, k, p, q), _summable,
                Exactness.ROUNDING)  # fmt: skip
    return on_side(side, rule)


RULES = (
    Rule("greatest_along_its_axis", FAMILY, "{maxₖ p}[m(i)] = d(maxₖ p(m(i), k)), at every point of k",
         _greatest, PUn("cast", d, PMax(domain(m), k, PView(p, _along))),
         (Held(_greatest), several(k), widening_cast(ProDtype(p), d), Equal(domain(_along), domain(m)))),
    Rule("stream_sum", FAMILY, "Σₖ o(p − (maxₖ p)) ≈ stream(p, 1)",
         Reduce("sum", d, k, _weight), Stream(o, d, k, p, Imm(c, "1.0", s)), _summable, Exactness.ROUNDING),
    *map(_weigh, SIDES),
    Rule("nest_scores", FAMILY, "stream({e}[m(i, k)], q) = stream(⟨e⟩[m(i, k)], q)",
         Stream(o, d, k, _scores, q), Stream(o, d, k, _on_chip, q), _nests),
    Rule("nest_into_maximum", FAMILY, "maxₖ {e}[m(i, k)] = maxₖ ⟨e⟩[m(i, k)]",
         Reduce("max", d, k, _scores), Reduce("max", d, k, _on_chip), _nests),
)  # fmt: skip
"""A maximum that reads the same scores as a stream, as in log-sum-exp, finds them computed in its kernel."""
