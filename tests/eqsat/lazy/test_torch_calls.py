"""torch's functions called on lazy tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eqsat import tensor
from ir.diagnostics import EqsatError, Kind

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda x: torch.exp(x), "eqsat.tensor.exp"),
        (lambda x: torch.cat([x, x]), "eqsat.tensor.cat"),
        (lambda x: torch.nn.functional.gelu(x), "eqsat.nn.gelu"),
        (lambda x: torch.nn.Linear(3, 2)(x), "eqsat.nn.linear"),
        (lambda x: torch.svd(x), "torch.compile"),
    ],
)
def test_functions_are_refused_by_the_names_of_ours(call: Callable[[Any], Any], hint: str) -> None:
    with pytest.raises(EqsatError) as caught:
        call(tensor.input("x", (2, 3)))
    (found,) = caught.value.diagnostics
    assert found.kind is Kind.UNSUPPORTED_OP
    assert hint in str(found.hint)


def test_operators_beside_a_tensor_of_torch_are_methods_of_the_lazy_tensor() -> None:
    x, y = tensor.input("x", (2, 3)), torch.ones(2, 3)
    assert [(result.uop, result.shape) for result in (y + x, y @ x.T, y**x)] == [
        ("ADD", (2, 3)),
        ("REDUCE", (2, 2)),
        ("POW", (2, 3)),
    ]
