"""A price in words and as data: the terms of the cost model (seed 000 §11) with their times."""

from __future__ import annotations

from typing import Any

import msgspec

from eqsat.cost.fusion import Fusion
from ir.pricer import Price

_PENALTIES = {"reread": "read again", "layout": "layout", "fanout": "kept for several readers"}


def price_text(price: Price) -> str:
    """The work, then max(compute + penalties, memory) + launch + own terms; terms that are 0 are left out."""
    work, parts = price.work, price.parts
    done = f"{work.flops:,.0f} flops"
    if work.recomputed:
        done += f" and {work.recomputed:,.0f} again"
    terms = [(words, float(getattr(parts, name))) for name, words in _PENALTIES.items()]
    penalties = "".join(f" + {words} {span(ns)}" for words, ns in terms if ns)
    launch = f" + launch {span(parts.launch)}" if parts.launch else ""
    own = "".join(f" + {name} {span(ns)}" for name, ns in parts.own)
    lines = [
        f"{done}, {work.bytes:,.0f} bytes, occupancy {work.occupancy:.2f}, efficiency {work.efficiency:.2f}: "
        f"{span(price.time_ns)}, bound by {price.bound}",
        f"= max(compute {span(parts.compute)}{penalties}, memory {span(parts.memory)}){launch}{own}",
    ]
    lines += [f"STOP, but there is no other plan: {reason}" for reason in price.stops]
    return "\n".join(lines)


def price_data(price: Price) -> dict[str, Any]:
    """The parts of the time in ns, the recomputed work in additions, and the STOP conditions that hold."""
    own = {"own": dict(price.parts.own)} if price.parts.own else {}
    return {**msgspec.to_builtins(price.parts), **own, "recomputed": price.work.recomputed, "stops": list(price.stops)}


def fusion_text(fusion: Fusion, own_terms_ns: float = 0.0) -> list[str]:
    """The time that a fusion saves, by terms of the cost model (seed 000 §11), in one line. own_terms_ns: by the terms
    of the caller."""
    parts = {
        "arithmetic and bytes": fusion.arithmetic,
        "occupancy": fusion.occupancy,
        "penalties": fusion.penalties,
        "launches": fusion.launches,
        "own terms": own_terms_ns,
    }
    terms = ", ".join(f"{name} {span(ns, '+')}" for name, ns in parts.items() if abs(ns) >= 0.05)
    saved = f"; buffers that it does not move again are worth {span(fusion.saved)}" if fusion.saved else ""
    return [f"by the terms of its price: {terms or 'no difference'}{saved}"]


def micros(ns: float, sign: str = "") -> str:
    """ns as µs. sign: "+" to write the sign of a positive number, too."""
    return f"{ns / 1e3:{sign},.{2 if abs(ns) < 1e5 else 1}f} µs"


def span(ns: float, sign: str = "") -> str:
    """A time in µs, or in ns below one µs."""
    return f"{ns:{sign},.1f} ns" if abs(ns) < 1e3 else micros(ns, sign)
