"""What eqsat lacks for a graph is named all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from eqsat.frontends.torch.survey import missing_operators, require_operators
from eqsat.frontends.torch.trace import trace
from ir.diagnostics import EqsatError, Kind


def test_all_missing_operators_are_named_with_their_counts() -> None:
    def function(x: Any) -> Any:
        return torch.linalg.qr(x)[0] @ torch.linalg.qr(x @ x)[1] + torch.linalg.eigvalsh(x)

    graph = trace(function, torch.randn(3, 3))
    missing = missing_operators(graph.graph.nodes)
    assert missing["aten.linalg_qr.default"] == 2
    with pytest.raises(EqsatError, match=r"linalg_qr\.default \(2\), aten\._linalg_eigh") as caught:
        require_operators(graph.graph.nodes)
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.parametrize("element", [torch.complex64, torch.complex128])
def test_complex_numbers_are_refused(element: Any) -> None:
    graph = trace(lambda x: x + 1, torch.zeros(3, dtype=element))
    with pytest.raises(EqsatError, match=r"aten\.add\.Tensor of elements of torch\.complex"):
        require_operators(graph.graph.nodes)
