"""The three walkthroughs of seed 000 §15 as golden files: their models, their target, and every stage as text.

`python -m tests.support.golden_programs [NAME…]` writes the stages of these, or of all, to stdout.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from eqsat.clock import Clock
from eqsat.cost.targets import cpu_target
from eqsat.model import read_model
from eqsat.options import Options
from eqsat.pipeline import optimize, stages_of
from eqsat.runtime.dump import STAGES
from ir.target import Target

WIDTH = 160


def target() -> Target:
    """A CPU that is nobody's: four cores with AVX-512, so that the text is the same on every machine."""
    return cpu_target(arch="avx512", cores=4, lanes=16, clock_hz=3e9, source="assumed for the golden files")


def _model(
    inputs: dict[str, Sequence[int]], results: Sequence[str], shape: Sequence[int], nodes: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """fp16 in and out; what is no `data` is a parameter."""
    tensors = {name: {"dtype": "fp16", "shape": list(size)} for name, size in inputs.items()}
    return {
        "signature": {
            "inputs": [{"tensor": name} for name in inputs],
            "outputs": [{"tensor": name} for name in results],
        },
        "tensors": {**tensors, **{name: {"dtype": "fp16", "shape": list(shape)} for name in results}},
        "graph": list(nodes),
    }


MODELS: dict[str, dict[str, Any]] = {
    "gemm_bias_relu": _model(
        {"A": (32, 48), "B": (48, 40), "bias": (40,)},
        ["C2"],
        (32, 40),
        [
            {"op": "GEMM", "name": "gemm", "inputs": ["A", "B"], "outputs": ["C0"], "attrs": {"acc_dtype": "fp32"}},
            {"op": "Elementwise", "name": "bias_add", "fn": "add", "inputs": ["C0", "bias"], "outputs": ["C1"]},
            {"op": "Elementwise", "name": "relu", "fn": "relu", "inputs": ["C1"], "outputs": ["C2"]},
        ],
    ),
    "conv3x3_silu": _model(
        {"X": (1, 8, 12, 10), "W": (16, 8, 3, 3)},
        ["Y"],
        (1, 16, 12, 10),
        [
            {"op": "Conv", "name": "conv", "inputs": ["X", "W"], "outputs": ["Y0"], "attrs": {"pad": 1}},
            {"op": "Elementwise", "name": "silu", "fn": "silu", "inputs": ["Y0"], "outputs": ["Y"]},
        ],
    ),
    "causal_attention": _model(
        {"Q": (1, 2, 12, 16), "K": (1, 2, 12, 16), "V": (1, 2, 12, 16)},
        ["O"],
        (1, 2, 12, 16),
        [{"op": "Attention", "name": "attn", "inputs": ["Q", "K", "V"], "outputs": ["O"], "attrs": {"causal": True}}],
    ),
}


def stages(name: str) -> dict[str, str]:
    """Every stage of a walkthrough by file name. Nothing is compiled or run."""
    bound = read_model(MODELS[name]).bind({}, strict=False)
    made = optimize(bound, target(), Options(), Clock())
    dumps = stages_of(made, bound)
    found = {stage: dumps(stage) for stage in STAGES}
    found["egraph"] = _summary(found["egraph"])
    return {f"{stage}.{'c' if stage == 'c' else 'json'}": _text(data) for stage, data in found.items()}


def _summary(egraph: dict[str, Any]) -> dict[str, Any]:
    """What the e-graph holds, in numbers: it is too large to read."""
    nodes = [node for each in egraph["classes"] for node in each["nodes"]]
    return {
        "classes": dict(sorted(Counter(each["sort"] for each in egraph["classes"]).items())),
        "nodes": dict(sorted(Counter(node["ctor"] for node in nodes).items())),
        "built by": dict(sorted(Counter(node.get("rule", "the program") for node in nodes).items())),
        "tiny": egraph["tiny"],
    }


def _text(data: Any) -> str:
    return data if isinstance(data, str) else "".join(_lines(data, 0)) + "\n"


def _lines(data: Any, depth: int) -> Iterator[str]:
    """JSON in which what fits a line stands on one."""
    flat = json.dumps(data, ensure_ascii=False)
    if not isinstance(data, dict | list | tuple) or not data or len(flat) + depth < WIDTH:
        yield flat
        return
    mapping = isinstance(data, dict)
    items = list(data.items()) if isinstance(data, dict) else [("", each) for each in data]
    yield "{\n" if mapping else "[\n"
    for number, (key, value) in enumerate(items):
        yield " " * (depth + 2) + (f"{json.dumps(key, ensure_ascii=False)}: " if mapping else "")
        yield from _lines(value, depth + 2)
        yield ",\n" if number + 1 < len(items) else "\n"
    yield " " * depth + ("}" if mapping else "]")


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        for file, text in stages(name).items():
            print(f"==== {name}/{file}\n{text}")
