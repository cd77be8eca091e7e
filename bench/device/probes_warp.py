"""Probes of functions that threads and blocks call together: copies, barriers, tickets, ldmatrix and mma."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from bench.device.samples import Probe
from ir.kernel.gpu.device_functions import VECTOR_BYTES

BLOCKS = 5
PROBLEMS = 8
"""Products that an mma is tried on."""


def warp_probes() -> Iterator[Probe]:
    yield from (_copy(nbytes) for nbytes in VECTOR_BYTES)
    yield _groups()
    yield from (_exchange(name, threads) for name, threads in (("eq_barrier", 128), ("eq_sync_warp", 32)))
    yield _votes()
    yield _meeting()
    yield _waiting()
    yield from (_matrices(count, turned) for count in (1, 2, 4) for turned in ("", "_trans"))
    yield from (_product(name) for name in ("m16n8k16_f16", "m16n8k16_bf16", "m16n8k8_tf32"))


def _copy(nbytes: int) -> Probe:
    """Copies with every number of valid bytes, to shared memory and back."""
    text = f"""
extern "C" EQ_KERNEL(64, 1) void eq_copy{nbytes}(const eq_u8 *x, const eq_i32 *valid, eq_u8 *y) {{
  const int i = eq_thread();
  eq_cp_async{nbytes}({nbytes} * i, x + {nbytes} * i, (unsigned)eq_ld_global_i32(valid + i));
  eq_cp_async_commit();
  eq_cp_async_wait<0>();
  eq_barrier();
  for (int j = 0; j < {nbytes}; j++) eq_st_global_u8(y + 64 * j + i, eq_ld_shared_u8(64 * j + i));
}}"""
    x = np.random.default_rng(nbytes).integers(0, 256, 64 * nbytes, np.uint8)
    valid = np.arange(64, dtype=np.int32) % (nbytes + 1)
    results = {f"eq_cp_async{nbytes}": np.zeros(64 * nbytes, np.uint8)}
    return Probe(f"eq_copy{nbytes}", text, (x, valid), results, threads=64, shared_bytes=64 * nbytes)


def _groups() -> Probe:
    """Two groups: the first is read once at most one group is pending, the second once none is."""
    text = """
extern "C" EQ_KERNEL(32, 1) void eq_groups(const eq_i32 *x, eq_i32 *y, eq_i32 *z) {
  const int i = eq_thread();
  eq_cp_async4(4 * i, x + i, 4);
  eq_cp_async_commit();
  eq_cp_async4(128 + 4 * i, x + 32 + i, 4);
  eq_cp_async_commit();
  eq_cp_async_wait<1>();
  eq_st_global_i32(y + i, eq_ld_shared_i32(4 * i));
  eq_cp_async_wait<0>();
  eq_st_global_i32(z + i, eq_ld_shared_i32(128 + 4 * i));
}"""
    x = np.random.default_rng(3).integers(-(2**31), 2**31, 64).astype(np.int32)
    results = {name: np.zeros(32, np.int32) for name in ("eq_cp_async_wait", "eq_cp_async_commit")}
    return Probe("eq_groups", text, (x,), results, shared_bytes=256)


def _exchange(name: str, threads: int) -> Probe:
    """Threads read values of others, in turns that mix the values more and more."""
    text = f"""
extern "C" EQ_KERNEL({threads}, 1) void {name}_exchange(const eq_i32 *x, eq_i32 *y) {{
  const int i = eq_thread();
  int value = eq_ld_global_i32(x + i);
  for (int turn = 0; turn < 8; turn++) {{
    eq_st_shared_i32(4 * i, value);
    {name}();
    value = eq_add_i32(eq_mul_i32(value, 3), eq_ld_shared_i32(4 * ((i + 5 + 7 * turn) % {threads})));
    {name}();
  }}
  eq_st_global_i32(y + i, value);
}}"""
    x = np.random.default_rng(4).integers(-1000, 1000, threads).astype(np.int32)
    results = {name: np.zeros(threads, np.int32)}
    return Probe(f"{name}_exchange", text, (x,), results, threads=threads, shared_bytes=4 * threads)


def _votes() -> Probe:
    """Votes of warps in which no lane, some lanes and all lanes hold."""
    text = """
extern "C" EQ_KERNEL(128, 1) void eq_votes(const eq_i32 *x, eq_i32 *y) {
  const int i = eq_thread();
  eq_st_global_i32(y + i, eq_any_lane(eq_ld_global_i32(x + i) > 64 * (eq_warp() - 2)));
}"""
    x = np.random.default_rng(6).integers(-32, 64, 128).astype(np.int32)
    return Probe("eq_votes", text, (x,), {"eq_any_lane": np.zeros(128, np.int32)}, threads=128)


def _meeting() -> Probe:
    """Blocks store parts; the last block, found by ticket and vote, adds them up."""
    text = f"""
