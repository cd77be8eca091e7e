"""Plans that a compiler's report or a clock corrects: refinement, autotune, and the cache of measured plans."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import eqsat.planning.replanning as replanning
from codegen.backends import time_plans
from codegen.backends.gpu import GpuBackend
from codegen.compile import nvrtc
from codegen.plan.gpu.candidates import candidates
from codegen.poly.analyse import analyse
from eqsat import Program, load, optimize_and_compile
from eqsat import tensor as t
from eqsat.cli import app
from eqsat.cost.pricing import SPILLS, PlanPricer
from eqsat.cost.targets import A100, H100
from eqsat.demo import seed_program
from eqsat.planning.plan_cache import MeasuredPlan, PlanCache
from eqsat.planning.refinement import Replanned, refine, what_changed
from eqsat.planning.tuning import MARGIN, MOST_PLANS, Measuring, fastest, tune
from eqsat.runtime.verify import random_inputs
from ir.backend import Texts
from ir.diagnostics import Diagnostic, EqsatError, Kind, Severity
from ir.dtype import TensorType
from ir.kernel.resources import KernelResources
from ir.module.executable import Code
from ir.module.module import KernelCall, Module
from ir.plan.gpu import ContractionTile, GpuContractionPlan
from ir.plan.plan import Plan
from ir.pricer import Price, Rejected, Work
from ir.region.region import Region
from ir.target import Target
from tests.support.cpu.changed_plan import sizes, with_fields
from tests.support.gpu.fake_cupy import fake_cupy
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.programs import regions
from tests.support.stages.made_plans import gpu_plan
from tests.support.stages.plan_class import plan_of

REGION = regions.matmul((), 64, 64, 64, dtype="bf16")
GPUS = pytest.mark.parametrize("target", [A100, H100], ids=["A100", "H100"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- tiles of matrix products -------------------------------------------------------------------


def chosen(target: Target, m: int, n: int, k: int) -> Price:
    price = PlanPricer(target, analyse, candidates).price(regions.gemm_bias_relu(m, n, k, "bf16"))
    assert isinstance(price, Price)
    return price


def tile_of(plan: Plan) -> ContractionTile:
    return plan_of(plan, GpuContractionPlan).tile


@GPUS
def test_large_products_take_large_tiles(target: Target) -> None:
    for size in (4096, 8192):
        price = chosen(target, size, size, size)
        assert (tile_of(price.plan).warp_m, tile_of(price.plan).warp_n) == (64, 64)
        assert sizes(price.plan)[:2] in {(128, 128), (128, 256), (256, 128)}
        assert not price.stops


@GPUS
def test_small_products_take_small_tiles(target: Target) -> None:
    for size in (64, 256):
        rows, columns, _ = sizes(chosen(target, size, size, size).plan)
        assert rows * columns <= 64 * 64


def test_narrow_tiles_are_kept_on_sm90_while_it_takes_the_sm80_path() -> None:
    price = chosen(H100, 16, 4096, 4096)
    assert sizes(price.plan)[0] < 64
    assert not price.stops
    assert "sm_90 takes the sm_80 path" in price.plan.notes[-1]
    assert price.time_ns < 1.4 * chosen(A100, 16, 4096, 4096).time_ns


# --- refinement ---------------------------------------------------------------------------------


def work(flops: float, threads: int = 256, registers: int = 128, independent: float = 1.0) -> Work:
    result = Work(flops, 1e3, "bf16", 1.0, 1.0, block_threads=threads, thread_registers=registers)
    return msgspec.structs.replace(result, independent=independent)


BIG, MIDDLE, SMALL = gpu_plan((128, 256, 64)), gpu_plan((128, 128, 64)), gpu_plan((64, 64, 64), (32, 32), 3, 4)


class Known:
    """A pricer of plans with known work, best first; which plans were compiled, and what each takes."""

    def __init__(self, works: dict[ContractionTile, Work], takes: dict[ContractionTile, KernelResources]) -> None:
        class Core:
            legal = True

        class Facts:
            core = Core()

        def analysed(_: Region) -> Any:
            return Facts()

        def planned(*_: object) -> list[tuple[Plan, Work]]:
            return [(plan, works[plan.tile]) for plan in (BIG, MIDDLE, SMALL) if plan.tile in works]

        self.pricer = PlanPricer(A100, analysed, planned)
        self._takes = takes
        self.asked: list[Plan] = []

    def compiled(self, _: Region, one: Plan) -> KernelResources:
        self.asked.append(one)
        return self._takes[tile_of(one)]

    def refined(self, calls: int = 1) -> Replanned:
        first = self.pricer.rank(REGION)[0]
        module = Module("m", (), tuple(KernelCall(f"k{k}", REGION, ("A", "B", "Y")) for k in range(calls)), (), ())
        reported = {REGION.name: self._takes[tile_of(first.plan)]}
        return refine(module, (first,) * calls, reported, self.pricer, A100, self.compiled)


def takes(registers: int, spilled: int = 0) -> KernelResources:
    return KernelResources("eq_k", registers, spill_stores=spilled, spill_loads=spilled)


def test_a_plan_that_takes_what_was_estimated_stays() -> None:
    known = Known({BIG.tile: work(1e9), SMALL.tile: work(2e9)}, {BIG.tile: takes(127)})
    result = known.refined()
    assert (result.prices[0].plan, result.diagnostics, known.asked) == (BIG, (), [])


def test_a_plan_that_spills_gives_way_to_the_next() -> None:
    known = Known(
        {BIG.tile: work(1e9), MIDDLE.tile: work(2e9), SMALL.tile: work(3e9)},
        {BIG.tile: takes(255, 64), MIDDLE.tile: takes(255, 8), SMALL.tile: takes(100)},
    )
    result = known.refined(calls=2)
    [first, second] = result.prices
    assert first is second
    assert msgspec.structs.replace(first.plan, notes=()) == SMALL
    assert [tile_of(plan) for plan in known.asked] == [MIDDLE.tile, SMALL.tile]
    assert first.work.thread_registers == 100
    [why] = first.plan.notes
    gave_way = "stages 4 → 3, warp_tile 64x64 → 32x32, vectors 8 → 4, tile 128x256x64 → 64x64x64"
    assert why == f"{gave_way}: 255 registers, 128 bytes spilled, 128 estimated"
    [diagnostic] = result.diagnostics
    assert (diagnostic.kind, diagnostic.severity, diagnostic.at) == (Kind.RESOURCE_EXCEEDED, Severity.NOTE, REGION.name)
    assert diagnostic.message == why


def test_registers_that_cost_occupancy_give_way_where_another_plan_is_better() -> None:
    works = {BIG.tile: work(1.0e9), SMALL.tile: work(1.5e9)}
    result = Known(works, {BIG.tile: takes(255), SMALL.tile: takes(128)}).refined()
    assert tile_of(result.prices[0].plan) == SMALL.tile
    hidden = {BIG.tile: work(1.0e9, independent=4.0), SMALL.tile: work(1.5e9)}
    result = Known(hidden, {BIG.tile: takes(255), SMALL.tile: takes(128)}).refined()
    assert (result.prices[0].plan, result.prices[0].work.thread_registers) == (BIG, 255)
    assert not result.diagnostics


def test_where_all_spill_the_first_is_taken_and_says_so() -> None:
    known = Known({BIG.tile: work(1e9), SMALL.tile: work(2e9)}, {BIG.tile: takes(255, 4), SMALL.tile: takes(255, 4)})
    result = known.refined()
    assert result.prices[0].plan == BIG
    assert SPILLS in result.prices[0].stops
    [diagnostic] = result.diagnostics
    assert (diagnostic.severity, "spilled" in diagnostic.message) == (Severity.WARNING, True)


def test_what_fits_no_multiprocessor_is_resource_exceeded() -> None:
    works = {BIG.tile: work(1e9, 1024, 64), SMALL.tile: work(2e9, 512)}
    result = Known(works, {BIG.tile: takes(80), SMALL.tile: takes(128)}).refined()
    assert tile_of(result.prices[0].plan) == SMALL.tile
    with pytest.raises(EqsatError, match="a block of no plan fits") as caught:
        Known(works, {BIG.tile: takes(80), SMALL.tile: takes(160)}).refined()
    assert caught.value.kind is Kind.RESOURCE_EXCEEDED


def test_what_gives_way_is_named_in_order() -> None:
    assert what_changed(BIG, gpu_plan((128, 256, 64), stages=2)) == "stages 4 → 2"
    assert what_changed(BIG, gpu_plan((128, 256, 64), (64, 32), width=2)) == "warp_tile 64x64 → 64x32, vectors 8 → 2"
    other = with_fields(BIG, **{"pattern": "conv", "places.rows": "x", "notes": ("why",)})
    assert what_changed(BIG, other) == "other algo_choice, other bind"


def test_a_machine_without_room_has_no_plan() -> None:
    tiny = msgspec.structs.replace(A100, registers=512)
    price = PlanPricer(tiny, analyse, candidates).price(REGION)
    assert isinstance(price, Rejected)
    assert price.kind is Kind.RESOURCE_EXCEEDED
    assert PlanPricer(tiny, analyse, candidates).rank(REGION) == []


def test_a_program_that_no_plan_fits_is_resource_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.backends.cpu.CpuBackend.candidates", lambda *_, **__: [])
    with pytest.raises(EqsatError, match="no plan fits the machine") as caught:
        optimize_and_compile(t.input("x", (3,)) + 1, target="cpu", cache=False)
    assert caught.value.kind is Kind.RESOURCE_EXCEEDED


@pytest.mark.slow
@needs_nvrtc
def test_a_kernel_that_spills_is_planned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = t.input("a", (128, 64), "bf16"), t.input("b", (64, 128), "bf16")
    before = optimize_and_compile(a @ b, target="sm_80", cache=False)
    text = next(iter(before._compiled.artifact.kernels.values()))
    build = nvrtc.build

    def spilling(source: str, arch: str) -> nvrtc.Cubin:
        module = build(source, arch)
        worse = tuple(msgspec.structs.replace(kernel, spill_stores=32, registers=255) for kernel in module.kernels)
        return msgspec.structs.replace(module, kernels=worse) if source == text else module

    monkeypatch.setattr(nvrtc, "build", spilling)
    result = optimize_and_compile(a @ b, target="sm_80", cache=False)
    [one], [other] = before._compiled.artifact.prices, result._compiled.artifact.prices
    assert other.plan != one.plan
    assert "255 registers, 32 bytes spilled" in other.plan.notes[-1]
    assert result.kernels[0].resources is not None
    assert not result.kernels[0].resources.spills
    assert result.kernels[0].work.thread_registers == result.kernels[0].resources.registers
    assert other.plan.notes[-1] in result.source()
    assert [diagnostic.kind for diagnostic in result.diagnostics] == [Kind.RESOURCE_EXCEEDED]
    again = optimize_and_compile(a @ b, target="sm_80", cache=False)
    assert again.source() == result.source()


@needs_nvrtc
def test_refinement_compiles_no_kernel_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    assemble = nvrtc.assemble

    def counted(text: str, arch: str) -> nvrtc.NvrtcResult:
        compiled.append(text)
        return assemble(text, arch)

    monkeypatch.setattr(nvrtc, "assemble", counted)
    x = t.input("x", (64, 40))
    program = optimize_and_compile([x.exp().sum(1), (x @ x.T).relu()], target="sm_80")
    assert sorted(compiled) == sorted(program._compiled.artifact.units.values())


# --- autotune -----------------------------------------------------------------------------------


def test_the_fastest_plan_is_taken_if_that_is_no_chance() -> None:
    plans = [BIG, MIDDLE, SMALL]
    assert fastest(plans, [30, 20, 10]) == MeasuredPlan(SMALL, 10, 30, 3)
    assert fastest(plans, [30, 30, 40]) == MeasuredPlan(BIG, 30, 30, 3)
    assert fastest(plans, [100, 100 * (1 - MARGIN / 2), 200]).plan == BIG
    assert fastest(plans, [0, 0, 0]).plan == BIG


def no_plan(message: str) -> EqsatError:
    return EqsatError(Diagnostic(kind=Kind.COMPILE_FAILED, stage="nvrtc", message=message))


def test_plans_that_cannot_be_built_are_passed_over() -> None:
    plans, broken = [BIG, MIDDLE, SMALL], no_plan("broken")
    assert fastest(plans, [30, broken, 10]) == MeasuredPlan(SMALL, 10, 30, 2, ("broken",))
    assert fastest(plans, [broken, 30, 30]) == MeasuredPlan(MIDDLE, 30, None, 2, ("broken",))


def test_plans_that_were_passed_over_are_told_of_and_kept(tmp_path: Path) -> None:
    known = Known({BIG.tile: work(1e9), MIDDLE.tile: work(2e9), SMALL.tile: work(3e9)}, {})
    first = known.pricer.rank(REGION)[0]
    module, cache = (
        Module("m", (), (KernelCall("k", REGION, ("A", "B", "Y")),), (), ()),
        PlanCache(tmp_path, A100, "a device"),
    )

    def timer(region: Region, plans: Sequence[Plan]) -> list[float | EqsatError]:
        return [no_plan("no such copy"), 20.0, 30.0]

    def never(region: Region, plans: Sequence[Plan]) -> list[float | EqsatError]:
        pytest.fail("again")

    result = tune(module, (first,), Measuring(known.pricer, timer, cache, lambda _: None))
    assert result.prices[0].plan == MIDDLE
    chosen, passed = result.diagnostics
    assert "the estimate's choice could not be built" in chosen.message
    assert (passed.kind, passed.severity, passed.at) == (Kind.COMPILE_FAILED, Severity.NOTE, REGION.name)
    assert passed.message.endswith("could not be built: 1; the first: no such copy")
    assert tune(module, (first,), Measuring(known.pricer, never, cache, lambda _: None)) == result


class FakeTimer:
    """Times by plan; which regions were measured."""

    def __init__(self, ns: Callable[[int], float]) -> None:
        self._ns, self.regions = ns, list[str]()

    def __call__(self, region: Region, plans: Sequence[Plan]) -> list[float]:
        self.regions.append(region.name)
        return [self._ns(place) for place in range(len(plans))]


def faster(place: int) -> float:
    """The last are the fastest."""
    return 1000.0 / (1 + place)


def test_measured_plans_are_kept_by_what_they_depend_on(tmp_path: Path) -> None:
    known = Known({BIG.tile: work(1e9), MIDDLE.tile: work(2e9), SMALL.tile: work(3e9)}, {})
    first = known.pricer.rank(REGION)[0]
    module = Module("m", (), tuple(KernelCall(f"k{k}", REGION, ("A", "B", "Y")) for k in range(2)), (), ())
    said: list[str] = []

    def run(timer: FakeTimer, cache: PlanCache) -> Price:
        result = tune(module, (first, first), Measuring(known.pricer, timer, cache, said.append))
        assert result.prices[0] is result.prices[1]
        [diagnostic] = result.diagnostics
        assert (diagnostic.kind, diagnostic.severity, diagnostic.at) == (Kind.TUNED, Severity.NOTE, REGION.name)
        return result.prices[0]

    cache, timer = PlanCache(tmp_path, A100, "a device"), FakeTimer(faster)
    assert run(timer, cache).plan == SMALL
    assert timer.regions == [REGION.name]
    assert said == [f"tune 1 of 1: {REGION.name}"]
    assert run(FakeTimer(lambda _: pytest.fail("measured twice")), cache).plan == SMALL

    other = FakeTimer(lambda place: 1.0 + place)
    assert run(other, PlanCache(tmp_path, A100, "another device")).plan == BIG
    assert run(other, PlanCache(tmp_path, H100, "a device")).plan == BIG
    assert run(other, PlanCache(tmp_path, A100, "a device", ["exact"])).plan == BIG
    assert len(other.regions) == 3
    assert cache.path(REGION) == cache.path(msgspec.structs.replace(REGION, name="other"))
    assert cache.path(REGION) != cache.path(regions.matmul((), 64, 64, 65, dtype="bf16"))


@pytest.mark.parametrize("harm", ["cut", "changed", "no plan of the region", "not ours"])
def test_what_is_not_whole_is_measured_again(tmp_path: Path, harm: str) -> None:
    cache = PlanCache(tmp_path, A100, "a device")
    cache.keep(REGION, MeasuredPlan(SMALL, 1.0, 2.0, 3))
    assert cache.recall(REGION, [BIG, SMALL]) == MeasuredPlan(SMALL, 1.0, 2.0, 3)
    path = cache.path(REGION)
    match harm:
        case "cut":
            path.write_bytes(path.read_bytes()[:-9])
        case "changed":
            path.write_bytes(path.read_bytes().replace(b"64", b"32"))
        case "no plan of the region":
            assert cache.recall(REGION, [BIG, MIDDLE]) is None
            path.unlink()
        case "not ours":
            path.write_bytes(b"\xff\x00")
    assert cache.recall(REGION, [BIG, SMALL]) is None


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "plans").write_text("a file where the folder should be")
    cache = PlanCache(tmp_path, A100, "a device")
    cache.keep(REGION, MeasuredPlan(SMALL, 1.0, 2.0, 3))
    assert cache.recall(REGION, [SMALL]) is None


@pytest.mark.slow
@needs_nvrtc
def test_plans_are_measured_in_turn_by_events_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that is not one: each run takes 1,000 ns."""
    launched: list[str] = []

    class OnFake(GpuBackend):
        def build(self, units: Texts, arch: str, cache: Path) -> Code:
            module = super().build(units, arch, cache)
            monkeypatch.setitem(sys.modules, "cupy", fake_cupy(units, launched))
            return module

    monkeypatch.setattr("codegen.run.cuda_executable.device_for", lambda arch: None)
    monkeypatch.setattr(time_plans, "MOST_RUNS", 3)
    one = regions.matmul((), 16, 32, 32, dtype="bf16")
    plans = [price.plan for price in PlanPricer(A100, analyse, candidates).rank(one)[:2]]
    arrays = random_inputs(
        {buffer.name: TensorType.of(buffer.memref.dtype, buffer.memref.shape) for buffer in one.inputs}
    )
    result = time_plans.times_of(
        one, analyse(one).core, plans, arrays, backend=OnFake(), target=A100, flush=True, cache=tmp_path
    )
    assert result == [1000.0, 1000.0]
    assert launched == [f"eq_{one.name}_0", f"eq_{one.name}_1"] * (2 + 1 + 3)


