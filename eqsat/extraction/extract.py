"""Extraction: from a saturated e-graph to the kernels of the program.

    enumerate     the candidate kernels of every buffer that the outputs need
    search        a cover of the program by candidates of one output, their prices learnt on the way
    materialize   the cover's kernels as regions
    join          one kernel in place of two, where that is cheaper
    lay out       what lies between kernels in the order of axes that is cheapest

The cover of ordinary fusion competes in the search, and again after the last step, unless it is further back than
joining and layouts bring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.cover_search import Chosen, CoverSearch
from eqsat.extraction.extractors import EXTRACTORS, OPTIMAL, SIMPLE
from eqsat.extraction.extractors.greedy import greedy
from eqsat.extraction.joining import joined
from eqsat.extraction.layouts.forms import Forms
from eqsat.extraction.layouts.relayout import relaid
from eqsat.extraction.limits import DEFAULT, EnumerationLimits
from eqsat.extraction.materialize import materialized
from eqsat.garbage_collector import release
from ir.diagnostics import Kind, fail
from ir.pricer import Pricer

STAGE = "extract"


def extract(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    *,
    constants: Iterable[str] = (),
    extractor: str = "pareto",
    limits: EnumerationLimits = DEFAULT,
    joining: bool = True,
    relayout: bool = True,
) -> Cover:
    """The cheapest cover that the extractor finds.

    Args:
        outputs: Tiny nodes.
        constants: names of inputs that are known when the program is built.
        joining: whether one kernel may write several outputs.
        relayout: whether buffers between its kernels may be stored in other orders of their axes.

    Raises:
        EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
    """
    if extractor not in EXTRACTORS:
        fail(Kind.INVALID_OPTION, STAGE, f"there is no extractor {extractor!r}", hint=", ".join(EXTRACTORS))
    release()
    candidates, forms = Candidates(view, outputs, pricer, constants, limits), Forms(pricer)
    cheap = CoverSearch(candidates, greedy)  # prices the kernels that any extractor would try first
    cheap.price_all() if extractor in OPTIMAL else cheap.settled()
    search = CoverSearch(candidates, EXTRACTORS[extractor])

    def finished(chosen: Chosen) -> Cover:
        cover = materialized(candidates, chosen, search.selections(chosen), search.stops(chosen))
        if joining:
            cover = joined(cover, candidates.joining_context)
        return relaid(cover, forms) if relayout else cover

    settled = search.settled()
    ordinary = None if extractor in SIMPLE else search.ordinary()
    best = search.best(settled, ordinary, swaps=extractor not in SIMPLE)
    cover = finished(best)
    if ordinary is None or {*ordinary} == {*best}:
        return cover
    lead_ns, saved_ns = search.total_ns(ordinary) - search.total_ns(best), search.total_ns(best) - cover.time_ns
    return cover if lead_ns > saved_ns else min(cover, finished(ordinary), key=lambda each: each.time_ns)
