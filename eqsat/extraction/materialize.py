"""The kernels of a cover as regions, from the candidates that were chosen."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover, assert_acyclic
from eqsat.extraction.cover_search import Chosen
from eqsat.extraction.selection import UNCONTESTED, Selection
from ir.diagnostics import Diagnostic


def materialized(
    candidates: Candidates,
    chosen: Chosen,
    selections: Mapping[int, Selection] | None = None,
    diagnostics: tuple[Diagnostic, ...] = (),
) -> Cover:
    """The cover of these candidates, all priced. `selections`: by buffer, what its kernel was chosen before."""
    by_buffer = selections or {}
    kernels = tuple(candidates.kernel(each, by_buffer.get(each.buffer, UNCONTESTED)) for each in chosen)
    assert_acyclic(kernels)
    return Cover(
        kernels=kernels,
        outputs=candidates.outputs,
        names=candidates.names,
        constants=candidates.constant,
        considered=len(candidates),
        priced=len(candidates.prices),
        diagnostics=diagnostics,
    )
