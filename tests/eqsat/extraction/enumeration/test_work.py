"""Work as sets of bits: counts and flops are those of the sets of values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eqsat.extraction.enumeration.work import NOTHING, ValueWork, union

VALUES = st.dictionaries(st.integers(0, 2000), st.just(0), max_size=12).map(
    lambda numbers: {number: number % 5 for number in numbers}
)


def work_of(values: dict[int, int]) -> ValueWork:
    result = NOTHING
    for number, flops in values.items():
        result = result.plus(number, flops)
    return result


@given(st.lists(VALUES, max_size=4))
def test_a_value_that_several_compute_counts_once(parts: list[dict[int, int]]) -> None:
    together = {number: flops for part in parts for number, flops in part.items()}
    result = union(map(work_of, parts))
    assert (result.size, result.flops) == (len(together), sum(together.values()))
    assert result.bits == work_of(together).bits
