"""A region and its plan → a GPU kernel: the template of contractions, or a nest of points or rows."""

from __future__ import annotations

from codegen.lower.gpu.lower_contraction import lower_contraction
from codegen.lower.gpu.lower_nest import lower_gpu_nest
from ir.gpu import Kernel
from ir.gpu_verify import verify
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.region import Region


def lower(region: Region, core: PolyCore, plan: Plan, name: str) -> Kernel:
    """The kernel under the name `name`, verified.

    Raises:
        EqsatError: where the plan contradicts the region, or the templates do not cover it.
    """
    template = lower_contraction if core.contraction is not None else lower_gpu_nest
    kernel = template(region, core, plan, name)
    verify(kernel)
    return kernel
