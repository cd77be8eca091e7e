"""eqsat.from_torch and exported programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

import eqsat
from eqsat import EqsatError
from ir.diagnostics import Kind

F = torch.nn.functional


class Classifier(torch.nn.Module):  # type: ignore[misc]
    """An image and a factor → class scores and the greatest one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(4, 5)

    def forward(self, image: Any, factor: float = 1.0) -> Any:
        features = F.max_pool2d(self.norm(self.conv(image)).relu(), 2)
        scores = self.linear(features.mean((2, 3))) * factor
        return {"scores": scores, "best": scores.argmax(1)}


@pytest.mark.slow
def test_a_module_is_a_program_with_its_parameters_as_constants(tmp_path: Path) -> None:
    module = Classifier().eval()
    x = torch.randn(2, 3, 8, 8)
    program = eqsat.from_torch(module, (x, 2.0))
    assert program.arguments == ("image",)
    expected = module(x, 2.0)
    for actual in (program(x), program(image=x)):
        torch.testing.assert_close(actual[0], expected["scores"].detach())
        assert torch.equal(actual[1], expected["best"])
    program.save(tmp_path / "classifier")
    scores, _ = eqsat.load(tmp_path / "classifier")(x.numpy())
    np.testing.assert_allclose(scores, expected["scores"].detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_later_changes_of_the_module_do_not_change_the_program() -> None:
    module = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    expected = module(x).detach()
    program = eqsat.from_torch(module, (x,))
    with torch.no_grad():
        module.weight.zero_()
    torch.testing.assert_close(program(x), expected)


@pytest.mark.slow
def test_dynamic_sizes_compile_variants() -> None:
    module = Classifier().eval()
    shapes = {"image": {0: torch.export.Dim("batch", min=1, max=64)}, "factor": None}
    program = eqsat.from_torch(module, (torch.randn(2, 3, 8, 8), 1.0), dynamic_shapes=shapes)
    assert program.variants == []
    for batch in (3, 5):
        x = torch.randn(batch, 3, 8, 8)
        torch.testing.assert_close(program(x)[0], module(x)["scores"].detach())
    assert len(program.variants) == 2
    with pytest.raises(EqsatError, match="from 1 to 64, not for 65"):
        program(torch.randn(65, 3, 8, 8))


def test_an_exported_program_is_a_source() -> None:
    module = Classifier().eval()
    x = torch.randn(2, 3, 8, 8)
    program = eqsat.optimize_and_compile(torch.export.export(module, (x,)), exactness="exact")
    torch.testing.assert_close(program(x)[0], module(x)["scores"].detach())


def test_conversions_in_a_module_are_taken() -> None:
    """torch.export surrounds them with assertions of the dtypes."""

    class Mixed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(64, 32).bfloat16()

        def forward(self, x: Any) -> Any:
            return self.linear(x.to(torch.bfloat16)).float().relu()

    module, x = Mixed(), torch.randn(5, 64)
    program = eqsat.from_torch(module, (x,))
    torch.testing.assert_close(program(x), module(x).detach(), rtol=2e-2, atol=2e-2)


@pytest.mark.slow
def test_a_module_in_training_and_a_missing_operator_are_refused() -> None:
    with pytest.raises(EqsatError, match=r"the module changes .*running_mean.*\n.*eval"):
        eqsat.from_torch(Classifier(), (torch.randn(2, 3, 8, 8),))

    class Solver(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.linalg.qr(x)[0]

    with pytest.raises(EqsatError, match=r"eqsat lacks aten\.linalg_qr") as caught:
        eqsat.from_torch(Solver(), (torch.randn(3, 3),))
    assert caught.value.kind is Kind.UNSUPPORTED_OP


def test_a_module_that_cannot_be_traced_is_torchs_own_error() -> None:
    class Branch(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(Exception, match="data-dependent") as caught:
        eqsat.from_torch(Branch(), (torch.randn(3),))
    assert not isinstance(caught.value, EqsatError)
