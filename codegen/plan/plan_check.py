"""The check that a plan is for the kind of machine that its template writes for."""

from __future__ import annotations

from ir.diagnostics import Kind, fail
from ir.kernel.gpu.limits import LIMITS
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
