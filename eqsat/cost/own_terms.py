"""Cost terms of a caller: functions that add a time to every kernel, or replace a term of the cost model.

`optimize_and_compile(model, cost_model={"launch": f, "scratch": g, "fanout": None})` replaces `launch`, adds `scratch`
and leaves out `fanout`. Options name a function by a reference, since options are data; the functions stay in the
process that gave them.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from types import MethodType

import msgspec

from ir.diagnostics import Kind, fail
from ir.plan.plan import Plan
from ir.pricer import Parts, Work
from ir.region.region import Region
from ir.target import Target

STAGE = "cost"
PART_OF = {
    "compute": "compute",
    "memory": "memory",
    "launch": "launch",
    "reuse": "reread",
    "layout": "layout",
    "fanout": "fanout",
}
"""The terms of the cost model that are times, by the part of the time that each is; a function may replace these."""


class KernelEstimate(msgspec.Struct, frozen=True):
    """The argument of a cost term: one plan of one candidate kernel.

    region  what the kernel computes: inputs, outputs and ops
    plan    how it runs: tiles, threads, vectors
    work    FLOPs, bytes, occupancy and other figures of the plan
    target  the machine
    parts   the times by the cost model without own terms, in ns
    """

    region: Region
    plan: Plan
    work: Work
    target: Target
    parts: Parts


CostTerm = Callable[[KernelEstimate], float]
"""A time in ns, 0 or more, that depends on the argument alone."""

_ADMITTED: dict[str, CostTerm] = {}
"""The functions of this process, by reference."""


def admit(name: str, term: CostTerm) -> str:
    """The reference `name@digits` of a term. The digits are random: no other process has this function."""
    for reference, known in _ADMITTED.items():
        if _is_same(known, term) and name_of(reference) == name:
            return reference
    reference = f"{name}@{secrets.token_hex(8)}"
    _ADMITTED[reference] = term
    return reference


def _is_same(one: CostTerm, other: CostTerm) -> bool:
    """Whether two terms are one function, or one method of one object."""
    return one is other or (isinstance(one, MethodType) and isinstance(other, MethodType) and one == other)


def name_of(reference: str) -> str:
    """The name of a term, without the digits."""
    return reference.partition("@")[0]


def find_terms(references: Sequence[str]) -> Mapping[str, CostTerm]:
    """The terms of these references, by name. Raises EqsatError, InvalidOption, for a term of another process."""
    for reference in references:
        if reference not in _ADMITTED:
            message = f"the program was made with a cost term of its caller's, {name_of(reference)}"
            fail(Kind.INVALID_OPTION, STAGE, message, hint="make the program again from Python, with that term")
    return {name_of(reference): _ADMITTED[reference] for reference in references}


def with_own_terms(kernel: KernelEstimate, terms: Mapping[str, CostTerm]) -> Parts:
    """The parts of a kernel's time with the terms of a caller.

    Raises:
        EqsatError: InvalidOption where a term raises an exception, or returns no time.
    """
    times = {name: _time(name, term, kernel) for name, term in terms.items()}
    changed = {PART_OF[name]: ns for name, ns in times.items() if name in PART_OF}
    added = tuple((name, ns) for name, ns in times.items() if name not in PART_OF)
    return msgspec.structs.replace(kernel.parts, **changed, own=added)


def _time(name: str, term: CostTerm, kernel: KernelEstimate) -> float:
    try:
        ns = term(kernel)
    except Exception as error:
        message = f"the cost term {name!r} raised {type(error).__name__}: {error}"
        fail(Kind.INVALID_OPTION, STAGE, message, at=kernel.region.name, hint=_HINT)
    if isinstance(ns, bool) or not isinstance(ns, Real) or not (math.isfinite(ns) and ns >= 0):
        message = f"the cost term {name!r} returned {ns!r}, which is no time"
        fail(Kind.INVALID_OPTION, STAGE, message, at=kernel.region.name, hint=_HINT)
    return float(ns)


_HINT = "a finite number of ns, 0 or more; a large one (1e12) for kernels that are not wanted"
