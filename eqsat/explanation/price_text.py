"""A price in words and as data: §11's terms, each with its share of the time."""

from __future__ import annotations

from typing import Any

import msgspec

from eqsat.cost.fusion import Fusion
from ir.pricer import Price

_PENALTIES = {"reread": "read again", "layout": "layout", "fanout": "kept for several readers"}


def price_text(price: Price) -> str:
    """What the kernel does, then max(compute + penalties, memory) + launch; terms that are nothing are left out."""
    work, parts = price.work, price.parts
    done = f"{work.flops:,.0f} flops"
    if work.recomputed:
        done += f" and {work.recomputed:,.0f} again"
    each = [(told, float(getattr(parts, name))) for name, told in _PENALTIES.items()]
    penalties = "".join(f" + {told} {span(ns)}" for told, ns in each if ns)
    launch = f" + launch {span(parts.launch)}" if parts.launch else ""
    lines = [
        f"{done}, {work.bytes:,.0f} bytes, occupancy {work.occupancy:.2f}, efficiency {work.efficiency:.2f}: "
        f"{span(price.time_ns)}, bound by {price.bound}",
        f"= max(compute {span(parts.compute)}{penalties}, memory {span(parts.memory)}){launch}",
    ]
    lines += [f"STOP, but there is no other plan: {each}" for each in price.stops]
    return "\n".join(lines)


def price_data(price: Price) -> dict[str, Any]:
    """The parts of the time in ns, what was computed again in additions-worth, and the STOP conditions met."""
    return {**msgspec.to_builtins(price.parts), "recomputed": price.work.recomputed, "stops": list(price.stops)}


def fusion_text(found: Fusion) -> list[str]:
    """Seed 000 §11's difference of a fusion, in one line."""
    parts = {
        "arithmetic and bytes": found.arithmetic,
        "occupancy": found.occupancy,
        "penalties": found.penalties,
        "launches": found.launches,
    }
    told = ", ".join(f"{name} {span(ns, '+')}" for name, ns in parts.items() if abs(ns) >= 0.05)
    saved = f"; buffers that it does not move again are worth {span(found.saved)}" if found.saved else ""
    return [f"by the terms of its price: {told or 'no difference'}{saved}"]


def micros(ns: float, sign: str = "") -> str:
    """ns as µs. sign: "+" to tell that of a gain, too."""
    return f"{ns / 1e3:{sign},.{2 if abs(ns) < 1e5 else 1}f} µs"


def span(ns: float, sign: str = "") -> str:
    """A time that may be a small difference: as µs, or as ns where it is less than one."""
    return f"{ns:{sign},.1f} ns" if abs(ns) < 1e3 else micros(ns, sign)
