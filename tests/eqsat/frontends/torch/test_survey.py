"""What eqsat lacks for a graph is named all at once."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from eqsat.frontends.torch import survey as survey_module
from eqsat.frontends.torch.backend import eqsat as backend
from eqsat.frontends.torch.lower_node import lower_node
from eqsat.frontends.torch.operator_table import LOWERINGS
from eqsat.frontends.torch.survey import TorchSurvey
from eqsat.frontends.torch.trace import trace
from ir.diagnostics import EqsatError, Kind, fail


def test_all_missing_operators_are_named_with_their_counts() -> None:
    def function(x: Any) -> Any:
        return torch.linalg.qr(x)[0] @ torch.linalg.qr(x @ x)[1] + torch.linalg.eigvalsh(x)

    graph = trace(function, torch.randn(3, 3))
    missing = TorchSurvey().missing_operators(graph.graph.nodes)
    assert missing["aten.linalg_qr.default"] == 2
    with pytest.raises(EqsatError, match=r"linalg_qr\.default \(2\), aten\._linalg_eigh") as caught:
        TorchSurvey().require_operators(graph.graph.nodes)
    assert caught.value.kind is Kind.UNSUPPORTED_OP


def test_functions_of_complex_numbers_without_a_lowering_are_named() -> None:
    graph = trace(lambda x: x.tan() + 1, torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(EqsatError, match=r"eqsat lacks aten\.tan\.default of complex numbers"):
        TorchSurvey().require_operators(graph.graph.nodes)


def test_complex_numbers_of_half_precision_are_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that these elements are experimental
        graph = trace(lambda x: x + 1, torch.zeros(3, dtype=torch.complex32))
    with pytest.raises(EqsatError, match=r"aten\.add\.Tensor of elements of torch\.complex32"):
        TorchSurvey().require_operators(graph.graph.nodes)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that surveys lower, in order."""
    names: list[str] = []

    def counted(node: Any, values: Any) -> Any:
        names.append(str(node.target))
        return lower_node(node, values)

    monkeypatch.setattr(survey_module, "lower_node", counted)
    return names


def test_equal_nodes_are_lowered_once(lowered: list[str]) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x + y).relu() + (y + x).relu() + (x + x) + x.sum(0) + x.sum(1, keepdim=True) + (x + 2) + (x + 2.0)

    graph = trace(function, torch.randn(3, 3), torch.randn(3, 3))
    survey = TorchSurvey()
    assert not survey.missing_operators(graph.graph.nodes)
    assert lowered.count("aten.relu.default") == 1
    assert lowered.count("aten.sum.dim_IntList") == 2
    assert lowered.count("aten.add.Tensor") == 6  # y + x, x + x, of a row, of a column, 2 and 2.0
    del lowered[:]
    assert not survey.missing_operators(graph.graph.nodes)
    assert not lowered


@pytest.mark.slow
def test_forward_and_backward_graphs_are_surveyed_with_their_joint_graph(lowered: list[str]) -> None:
    torch._dynamo.reset()
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    model = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.Tanh())))
    torch.compile(model, backend=backend)(torch.randn(5, 4)).sum().backward()
    assert lowered.count("aten.addmm.default") == 1
    assert lowered.count("aten.tanh.default") == 1


def test_an_internal_error_is_no_missing_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        fail(Kind.INTERNAL_ERROR, "tensor", "eqsat failed")

    monkeypatch.setitem(LOWERINGS, "relu.default", broken)
    graph = trace(lambda x: x.relu(), torch.randn(3))
    with pytest.raises(EqsatError, match="eqsat failed") as caught:
        TorchSurvey().missing_operators(graph.graph.nodes)
    assert caught.value.kind is Kind.INTERNAL_ERROR
    torch._dynamo.reset()
    with pytest.raises(EqsatError, match="eqsat failed"):
        torch.compile(lambda x: x.relu(), backend=backend)(torch.randn(3))
