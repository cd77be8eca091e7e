"""What a multiprocessor holds: shared memory with what CUDA reserves, registers as warps are given them, threads."""

from __future__ import annotations

import pytest

from eqsat.cost.targets import A100, H100, device_target
from ir.kernel.gpu.occupancy import blocks_per_unit, shared_limit
from ir.target import Target

KIB = 1024
_ADA = device_target("NVIDIA L40S", "sm89", 142)
assert _ADA is not None
ADA: Target = _ADA


@pytest.mark.parametrize(
    ("target", "shared", "blocks"),
    [
        (A100, 32 * KIB, 4),
        (A100, 40 * KIB, 4),
        (A100, 81 * KIB, 2),
        (A100, 82 * KIB, 1),
        (A100, 163 * KIB, 1),
        (A100, 163 * KIB + 1, 0),
        (H100, 32 * KIB, 6),
        (H100, 75 * KIB, 3),
        (H100, 227 * KIB, 1),
        (H100, 227 * KIB + 1, 0),
        (ADA, 32 * KIB, 3),
        (ADA, 99 * KIB, 1),
        (ADA, 99 * KIB + 1, 0),
    ],
)
def test_blocks_by_shared_memory(target: Target, shared: int, blocks: int) -> None:
    assert blocks_per_unit(target, 128, 32, shared) == blocks


def test_blocks_by_threads_and_registers() -> None:
    assert blocks_per_unit(A100, 1024, 0, 0) == 2
    assert blocks_per_unit(ADA, 1024, 0, 0) == 1
    assert blocks_per_unit(ADA, 32, 16, 0) == 24
    assert blocks_per_unit(A100, 256, 120, 0) == blocks_per_unit(A100, 256, 113, 0) == 2
    assert blocks_per_unit(A100, 256, 121, 0) == 2
    assert blocks_per_unit(A100, 256, 129, 0) == 1
    assert blocks_per_unit(A100, 1024, 65, 0) == 0


def test_what_a_block_may_have_is_the_least_of_kernel_and_machine() -> None:
    assert shared_limit("sm80", A100) == 163 * KIB
    assert shared_limit("sm80", H100) == 163 * KIB
    assert shared_limit("sm90", H100) == 227 * KIB
    assert shared_limit("sm80", ADA) == 99 * KIB
