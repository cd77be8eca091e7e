"""Seed 000 §11, and the machines it is asked about."""

from __future__ import annotations

import msgspec
import pytest

from eqsat.cost.fusion import fusion
from eqsat.cost.occupancy import resident_blocks, resident_share, stops, widest_of
from eqsat.cost.pricing import PlanPricer
from eqsat.cost.roofline import ALL_TERMS, Roofline, Terms, peak
from eqsat.cost.targets import (
    A100,
    GPUS,
    H100,
    H200,
    cpu_target,
    device_target,
    gpu_target,
    nominal_cpu,
    nominal_weights,
)
from ir.diagnostics import EqsatError, Kind
from ir.plan.cpu import Blocks, CpuContractionPlan, OperandPlace
from ir.plan.gpu import GpuContractionPlan
from ir.plan.plan import Plan
from ir.pricer import Price, Work
from ir.target import Target
from ir.uop.table import FUNCTIONS
from tests.support.programs import regions
from tests.support.stages.made_plans import gpu_plan

CPU = cpu_target(
    arch="avx2", cores=4, lanes=8, clock_hz=2e9, bandwidth=10e9, cache_bandwidth=40e9, launch_ns=500, l3_bytes=1_000_000
)
"""256 GFLOP/s in fp32."""
LEVELS = msgspec.structs.replace(CPU, l2_bytes=100_000, l2_bandwidth=400e9, call_ns=50)
"""With a second level of caches that the model knows."""


def work(flops: float = 0, moved: float = 0, occupancy: float = 1, efficiency: float = 1, dtype: str = "fp32") -> Work:
    return Work(flops=flops, bytes=moved, compute_dtype=dtype, occupancy=occupancy, efficiency=efficiency)


BUSY = Work(
    flops=256e3, bytes=40_000, compute_dtype="fp32", occupancy=0.5, efficiency=0.25,
    recomputed=64e3, reread=8e3, layout=4e3, fanout=2e3,
)  # fmt: skip


def test_compute_bound() -> None:
    parts = Roofline(CPU).estimate(work(flops=256e3))
    assert parts.time == pytest.approx(1000 + 500)
    assert parts.bound == "compute"
    assert Roofline(CPU).estimate(work(flops=256e3, occupancy=0.5, efficiency=0.25)).compute == pytest.approx(8000)


def test_memory_bound_first_in_cache_then_in_memory() -> None:
    model = Roofline(CPU)
    assert model.estimate(work(moved=400_000)).memory == pytest.approx(10_000)
    parts = model.estimate(work(flops=1, moved=3_000_000))
    assert parts.memory == pytest.approx(300_000)
    assert parts.bound == "memory"
    assert model.estimate(work(moved=400_000, occupancy=0.5)).memory == pytest.approx(20_000)
    half_lost = model.estimate(work(moved=750_000)).memory
    assert half_lost == pytest.approx(375_000 / 40 + 375_000 / 10)


def test_cold_bytes_come_from_memory_whatever_the_cache_holds() -> None:
    model = Roofline(CPU)
    assert model.transfer_ns(400_000, cold=100_000) == pytest.approx(300_000 / 40 + 100_000 / 10)
    assert model.transfer_ns(400_000, cold=400_000) == pytest.approx(400_000 / 10)
    assert model.transfer_ns(3_000_000, cold=100_000) == model.transfer_ns(3_000_000)
    given = msgspec.structs.replace(work(moved=400_000), cold_bytes=400_000)
    assert model.estimate(given).memory == pytest.approx(40_000)


def test_each_level_has_its_bandwidth() -> None:
    model = Roofline(msgspec.structs.replace(LEVELS, units=1, l2_bytes=400_000))
    assert model.transfer_ns(200_000) == pytest.approx(500)
    assert model.transfer_ns(450_000) == pytest.approx(11_250)
    times = [model.transfer_ns(1000.0 * size) for size in range(1, 2000)]
    assert times == sorted(times)


def test_several_units_share_the_last_level_alone() -> None:
    assert Roofline(LEVELS).transfer_ns(200_000) == pytest.approx(5_000)


def test_one_unit_may_draw_more_than_its_share_of_memory() -> None:
    alone = msgspec.structs.replace(CPU, unit_bandwidth=8e9)
    assert Roofline(alone).transfer_ns(10e6, 0.25) == pytest.approx(10e6 / 8)
    assert Roofline(CPU).transfer_ns(10e6, 0.25) == pytest.approx(10e6 / 2.5)
    assert Roofline(alone).transfer_ns(10e6, 1.0) == pytest.approx(10e6 / 10)


