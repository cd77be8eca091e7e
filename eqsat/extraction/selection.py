"""How a kernel came to be chosen: the other candidates for its output, and by how much they lost."""

from __future__ import annotations

import msgspec

from ir.diagnostics import Kind


class Rival(msgspec.Struct, frozen=True, omit_defaults=True):
    """A candidate for the output of a kernel that was chosen instead of it.

    name      of its region
    reads     the buffers that it reads
    time_ns   of its best plan; None where it was refused
    extra_ns  by how much the program would be dearer with it: what it reads and no kernel writes is computed by the
              cheapest kernels, kernels that nobody reads any more are left out, and nothing else changes. None where it
              was refused, where it needs what is computed from its own result, and where the program would compute
              a value in two ways.
    refusal   the kind of diagnostic where it cannot be one kernel
    reason    why it was refused, or has no `extra_ns`
    """

    name: str
    reads: tuple[str, ...]
    time_ns: float | None = None
    extra_ns: float | None = None
    refusal: Kind | None = None
    reason: str = ""


class JointPart(msgspec.Struct, frozen=True):
    """A kernel whose work a joint kernel does: what it would write, and the ns that it would take."""

    name: str
    writes: tuple[str, ...]
    time_ns: float


class Apart(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another kernel that this one was not joined with.

    writes    what the other kernel writes
    time_ns   of one kernel that does the work of both, and `extra_ns` by how much it is dearer than the two
    reason    why there is no such kernel
    """

    writes: tuple[str, ...]
    time_ns: float | None = None
    extra_ns: float | None = None
    reason: str = ""


class Selection(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a kernel was chosen.

    candidates  the number of kernels that could write its outputs, itself among them
    rivals      the rejected ones: swappable ones, the nearest first; then those that need its own result; then refused
                ones
    parts       of a kernel of several outputs: the kernels that it was joined from
    apart       the neighbours before it that it was not joined with
    """

    candidates: int = 1
    rivals: tuple[Rival, ...] = ()
    parts: tuple[JointPart, ...] = ()
    apart: tuple[Apart, ...] = ()

    @property
    def runner_up(self) -> Rival | None:
        """The nearest that could replace the kernel."""
        return next((rival for rival in self.rivals if rival.extra_ns is not None), None)


UNCONTESTED = Selection()