extern "C" EQ_KERNEL(64, 1) void eq_meeting(const eq_i32 *x, eq_i32 *parts, eq_counter *tickets, eq_i32 *seen,
                                            eq_i32 *total, eq_i32 *votes) {{
  const int thread = eq_thread(), at = 64 * eq_block_x() + thread;
  const int mine = eq_ld_global_i32(x + at);
  eq_st_global_i32(votes + at, eq_barrier_or(mine > 960));
  eq_st_global_i32(parts + at, mine);
  eq_barrier();
  bool last = false;
  if (thread == 0) {{
    eq_fence();
    const int before = eq_ticket(tickets, {BLOCKS});
    eq_fence();
    eq_st_global_i32(seen + before, 1);
    last = before == {BLOCKS - 1};
  }}
  if (eq_barrier_or(last)) {{
    int sum = 0;
    for (int part = 0; part < {BLOCKS}; part++) sum += eq_ld_global_i32(parts + 64 * part + thread);
    eq_st_global_i32(total + thread, sum);
  }}
}}"""
    x = np.random.default_rng(8).integers(-1000, 1000, 64 * BLOCKS).astype(np.int32)
    given = (x, np.zeros(64 * BLOCKS, np.int32), np.zeros(1, np.uint32))
    results = {"eq_ticket": np.zeros(BLOCKS, np.int32), "eq_fence": np.zeros(64, np.int32)}
    results["eq_barrier_or"] = np.zeros(64 * BLOCKS, np.int32)
    return Probe("eq_meeting", text, given, results, grid=(BLOCKS,), threads=64)


def _waiting() -> Probe:
    """Blocks are numbered as they start; each adds up the numbers of the blocks before it, for which it waits."""
    text = f"""
extern "C" EQ_KERNEL(64, 1) void eq_waiting(const eq_i32 *x, eq_i32 *parts, eq_counter *starts, eq_counter *arrived,
                                            eq_i32 *sums) {{
  const int thread = eq_thread();
  if (thread == 0) eq_st_shared_i32(0, eq_ticket(starts, {BLOCKS}));
  eq_barrier();
  const int part = eq_ld_shared_i32(0);
  if (thread == 0) {{
    eq_st_global_i32(parts + part, eq_ld_global_i32(x + part));
    eq_fence();
    eq_ticket(arrived + part, {BLOCKS} - part);
  }}
  if (thread < part) eq_await(arrived + thread, {BLOCKS} - thread);
  eq_fence();
  eq_barrier();
  int sum = 0;
  for (int earlier = 0; earlier < part; earlier++) sum += eq_ld_global_i32(parts + earlier);
  if (thread == 0) eq_st_global_i32(sums + part, sum);
}}"""
    x = np.random.default_rng(9).integers(-1000, 1000, BLOCKS).astype(np.int32)
    given = (x, np.zeros(BLOCKS, np.int32), np.zeros(1, np.uint32), np.zeros(BLOCKS, np.uint32))
    results = {"eq_await": np.zeros(BLOCKS, np.int32)}
    return Probe("eq_waiting", text, given, results, grid=(BLOCKS,), threads=64, shared_bytes=16)


def _matrices(count: int, turned: str) -> Probe:
    """Rows of 16 bytes at random offsets in 2 KiB."""
    name = f"eq_ldmatrix_x{count}{turned}"
    text = f"""
extern "C" EQ_KERNEL(32, 1) void {name}_rows(const eq_i32 *x, const eq_i32 *offsets, eq_i32 *y) {{
  for (int i = 0; i < 16; i++) eq_st_shared_i32(4 * (32 * i + eq_lane()), eq_ld_global_i32(x + 32 * i + eq_lane()));
  eq_barrier();
  unsigned words[{count}];
  {name}(words, (unsigned)eq_ld_global_i32(offsets + eq_lane()));
  for (int i = 0; i < {count}; i++) eq_st_global_i32(y + {count} * eq_lane() + i, (int)words[i]);
}}"""
    rng = np.random.default_rng(count)
    x = rng.integers(-(2**31), 2**31, 512).astype(np.int32)
    offsets = (16 * rng.permutation(128)[:32]).astype(np.int32)
    results = {name: np.zeros(32 * count, np.int32)}
    return Probe(f"{name}_rows", text, (x, offsets), results, shared_bytes=2048)


def _product(name: str) -> Probe:
    text = f"""
extern "C" EQ_KERNEL(32, 1) void eq_product_{name}(const eq_i32 *A, const eq_i32 *B, const eq_f32 *C, eq_f32 *D) {{
  const int at = eq_block_x() * 32 + eq_lane();
  unsigned a[4], b[2];
  float d[4];
  eq_ld_global_16(a, A + 4 * at);
  eq_ld_global_8(b, B + 2 * at);
  eq_ld_global_f32x4(d, C + 4 * at);
  eq_mma_{name}(d, a, b);
  eq_st_global_f32x4(D + 4 * at, d);
}}"""
    rng = np.random.default_rng(6)
    a, b = (_words(name, rng.standard_normal(PROBLEMS * 32 * words * 2)) for words in (4, 2))
    c = rng.standard_normal(PROBLEMS * 128).astype(np.float32)
    results = {f"eq_mma_{name}": np.zeros(PROBLEMS * 128, np.float32)}
    return Probe(f"eq_product_{name}", text, (a, b, c), results, grid=(PROBLEMS,))


def _words(name: str, values: np.ndarray) -> np.ndarray:
    """Two halves per word; for tf32 one number per word, with its low 13 bits clear."""
    if name.endswith("tf32"):
        wide = values[: values.size // 2].astype(np.float32)
        return (wide.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.int32)
    return values.astype(np.float16 if name.endswith("_f16") else ml_dtypes.bfloat16).view(np.int32)
