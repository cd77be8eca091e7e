"""Probes of products by warpgroups (wgmma), which only Hopper has: every size and layout, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from bench.device.samples import Probe
from ir.kernel.gpu.limits import WARPGROUP_COLUMNS, WARPGROUP_ROWS, WARPGROUP_TERMS

TERMS = 64
"""Terms of a row of 128 bytes."""
_THREADS = 128
_DTYPES: Mapping[str, type] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
_LAYOUTS = tuple((a, b) for a in (False, True) for b in (False, True))
"""Whether rows, and columns, lie side by side in panels."""


def warpgroup_probes() -> Iterator[Probe]:
    for n in WARPGROUP_COLUMNS:
        for t in _DTYPES:
            yield from (_Product(n, t, *panels).probe for panels in _LAYOUTS)
        yield _order(n)


@dataclass(frozen=True)
class _Product:
    """A product of 64 rows, n columns and 64 terms, whose matrices are stored with their swizzle by threads."""

    n: int
    t: str
    rows_in_panels: bool
    columns_in_panels: bool

    @property
    def probe(self) -> Probe:
        kernel = f"eq_product_n{self.n}_{self.t}_{self.rows_in_panels:d}{self.columns_in_panels:d}"
        text = f"""
extern "C" EQ_KERNEL({_THREADS}, 1) void {kernel}({self.head}) {{
{self.filled}
  for (int step = 0; step < {TERMS // WARPGROUP_TERMS}; step++) {self.product("step")};
  eq_wgmma_commit();
  eq_wgmma_wait_n{self.n}<0>(d);
{self.stored("D")}
}}"""
        return self.launch(kernel, text, [self.call])

    @property
    def panels(self) -> tuple[int, int]:
        """Bytes between panels; 0 where terms lie side by side."""
        return TERMS * 128 * self.rows_in_panels, TERMS * 128 * self.columns_in_panels

    @property
    def call(self) -> str:
        a, b = self.panels
        return f"eq_wgmma_m{WARPGROUP_ROWS}n{self.n}k{WARPGROUP_TERMS}_{self.t}<{a}, {b}>"

    @property
    def head(self) -> str:
        return "const eq_u16 *A, const eq_u16 *B, const eq_f32 *C, eq_f32 *D"

    @property
    def filled(self) -> str:
        """Matrices in shared memory, chunk by chunk of 16 bytes, and accumulators, both ready for a product."""
        of_rows, chunks = WARPGROUP_ROWS * TERMS // 8, (WARPGROUP_ROWS + self.n) * TERMS // 8
        return f"""  const int i = eq_thread();
  for (int chunk = i; chunk < {chunks}; chunk += {_THREADS}) {{
    unsigned words[4];
    eq_ld_global_16(words, chunk < {of_rows} ? A + 8 * chunk : B + 8 * (chunk - {of_rows}));
    eq_st_shared_16(eq_swizzle<3>(16 * chunk), words);
  }}
  eq_proxy_fence();
  eq_barrier();
  float d[{self.n // 2}];
  EQ_UNROLL
  for (int j = 0; j < {self.n // 2}; j++) d[j] = eq_ld_global_f32(C + {_THREADS} * j + i);
  eq_wgmma_fence_n{self.n}(d);"""

    def product(self, step: str) -> str:
        """The product of one step of 16 terms."""
        a, b = (WARPGROUP_TERMS * (128 if panels else 2) for panels in (self.rows_in_panels, self.columns_in_panels))
        return f"{self.call}(d, {a} * {step}, {WARPGROUP_ROWS * 128} + {b} * {step})"

    def stored(self, to: str) -> str:
        loop = f"  EQ_UNROLL\n  for (int j = 0; j < {self.n // 2}; j++) "
        return f"{loop}eq_st_global_f32({to} + {_THREADS} * j + i, d[j]);"

    @property
    def given(self) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(self.n)
        a, b = (
            rng.standard_normal(count * TERMS).astype(_DTYPES[self.t]).view(np.uint16)
            for count in (WARPGROUP_ROWS, self.n)
        )
        return a, b, self.sums(rng.standard_normal(WARPGROUP_ROWS * self.n))

    def sums(self, values: np.ndarray | int) -> np.ndarray:
        return np.zeros(WARPGROUP_ROWS * self.n, np.float32) + np.asarray(values, np.float32)

    def launch(self, kernel: str, text: str, names: Sequence[str]) -> Probe:
        """The probe of a kernel whose results, under these names, are sums."""
        results = {name: self.sums(0) for name in names}
        shared = (WARPGROUP_ROWS + self.n) * 128
        return Probe(kernel, text, self.given, results, threads=_THREADS, shared_bytes=shared, warpgroups=True)


def _order(n: int) -> Probe:
    """Two groups on the same accumulators; then the threads double the sums, and another product follows."""
    one = _Product(n, "bf16", False, False)
    kernel = f"eq_order_n{n}"
    text = f"""
extern "C" EQ_KERNEL({_THREADS}, 1) void {kernel}({one.head}, eq_f32 *E, eq_f32 *F, eq_f32 *G) {{
{one.filled}
  {one.product("0")};
  eq_wgmma_commit();
  {one.product("1")};
  eq_wgmma_commit();
  eq_wgmma_wait_n{n}<1>(d);
  eq_wgmma_wait_n{n}<0>(d);
{one.stored("D")}
{one.stored("E")}
  EQ_UNROLL
  for (int j = 0; j < {n // 2}; j++) d[j] = 2 * d[j];
  eq_wgmma_fence_n{n}(d);
  {one.product("2")};
  eq_wgmma_commit();
  eq_wgmma_wait_n{n}<0>(d);
{one.stored("F")}
{one.stored("G")}
}}"""
    names = (f"eq_wgmma_wait_n{n}", f"eq_wgmma_commit<{n}>", f"eq_wgmma_fence_n{n}", f"eq_proxy_fence<{n}>")
    return one.launch(kernel, text, names)
