"""One nest, several outputs: at the same points, at fewer (statistics beside rows), and with their axes turned."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec
import pytest

from codegen.compile.library import Library
from codegen.plan.cpu.contraction_candidates import contraction_candidates
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from ir.diagnostics import EqsatError
from ir.region.dump import dump_region, load_region
from ir.region.region import Buffer, Definition, Region, Yield, canonical, verify
from tests.support.cpu.changed_plan import nest
from tests.support.cpu.nest_kernels import Case, available, cases, check, library, required, target
from tests.support.cpu.played import random_inputs
from tests.support.programs import regions as r
from tests.support.programs.regions import Sizes, index_map
from tests.support.stages.made_plans import nest_plan

Output = tuple[str, Sizes, str, Sequence[str], Sequence[str] | None]
"""A buffer, its shape, the value yielded, its coordinates over the buffer's index, and the index over the points."""


def yielding(
    name: str, inputs: Sequence[Buffer], body: Sequence[Definition], *outputs: Output, dtype: str = "fp32"
) -> Region:
    points = outputs[0][1]
    region = Region(
        name,
        tuple(inputs),
        tuple(r.buffer(buffer, shape, dtype) for buffer, shape, *_ in outputs),
        tuple(body),
        tuple(
            Yield(value, buffer, index_map(shape, *coords), None if at is None else index_map(points, *at))
            for buffer, shape, value, coords, at in outputs
        ),
    )
    verify(region)
    return region


def row_and_statistics(m: int, n: int, dtype: str = "fp32") -> Region:
    """M[i] = Σ x[i, r], E[i] = exp(M[i]) and Y[i, j] = x[i, j] − M[i]."""
    over = (m, n)
    body = [
        r.reduction("s", "sum", over, 1, r.same("x", over), dtype),
        r.ewise("e", "exp", (m,), r.same("s", (m,)), dtype=dtype),
        r.ewise("d", "sub", over, r.same("x", over), r.read("s", over, "i0"), dtype=dtype),
    ]
    return yielding(
        "row_and_statistics",
        [r.buffer("x", over, dtype)],
        body,
        ("Y", over, "d", ("i0", "i1"), None),
        ("M", (m,), "s", ("i0",), ("i0",)),
        ("E", (m, 1), "e", ("i0",), ("i0", "0")),
        dtype=dtype,
    )


def columns_beside(m: int, n: int) -> Region:
    """C[j] = max over r of x[r, j], beside Y = tanh(x): neither needs the other."""
    over = (m, n)
    body = [
        r.reduction("c", "max", (n, m), 1, r.read("x", (n, m), "i1", "i0")),
        r.ewise("t", "tanh", over, r.same("x", over)),
    ]
    return yielding(
        "columns_beside",
        [r.buffer("x", over)],
        body,
        ("Y", over, "t", ("i0", "i1"), None),
        ("C", (n,), "c", ("i0",), ("i1",)),
    )


def turned(m: int, n: int) -> Region:
    """Y[i, j] = exp(x[i, j]) and Z[j, i] = relu(x[i, j])."""
    over = (m, n)
    body = [r.ewise("e", "exp", over, r.same("x", over)), r.ewise("p", "relu", over, r.same("x", over))]
    return yielding(
        "turned",
        [r.buffer("x", over)],
        body,
        ("Y", over, "e", ("i0", "i1"), None),
        ("Z", (n, m), "p", ("i1", "i0"), ("i1", "i0")),
    )


def total_beside(m: int, n: int) -> Region:
    """S = Σ x, beside Y = −x."""
    over = (m, n)
    body = [r.reduction("s", "sum", over, 2, r.same("x", over)), r.ewise("y", "neg", over, r.same("x", over))]
    return yielding(
        "total_beside", [r.buffer("x", over)], body, ("Y", over, "y", ("i0", "i1"), None), ("S", (), "s", (), ())
    )


def moments(m: int, n: int) -> Region:
    """The sum and the maximum of each row, and the sum stored twice."""
    over = (m, n)
    body = [
        r.reduction("s", "sum", over, 1, r.same("x", over)),
        r.reduction("g", "max", over, 1, r.same("x", over)),
    ]
    rows = [(name, (m,), value, ("i0",), None) for name, value in (("S", "s"), ("G", "g"), ("T", "s"))]
    return yielding("moments", [r.buffer("x", over)], body, *rows)


def total_and_extremes(m: int, n: int) -> Region:
    """The sum of the squares, the greatest and the least of all."""
    over = (m, n)
    body = [
        r.ewise("q", "mul", over, r.same("x", over), r.same("x", over)),
        r.reduction("s", "sum", over, 2, r.same("q", over)),
        r.reduction("g", "max", over, 2, r.same("x", over)),
        r.reduction("l", "min", over, 2, r.same("x", over)),
    ]
    return yielding(
        "total_and_extremes", [r.buffer("x", over)], body, *((f"Y{name}", (), name, (), None) for name in "sgl")
    )


