"""Latencies of a multiprocessor in clocks, which prices of all templates share. An A100's and an H100's differ by less
than the estimates do."""

from __future__ import annotations

LOAD = 500
"""From a load from memory to its use."""
BARRIER = 80
"""Of a barrier of a block."""
FIRST_PRODUCT = 650
"""From the start of a copy from memory to the first product with its data: the load, a barrier, a load of fragments."""
TURN = 40
"""Of the wait and the barrier of a turn whose data is there."""
TURN_ALONE = {False: 300, True: 200}
"""Of a turn in which the only warp of a scheduler starts no product: the wait, the barrier, the first loads of
fragments, the addresses of copies; whether fragments are loaded across turns. With more warps others start theirs.
From times of plans on an H100 (`bench/gpu/plans.py`)."""
ARRIVAL = 1500
"""Until another block sees a block's part: a barrier, two fences and an atomic in the second-level cache."""


def ring_clocks(turns: float, stages: int, stage: float, resident: int) -> float:
    """Clocks of a block's turns, of `stage` clocks each, with `resident` blocks on an SM. The stages that are filled
    before the first turn arrive together; every later stage is there a latency after the turn that asked for it."""
    ahead = min(turns, stages - 1) if stages > 1 else turns
    waiting = FIRST_PRODUCT / (resident * (stages - 1)) if stages > 1 else 0.0
    return ahead * stage + (turns - ahead) * max(stage, waiting)
