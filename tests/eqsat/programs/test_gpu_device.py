"""Programs on a real GPU: the numbers that the emulator gives elsewhere, arrays of every family, graphs, times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.device.ceilings import Ceilings
from bench.device.clock import EventClock
from bench.gpu.cases import cases
from bench.gpu.decoder import decoder
from bench.gpu.lab import cuda_lab
from bench.gpu.measure import measure_case
from codegen.run.device import find_device
from eqsat import Program, optimize_and_compile
from eqsat.find_target import target_of
from ir.diagnostics import EqsatError, Kind
from tests.support.gpu.models import bert
from tests.support.gpu.programs import PROGRAMS, dense, pointwise, softmax

DEVICE = find_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason="there is no CUDA device here")]


def compiled(source: Any, **keywords: Any) -> Program:
    assert DEVICE is not None
    target = target_of(DEVICE)
    assert target is not None
    return optimize_and_compile(source, target=target, **keywords)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_playback_does(name: str) -> None:
    source, dims = PROGRAMS[name]()
    compiled(source, dims=dims).verify(seed=3)


@pytest.mark.parametrize("source", [bert(2, 50, 64, 4), decoder(65, 64, 4, 96).lazy()], ids=["bert", "decoder"])
def test_models_compute_what_playback_does(source: Any) -> None:
    program = compiled(source)
    program.verify({name: (array * 0.2).astype(array.dtype) for name, array in program.random_inputs(3).items()})


@pytest.mark.parametrize("name", ["gemm bf16 1024³", "softmax bf16 16384×4096"])
def test_a_case_of_the_bench_is_measured(name: str) -> None:
    case, target = cases()[name].small(), target_of(DEVICE) if DEVICE else None
    assert target is not None
    row = measure_case(case, cuda_lab(target), EventClock(), Ceilings(3e12, 6e14), 0.1)
    assert "failed" not in row
    assert 1 < row["times"]["eqsat"]["us"] < 1000


def test_large_products_use_more_shared_memory_than_48_kb() -> None:
    program = compiled(dense(1000, 1024, 1016, "bf16"))
    program.verify()


@pytest.mark.parametrize("graph", [False, True])
def test_cupy_arrays_come_and_go(graph: bool) -> None:
    import cupy

    program = compiled(dense(65, 72, 40, "fp16"), graph=graph)
    for seed in range(3):
        given = program.random_inputs(seed)
        there = {name: cupy.asarray(array) for name, array in given.items()}
        actual = program(there)
        assert isinstance(actual, cupy.ndarray)
        expected = program(given)
        assert isinstance(expected, np.ndarray)
        np.testing.assert_array_equal(actual.get(), expected)
        out = cupy.zeros_like(actual)
        assert program(there, out=out) is out
        np.testing.assert_array_equal(out.get(), expected)


def test_torch_tensors_come_and_go_on_their_stream() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    program = compiled(dense(65, 72, 40, "bf16"))
    a, b, bias = (torch.randn(shape, device="cuda").bfloat16() for shape in ((65, 40), (40, 72), (72,)))
    with torch.cuda.stream(torch.cuda.Stream()):
        actual = program(a * 2, b, bias)
        assert actual.dtype is torch.bfloat16
        expected = torch.relu((2 * a).float() @ b.float() + bias.float())
        assert (actual.float() - expected).abs().max() < 2e-2 * expected.abs().max()


def test_several_outputs_of_every_dtype() -> None:
    import cupy

    program = compiled(pointwise())
    given = program.random_inputs()
    result = program(
        {name: cupy.asarray(array) if array.dtype != "bfloat16" else array for name, array in given.items()}
    )
    for there, here in zip(result, program(given), strict=True):
        np.testing.assert_array_equal(np.asarray(there.get()).view(here.dtype), here)


def test_times_are_measured() -> None:
    program = compiled(softmax(1024, 1024))
    for row in program.profile(program.random_inputs(), repeats=5):
        assert row.measured_ns is not None
        assert 100 < row.measured_ns < 1e8


def test_an_older_generation_is_compiled_by_the_driver() -> None:
    optimize_and_compile(softmax(4, 6), target="sm_80").verify()


def test_a_newer_generation_is_refused() -> None:
    assert DEVICE is not None
    newer = "sm_90" if DEVICE.capability.startswith("8") else "sm_120"
    program = optimize_and_compile(softmax(4, 6), target=newer)
    with pytest.raises(EqsatError) as caught:
        program(program.random_inputs())
    assert caught.value.kind is Kind.NO_DEVICE
