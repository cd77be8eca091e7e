"""Refuses a plan for another kind of machine than the template's."""

from __future__ import annotations

from ir.diagnostics import Kind, fail
from ir.kernel.gpu.limits import LIMITS
from ir.target import LANES


def check_cpu(arch: str, stage: str) -> None:
    """Raises EqsatError, UnknownTarget, for another machine's plan."""
    if arch not in LANES:
        fail(Kind.UNKNOWN_TARGET, stage, f"a plan for {arch} on a CPU", hint=", ".join(LANES))


def check_gpu(arch: str, stage: str) -> None:
    """Raises EqsatError, UnknownTarget, for another machine's plan."""
    if arch not in LIMITS:
        fail(Kind.UNKNOWN_TARGET, stage, f"a plan for {arch} on a GPU", hint=", ".join(LIMITS))
