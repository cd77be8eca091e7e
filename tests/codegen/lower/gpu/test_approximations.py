"""tanh by the hardware's approximation: where results have 16 bits and the level allows it, alike in all kernels."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.compile.nvrtc import assemble, nvrtc_version
from eqsat import Program, nn, optimize_and_compile
from eqsat import tensor as t
from tests.codegen.lower.gpu.test_counts import PINNED
from tests.support.gpu.instruction_counts import disassembler, sass
from tests.support.gpu.nvrtc import needs_nvrtc


def compiled(source: t.Tensor, exactness: str = "rounding") -> Program:
    return optimize_and_compile(source, target="sm_80", emulate=True, exactness=exactness)


def dense_gelu(m: int, n: int, k: int, dtype: str = "bf16") -> t.Tensor:
    x, w, b = t.input("x", (m, k), dtype), t.input("w", (k, n), dtype), t.input("b", (n,), dtype)
    return nn.gelu(x @ w + b, approximate="tanh")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_results_of_16_bits_take_the_approximation(dtype: str) -> None:
    x = t.input("x", (33, 7), dtype)
    for source in (x.tanh(), x.tanh().sum(1), dense_gelu(33, 24, 40, dtype)):
        program = compiled(source)
        assert "eq_tanh_approx_f32" in program.source()
        assert program.verify()


@pytest.mark.parametrize("exactness", ["exact", "reassociate"])
def test_lower_levels_keep_the_exact_function(exactness: str) -> None:
    assert "tanh_approx" not in compiled(t.input("x", (33, 7), "fp16").tanh(), exactness).source()


def test_wider_results_keep_the_exact_function() -> None:
    assert "tanh_approx" not in compiled(t.input("x", (33, 7)).tanh()).source()
    assert "tanh_approx" not in compiled(t.input("x", (33, 7), "fp16").cast("fp32").tanh()).source()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_an_approximation_is_off_by_one_unit_in_the_last_place_at_most(dtype: str) -> None:
    """The emulator's function is off by the whole bound of the PTX ISA; rounding adds half a unit. Infinities, NaN and
    zeros are as they are."""
    x = np.concatenate([np.linspace(-9, 9, 4001), [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, 1e-4]])
    x = x.astype(np.float16).astype(np.float32)
    program = compiled(t.input("x", x.shape, dtype).tanh())
    given = x.astype(program.random_inputs()["x"].dtype)
    actual = np.asarray(program(x=given)).astype(np.float64)
    wanted = np.tanh(given.astype(np.float64))
    unit = np.maximum(np.abs(wanted) * {"fp16": 2.0**-10, "bf16": 2.0**-7}[dtype], 2.0**-24)
    finite = np.isfinite(wanted)
    assert (np.isnan(actual) == np.isnan(wanted)).all()
    assert (np.abs(actual - wanted)[finite] <= unit[finite]).all()


def test_no_element_stays_none() -> None:
    assert np.asarray(compiled(t.input("x", (0, 5), "fp16").tanh())(x=np.zeros((0, 5), np.float16))).shape == (0, 5)


@pytest.mark.slow
@needs_nvrtc
def test_the_epilogue_of_a_gelu_has_no_slow_path() -> None:
    """128 results of a thread: 6,730 instructions with the exact function."""
    command = disassembler()
    if command is None or nvrtc_version() != PINNED:
        pytest.skip("the SASS is of another compiler, or there is no nvdisasm")
    text = compiled(dense_gelu(4096, 4096, 4096)).source()
    whole = sass(assemble(text, "sm_80").cubin, command)
    assert whole.count("MUFU.TANH") == whole.count("MUFU") == 128
    assert whole.count(" ;") < 5200
