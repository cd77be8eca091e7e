"""Plans for devices with less shared memory than an A100 take no more of it than there is."""

from __future__ import annotations

import pytest

from codegen.plan.gpu.candidates import candidates
from codegen.poly.analyse import checked_core
from eqsat.cost.targets import A100, H100, device_target
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from tests.codegen.lower.gpu.test_gpu_nests import layer_norm
from tests.support.programs import regions as r
from tests.support.programs.stream_regions import attention

REGIONS = {
    "product": r.gemm_bias_relu(4096, 4096, 4096, "bf16"),
    "product of floats": r.matmul((), 1024, 1024, 1024),
    "attention": attention(8, 512, 512, 256, 256, dtype="bf16"),
    "long rows": layer_norm(256, 28000),
}


def most_shared(region: Region, target: Target) -> int:
    """The most that a block of any candidate takes."""
    plans = candidates(region, checked_core(region), target, Exactness.ROUNDING)
    assert plans
    return max(work.scratch for _, work in plans)


@pytest.mark.parametrize(("name", "arch"), [("NVIDIA A10", "sm86"), ("NVIDIA L40S", "sm89")])
@pytest.mark.parametrize("region", REGIONS)
def test_plans_fit_the_device(region: str, name: str, arch: str) -> None:
    target = device_target(name, arch, 100)
    assert target is not None
    assert most_shared(REGIONS[region], target) <= 99 << 10


@pytest.mark.parametrize("region", ["product", "attention", "long rows"])
def test_larger_devices_take_more(region: str) -> None:
    assert 99 << 10 < most_shared(REGIONS[region], A100) <= 163 << 10
    assert most_shared(REGIONS[region], H100) <= 227 << 10