def test_a_small_kernel_is_its_launch() -> None:
    assert Roofline(CPU).estimate(work(flops=1, moved=4)).bound == "launch"
    alone = msgspec.structs.replace(work(flops=1), parallel=False)
    assert Roofline(CPU).estimate(alone).launch == 500
    assert Roofline(LEVELS).estimate(alone).launch == 50
    assert Roofline(LEVELS).estimate(work(flops=1)).launch == 500


CYCLE = 4 * 8 / (256e9 / 4) * 1e9 / (4 * 0.5)
"""ns of a cycle of one unit, spread over the two of four that work."""


@pytest.mark.parametrize(
    ("terms", "time"),
    [
        (Terms(), 10_000 + 14e3 * CYCLE + 500),
        (Terms(launch=False), 10_000 + 14e3 * CYCLE),
        (Terms(recompute=False), 8_000 + 14e3 * CYCLE + 500),
        (Terms(reuse=False), 10_000 + 6e3 * CYCLE + 500),
        (Terms(layout=False), 10_000 + 10e3 * CYCLE + 500),
        (Terms(fanout=False), 10_000 + 12e3 * CYCLE + 500),
        (Terms(occupancy=False), 5_000 + 14e3 * CYCLE / 2 + 500),
        (Terms(efficiency=False), 2_500 + 14e3 * CYCLE + 500),
        (Terms(compute=False), 14e3 * CYCLE + 500),
        (Terms(compute=False, cache=False), 8_000 + 500),
        (Terms(compute=False, cache=False, memory=False), 14e3 * CYCLE + 500),
    ],
)
def test_every_term_of_a_time_has_a_switch(terms: Terms, time: float) -> None:
    assert Roofline(CPU, terms).estimate(BUSY).time == pytest.approx(time)


@pytest.mark.parametrize("flops", [0, 1e3, 1e9])
@pytest.mark.parametrize("moved", [0, 1e3, 1e9])
@pytest.mark.parametrize("dtype", ["fp32", "fp64", "i8"])
@pytest.mark.parametrize("target", [CPU, LEVELS, A100], ids=["cpu", "levels", "A100"])
def test_the_lower_bound_is_one(flops: float, moved: float, dtype: str, target: Target) -> None:
    model = Roofline(target)
    bound = model.lower_bound(flops, moved)
    assert bound <= model.estimate(work(flops, moved, 0.7, 0.9, dtype)).time
    assert bound <= model.estimate(msgspec.structs.replace(work(flops, moved), parallel=False)).time


def test_a_cycle_of_a_gpu_is_a_clock() -> None:
    """In a clock an SM of an H100 adds twice as many numbers as one of an A100, and starts as many instructions."""
    assert [gpu.cycle_ns * gpu.clock_hz for gpu in (A100, H100, H200)] == pytest.approx([1e9] * 3)
    assert (A100.per_cycle("fp32"), H100.per_cycle("fp32")) == pytest.approx((128, 256))
    assert (A100.per_cycle("fp16"), A100.per_cycle("tf32")) == pytest.approx((2048, 1024))
    assert H100.per_cycle("fp16") == pytest.approx(4096 * 1.83 / 1.98)
    assert (A100.issue, A100.shared_bytes) == (H100.issue, H100.shared_bytes) == (128, 128)
    waiting = Work(flops=0, bytes=0, compute_dtype="fp32", occupancy=1, efficiency=1, layout=1e6)
    for gpu in (A100, H100):
        assert Roofline(gpu).estimate(waiting).layout == pytest.approx(1e6 / gpu.units / gpu.clock_hz * 1e9)


def test_a_device_has_the_speeds_that_it_reports() -> None:
    reported = device_target(
        "NVIDIA A100-SXM4-40GB", "sm80", 108, clock_hz=1.41e9, bandwidth=1.555e12, l2_bytes=40 << 20
    )
    assert reported is not None
    assert reported.bandwidth == 1.555e12
    assert reported.peak_flops == pytest.approx(A100.peak_flops)
    slow = device_target("NVIDIA H100 PCIe", "sm90", 114, clock_hz=1.755e9)
    assert slow is not None
    assert slow.per_cycle("fp16") == pytest.approx(H100.per_cycle("fp16"))
    assert slow.peak_flops["fp32"] == pytest.approx(256 * 114 * 1.755e9)
    ada = device_target("NVIDIA L40S", "sm89", 142, clock_hz=2.52e9, bandwidth=864e9, l2_bytes=96 << 20)
    assert ada is not None
    assert ada.peak_flops["fp16"] == pytest.approx(366e12, rel=0.01)
    assert ada.peak_flops["fp32"] == pytest.approx(91.6e12, rel=0.01)
    assert (ada.bandwidth, ada.l2_bytes) == (864e9, 96 << 20)