def model() -> t.Tensor:
    """Two kernels, one of them with a packed constant, and a lookup by integers."""
    w = t.constant(np.linspace(-1, 1, 24 * 40, dtype=np.float32).reshape(24, 40), name="w")
    x = t.input("x", (33, 24))
    y = (x @ w).relu()
    return y / (y.sum(1, keepdims=True) + 1)


def tuned_program(**keywords: Any) -> Program:
    return optimize_and_compile(model(), target="cpu", autotune=True, **keywords)


@pytest.mark.slow
def test_autotune_measures_and_keeps_plans_on_a_cpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []
    program = tuned_program(verify=True, progress=stages.append)
    kernels = {kernel.name for kernel in program.kernels}
    tuned = {stage.partition(": ")[2].partition(" (")[0] for stage in stages if stage.startswith("tune ")}
    assert not tuned <= kernels, "kernels of other covers are measured too"
    notes = [diagnostic for diagnostic in program.diagnostics if diagnostic.kind is Kind.TUNED]
    assert notes
    assert {note.at for note in notes} <= {*kernels, None}, "None: the clock chose another cover"
    assert len(list((folder / "plans").iterdir())) >= len(kernels)
    monkeypatch.setattr(replanning, "times_of", lambda *_, **__: pytest.fail("measured twice"))
    again = tuned_program(cache=False)
    assert again.source() == program.source()
    assert [diagnostic for diagnostic in again.diagnostics if diagnostic.kind is Kind.TUNED] == notes


