"""A kernel without one of its synchronising statements, of every template and at random: the verifier refuses it, or
the emulator finds what the statement was for."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from codegen.backends.gpu import GpuBackend
from codegen.poly.analyse import checked_core
from codegen.simt import Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100
from ir.diagnostics import EqsatError
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import Barrier, CommitGroup, Fence, SyncWarp, WaitGroup
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.region import Region
from ir.term.rule import Exactness
from tests.codegen.lower.cpu.test_lower_nest import softmax
from tests.support.gpu.edit import without
from tests.support.gpu.kernels import Small, small_kernels
from tests.support.programs import regions as r
from tests.support.programs import stream_regions

ORDERING = (Barrier, CommitGroup, WaitGroup, SyncWarp, Fence)
SEED, TRIED = 20261121, 30
MAKERS: Sequence[Callable[[int, int, int], Region]] = [
    lambda m, n, k: r.matmul((), m, n, 4 * k, dtype="bf16"),
    lambda m, n, k: r.matmul((), 8 * (m // 8), 8 * (n // 8), 8 * k, rhs_t=True, dtype="fp16"),
    lambda m, n, k: r.matmul((), m, n, k),
    lambda m, n, k: r.conv(1, 8, m, (9, 8 + n % 5), 3, 1 + k % 2, 1),
    lambda m, n, k: stream_regions.attention(1, m, n, 16, 16, causal=k % 2 == 0, dtype="bf16"),
    lambda m, n, k: softmax(k, m * n, "fp16"),
    lambda m, n, k: r.cumsum(3, m * n),
    lambda m, n, k: r.column_reduce(m * k, n),
    lambda m, n, k: r.transpose(m, n),
]


def deletable(kernels: Sequence[Small]) -> list[tuple[Small, type, int]]:
    """Every synchronising statement of the kernels."""
    return [
        (kernel, kind, number)
        for kernel in kernels
        for kind in ORDERING
        for number in range(sum(isinstance(stmt, kind) for stmt in walk(kernel.kernel.body)))
    ]


def drawn(count: int) -> list[tuple[Small, type, int]]:
    """As many at random: of any plan of regions of random sizes."""
    rng, backend = random.Random(SEED), GpuBackend()
    results: list[tuple[Small, type, int]] = []
    while len(results) < count:
        region = rng.choice(MAKERS)(*(rng.randint(9, 70) for _ in range(3)))
        core = checked_core(region)
        plan = rng.choice(backend.candidates(region, core, A100, Exactness.ROUNDING))[0]
        small = Small(f"{region}: {plan}", region, plan, backend.lower(region, core, plan, "eq_k"))
        results += rng.sample(there, 1) if (there := deletable([small])) else []
    return results


def accepted(chosen: list[tuple[Small, type, int]]) -> Iterator[tuple[Small, GpuKernel, str]]:
    """Those that the verifier lets through, under names of their own."""
    for place, (small, kind, number) in enumerate(chosen):
        broken = msgspec.structs.replace(without(small.kernel, kind, number), name=f"eq_broken{place}")
        try:
            verify(broken)
        except EqsatError:
            continue
        yield small, broken, f"{small.name} without {kind.__name__} {number}"


def may_be_spare(small: Small, what: str) -> bool:
    """The barrier before results are put together over a ring: some sizes leave the stage beneath them turns before."""
    names = [buffer.name for buffer in small.kernel.shared]
    return "Barrier" in what and "Cs" in names and plan_to_schedule(small.plan).stages > 1


def unnoticed(chosen: list[tuple[Small, type, int]]) -> list[str]:
    """What neither the verifier nor the emulator, in any order, says a word about, though it is needed."""
    broken = list(accepted(chosen))
    kernels = compile_kernels("\n".join(cuda_text(kernel) for _, kernel, _ in broken)) if broken else {}
    missed = []
    for small, kernel, what in broken:
        for order in Order:
            arguments, _ = small.arguments()
            launch = kernels[kernel.name].launch
            if launch(kernel.grid, arguments, shared_bytes=kernel.shared_bytes, order=order, seed=SEED).findings:
                break
        else:
            missed += [] if may_be_spare(small, what) else [what]
    return missed


@pytest.mark.slow
def test_every_statement_is_missed() -> None:
    assert not unnoticed(deletable(small_kernels()))


@pytest.mark.slow
def test_a_statement_deleted_at_random_is_missed() -> None:
    chosen = drawn(TRIED)
    assert {next(iter(plan_to_schedule(small.plan).algo_choice)) for small, _, _ in chosen} >= {
        "matmul",
        "attention",
        "nest",
    }
    assert not unnoticed(chosen)
