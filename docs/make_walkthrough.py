"""Writes docs/walkthrough.md, one program through every stage: `python -m docs.make_walkthrough`."""

from __future__ import annotations

from pathlib import Path
from string import Template

from codegen.plan.poly_core_to_report import poly_report
from codegen.poly.analyse import analyse
from eqsat import pipeline
from eqsat.clock import Clock
from eqsat.cost.targets import cpu_target
from eqsat.model import read_model
from eqsat.options import Options
from ir.plan.plan_to_schedule import plan_to_schedule

PAGE = Path(__file__).parent / "walkthrough.md"
TEMPLATE = Path(__file__).parent / "walkthrough.template.md"
MODEL = Path(__file__).parent / "gemm_bias_relu.json"
DIMS = {"M": 50, "N": 100, "K": 30}
TARGET = cpu_target(arch="avx512", cores=2, lanes=16, clock_hz=3e9, source="an example: the same on every machine")
SHOWN = 40
"""Lines of C text that the page shows."""


def page() -> str:
    """The text of the page."""
    bound = read_model(MODEL.read_text(encoding="utf-8"), {}).bind(DIMS, strict=False)
    artifact = pipeline.optimize(bound, TARGET, Options(), Clock())
    (call,), (price,) = artifact.module.calls, artifact.prices
    facts = analyse(call.region)
    stats = artifact.stats
    text = next(iter(artifact.kernels.values())).splitlines()
    matches = {rule: count for rule, count in stats.saturation.matches.items() if count}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        frontend=bound.frontend,
        dims=", ".join(f"{name} = {size}" for name, size in DIMS.items()),
        tiny=bound.graph,
        kernels_before=stats.kernels_before,
        nodes=stats.saturation.nodes,
        classes=stats.saturation.classes,
        matches="\n".join(f"{rule:<28} {count}" for rule, count in matches.items()),
        candidates=stats.candidates,
        kernels_after=stats.kernels_after,
        rules=", ".join(f"`{rule}`" for rule in sorted(set(call.rules))),
        region=call.region,
        indexbook=facts.book,
        poly_view=facts.view,
        poly_core=poly_report(call.region, facts.core, price.plan),
        price=f"{price.time_ns / 1e3:.2f}",
        bound=price.bound,
        plan=plan_to_schedule(price.plan),
        shown=SHOWN,
        lines=len(text),
        c="\n".join(text[:SHOWN]),
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
