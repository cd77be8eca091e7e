"""Whole models for GPUs, compiled without one: no kernel spills or is warned of, and small ones compute what playback
does."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench.gpu.decoder import decoder
from codegen.compile.nvrtc import build
from eqsat import Program, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.clock import Clock
from eqsat.cost.targets import gpu_target
from eqsat.model import read_model
from eqsat.options import Options
from eqsat.pipeline import optimize
from eqsat.zoo import light_model
from tests.support.gpu.models import bert
from tests.support.gpu.nvrtc import ARCHES, needs_nvrtc
from tests.support.gpu.programs import PROGRAMS
from tests.support.sampling import first_few


def kernel_texts(source: Any, dims: Any, arch: str) -> list[str]:
    """The text of each kernel; nothing is compiled."""
    model = read_model(source, None, dims)
    bound = model.bind(model.infer({}), False)
    return list(optimize(bound, gpu_target(arch), Options(), Clock()).kernels.values())


@needs_nvrtc
@first_few(1, "arch", ARCHES)
def test_every_kernel_of_the_programs_compiles_cleanly(arch: str) -> None:
    texts: dict[str, str] = {}
    for name, make in PROGRAMS.items():
        for text in kernel_texts(*make(), arch):
            texts[re.sub(r"(?<=void )eq_\w+", f"eq_{len(texts)}", text, count=1)] = name
    kernels = build("\n".join(texts), arch).kernels
    assert len(kernels) == len(texts) > len(PROGRAMS)
    named = dict(enumerate(texts.values()))
    bad = [
        f"{named[int(kernel.name.removeprefix('eq_'))]}: {kernel}"
        for kernel in kernels
        if kernel.spills or kernel.lints
    ]
    assert not bad


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("norm", ["layer norm", "RMS norm", "softmax"])
def test_a_row_is_one_kernel_by_its_price(norm: str, arch: str) -> None:
    x, weight, bias = t.input("x", (8192, 1024), "bf16"), t.input("w", (1024,), "bf16"), t.input("b", (1024,), "bf16")
    norms = {
        "layer norm": lambda: nn.layer_norm(x, weight, bias),
        "RMS norm": lambda: nn.rms_norm(x, weight),
        "softmax": lambda: nn.softmax(x),
    }
    assert len(kernel_texts(norms[norm](), None, arch)) == 1


def assert_clean(program: Program, least: int, most: int) -> None:
    assert least <= len(program.kernels) <= most
    resources = [kernel.resources for kernel in program.kernels]
    assert not [resource for resource in resources if resource is None or resource.spills or resource.lints]


@needs_nvrtc
@pytest.mark.exhaustive
def test_resnet50_compiles_whole() -> None:
    pytest.importorskip("onnx")
    assert_clean(optimize_and_compile(light_model("resnet50"), target="sm_80"), 48, 60)


@needs_nvrtc
@pytest.mark.parametrize(
    "layers", [pytest.param(2, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.exhaustive)]
)
def test_bert_compiles_whole(layers: int) -> None:
    program = optimize_and_compile(bert(layers), target="sm_80")
    assert_clean(program, layers * 5, layers * 14)
    assert len({kernel.function for kernel in program.kernels}) < len(program.kernels)
    assert "eq_mma_m16n8k16_f16" in program.source()


@needs_nvrtc
@pytest.mark.slow
def test_an_encoder_of_floats_takes_tensor_cores_where_it_may() -> None:
    program = optimize_and_compile(bert(1, dtype="fp32"), target="sm_80", tf32=True)
    assert_clean(program, 5, 14)
    assert "eq_mma_m16n8k8_tf32" in program.source()


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_90", marks=pytest.mark.exhaustive)])
def test_a_decoder_block_compiles_whole(arch: str) -> None:
    program = optimize_and_compile(decoder(2048).lazy(), target=arch)
    assert_clean(program, 6, 16)
    assert "eq_mma_m16n8k16_bf16" in program.source()


@pytest.mark.slow
@pytest.mark.parametrize("source", [bert(1, 17, 32, 2), decoder(17, 32, 2, 40).lazy()], ids=["bert", "decoder"])
def test_small_models_compute_what_playback_does(source: Any) -> None:
    program = optimize_and_compile(source, target="sm_80", emulate=True)
    program.verify({name: (array * 0.2).astype(array.dtype) for name, array in program.random_inputs(3).items()})
