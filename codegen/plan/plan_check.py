"""The refusals that the checks of all templates share."""

from __future__ import annotations

from typing import NoReturn, Protocol

from ir.diagnostics import Kind, fail
from ir.kernel.gpu.limits import LIMITS
from ir.region.region import Region
from ir.target import LANES

STAGE = "plan"
"""The stage that diagnostics of plans name."""


def check_cpu(arch: str) -> None:
    """Raises EqsatError, UnknownTarget, unless `arch` is a CPU's."""
    if arch not in LANES:
        fail(Kind.UNKNOWN_TARGET, STAGE, f"a plan for {arch} on a CPU", hint=", ".join(LANES))


def check_gpu(arch: str) -> None:
    """Raises EqsatError, UnknownTarget, unless `arch` is a GPU's."""
    if arch not in LIMITS:
        fail(Kind.UNKNOWN_TARGET, STAGE, f"a plan for {arch} on a GPU", hint=", ".join(LIMITS))


class RegionView(Protocol):
    """A template's view of a region."""

    @property
    def region(self) -> Region: ...


def fail_malformed(view: RegionView, message: str) -> NoReturn:
    """Raises EqsatError, MalformedGraph: the plan is for another region."""
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=view.region.name)


def fail_misaligned(view: RegionView, message: str) -> NoReturn:
    """Raises EqsatError, AlignmentMismatch: sizes in the plan do not fit together."""
    fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=view.region.name)
