"""The report of a launch: findings and counters."""

from __future__ import annotations

import enum

import msgspec

from ir.diagnostics import Diagnostic, EqsatError, Kind, Severity

_STAGE = "simt"


class FindingKind(enum.StrEnum):
    """Every kind of finding, in the order of the engine's `FindingKind`."""

    SHARED_RACE = "shared_race"
    UNINITIALISED_SHARED = "uninitialised_shared"
    COPY_NOT_WAITED_FOR = "copy_not_waited_for"
    COPY_NEVER_WAITED_FOR = "copy_never_waited_for"
    GLOBAL_RACE = "global_race"
    BLOCK_RACE = "block_race"
    GLOBAL_BOUNDS = "global_bounds"
    READ_ONLY_STORE = "read_only_store"
    SHARED_BOUNDS = "shared_bounds"
    MISALIGNED = "misaligned"
    SHARED_LIMIT = "shared_limit"
    BAD_OPERAND = "bad_operand"
    REGISTER_BOUNDS = "register_bounds"
    DIVERGENT_WARP = "divergent_warp"
    DIVERGENT_BARRIER = "divergent_barrier"
    DEADLOCK = "deadlock"
    RUNAWAY = "runaway"
    COUNTER_LEFT = "counter_left"
    PRODUCT_UNDER_WAY = "product_under_way"
    NOT_FENCED_FOR_PRODUCTS = "not_fenced_for_products"
    ACCUMULATORS_TOUCHED = "accumulators_touched"
    PRODUCT_NEVER_WAITED_FOR = "product_never_waited_for"


class Place(msgspec.Struct, frozen=True):
    """The place of an access or a wait: the line of the kernel's text, its code, and the thread. lane None: the whole
    warp."""

    line: int | None
    code: str
    block: tuple[int, ...] | None
    warp: int | None
    lane: int | None

    def __str__(self) -> str:
        who = [f"block {self.block}"] if self.block is not None else []
        who += [f"warp {self.warp}"] if self.warp is not None else []
        who += [f"lane {self.lane}"] if self.lane is not None else []
        where = "" if self.line is None else f" at line {self.line}: {self.code}"
        return ", ".join(who) + where


class Finding(msgspec.Struct, frozen=True):
    """One defect.

    place           the access or wait that shows the defect
    first           the earlier access that conflicts with it
    buffer          the parameter; None for shared memory
    offset, nbytes  the bytes of the access
    count           how often the defect occurred
    """

    kind: FindingKind
    kernel: str
    message: str
    place: Place
    first: Place | None = None
    buffer: str | None = None
    offset: int | None = None
    nbytes: int = 0
    count: int = 1

    @property
    def is_error(self) -> bool:
        """Whether the finding is wrong, and not only wasteful as a copy is for which no thread waits."""
        return self.kind is not FindingKind.COPY_NEVER_WAITED_FOR

    def diagnostic(self) -> Diagnostic:
        """The finding as a diagnostic."""
        details = {"finding": str(self.kind), "place": str(self.place), "count": self.count}
        if self.first:
            details["first"] = str(self.first)
        severity = Severity.ERROR if self.is_error else Severity.WARNING
        return Diagnostic(
            kind=Kind.KERNEL_FAULT,
            stage=_STAGE,
            message=self.message,
            severity=severity,
            at=self.kernel,
            details=details,
        )


class Counters(msgspec.Struct, frozen=True):
    """Counts of a whole launch, in the order of the engine's `Counters`. Loads, stores, ldmatrix, mma, shuffles and
    copy requests are instructions of a warp, wgmma those of a warpgroup. Groups and waits are those of lane 0 of a
    warp. Sectors are 32 bytes. Conflicts are passes over the banks beyond the first. `copy_bytes` are the bytes that
    arrive in shared memory."""

    mma: int
    wgmma: int
    mma_flops: int
    ldmatrix: int
    matrix_bank_conflicts: int
    copy_requests: int
    copy_bytes: int
    copy_groups: int
    copy_waits: int
    copy_bank_conflicts: int
    shared_loads: int
    shared_stores: int
    shared_bank_conflicts: int
    global_loads: int
    global_load_sectors: int
    global_stores: int
    global_store_sectors: int
    barriers: int
    warp_syncs: int
    shuffles: int
    fiber_switches: int


class Report(msgspec.Struct, frozen=True):
    """One launch of one kernel under one order."""

    kernel: str
    findings: tuple[Finding, ...]
    counters: Counters

    @property
    def kinds(self) -> tuple[FindingKind, ...]:
        """The kinds of errors, without repetitions, in the order of the findings."""
        return tuple(dict.fromkeys(finding.kind for finding in self.findings if finding.is_error))

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(finding.diagnostic() for finding in self.findings)

    def require_clean(self) -> None:
        """Raises:
        EqsatError: KernelFault with every finding, where one is an error.
        """
        if self.kinds:
            raise EqsatError(self.diagnostics)
