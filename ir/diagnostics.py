"""The one exception of eqsat and the diagnostics that it carries: what went wrong, where, and what to try."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import msgspec


class Kind(enum.StrEnum):
    """Every kind of diagnostic, in the order of the stages that meet them."""

    MALFORMED_GRAPH = "MalformedGraph"
    UNKNOWN_UOP = "UnknownUOp"
    UNSUPPORTED_OP = "UnsupportedOp"
    BROADCAST_MISMATCH = "BroadcastMismatch"
    AXIS_SIZE_MISMATCH = "AxisSizeMismatch"
    AXIS_ALIGNMENT_MISMATCH = "AxisAlignmentMismatch"
    INVALID_PERMUTATION = "InvalidPermutation"
    ACC_DTYPE_MISSING = "AccDtypeMissing"
    DTYPE_MISMATCH = "DtypeMismatch"
    NEGATIVE_STRIDE_UNSUPPORTED = "NegativeStrideUnsupported"
    MISSING_DIV_GUARD = "MissingDivGuard"
    NON_SCOP = "NonSCoP"
    EXCESSIVE_PIECEWISE = "ExcessivePiecewise"
    RESOURCE_EXCEEDED = "ResourceExceeded"
    ALIGNMENT_MISMATCH = "AlignmentMismatch"
    TUNED = "Tuned"
    UNBOUND_DIM = "UnboundDim"
    INVALID_OPTION = "InvalidOption"
    INPUT_MISMATCH = "InputMismatch"
    UNKNOWN_TARGET = "UnknownTarget"
    NO_DEVICE = "NoDevice"
    NO_COMPILER = "NoCompiler"
    COMPILE_FAILED = "CompileFailed"
    KERNEL_FAULT = "KernelFault"
    UNSOUND_RULE = "UnsoundRule"
    WRONG_RESULT = "WrongResult"
    INTERNAL_ERROR = "InternalError"


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of one stage.

    `at` is the value it concerns (a uop id, an axis, an input's name), `op` describes the operation, as in
    "Binary(mul)"; `details` holds the shapes and numbers by name.
    """

    kind: Kind
    stage: str
    message: str
    severity: Severity = Severity.ERROR
    at: str | None = None
    op: str | None = None
    hint: str | None = None
    details: Mapping[str, Any] = {}

    def __str__(self) -> str:
        place = " ".join(part for part in (self.op, f"`{self.at}`" if self.at else None) if part)
        head = f"{self.kind} ({self.severity}, {self.stage}{', at ' + place if place else ''}): {self.message}"
        lines = [head]
        lines += [f"    {name} = {_readable(value)}" for name, value in self.details.items()]
        if self.hint:
            lines.append(f"    try: {self.hint}")
        return "\n".join(lines).encode("utf-8", "backslashreplace").decode()  # half characters would not print

    def to_json(self) -> dict[str, Any]:
        """The shape of seed 000 §14: kind, at_op, at_value, at (the stage), then the details, flattened."""
        head = {
            "kind": str(self.kind),
            "severity": str(self.severity),
            "at_op": self.op,
            "at_value": self.at,
            "at": self.stage,
            "message": self.message,
            "hint": self.hint,
        }
        known = {key: value for key, value in head.items() if value is not None}
        return known | {key: jsonable(value) for key, value in self.details.items() if key not in known}


class EqsatError(Exception):
    """The one public exception. `diagnostics` are the findings of a stage, worst first."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        listed = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__(listed)
        self.diagnostics: tuple[Diagnostic, ...] = listed

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))

    @property
    def kind(self) -> Kind:
        """The kind of the first diagnostic."""
        return self.diagnostics[0].kind

    def to_json(self) -> dict[str, Any]:
        return {"diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics]}

    def locate(self, *, at: str, op: str) -> EqsatError:
        """The same error with its place filled in where the reporter could not know it."""
        return EqsatError(msgspec.structs.replace(one, at=one.at or at, op=one.op or op) for one in self.diagnostics)


class EqsatWarning(UserWarning):
    """A warning of eqsat to a caller who gets no diagnostics to look at, such as the caller of `torch.compile`."""


def fail(
    kind: Kind,
    stage: str,
    message: str,
    *,
    at: str | None = None,
    op: str | None = None,
    hint: str | None = None,
    **details: Any,
) -> NoReturn:
    """Raise an EqsatError with this one diagnostic."""
    raise EqsatError(Diagnostic(kind=kind, stage=stage, message=message, at=at, op=op, hint=hint, details=details))


def note(
    kind: Kind,
    stage: str,
    message: str,
    *,
    at: str | None = None,
    op: str | None = None,
    severity: Severity = Severity.NOTE,
    hint: str | None = None,
    **details: Any,
) -> Diagnostic:
    """A diagnostic that stops nothing."""
    return Diagnostic(
        kind=kind, stage=stage, message=message, severity=severity, at=at, op=op, hint=hint, details=details
    )


def jsonable(value: Any) -> Any:
    """`value` as plain JSON: containers as lists and objects, non-finite numbers as "inf", "-inf", "nan"."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    return str(value)


def _readable(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_readable, value))}]"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_readable(item)}" for name, item in value.items()) or "(none)"
    return "?" if value is None else str(value)
