"""`make demo`: every example comes out right, and the report says what the issue of a first run is about."""

import pytest

from eqsat.demo import EXAMPLES, Example, report, run_example

RESNET = next(example for example in EXAMPLES if example.name == "ResNet-50")
SMALL = [example for example in EXAMPLES if example is not RESNET]


@pytest.mark.parametrize("example", SMALL, ids=lambda example: example.name)
def test_small_examples_are_right(example: Example) -> None:
    stages: list[str] = []
    outcome = run_example(example, stages.append, repeats=1)
    assert outcome.is_right
    assert stages[:3] == ["saturate", "extract", "lower"]
    text = report(outcome)
    for line in ("uops in", "kernels", "rules fired", "estimated", "measured", "error", "right"):
        assert line in text
    assert outcome.program.stats.kernels_after < outcome.program.stats.kernels_before


@pytest.mark.slow
def test_resnet50_equals_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    outcome = run_example(RESNET, repeats=1)
    assert outcome.error < 1e-5
    assert outcome.program.stats.kernels_after <= 70
    tiny = {uop for kernel in outcome.program.kernels for uop in kernel.uops}
    for kernel in outcome.program.kernels:
        assert kernel.uops or not tiny & set(kernel.writes), "only what a rule stores is no uop's result"
