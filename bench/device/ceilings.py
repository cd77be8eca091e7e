"""Measures the two rates that bound every kernel, by kernels of ours: memory copies, and products on tensor cores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.device.clock import Clock
from bench.device.launch import Device, launch

COPY_THREADS, COPY_UNROLL = 256, 4
MMA_THREADS, MMA_TILES, FLOPS_OF_MMA = 256, 16, 2 * 16 * 8 * 16
COPY_TEXT = f"""
extern "C" EQ_KERNEL({COPY_THREADS}, 4) void eq_copy(const eq_i32 *__restrict__ X, eq_i32 *__restrict__ Y) {{
  const long long at = 4LL * ({COPY_THREADS * COPY_UNROLL}LL * eq_block_x() + eq_thread());
  unsigned words[{COPY_UNROLL}][4];
  EQ_UNROLL
  for (int i = 0; i < {COPY_UNROLL}; i++) eq_ld_global_16(words[i], X + at + {4 * COPY_THREADS} * i);
  EQ_UNROLL
  for (int i = 0; i < {COPY_UNROLL}; i++) eq_st_global_16(Y + at + {4 * COPY_THREADS} * i, words[i]);
}}
"""
"""A block copies 16 KiB; a thread copies 16 bytes at once, with four copies in flight."""
MMA_TEXT = f"""
extern "C" EQ_KERNEL({MMA_THREADS}, 2) void eq_products(const eq_i32 *__restrict__ X, eq_f32 *__restrict__ Y, int n) {{
  unsigned a[4], b[2];
  float d[{MMA_TILES}][4];
  eq_ld_global_16(a, X + 4 * eq_lane());
  eq_ld_global_8(b, X + 128 + 2 * eq_lane());
  EQ_UNROLL
  for (int i = 0; i < {4 * MMA_TILES}; i++) d[i / 4][i % 4] = 0;
  EQ_NO_UNROLL
  for (int turn = 0; turn < n; turn++) {{
    EQ_UNROLL
    for (int i = 0; i < {MMA_TILES}; i++) eq_mma_m16n8k16_bf16(d[i], a, b);
  }}
  float sum = 0;
  EQ_UNROLL
  for (int i = 0; i < {4 * MMA_TILES}; i++) sum += d[i / 4][i % 4];
  eq_st_global_f32(Y + {MMA_THREADS} * eq_block_x() + eq_thread(), sum);
}}
"""
"""A warp multiplies the same registers into 16 independent accumulators."""


class Ceilings(NamedTuple):
    """bytes_per_s: read plus written, by copies larger than every cache. flops_per_s: of bf16 on tensor cores: by
    mma.sync, or by the data sheet where the device has faster instructions than that."""

    bytes_per_s: float
    flops_per_s: float

    def floor_s(self, flops: float, nbytes: float) -> float:
        """A lower bound in seconds on the time of this work."""
        return max(flops / self.flops_per_s, nbytes / self.bytes_per_s)


def measure_ceilings(
    device: Device,
    clock: Clock,
    blocks: int,
    copied: int = 1 << 30,
    turns: int = 4096,
    seconds: float = 1.0,
    sheet_flops: float = 0.0,
) -> Ceilings:
    """The ceilings of a device, after a check of both kernels on it.

    blocks: of the kernel of products, two per multiprocessor. copied: bytes, a multiple of 16 KiB. turns: of 16
    products per warp. sheet_flops: FLOPs per second of instructions that are faster than mma.sync, by the data sheet; 0
    where there are none.

    Raises:
        ValueError: if a kernel computes a wrong result.
    """
    check(device)
    x, y = np.full(copied // 4, 7, np.int32), np.zeros(copied // 4, np.int32)
    tile = 16 * COPY_THREADS * COPY_UNROLL
    copy = device.prepare(COPY_TEXT, "eq_copy", (copied // tile,), COPY_THREADS, [x, y])
    sums = np.zeros(blocks * MMA_THREADS, np.float32)
    products = device.prepare(MMA_TEXT, "eq_products", (blocks,), MMA_THREADS, [operands(), sums, turns])
    times = clock.measure({"copy": copy, "products": products}, seconds)
    work = blocks * (MMA_THREADS // 32) * turns * MMA_TILES * FLOPS_OF_MMA
    return Ceilings(2 * copied / times["copy"].median, max(work / times["products"].median, sheet_flops))


def check(device: Device) -> None:
    """Checks both kernels at a small size. Raises ValueError."""
    x = np.arange(2 * 4 * COPY_THREADS * COPY_UNROLL, dtype=np.int32)
    y = np.zeros_like(x)
    launch(device, COPY_TEXT, "eq_copy", (2,), COPY_THREADS, [x, y])
    words, sums = operands(), np.zeros(MMA_THREADS, np.float32)
    launch(device, MMA_TEXT, "eq_products", (1,), MMA_THREADS, [words, sums, 3])
    halves = (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    expected = 3 * MMA_TILES * (MMA_THREADS // 32) * _sum_of_product(halves[:256], halves[256:])
    if not np.array_equal(x, y) or not np.isclose(sums.sum(dtype=np.float64), expected, rtol=1e-4):
        raise ValueError(f"{device.name}: a kernel that measures ceilings computes a wrong result")


def operands() -> np.ndarray:
    """A (16 × 16) and B (16 × 8) of random bf16 near 1, in the order of the lanes' words."""
    values = np.random.default_rng(5).uniform(0.5, 1.5, 256 + 128).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.int32)


def _sum_of_product(a: np.ndarray, b: np.ndarray) -> float:
    """Σ of all elements of A·B, from the lanes' words: only sums of A's columns and of B's rows are needed."""
    lane, word, half = np.meshgrid(np.arange(32), np.arange(4), np.arange(2), indexing="ij")
    column = 2 * (lane % 4) + 8 * (word // 2) + half
    of_a = np.bincount(column.reshape(-1), a.astype(np.float64), 16)
    row = (2 * (lane % 4) + 8 * word + half)[:, :2]
    of_b = np.bincount(row.reshape(-1), b.astype(np.float64), 16)
    return float(of_a @ of_b)
