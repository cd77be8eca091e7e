"""The Poly Core report says what the kernel does: barriers, rings, panels and nests of both are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from bench.digests import target_named
from codegen.backends.backend_of import backend_of
from codegen.plan.poly_core_to_report import poly_report
from codegen.poly.analyse import analyse
from eqsat import nn
from eqsat import tensor as t
from eqsat.clock import Clock
from eqsat.compile_model import stages_of
from eqsat.model import read_model
from eqsat.options import check_options
from eqsat.pipeline import lower_module, optimize
from ir.kernel.cpu.nodes import CpuFor
from ir.kernel.gpu.nodes import AnyThread, Barrier, CommitGroup, GpuFor, SyncWarp, WaitGroup
from ir.kernel.nodes import KernelNode
from tests.support.gpu.kernels import Small, small_kernels

COPIES = "cp.async.commit_group / wait_group"
KINDS: Mapping[type, str] = {
    CommitGroup: COPIES,
    WaitGroup: COPIES,
    Barrier: "bar.sync",
    AnyThread: "bar.sync",
    SyncWarp: "bar.warp.sync",
}
RINGS = ("As", "Bs", "Qs", "Ks", "Vs")
"""How the names of operands' tiles in shared memory begin."""
PANELS = ("rows", "columns", "queries", "keys", "values")
"""How the names of panels in a CPU's workspace end."""


def gemm() -> t.Tensor:
    return (t.input("A", (96, 200), "fp16") @ t.input("B", (200, 80), "fp16") + t.input("bias", (80,), "fp16")).relu()


def conv() -> t.Tensor:
    return nn.silu(nn.conv2d(t.input("X", (2, 64, 28, 28), "fp16"), t.input("W", (64, 64, 3, 3), "fp16"), padding=1))


def attention() -> t.Tensor:
    q, k, v = (t.input(name, (1, 2, 2048, 32), "fp16") for name in ("Q", "K", "V"))
    return nn.attention(q, k, v, causal=True)


class Reported(NamedTuple):
    """The dump of the report on the one kernel of a program, its kernel, and its plan as it is printed."""

    report: dict[str, Any]
    kernel: Any
    schedule: dict[str, Any]


@cache
def reported(program: Callable[[], t.Tensor], target: str) -> Reported:
    bound = read_model(program()).bind({}, strict=False)
    options = check_options(None, "rounding", "pareto", "-relayout", None)
    artifact = optimize(bound, target_named(target), options, Clock())
    dumps = stages_of(artifact, bound)
    (report,), (schedule,) = dumps("poly_core").values(), dumps("plan").values()
    (lowered,) = lower_module(artifact.module, artifact.prices, backend_of(artifact.target)).values()
    return Reported(report["analysis"], lowered.kernel if target == "cpu" else lowered, schedule)


def nodes(part: Any) -> Iterator[KernelNode]:
    """A part of a kernel, and all that is in it."""
    if isinstance(part, tuple):
        for node in part:
            yield from nodes(node)
    elif isinstance(part, KernelNode):
        yield part
        yield from nodes(tuple(getattr(part, field) for field in part.__struct_fields__))


def waits(part: Any) -> set[str]:
    return {KINDS[type(node)] for node in nodes(part) if type(node) in KINDS}


def touched(part: Any) -> set[str]:
    """The buffers that a part of a kernel reads and writes."""
    return {node.buffer for node in nodes(part) if hasattr(node, "buffer")}


def loops(body: Any) -> list[GpuFor | CpuFor]:
    return [node for node in nodes(body) if isinstance(node, GpuFor | CpuFor)]


def rings(report: dict[str, Any]) -> list[int]:
    """The depths of the rings, in the order of the plan."""
    return [buffer["depth"] for buffer in report["buffers"].values() if buffer["buffer"] == "smem_ring"]


def check_waits(barriers: list[dict[str, Any]], kernel: Any) -> None:
    """All kinds of waits, and those in the loop over the stages of a ring."""
    assert {barrier["kind"] for barrier in barriers} == waits(kernel.body)
    turns = [loop for loop in loops(kernel.body) if kernel.variables[loop.variable].name.startswith("turn")]
    if turns:  # the last turns may stand apart
        assert {barrier["kind"] for barrier in barriers if barrier["at"].endswith(".k")} == waits(tuple(turns))


by_program = pytest.mark.parametrize("program", [gemm, conv, attention])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@by_program
def test_a_gpus_waits_and_rings_are_those_of_the_report(program: Callable[[], t.Tensor], target: str) -> None:
    report, kernel, schedule = reported(program, target)
    assert report["barriers"]
    assert {barrier["arch"] for barrier in report["barriers"]} == {schedule["arch"]} == {target.replace("_", "")}
    check_waits(report["barriers"], kernel)
    depths = [buffer.stages for buffer in kernel.shared if buffer.name.startswith(RINGS)]
    assert rings(report) == depths
    assert set(depths) <= {1, schedule["stages"]}
    apart = {conflict["buffer"]: conflict["advice"] for conflict in report["bank_conflicts"]}
    assert list(apart.values()) == [
        "swizzle" for buffer in kernel.shared if buffer.name.startswith(RINGS) and buffer.swizzle
    ]


@by_program
def test_a_cpu_waits_for_nothing_and_packs_what_the_report_says(program: Callable[[], t.Tensor]) -> None:
    report, kernel, _ = reported(program, "cpu")
    assert report["barriers"] == report["bank_conflicts"] == rings(report) == []
    places = [buffer["buffer"] for buffer in report["buffers"].values()]
    panels = [buffer for buffer in kernel.private if buffer.name.endswith(PANELS)]
    assert places.count("packed") + places.count("box") == len(panels)
    assert report["min_buffer"]["buffer"] == ("stack" if len(kernel.private) > len(panels) else "reg")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "sm_80", "sm_90"])
@by_program
def test_nests_are_those_of_the_kernels_loops(program: Callable[[], t.Tensor], target: str) -> None:
    """A score is computed in the loop over the terms that its stream sums: that loop reads keys and values, and the
    result is written after it. A contraction alone is computed in no other's loop."""
    report, kernel, _ = reported(program, target)
    nested = report["compute_at"]["nested"]
    assert report["compute_at"]["ok"]
    assert bool(nested) == (program is attention)
    bodies = [phase.body for phase in kernel.phases] if target == "cpu" else kernel.body
    (output,) = [param.name for param in kernel.params if param.written]
    inside = [touched(loop.body) for loop in loops(tuple(bodies))]
    assert bool(nested) == any({"K", "V"} <= names and output not in names for names in inside)


@pytest.mark.parametrize("small", small_kernels(), ids=lambda small: small.name)
def test_every_gpu_template_waits_as_its_report_says(small: Small) -> None:
    result = poly_report(small.region, analyse(small.region).core, small.plan)
    dump = result.to_dump()["analysis"]
    check_waits(dump["barriers"], small.kernel)
    operands = [buffer.stages for buffer in small.kernel.shared if buffer.name.startswith(RINGS)]
    others = [1 for buffer in small.kernel.shared if buffer.name.endswith(("_row", "_tile"))]
    assert rings(dump) == operands + others