@pytest.mark.slow
def test_measured_plans_are_for_those_who_ask(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = optimize_and_compile(model(), target="cpu")
    asked: list[int] = []

    def timer(region: Region, core: object, plans: Sequence[Plan], arrays: object, **_: object) -> list[float]:
        asked.append(len(plans))
        return [faster(place) for place in range(len(plans))]

    monkeypatch.setattr(replanning, "times_of", timer)
    program = tuned_program(verify=True)
    assert max(asked) <= MOST_PLANS
    assert program.source() != before.source()
    first, others = before._compiled.artifact.prices, program._compiled.artifact.prices
    assert any(one.plan != other.plan for one, other in zip(first, others, strict=True))
    assert any("the estimate's choice took 1.0 µs" in diagnostic.message for diagnostic in program.diagnostics)
    assert optimize_and_compile(model(), target="cpu").source() == before.source()
    assert optimize_and_compile(model(), target="cpu", cache=False).source() == before.source()
    assert tuned_program().source() == program.source()


@pytest.mark.slow
def test_a_tuned_program_is_saved_and_explained(folder: Path, tmp_path: Path) -> None:
    program = tuned_program()
    program.save(tmp_path / "tuned.eqsat")
    loaded = load(tmp_path / "tuned.eqsat")
    assert loaded.source() == program.source()
    notes, kept = (
        [diagnostic for diagnostic in one.diagnostics if diagnostic.kind is Kind.TUNED] for one in (program, loaded)
    )
    assert notes
    assert kept == notes
    loaded.verify()
    assert program.explain()


@pytest.mark.slow
def test_autotune_of_empty_arrays_and_of_nothing(folder: Path) -> None:
    for source in (t.input("x", (0, 5)).exp() + 1, t.input("x", (3, 0)).sum(1), [t.input("x", (2,))]):
        program = optimize_and_compile(source, target="cpu", autotune=True)
        program(program.random_inputs())


def test_autotune_needs_what_it_measures_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.run.device.find_device", lambda: None)
    cases: tuple[tuple[dict[str, Any], Kind], ...] = (
        ({"target": "sm_80"}, Kind.NO_DEVICE),
        ({"target": "sm_80", "emulate": True}, Kind.INVALID_OPTION),
        ({"target": "cpu", "autotune": "yes"}, Kind.INVALID_OPTION),
    )
    for keywords, kind in cases:
        with pytest.raises(EqsatError) as caught:
            optimize_and_compile(model(), **{"autotune": True, **keywords})
        assert caught.value.kind is kind


@pytest.mark.slow
def test_autotune_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "gemm.json"
    file.write_text(json.dumps(seed_program("gemm")))
    sizes = ["-d", "M=32", "-d", "K=16", "-d", "N=48"]
    done = CliRunner().invoke(app, ["compile", str(file), "--target", "cpu", "--autotune-seconds", "60", *sizes])
    assert done.exit_code == 0, done.output
    assert "autotuned: " in done.stderr  # whether a plan changed depends on the machine
    assert list((folder / "plans").iterdir())
