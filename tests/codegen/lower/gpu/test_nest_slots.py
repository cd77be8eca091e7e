"""Issue slots that nests are priced at, beside the instructions in SASS of kernels without loops."""

from __future__ import annotations

import math
import re

import pytest

from codegen.compile.nvrtc import assemble, nvrtc_version
from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.plan.fit_plan import fit_plan
from codegen.plan.gpu.nest_candidates import nest_candidates
from codegen.poly.analyse import checked_core
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.roofline import Roofline
from eqsat.cost.targets import A100, H100
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target
from tests.codegen.lower.cpu.test_lower_nest import softmax
from tests.codegen.lower.gpu.test_counts import PINNED
from tests.codegen.lower.gpu.test_gpu_nests import layer_norm, permuted
from tests.support.gpu.instruction_counts import disassembler, sass
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.programs import regions as r

STRAIGHT = {
    "layer norm bf16": layer_norm(8192, 1024, "bf16"),
    "layer norm fp32": layer_norm(8192, 1024),
    "pointwise fp16": r.pointwise((8192, 8192), "fp16"),
    "pointwise fp32": r.pointwise((4096, 8192)),
    "transpose": permuted((4096, 4096), (1, 0)),
    "transpose fp16": permuted((4096, 4096), (1, 0), "fp16"),
}
"""Nests whose best plans are kernels without a branch."""


def slots(work: Work) -> float:
    """Issue slots of arithmetic, loads and stores."""
    return (work.flops + work.recomputed) * A100.issue / (A100.per_cycle("fp32") * work.efficiency)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("name", STRAIGHT)
def test_slots_are_about_the_instructions(name: str) -> None:
    command = disassembler()
    if command is None or nvrtc_version() != PINNED:
        pytest.skip("the slots were fitted to the SASS of another compiler, or there is no nvdisasm")
    one = STRAIGHT[name]
    core = checked_core(one)
    plan, work = nest_candidates(one, core, A100)[0]
    kernel = lower_gpu_nest(fit_plan(one, core, plan), plan, "eq_k")
    text = sass(assemble(cuda_text(kernel), "sm_80").cubin, command)
    count = len(re.findall(r"^\s*/\*[0-9a-f]{4}\*/", text.partition("EXIT")[0], re.MULTILINE))
    assert 0.7 < slots(work) / (count * math.prod(kernel.grid) * kernel.threads) < 1.4


def test_statistics_of_a_row_are_computed_once_a_row() -> None:
    """Their arithmetic is each thread's, not each element's: an inverse root alone is 12 additions."""

    def arithmetic(one: Region) -> float:
        work = nest_candidates(one, checked_core(one), A100)[0][1]
        return (work.flops + work.recomputed) / math.prod(one.outputs[0].memref.shape)

    assert arithmetic(layer_norm(8192, 1024)) < 10
    assert arithmetic(layer_norm(8192, 32)) > arithmetic(layer_norm(8192, 1024))


@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.name)
def test_a_softmax_that_memory_binds_is_priced_at_memory(target: Target) -> None:
    """Never below the time of its bytes, and not far above: most instructions and waits are hidden behind them."""
    one = softmax(16384, 4096, "fp16")
    floor = 2 * 2 * 16384 * 4096 / target.bandwidth * 1e9
    times = [Roofline(target).estimate(work).time for _, work in nest_candidates(one, checked_core(one), target)]
    assert floor <= min(times) < 1.15 * floor + target.launch_ns