# --- occupancy and STOP conditions -------------------------------------------------------------


def block(threads: int = 256, registers: int = 32, shared: int = 0) -> Work:
    """A GPU kernel's work, of which only what a block takes matters."""
    return Work(1e9, 1e6, "fp16", 1.0, 1.0, scratch=shared, block_threads=threads, thread_registers=registers)


def test_what_an_sm_holds() -> None:
    assert resident_blocks(block(), A100) == 8  # 2048 threads
    assert resident_blocks(block(32, 16), A100) == 32  # as many blocks as there may be
    assert resident_blocks(block(registers=128), A100) == 2
    assert resident_blocks(block(registers=33), A100) == 65536 // (8 * 33 * 32 + 8 * 224)
    assert resident_blocks(block(shared=60 << 10), A100) == 2
    assert resident_blocks(block(shared=60 << 10), H100) == 3


def test_occupancy_from_registers_and_shared_memory_is_in_the_price() -> None:
    assert resident_share(block(), A100) == 1
    assert resident_share(block(128, 255), A100) == 0.5
    assert resident_share(block(128, 255), CPU) == 1
    free, crowded = (Roofline(A100).estimate(block(128, 32, size)).compute for size in (0, 160 << 10))
    assert crowded == pytest.approx(4 * free)
    assert Roofline(A100, Terms(occupancy=False)).estimate(block(128, 32, 160 << 10)).compute == pytest.approx(free)


def plan(width: int = 8, tile: tuple[int, int, int] = (128, 64, 64)) -> GpuContractionPlan:
    return gpu_plan(tile, width=width)


def test_independent_instructions_hide_latency_as_threads_do() -> None:
    alone = block(128, 255, 100 << 10)
    assert resident_share(alone, A100) == 0.25
    assert resident_share(msgspec.structs.replace(alone, independent=3.0), A100) == 0.75
    assert resident_share(msgspec.structs.replace(alone, independent=8.0), A100) == 1
    assert resident_share(msgspec.structs.replace(alone, independent=2.0), CPU) == 1


def test_stop_conditions() -> None:
    def met(one: Plan, work: Work, *rivals: Plan) -> tuple[str, ...]:
        return stops(one, work, A100, widest_of((one, *rivals)))

    assert met(plan(), block(shared=100 << 10)) == ()
    assert met(plan(), block(shared=140 << 10)) == ("on-chip memory above 80 %",)
    assert met(plan(), block(registers=255)) == ("registers leave one block per SM",)
    assert met(plan(), msgspec.structs.replace(block(registers=255), independent=2.0)) == ()  # it hides them alone
    assert met(plan(), block(1024, 32, 120 << 10)) == ()  # one block, but not because of registers
    assert met(plan(width=4), block(), plan()) == ("narrower vectors",)
    operands = OperandPlace("A"), OperandPlace("B")
    on_cpu = CpuContractionPlan(
        arch="avx2", pattern="matmul", vector=1, blocks=Blocks(8, 8, 8, 8, 8, 8), operands=operands
    )
    crowded = msgspec.structs.replace(work(1), scratch=1 << 20)
    assert stops(on_cpu, crowded, CPU, widest_of([on_cpu])) == ("on-chip memory above 80 %",)


def test_a_plan_that_meets_a_stop_is_left_where_another_does_not() -> None:
    class Core:
        legal = True

    class Facts:
        core = Core()

    big, small = plan(tile=(256, 128, 64)), plan(tile=(64, 64, 64))
    known = {big.tile: block(shared=150 << 10), small.tile: msgspec.structs.replace(block(), flops=2e9)}

    def price(plans: list[GpuContractionPlan], terms: Terms = ALL_TERMS) -> Price:
        def planner(*_: object) -> list[tuple[Plan, Work]]:
            return [(plan, known[plan.tile]) for plan in plans]

        result = PlanPricer(A100, lambda region: Facts(), planner, terms).price(regions.matmul())  # type: ignore[arg-type, return-value]
        assert isinstance(result, Price)
        return result

    assert price([big, small]).plan == small
    assert price([big, small], Terms(stop=False)).plan == big
    assert price([big]).stops == ("on-chip memory above 80 %",)


