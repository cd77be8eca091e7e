"""Seed 000 §11, and the machines it is asked about."""

import pytest

from eqsat.cost.roofline import Terms, estimate, lower_bound_ns, peak
from eqsat.cost.targets import GPUS, cpu_target, gpu_target
from ir.diagnostics import EqsatError, Kind
from ir.pricer import Work

CPU = cpu_target(
    arch="avx2", cores=4, lanes=8, clock_hz=2e9, bandwidth=10e9, cache_bandwidth=40e9, launch_ns=500, l3_bytes=1_000_000
)
"""256 GFLOP/s in fp32."""


def work(flops: float = 0, moved: float = 0, occupancy: float = 1, efficiency: float = 1, dtype: str = "fp32") -> Work:
    return Work(flops=flops, bytes=moved, compute_dtype=dtype, occupancy=occupancy, efficiency=efficiency)


def test_compute_bound() -> None:
    found = estimate(work(flops=256e3), CPU)
    assert found.time_ns == pytest.approx(1000 + 500)
    assert found.bound == "compute"
    assert estimate(work(flops=256e3, occupancy=0.5, efficiency=0.25), CPU).compute_ns == pytest.approx(8000)


def test_memory_bound_first_in_cache_then_in_memory() -> None:
    assert estimate(work(moved=400_000), CPU).memory_ns == pytest.approx(10_000)
    found = estimate(work(flops=1, moved=3_000_000), CPU)
    assert found.memory_ns == pytest.approx(25_000 + 200_000)
    assert found.bound == "memory"
    assert estimate(work(moved=400_000, occupancy=0.5), CPU).memory_ns == pytest.approx(20_000)


def test_a_small_kernel_is_its_launch() -> None:
    assert estimate(work(flops=1, moved=4), CPU).bound == "launch"


@pytest.mark.parametrize(
    ("terms", "time"),
    [
        (Terms(), 8000 + 500),
        (Terms(launch=False), 8000),
        (Terms(occupancy=False), 4000 + 500),
        (Terms(efficiency=False), 2000 + 500),
        (Terms(compute=False), 2000 + 500),
        (Terms(compute=False, cache=False), 8000 + 500),
        (Terms(compute=False, memory=False), 500),
    ],
)
def test_every_term_has_a_switch(terms: Terms, time: float) -> None:
    both = work(flops=256e3, moved=40_000, occupancy=0.5, efficiency=0.25)
    assert estimate(both, CPU, terms).time_ns == pytest.approx(time)


@pytest.mark.parametrize("flops", [0, 1e3, 1e9])
@pytest.mark.parametrize("moved", [0, 1e3, 1e9])
@pytest.mark.parametrize("dtype", ["fp32", "fp64", "i8"])
def test_the_lower_bound_is_one(flops: float, moved: float, dtype: str) -> None:
    bound = lower_bound_ns(flops, moved, CPU)
    assert bound <= estimate(work(flops, moved, 0.7, 0.9, dtype), CPU).time_ns
    assert bound >= CPU.launch_ns


def test_a_cpu_from_its_facts() -> None:
    assert peak(CPU, "fp32") == 4 * 2e9 * 2 * 8 * 2
    assert peak(CPU, "fp64") == peak(CPU, "fp32") / 2
    assert peak(CPU, "a dtype without units") == peak(CPU, "fp32")
    assert cpu_target(arch="sse2", cores=1, lanes=4, clock_hz=1e9, native={"bf16": 7.0}).peak_flops["bf16"] == 7.0
    assert not CPU.is_gpu
    assert CPU.last_level_bytes == 1_000_000


def test_gpus_by_name() -> None:
    assert gpu_target("sm_80") is gpu_target("A100")
    assert gpu_target("H200").bandwidth > gpu_target("h100").bandwidth
    assert all(each.is_gpu and each.source and each.last_level_bytes for each in GPUS.values())
    with pytest.raises(EqsatError) as caught:
        gpu_target("sm_10")
    assert caught.value.kind is Kind.UNKNOWN_TARGET
