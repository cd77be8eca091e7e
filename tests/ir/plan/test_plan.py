"""Typed plans: read back as they were written, refused in any other form, and printed in seed 000 §8's fields."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from codegen.backends.backend_of import backend_of
from codegen.poly.analyse import analyse
from eqsat.cost.targets import A100, cpu_target
from ir.plan.cpu import Blocks, CpuContractionPlan, OperandPlace
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.region import Region
from ir.serde import from_json, to_builtins, to_json
from ir.target import Target
from ir.term.rule import Exactness
from tests.support.cpu.changed_plan import with_fields
from tests.support.programs import regions, stream_regions

CPU = cpu_target(arch="avx2", cores=4, lanes=8, clock_hz=3e9, source="assumed")
CASES = [
    (CPU, regions.gemm_bias_relu(33, 40, 50), "cpu contraction"),
    (CPU, stream_regions.attention(2, 9, 40, 16, 16), "cpu stream"),
    (CPU, regions.total((300, 1000)), "cpu nest"),
    (A100, regions.matmul((), 64, 64, 4096, dtype="bf16"), "gpu contraction"),
    (A100, stream_regions.attention(4, 3, 257, 16, 16, group=2, mask=True, dtype="bf16"), "gpu stream"),
    (A100, regions.pointwise((64, 1000)), "gpu points"),
    (A100, regions.row_reduce(40, 9000), "gpu rows"),
    (A100, regions.transpose(512, 500), "gpu tiles"),
]
PLAN: Any = Plan
"""A union, which is no `type[T]` to mypy."""
EACH = pytest.mark.parametrize(("target", "region", "tag"), CASES, ids=[tag for *_, tag in CASES])


def plans_of(target: Target, region: Region, tag: str) -> list[Any]:
    result = backend_of(target).candidates(region, analyse(region).core, target, Exactness.ROUNDING)
    plans = [plan for plan, _ in result if json.loads(to_json(plan))["type"] == tag]
    assert plans
    return plans


@EACH
def test_a_plan_is_read_back_as_it_was_written(target: Target, region: Region, tag: str) -> None:
    for plan in plans_of(target, region, tag):
        assert from_json(to_json(plan), PLAN) == plan


@EACH
def test_another_form_is_refused(target: Target, region: Region, tag: str) -> None:
    """A field too many, one too few, another template's, and the fields of §8, in which plans were once stored."""
    plan = plans_of(target, region, tag)[0]
    written = json.loads(to_json(plan))
    other = "cpu nest" if tag != "cpu nest" else "gpu rows"
    wrong: list[Any] = [{**written, "tile_of": 3}, {**written, "type": other}, {**written, "type": "cubes"}]
    wrong += [{key: value for key, value in written.items() if key != "arch"}, to_builtins(plan_to_schedule(plan))]
    for document in wrong:
        with pytest.raises(msgspec.ValidationError):
            from_json(json.dumps(document), PLAN)


@EACH
def test_what_differs_in_a_plan_differs_in_its_printed_form(target: Target, region: Region, tag: str) -> None:
    plans = plans_of(target, region, tag)
    printed = {json.dumps(to_builtins(plan_to_schedule(plan))) for plan in plans}
    assert len(printed) == len(plans)
    assert plan_to_schedule(with_fields(plans[0], notes=("why",))).notes == ("why",)


def test_the_printed_form_of_a_matrix_product() -> None:
    """As seed 000 §8 writes it."""
    plan = CpuContractionPlan(
        arch="avx2",
        pattern="matmul",
        vector=1,
        blocks=Blocks(mr=6, nr=16, bm=24, bn=32, bk=64, lanes=8),
        operands=(OperandPlace("A", "packed"), OperandPlace("B", "const_pool")),
        parallel=True,
        tails=("n",),
        epilogue=("add", "relu"),
    )
    assert to_builtins(plan_to_schedule(plan)) == {
        "arch": "avx2",
        "algo_choice": {"matmul": "outer"},
        "tile": [24, 32, 64],
        "bind": {"batch": "thread", "m.o": "thread", "n.o": "thread"},
        "vectorize": {"axis": "n", "width": 8},
        "stages": 1,
        "warp_tile": "6x16",
        "cache": [
            {"tensor": "A", "where": "packed", "at": "k.o", "pingpong": False},
            {"tensor": "B", "where": "const_pool", "at": "build", "pingpong": False},
        ],
        "predicate_tail": ["n"],
        "epilogue": ["add", "relu"],
        "ordered": False,
        "layout_hints": {"vector": "rhs", "loops": "k n m"},
        "local_edges": [],
        "notes": [],
    }