# --- the difference of a fusion ----------------------------------------------------------------


def test_a_fusion_saves_bytes_and_a_launch() -> None:
    model = Roofline(CPU)
    several = [work(flops=1e3, moved=2_000_000), work(flops=1e3, moved=2_000_000)]
    parts = fusion(work(flops=2e3, moved=2_000_000), several, model)
    assert parts.saved == pytest.approx(200_000)
    assert parts.arithmetic == pytest.approx(-200_000)
    assert parts.launches == pytest.approx(-500)
    assert parts.occupancy == parts.penalties == 0
    assert parts.time == pytest.approx(-200_500)


def test_a_fusion_is_what_the_prices_say() -> None:
    model = Roofline(LEVELS)
    several = [work(256e3, 300_000, 0.9, 0.5), BUSY, msgspec.structs.replace(BUSY, parallel=False)]
    one = msgspec.structs.replace(BUSY, flops=512e3, layout=9e3, occupancy=0.25)
    parts = fusion(one, several, model)
    assert parts.time == pytest.approx(model.estimate(one).time - sum(model.estimate(work).time for work in several))
    assert parts.occupancy > 0
    assert parts.penalties > 0


# --- machines ----------------------------------------------------------------------------------


def test_a_cpu_from_its_facts() -> None:
    assert peak(CPU, "fp32") == 4 * 2e9 * 2 * 8 * 2
    assert peak(CPU, "fp64") == peak(CPU, "fp32") / 2
    assert peak(CPU, "a dtype without units") == peak(CPU, "fp32")
    assert cpu_target(arch="sse2", cores=1, lanes=4, clock_hz=1e9, native={"bf16": 7.0}).peak_flops["bf16"] == 7.0
    matrix = cpu_target(arch="amx", cores=2, lanes=16, clock_hz=3e9)
    assert peak(matrix, "bf16") == 16 * peak(matrix, "fp32") == peak(matrix, "i8") / 2
    assert not CPU.is_gpu
    assert CPU.last_level_bytes == 1_000_000
    assert CPU.cycle_ns == pytest.approx(0.5)


def test_functions_that_run_lane_by_lane_cost_by_the_lane() -> None:
    narrow, wide = nominal_weights(4), nominal_weights(16)
    assert wide["pow fp64"] == 4 * narrow["pow fp64"] > 100
    assert wide["sqrt fp64"] == narrow["sqrt fp64"]


def test_functions_with_tables_in_registers_cost_less() -> None:
    wide = nominal_weights(16)
    assert all(wide[f"{fn} fp32"] < FUNCTIONS[fn].flops for fn in ("exp", "log", "tanh", "erf", "sigmoid"))
    assert "exp fp32" not in nominal_weights(8)


def test_nominal_figures_are_the_same_on_every_run() -> None:
    sizes = {"l1_bytes": 1 << 15, "l2_bytes": 1 << 20, "l3_bytes": 1 << 25}
    first, again = (nominal_cpu(arch="avx2", cores=2, lanes=8, source="test", **sizes) for _ in range(2))
    assert first == again
    assert first.l2_bandwidth > first.cache_bandwidth > first.bandwidth > first.unit_bandwidth
    assert first.launch_ns > (first.call_ns or 0) > 0
    halved = nominal_cpu(arch="avx512", cores=2, lanes=16, fma_per_cycle=1, source="test", **sizes)
    assert halved.cycle_ns == first.cycle_ns
    assert 1 < halved.fma_per_cycle < first.fma_per_cycle == 2


def test_reading_again_is_dearer_the_further_away_it_lies() -> None:
    costs = [LEVELS.refetch_cycles(held) for held in (10_000, 90_000, 900_000, 9_000_000)]
    assert costs[0] == 0
    assert costs == sorted(set(costs))
    assert A100.refetch_cycles(1 << 30) > A100.refetch_cycles(1 << 20) > 0


def test_gpus_by_name() -> None:
    assert gpu_target("sm_80") is gpu_target("A100")
    assert gpu_target("H200").bandwidth > gpu_target("h100").bandwidth
    assert all(gpu.is_gpu and gpu.source and gpu.last_level_bytes for gpu in GPUS.values())
    assert all(gpu.registers and gpu.threads and gpu.blocks for gpu in GPUS.values())
    with pytest.raises(EqsatError) as caught:
        gpu_target("sm_10")
    assert caught.value.kind is Kind.UNKNOWN_TARGET
