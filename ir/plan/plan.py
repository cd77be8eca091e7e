"""How a region runs: one class of plan per template and backend.

A planner of `codegen.plan` makes the plan and the template's lowering takes it. `ir.plan.plan_to_schedule` prints the
plan in the fields of seed 000 §8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuScatterPlan, CpuStreamPlan
from ir.plan.gpu import GpuContractionPlan, GpuStreamPlan
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan, GpuScatterPlan, GpuTilesPlan

CpuPlan = CpuContractionPlan | CpuStreamPlan | CpuNestPlan | CpuScatterPlan
GpuPlan = GpuContractionPlan | GpuStreamPlan | GpuPointsPlan | GpuRowsPlan | GpuTilesPlan | GpuScatterPlan
Plan = CpuPlan | GpuPlan
HandPlan = CpuContractionPlan | CpuStreamPlan | CpuNestPlan
"""The plans that a caller may write: their work is known for any sizes."""
WantedPlan = Plan | Mapping[str, Any]
"""What a caller asks for: a plan, or fields of the printed form of one that the planner makes."""


def rounds_to_tf32(plan: Plan) -> bool:
    """Whether products round floats to tf32."""
    return isinstance(plan, GpuContractionPlan | GpuStreamPlan) and plan.tile.tf32
