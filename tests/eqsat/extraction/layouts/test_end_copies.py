"""Inputs and outputs that kernels of their own copy from or to the orders of axes in which other kernels are fast."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from eqsat import Program, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.cost.targets import A100
from eqsat.explanation.explore import explore
from eqsat.explanation.graph_to_drawing import kernels_after
from eqsat.explanation.page_data import page_data
from ir.diagnostics import EqsatError
from ir.target import Target

SMALL = msgspec.structs.replace(
    A100,
    units=1,
    launch_ns=0.0,
    peak_flops={dtype: rate / A100.units for dtype, rate in A100.peak_flops.items()},
)
"""A machine of one multiprocessor, where a launch costs nothing: small programs copy as large ones do elsewhere."""


def convolved(channels: int, size: int, layers: int = 1, batch: int = 1, dtype: str = "bf16") -> t.Tensor:
    x = t.input("x", (batch, channels, size, size), dtype)
    rng = np.random.default_rng(3)
    for place in range(layers):
        values = (rng.standard_normal((channels, channels, 3, 3)) * 0.1).astype(np.float32)
        x = nn.conv2d(x, t.constant(values, name=f"w{place}").cast(dtype), padding=1).relu()
    return x


def compiled(source: t.Tensor | list[t.Tensor], target: str | Target) -> Program:
    return optimize_and_compile(source, target=target, emulate=target != "cpu", rules=["-winograd"])


def orders(program: Program) -> dict[str, tuple[int, ...]]:
    return {slot.name: slot.order for slot in program._compiled.artifact.module.slots if slot.order is not None}


@pytest.mark.slow
def test_images_are_turned_once_where_that_is_cheaper() -> None:
    program = compiled(convolved(64, 56, batch=32), "sm_80")
    assert orders(program)["x_0231"] == (0, 2, 3, 1)
    names = [kernel.name for kernel in program.kernels]
    assert names.count("copy") >= 1
    [weights] = program.kernels[-1].reads[1:]
    assert weights in orders(program)  # a constant, copied when the program is built
    assert "by element" not in program.source()
    assert "dot" in names[-1]
    row_major = optimize_and_compile(
        convolved(64, 56, batch=32), target="sm_80", emulate=True, cost_model=["-relayout"]
    )
    assert program.cost < 0.75 * row_major.cost


def test_small_images_stay_as_they_are() -> None:
    """The launch of a copy takes longer than it saves."""
    assert "x_0231" not in orders(compiled(convolved(16, 8), "sm_80"))


@pytest.mark.slow
def test_a_convolution_on_a_cpu_writes_the_channels_of_a_pixel_together() -> None:
    program = compiled(convolved(64, 28, dtype="fp32"), "cpu")
    *_, convolution, copy = program.kernels
    (output,) = program.output_names
    assert orders(program) == {output: (0, 2, 3, 1)}
    assert (convolution.writes, copy.reads, copy.writes) == ((output,), (output,), (f"{output}_0123",))
    assert program.verify()


@pytest.mark.slow
def test_reports_say_what_a_copy_is() -> None:
    source = convolved(64, 28, dtype="fp32")
    program, run = compiled(source, "cpu"), explore(source, target="cpu", rules=["-winograd"])
    (output,) = program.output_names
    assert program.chain(output).steps
    assert "(none: a copy)" in program.explain("copy")
    assert program.explained("copy")["chains"] == []
    with pytest.raises(EqsatError, match=f"copies `{output}` to another order of axes"):
        program.chain("copy")
    assert program.why_not(output, "copy").kind == run.why_not(output, "copy").kind == "layout"
    assert "eq_copy" in program.source()
    assert len(kernels_after(run).frames) == len(run.kernels)
    data = page_data(run)
    assert [bool(kernel["chains"]) for kernel in data["kernels"]] == [bool(kernel.uops) for kernel in run.kernels]


@pytest.mark.slow
def test_an_output_that_another_kernel_reads_is_read_as_it_lies() -> None:
    first = convolved(64, 28, dtype="fp32")
    weights = np.random.default_rng(4).standard_normal((64, 64, 3, 3), dtype=np.float32) * 0.1
    second = nn.conv2d(first, t.constant(weights, name="last"), padding=1)
    program = compiled([first, second], "cpu")
    copied = {copy.writes[0]: copy.reads[0] for copy in program.kernels if copy.name.startswith("copy")}
    assert len(copied) == 2
    assert sum(copied_from in kernel.reads for kernel in program.kernels for copied_from in copied.values()) == 3
    assert program.verify()


@pytest.mark.slow
def test_states_of_loops_are_copied_in_every_step() -> None:
    """Both loops are one part, whose second form has names of its own."""
    rng = np.random.default_rng(5)
    states, images = t.input("h", (1, 64, 28, 28)), t.input("x", (3, 1, 64, 28, 28))
    for _ in range(2):
        weights = rng.standard_normal((64, 64, 3, 3), dtype=np.float32) / 24

        def step(state: t.Tensor, image: t.Tensor, weights: np.ndarray = weights) -> tuple[t.Tensor, t.Tensor]:
            after = nn.conv2d(state, weights, padding=1).relu() + image
            return after, after

        states, images = t.scan(step, states, images)
    program = compiled([states, images], "cpu")
    assert sum(kernel.name.startswith("copy") for kernel in program.kernels) >= 2
    names = [slot.name for slot in program._compiled.artifact.module.slots]
    assert len(names) == len({*names})
    assert program.verify()


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "size", "layers", "batch"), [(32, 9, 1, 2), (32, 12, 2, 1), (40, 13, 1, 1)])
def test_kernels_over_turned_inputs_compute_what_playback_does(
    channels: int, size: int, layers: int, batch: int
) -> None:
    program = compiled(convolved(channels, size, layers, batch), SMALL)
    assert "x_0231" in orders(program)
    assert program.verify()
    assert "copy" in program.explain()


@pytest.mark.slow
def test_two_inputs_of_one_convolution_are_turned() -> None:
    x, w = t.input("x", (32, 64, 56, 56), "bf16"), t.input("w", (64, 64, 3, 3), "bf16")
    program = compiled(nn.conv2d(x, w, padding=1), "sm_80")
    assert [name[:2] for name in sorted(orders(program))] == ["w_", "x_"]
    assert "by element" not in program.source()


@pytest.mark.slow
def test_several_kernels_read_one_copy() -> None:
    x = t.input("x", (2, 32, 12, 12), "bf16")
    w, v = (t.input(name, (32, 32, 3, 3), "bf16") for name in "wv")
    program = compiled(nn.conv2d(x, w, padding=1).relu() + nn.conv2d(x, v, padding=1).tanh(), SMALL)
    assert sum(name == "x_0231" for name in orders(program)) == 1
    assert program.verify()
