"""The programs of the golden files: the walkthroughs of seed 000 §15 and one program of every template, small enough
that all their stages are read in a review. Every stage stands in its printed form; nothing is compiled or run.

`python -m tests.support.programs.golden_programs [NAME…]` writes the stages of these, or of all, to stdout.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from codegen.backends.backend_of import backend_of
from codegen.plan.poly_core_to_report import poly_report
from codegen.poly.analyse import analyse
from eqsat import nn, tensor
from eqsat.clock import Clock
from eqsat.cost.targets import cpu_target, gpu_target
from eqsat.egraph.saturate import saturate
from eqsat.egraph.view import EGraphView
from eqsat.model import BoundModel, read_model
from eqsat.options import Options
from eqsat.pipeline import lower_module, optimize
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.target import Target
from rules import select

TARGETS: dict[str, Target] = {
    "cpu": cpu_target(arch="avx512", cores=4, lanes=16, clock_hz=3e9, source="assumed for the golden files"),
    "sm_80": gpu_target("sm_80"),
}
"""The CPU is nobody's: four cores with AVX-512, so that the text is the same on every machine."""
SUFFIX = {"cpu": "c", "sm_80": "cu"}


def _model(
    inputs: dict[str, Sequence[int]], results: Sequence[str], shape: Sequence[int], nodes: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Frontend IR of fp16 tensors."""
    tensors = {name: {"dtype": "fp16", "shape": list(size)} for name, size in inputs.items()}
    return {
        "signature": {
            "inputs": [{"tensor": name} for name in inputs],
            "outputs": [{"tensor": name} for name in results],
        },
        "tensors": {**tensors, **{name: {"dtype": "fp16", "shape": list(shape)} for name in results}},
        "graph": list(nodes),
    }


def _gemm_bias_relu() -> dict[str, Any]:
    return _model(
        {"A": (32, 48), "B": (48, 40), "bias": (40,)},
        ["C2"],
        (32, 40),
        [
            {"op": "GEMM", "name": "gemm", "inputs": ["A", "B"], "outputs": ["C0"], "attrs": {"acc_dtype": "fp32"}},
            {"op": "Elementwise", "name": "bias_add", "fn": "add", "inputs": ["C0", "bias"], "outputs": ["C1"]},
            {"op": "Elementwise", "name": "relu", "fn": "relu", "inputs": ["C1"], "outputs": ["C2"]},
        ],
    )


def _conv3x3_silu() -> dict[str, Any]:
    return _model(
        {"X": (1, 8, 12, 10), "W": (16, 8, 3, 3)},
        ["Y"],
        (1, 16, 12, 10),
        [
            {"op": "Conv", "name": "conv", "inputs": ["X", "W"], "outputs": ["Y0"], "attrs": {"pad": 1}},
            {"op": "Elementwise", "name": "silu", "fn": "silu", "inputs": ["Y0"], "outputs": ["Y"]},
        ],
    )


def _causal_attention() -> dict[str, Any]:
    return _model(
        {"Q": (1, 2, 12, 16), "K": (1, 2, 12, 16), "V": (1, 2, 12, 16)},
        ["O"],
        (1, 2, 12, 16),
        [{"op": "Attention", "name": "attn", "inputs": ["Q", "K", "V"], "outputs": ["O"], "attrs": {"causal": True}}],
    )


PROGRAMS: dict[str, Callable[[], Any]] = {
    "gemm_bias_relu": _gemm_bias_relu,
    "conv3x3_silu": _conv3x3_silu,
    "causal_attention": _causal_attention,
    "contraction": lambda: tensor.input("x", (5, 24)) @ tensor.input("w", (24, 16)),
    "stream": lambda: nn.softmax(tensor.input("scores", (6, 20))) @ tensor.input("values", (20, 8)),
    "nest": lambda: (tensor.input("x", (13, 40)).T + tensor.input("bias", (13,))).relu(),
    "reductions": lambda: nn.softmax(tensor.input("x", (2, 40))),
    "scan": lambda: tensor.input("x", (3, 40)).cumsum(1),
}


def stages(name: str) -> dict[str, str]:
    """The stages of a program by file name: `program.txt` is the same on all targets, then `TARGET.txt` and the text of
    the kernels for each target."""
    bound = read_model(PROGRAMS[name]()).bind({}, strict=False)
    files = {"program.txt": _file(_program(bound))}
    for target in TARGETS:
        noted, text = _on_target(bound, target)
        files |= {f"{target}.txt": _file(noted), f"{target}.{SUFFIX[target]}": text}
    return files


def _program(bound: BoundModel) -> Iterator[tuple[str, object]]:
    """The stages before a target is chosen."""
    if bound.frontend is not None:
        yield "frontend", bound.frontend
    yield "tiny", bound.graph
    options = Options()
    view, _ = saturate(bound.graph, select(options.rules, options.exactness), options.exactness, options.budget)
    yield "egraph", _counts(view)


def _on_target(bound: BoundModel, target: str) -> tuple[Iterable[tuple[str, object]], str]:
    """The stages from the cover on, and the text of the kernels."""
    result, backend = optimize(bound, TARGETS[target], Options(), Clock()), backend_of(TARGETS[target])
    kernels = lower_module(result.module, result.prices, backend)
    results: list[tuple[str, object]] = [("module", result.module)]
    for call, price in zip(result.module.running, result.prices, strict=True):
        analysis = analyse(call.region)
        results += [
            ("indexbook", analysis.book),
            ("poly_view", analysis.view),
            ("poly_core", poly_report(call.region, analysis.core, price.plan)),
            ("plan", plan_to_schedule(price.plan)),
            ("kernel", kernels[call.region.name]),
        ]
    return results, "\n".join(result.kernels.values())


def _counts(view: EGraphView) -> str:
    """How many e-nodes of each constructor there are, and how many each rule built: a whole e-graph is too large to
    read."""
    nodes = [node for several in view.classes.values() for node in several]
    sorts, ctors = Counter(sort.value for sort in view.sorts.values()), Counter(node.ctor for node in nodes)
    built = Counter(view.rules.get(node, "the program") for node in nodes)
    groups = {"classes": sorts, "e-nodes": ctors, "built by": built}
    return "\n".join(
        f"{group}: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}"
        for group, counts in groups.items()
    )


def _file(sections: Iterable[tuple[str, object]]) -> str:
    return "\n".join(f"--- {title} ---\n{noun}\n" for title, noun in sections)


def printed_file(name: str, file: str, text: str) -> str:
    """A file below its name, as this module prints it."""
    return f"==== {name}/{file}\n{text}\n"


if __name__ == "__main__":
    for name in sys.argv[1:] or PROGRAMS:
        for file, text in sorted(stages(name).items()):
            print(printed_file(name, file, text), end="")
