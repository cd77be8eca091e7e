"""Work as sets of bits: counts and flops are those of the sets of values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eqsat.extraction.enumeration.work import NOTHING, ValueWork, union

VALUES = st.dictionaries(st.integers(0, 2000), st.just(0), max_size=12).map(
    lambda found: {number: number % 5 for number in found}
)


def work_of(values: dict[int, int]) -> ValueWork:
    found = NOTHING
    for number, flops in values.items():
        found = found.plus(number, flops)
    return found


@given(st.lists(VALUES, max_size=4))
def test_a_value_that_several_compute_counts_once(parts: list[dict[int, int]]) -> None:
    together = {number: flops for part in parts for number, flops in part.items()}
    found = union(map(work_of, parts))
    assert (found.size, found.flops) == (len(together), sum(together.values()))
    assert found.bits == work_of(together).bits