def columns_of_both(m: int, n: int) -> Region:
    """The sums of the columns of two arrays."""
    over = (n, m)
    body = [r.reduction(f"s{name}", "sum", over, 1, r.read(name, over, "i1", "i0")) for name in "xy"]
    inputs = [r.buffer(name, (m, n)) for name in "xy"]
    return yielding(
        "columns_of_both", inputs, body, *((name, (n,), f"s{name[-1]}", ("i0",), None) for name in ("ox", "oy"))
    )


ARCHES = ("avx512", "avx2", "sse2")
BUILDERS = (row_and_statistics, columns_beside, turned, total_beside, moments)
SHAPES = ((5, 7), (4, 33), (1, 1), (1, 20), (20, 1), (17, 100), (300, 70))
EVERY = [build(*shape) for build in BUILDERS for shape in SHAPES]
EVERY += [moments(1, 70001), moments(2, 90000), total_and_extremes(50, 3000), columns_of_both(30001, 5)]
EVERY += [moments(0, 4), moments(4, 0), row_and_statistics(9, 40, "fp16"), row_and_statistics(9, 40, "fp64")]


@cache
def built(arch: str) -> tuple[Library, list[Case]]:
    where = required(arch)
    tried = cases(EVERY, arch)
    return library(tried, where), tried


@pytest.mark.slow
@pytest.mark.parametrize("nan", [False, True])
def test_every_plan_writes_what_playback_does(nan: bool) -> None:
    lib, tried = built(next(arch for arch in ARCHES if available(arch)))
    for number, case in enumerate(tried):
        check(lib, case, random_inputs(case.region, number, nan=nan), at_end=not nan)


def test_several_reductions_are_cut_into_parts_together() -> None:
    for region in (moments(1, 70001), total_and_extremes(50, 3000), columns_of_both(30001, 5)):
        plans = [plan for plan, _ in nest_candidates(region, analyse(region).core, target("avx2"))]
        assert any(plan.part is not None for plan in plans), region
    dependent = r.normalize(1, 90000)
    plans = [plan for plan, _ in nest_candidates(dependent, analyse(dependent).core, target("avx2"))]
    assert not any(plan.part is not None for plan in plans)


def test_points_that_do_not_exist_write_nothing() -> None:
    """A sum over no terms is 0 and must be written, but rows without columns have no point that would."""
    for region in (row_and_statistics(4, 0), columns_beside(0, 4)):
        core = analyse(region).core
        assert not core.legal
        assert not nest_candidates(region, core, target("avx2"))


def test_an_output_of_another_domain_is_refused() -> None:
    first = r.pointwise((4, 5))
    second = Yield(first.yields[0].value, "Z", index_map((5,), "0", "i0"), None)
    outputs = (*first.outputs, r.buffer("Z", (5,)))
    region = Region("two", first.inputs, outputs, first.body, (*first.yields, second))
    assert "different domains" in analyse(region).core.reason
    folded = msgspec.structs.replace(second, at=index_map((4, 5), "i1 // 2"))
    region = msgspec.structs.replace(region, yields=(*first.yields, folded))
    assert "none of those" in analyse(region).core.reason


def test_tasks_share_no_element() -> None:
    """Rows whose columns are cut into tasks would all write the statistics of the row."""
    region = row_and_statistics(6, 4000)
    core = analyse(region).core
    plans = [plan for plan, _ in nest_candidates(region, core, target("avx2"))]
    assert all(nest(plan).split()[position] == "i0" for plan in plans for position in plan.threads)
    plan = nest_plan(6, 80, lanes=1, width=8, arch="avx2", threads=(1,))
    with pytest.raises(EqsatError, match="the same elements"):
        fit_plan(region, core, plan)


def test_a_contraction_has_its_outputs_at_its_own_points() -> None:
    region = r.gemm_bias_relu(6, 8, 5)
    (sums,) = (let.name for let in region.body if let.op.kind == "contraction")
    both = msgspec.structs.replace(
        region,
        outputs=(*region.outputs, r.buffer("Z", (6, 8))),
        yields=(*region.yields, Yield(sums, "Z", index_map((6, 8), "i0", "i1"))),
    )
    assert contraction_candidates(both, analyse(both).core, target("avx2"))
    across = msgspec.structs.replace(
        region,
        outputs=(*region.outputs, r.buffer("Z", (8, 6))),
        yields=(*region.yields, Yield(sums, "Z", index_map((8, 6), "i1", "i0"), index_map((6, 8), "i1", "i0"))),
    )
    assert analyse(across).core.legal
    assert not contraction_candidates(across, analyse(across).core, target("avx2"))


def test_dumps_and_names_keep_the_places() -> None:
    region = row_and_statistics(3, 4)
    assert load_region(dump_region(region)) == region
    assert [result.at for result in canonical(region).yields] == [result.at for result in region.yields]
    assert "yield s[i0] -> M[i0]" in str(region)
