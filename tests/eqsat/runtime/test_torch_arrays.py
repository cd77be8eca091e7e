"""Torch tensors in and out, where torch is installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.runtime.arrays import Family, adopt, family_of, give_back, shape_of, writable
from eqsat.runtime.device_call import _memory as device_memory
from eqsat.runtime.device_call import _stream_of as stream_of
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES, TensorType, bf16, fp32

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", list(DTYPES))
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3)])
def test_every_dtype_goes_in_and_out_by_torch(name: str, shape: tuple[int, ...]) -> None:
    element = DTYPES[name]
    x = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(element.numpy)
    tensor = give_back(x.copy(), Family.TORCH)
    assert isinstance(tensor, torch.Tensor)
    assert tuple(tensor.shape) == shape
    back = adopt("x", tensor, element, shape)
    assert back.dtype == element.numpy
    np.testing.assert_array_equal(back, x)


def test_a_torch_bf16_view_and_one_that_needs_grad() -> None:
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4).to(torch.bfloat16)
    np.testing.assert_array_equal(adopt("x", tensor.T, bf16, (4, 3)).astype(np.float32), tensor.T.float().numpy())
    grown = torch.ones(3, requires_grad=True)
    with pytest.raises(EqsatError, match="detach") as caught:
        adopt("x", grown, fp32, (3,))
    assert caught.value.kind is Kind.INPUT_MISMATCH
    with pytest.raises(EqsatError, match="no_grad"):
        t.constant(grown)
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            np.testing.assert_array_equal(adopt("x", grown, fp32, (3,)), np.ones(3))


def test_a_gradient_is_refused_on_a_device_too() -> None:
    pytest.importorskip("cupy")
    grown, wanted = torch.ones(3, requires_grad=True), TensorType.of(fp32, (3,))
    with pytest.raises(EqsatError, match="requires a gradient"):
        device_memory("x", grown, wanted)


class LoggedStream:
    """A stream of CuPy that tells what is asked of it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def __enter__(self) -> None:
        self.log.append(f"on {self.name}")

    def __exit__(self, *_: object) -> None:
        self.log.append(f"off {self.name}")

    def record(self) -> str:
        return self.name

    def wait_event(self, event: str) -> None:
        self.log.append(f"{self.name} after {event}")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], ["on torch", "work", "off torch"]),
        ([np.ones(1)], ["on torch", "torch after cupy", "work", "cupy after torch", "off torch"]),
    ],
)
def test_work_on_arrays_of_two_libraries_is_ordered_with_both(
    others: list[np.ndarray], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    streams = {name: LoggedStream(name, log) for name in ("torch", "cupy")}
    cuda = SimpleNamespace(ExternalStream=lambda address: streams["torch"], get_current_stream=lambda: streams["cupy"])
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=7))
    with stream_of([torch.ones(1), *others]):
        log.append("work")
    assert log == expected


def test_memory_is_shared() -> None:
    x = np.ones((2, 3), np.float32)
    assert np.shares_memory(adopt("x", torch.from_numpy(x), fp32, (2, 3)), x)
    assert shape_of("x", torch.ones(4, 2, dtype=torch.bfloat16).T) == (2, 4)
    assert family_of([np.ones(1), torch.ones(1)]) is Family.TORCH


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(2, dtype=torch.float64),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
    ],
)
def test_tensors_of_another_kind_are_refused(value: torch.Tensor) -> None:
    with pytest.raises(EqsatError) as caught:
        adopt("x", value, fp32, None)
    assert caught.value.kind is Kind.INPUT_MISMATCH


def test_results_are_written_into_tensors() -> None:
    tensor = torch.zeros(2, 2, dtype=torch.bfloat16)
    writable("y", tensor, bf16, (2, 2))[0, 1] = 3
    assert tensor[0, 1] == 3
    assert writable("y", torch.zeros(0, 2), fp32, (0, 2)).shape == (0, 2)


@pytest.mark.parametrize("out", [torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, 4)[:, ::2], torch.zeros(4)])
def test_unfit_tensors_are_refused_as_out(out: torch.Tensor) -> None:
    with pytest.raises(EqsatError):
        writable("y", out, fp32, (2, 2))


@pytest.fixture(scope="module")
def affine() -> Program:
    """2a − b, and a in bf16."""
    a = t.input("a", (5, 7))
    return optimize_and_compile([a * 2 - t.input("b", (5, 7)), a.cast("bf16")], threads=1)


def test_programs_answer_in_torch(affine: Program) -> None:
    a, b = torch.randn(5, 7), torch.randn(5, 7)
    for first, second in ((a, b), (a.numpy(), b), (a.T.contiguous().T, b)):
        result, narrow = affine(first, second)
        torch.testing.assert_close(result, 2 * a - b)
        assert narrow.dtype is torch.bfloat16
        torch.testing.assert_close(narrow, a.to(torch.bfloat16), rtol=0, atol=0)


def test_programs_write_into_tensors(affine: Program) -> None:
    a, b = torch.randn(5, 7), torch.randn(5, 7)
    wanted = 2 * a - b
    outs = (a, torch.empty(5, 7, dtype=torch.bfloat16))
    assert affine(a, b, out=outs) is outs
    torch.testing.assert_close(a, wanted)


def test_tensors_that_fit_are_passed_by_address(affine: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.runtime.host_call.adopt", lambda *_: pytest.fail("took the long way"))
    a, b = torch.rand(5, 7), torch.nn.Parameter(torch.rand(5, 7))
    with torch.no_grad():
        result, narrow = affine(a, b)
        assert narrow.dtype is torch.bfloat16
        torch.testing.assert_close(result, 2 * a - b)
        torch.testing.assert_close(affine(b=b, a=a)[0], result)


def test_tensors_that_need_more_than_an_address(affine: Program) -> None:
    a, b = torch.rand(5, 7), torch.rand(5, 7)
    imaginary = torch.complex(a, b).conj().imag  # has the negative bit, and gaps
    negative = torch._neg_view(b)
    assert negative.is_neg()
    torch.testing.assert_close(affine(a, imaginary)[0], 2 * a + b)
    torch.testing.assert_close(affine(a, negative)[0], 2 * a + b)
    torch.testing.assert_close(affine(a.flip(0).T.contiguous().T, b)[0], 2 * a.flip(0) - b)
    with pytest.raises(EqsatError, match="detach"):
        affine(a, b.clone().requires_grad_())
    with pytest.raises(EqsatError):
        affine(a.to_sparse(), b)
