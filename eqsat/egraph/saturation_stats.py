"""Figures of a saturation: its phases, what ended each, and how often rules matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from eqsat.egraph.stop import Stop
from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.grammar import with_count

STAGE = "saturate"
"""The stage that diagnostics of a saturation name."""

_FIELDS = {
    Stop.NODE_LIMIT: "nodes",
    Stop.ITERATION_LIMIT: "iterations",
    Stop.MATCH_LIMIT: "nodes",
    Stop.TIME_LIMIT: "seconds",
    Stop.MEMORY_LIMIT: "bytes",
}
"""The field of `Budget` that sets a limit."""

_MEASURED = (Stop.TIME_LIMIT, Stop.MEMORY_LIMIT)
"""Limits that another run may reach at another point."""


class PhaseStats(msgspec.Struct, frozen=True):
    """One phase. families: the families of rules that ran. nodes: the number of e-nodes at its end. seconds: wall time.
    resting: rules of the families that were stopped, because they would have matched too often."""

    families: tuple[str, ...]
    stop: Stop
    iterations: int
    nodes: int
    seconds: float
    resting: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The phase in one line."""
        work = f"{with_count(self.iterations, 'iteration')}, {self.nodes:,} e-nodes, {self.stop.replace('_', ' ')}"
        return f"{work} in {self.seconds * 1e3:.1f} ms ({', '.join(self.families)})"


class SaturationStats(msgspec.Struct, frozen=True):
    """The work of a saturation. matches: by rule. families: matches by family. nodes, classes: their number at the end.
    piecewise: movements whose map is too long to be composed with others."""

    phases: tuple[PhaseStats, ...]
    matches: Mapping[str, int]
    families: Mapping[str, int]
    nodes: int
    classes: int
    load_seconds: float
    read_seconds: float
    piecewise: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """A warning for each limit that ended phases, and for every movement that is stored."""
        ended = dict.fromkeys(phase.stop for phase in self.phases if phase.stop is not Stop.SATURATED)
        return (*map(self._limit_warning, ended), *map(_piecewise_note, self.piecewise))

    def _limit_warning(self, limit: Stop) -> Diagnostic:
        """The warning about the phases that one limit ended, by their numbers from 1 on."""
        ended = [place for place, phase in enumerate(self.phases, 1) if phase.stop is limit]
        phases = f"phase {ended[0]}" if len(ended) == 1 else f"phases {', '.join(map(str, ended))}"
        field = _FIELDS[limit]
        return note(
            Kind.RESOURCE_EXCEEDED,
            STAGE,
            f"{phases} of {len(self.phases)} stopped at the {limit.replace('_', ' ')}; the program is right, a better "
            "one may be missed" + (", and another run may differ" if limit in _MEASURED else ""),
            severity=Severity.WARNING,
            hint=f"a larger budget=, as in eqsat.Budget({field}=…)",
            families=list(dict.fromkeys(family for place in ended for family in self.phases[place - 1].families)),
            nodes=self.phases[-1].nodes,
            iterations=[self.phases[place - 1].iterations for place in ended],
            resting=list(dict.fromkeys(rule for place in ended for rule in self.phases[place - 1].resting)),
        )

    @property
    def seconds(self) -> float:
        """Wall time of the whole saturation."""
        return self.load_seconds + self.read_seconds + sum(phase.seconds for phase in self.phases)


def _piecewise_note(movement: str) -> Diagnostic:
    from rules.primitives import PIECEWISE

    message = f"this movement and those before it make a map of more than {PIECEWISE} floors: its result is stored"
    return note(Kind.EXCESSIVE_PIECEWISE, STAGE, message, at=movement)


def whole_saturation(parts: Sequence[SaturationStats]) -> SaturationStats:
    """The work of the saturations of a program's parts."""
    if len(parts) == 1:
        return parts[0]
    return SaturationStats(
        phases=tuple(phase for part in parts for phase in part.phases),
        matches=_sum_counts([part.matches for part in parts]),
        families=_sum_counts([part.families for part in parts]),
        nodes=sum(part.nodes for part in parts),
        classes=sum(part.classes for part in parts),
        load_seconds=sum(part.load_seconds for part in parts),
        read_seconds=sum(part.read_seconds for part in parts),
        piecewise=tuple(name for part in parts for name in part.piecewise),
    )


def _sum_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in counts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total
