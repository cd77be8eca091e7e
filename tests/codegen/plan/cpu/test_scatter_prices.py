"""The price of a scatter on a CPU."""

from __future__ import annotations

from codegen.plan.cpu.scatter_candidates import scatter_candidates
from codegen.poly.analyse import analyse
from ir.region.order import in_orders
from ir.region.region import Region
from tests.support.cpu.contraction_runs import target_of
from tests.support.programs import regions


def layout_cycles(region: Region) -> float:
    return min(work.layout for _, work in scatter_candidates(region, analyse(region).core, target_of()))


def test_updates_whose_lanes_lie_apart_are_dear() -> None:
    """Rows of updates that lie across memory take an element at a time."""
    rows = regions.scatter((8, 512, 256), count=11, along=(0,))
    across = in_orders(rows, {"U": (2, 0, 1)})
    assert layout_cycles(across) > 2 * layout_cycles(rows)


def test_two_cores_do_not_share_the_counts_of_a_histogram() -> None:
    """A core does not foresee whether a position lies in its half: 100,000 updates of 1000 sums took 560 us on two
    cores of a Zen 4, on one they take 95."""
    region = regions.scatter((1000,), count=100000)
    plans = sorted(scatter_candidates(region, analyse(region).core, target_of(units=2)), key=lambda one: one[1].layout)
    assert plans[0][0].threads is None
