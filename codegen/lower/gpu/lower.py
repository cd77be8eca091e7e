"""A region and its plan → a GPU kernel: the template of contractions, that of streams in tiles, or a nest of points or
rows."""

from __future__ import annotations

from codegen.lower.gpu.lower_attention import lower_attention
from codegen.lower.gpu.lower_contraction import lower_contraction
from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.plan.gpu.stream_tile import ALGORITHM
from codegen.plan.stream_sums import without_streams
from codegen.where.region_facts import region_facts
from ir.gpu import GpuKernel
from ir.gpu_verify import verify
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.region import Region


def lower(region: Region, core: PolyCore, plan: Plan, name: str) -> GpuKernel:
    """The kernel under the name `name`, verified.

    Raises:
        EqsatError: where the plan contradicts the region, or the templates do not cover it.
    """
    if ALGORITHM in plan.algo_choice:
        kernel = lower_attention(region, core, plan, name)
    elif core.contraction is not None:
        kernel = lower_contraction(region, core, plan, name)
    else:
        plain = without_streams(region)
        kernel = lower_gpu_nest(plain, region_facts(plain).core, plan, name)
    verify(kernel)
    return kernel
