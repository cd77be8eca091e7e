"""Tails: the axes whose last tile is cut, when a plan takes them in steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ir.diagnostics import Kind, fail


class Steps(NamedTuple):
    """Loop `axis` of `extent` points, taken `step` at a time."""

    axis: str
    extent: int
    step: int

    @property
    def is_cut(self) -> bool:
        """Whether the last step is cut."""
        return self.extent % self.step != 0


def tail_axes(loops: Iterable[Steps]) -> tuple[str, ...]:
    """The axes that need a predicate."""
    return tuple(loop.axis for loop in loops if loop.is_cut)


def check_tails(loops: Iterable[Steps], predicated: Collection[str], stage: str, region: str) -> None:
    """Check that a step divides every axis without a predicate.

    Raises:
        EqsatError: AlignmentMismatch where a step does not.
    """
    for loop in loops:
        if loop.is_cut and loop.axis not in predicated:
            fail(
                Kind.ALIGNMENT_MISMATCH,
                stage,
                f"{loop.step} does not divide {loop.extent}, and the plan has no predicated tail along {loop.axis}",
                at=region,
                hint=f"add {loop.axis!r} to tails",
            )
