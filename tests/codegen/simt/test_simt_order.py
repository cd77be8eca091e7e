"""The race detector beside a definition: every pair of accesses of random programs, copies among them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from codegen.simt import FindingKind, Order, compile_kernels
from codegen.simt.compile import EmulatedKernel

WARPS, LANES, BYTES = 3, 32, 64
NOTHING, LOAD, STORE, COPY, COMMIT, WAIT_0, WAIT_1, SYNC_WARP, BARRIER = range(9)
ORDERING = {FindingKind.SHARED_RACE, FindingKind.COPY_NOT_WAITED_FOR}

# Each thread does what its column of `steps` says; every byte is stored to first.
INTERPRETER = """
extern "C" EQ_KERNEL(96, 1) void eq_interpreter(const eq_i32 *kinds, const eq_i32 *offsets, const eq_i32 *sizes,
                                                const eq_i32 *X, int steps) {
  const int thread = eq_thread();
  if (thread < 16) eq_st_shared_i32(4 * thread, 0);
  eq_barrier();
  for (int step = 0; step < steps; step++) {
    const int at = 96 * step + thread, kind = eq_ld_global_i32(kinds + at), size = eq_ld_global_i32(sizes + at);
    const unsigned offset = eq_ld_global_i32(offsets + at);
    unsigned words[2] = {0, 0};
    if (kind == 1 && size == 1) eq_ld_shared_i8(offset);
    if (kind == 1 && size == 2) eq_ld_shared_i16(offset);
    if (kind == 1 && size == 4) eq_ld_shared_i32(offset);
    if (kind == 1 && size == 8) eq_ld_shared_8(words, offset);
    if (kind == 2 && size == 1) eq_st_shared_i8(offset, 1);
    if (kind == 2 && size == 2) eq_st_shared_i16(offset, 1);
    if (kind == 2 && size == 4) eq_st_shared_i32(offset, 1);
    if (kind == 2 && size == 8) eq_st_shared_8(offset, words);
    if (kind == 3 && size == 4) eq_cp_async4(offset, X, 4);
    if (kind == 3 && size == 8) eq_cp_async8(offset, X, 8);
    if (kind == 4) eq_cp_async_commit();
    if (kind == 5) eq_cp_async_wait<0>();
    if (kind == 6) eq_cp_async_wait<1>();
    if (kind == 7) eq_sync_warp();
    if (kind == 8) eq_barrier();
  }
}
"""


@dataclass(frozen=True)
class Access:
    """Bytes [offset, offset + size) that a thread touches from step `start` to step `end`; a copy that is never waited
    for ends at infinity."""

    thread: int
    start: float
    end: float
    offset: int
    size: int
    stores: bool


@dataclass(frozen=True)
class Program:
    """`kinds[step, thread]` and with it the bytes."""

    kinds: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray

    @staticmethod
    def draw(rng: np.random.Generator) -> Program:
        steps = int(rng.integers(2, 14))
        shape = (steps, WARPS * LANES)
        kinds = np.zeros(shape, np.int32)
        sizes = rng.choice([1, 2, 4, 8], shape).astype(np.int32)
        busy = rng.choice(WARPS * LANES, int(rng.integers(1, 6)), replace=False)
        for step in range(steps):
            drawn = rng.random()
            if drawn < 0.2:
                kinds[step] = BARRIER
            elif drawn < 0.4:
                warp = int(rng.integers(WARPS))
                kinds[step, LANES * warp : LANES * (warp + 1)] = SYNC_WARP
            else:
                kinds[step, busy] = rng.choice([NOTHING, LOAD, STORE, COPY, COMMIT, WAIT_0, WAIT_1], len(busy))
        sizes[kinds == COPY] = np.maximum(sizes[kinds == COPY], 4)
        reach = int(rng.choice([8, 16, BYTES]))
        offsets = (rng.integers(0, reach, shape) // sizes * sizes).astype(np.int32)
        return Program(kinds, offsets, sizes)

    def accesses(self) -> list[Access]:
        results = []
        for thread in range(WARPS * LANES):
            loose: list[int] = []
            groups: list[list[int]] = []
            ends: dict[int, int] = {}
            for step, kind in enumerate(self.kinds[:, thread]):
                if kind == COPY:
                    loose.append(step)
                elif kind == COMMIT:
                    groups.append(loose)
                    loose = []
                elif kind in (WAIT_0, WAIT_1):
                    while len(groups) > kind - WAIT_0:
                        ends |= dict.fromkeys(groups.pop(0), step)
            for step, kind in enumerate(self.kinds[:, thread]):
                if kind in (LOAD, STORE, COPY):
                    end = ends.get(step, np.inf) if kind == COPY else step
                    place = int(self.offsets[step, thread]), int(self.sizes[step, thread])
                    results.append(Access(thread, step, end, *place, kind != LOAD))
        return results

    def ordered(self, first: Access, second: Access) -> bool:
        """Whether all of `first` happens before all of `second`."""
        if first.end > second.start:
            return False
        if first.thread == second.thread:
            return True
        if first.end == second.start:
            return False
        between = self.kinds[int(first.end) + 1 : int(second.start)]
        if (between[:, first.thread] == BARRIER).any():
            return True
        same_warp = first.thread // LANES == second.thread // LANES
        return bool(same_warp and (between[:, first.thread] == SYNC_WARP).any())

    def has_race(self) -> bool:
        return any(
            (a.stores or b.stores)
            and a.offset < b.offset + b.size
            and b.offset < a.offset + a.size
            and not self.ordered(a, b)
            and not self.ordered(b, a)
            for a, b in itertools.combinations(self.accesses(), 2)
        )

    def reports_race(self, kernel: EmulatedKernel, order: Order, seed: int) -> bool:
        x = np.zeros(2, np.int32)
        steps = len(self.kinds)
        report = kernel.launch(
            (1,), [self.kinds, self.offsets, self.sizes, x, steps], shared_bytes=BYTES, order=order, seed=seed
        )
        assert {*report.kinds} <= ORDERING
        return bool(report.kinds)


@pytest.fixture(scope="module")
def kernel() -> EmulatedKernel:
    return compile_kernels(INTERPRETER)["eq_interpreter"]


def check(kernel: EmulatedKernel, seeds: range) -> None:
    racy = 0
    for seed in seeds:
        program = Program.draw(np.random.default_rng(seed))
        wanted = program.has_race()
        racy += wanted
        for order in Order:
            assert program.reports_race(kernel, order, seed) == wanted, (seed, order)
    assert 0.2 < racy / len(seeds) < 0.8


@pytest.mark.slow
def test_what_is_found_is_what_is_not_ordered(kernel: EmulatedKernel) -> None:
    check(kernel, range(300))


@pytest.mark.slow
def test_many_more(kernel: EmulatedKernel) -> None:
    check(kernel, range(1000, 1600))
