"""Row kernels: what is reduced from a row is finished on chip and read again by the same kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.find_target import find_target
from eqsat.model import read_model
from eqsat.runtime.program import Program
from eqsat.tensor import Tensor
from ir.uop.playback import Array
from rules import RULES
from tests.support.fuzz.strategies import random_inputs
from tests.support.oracles.canary import saturate
from tests.support.stages.path import compiled as run_module
from tests.support.stages.path import complaint, covers

Write = Callable[[Tensor], Tensor]


def rms_norm(x: Tensor) -> Tensor:
    return x * ((x * x).mean(axis=-1, keepdims=True) + 1e-5).rsqrt()


def log_softmax(x: Tensor) -> Tensor:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - shifted.exp().sum(axis=-1, keepdims=True).log()


def normalized_then_softmax(x: Tensor) -> Tensor:
    return nn.softmax(nn.layer_norm(x))


def spread(x: Tensor) -> Tensor:
    """Values beside their row's range: two statistics that do not read one another."""
    return (x - x.min(axis=-1, keepdims=True)) / (x.max(axis=-1, keepdims=True) - x.min(axis=-1, keepdims=True))


def centred_scan(x: Tensor) -> Tensor:
    return (x - x.mean(axis=-1, keepdims=True)).cumsum(axis=x.ndim - 1)


def distance(x: Tensor) -> Tensor:
    """A statistic of a statistic: one number per row is left."""
    return ((x - x.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1).sqrt()


ROWS: dict[str, Write] = {
    function.__name__: function
    for function in (nn.softmax, nn.layer_norm, rms_norm, log_softmax, normalized_then_softmax, spread, distance)
}
SHAPES = [(5, 33), (3, 1), (1, 7), (2, 3, 130), (0, 4), (4, 0), (1, 1), (257,)]

rows = pytest.mark.parametrize("write", ROWS.values(), ids=ROWS.keys())


def compiled(write: Write, shape: tuple[int, ...], dtype: str = "fp32") -> Program:
    return optimize_and_compile(write(tensor.input("x", shape, dtype)))


def values(shape: tuple[int, ...], dtype: str = "fp32") -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(tensor.input("x", shape, dtype).dtype.numpy)


@pytest.mark.slow
@rows
def test_a_chain_over_one_axis_is_one_kernel(write: Write) -> None:
    count = 16 if find_target("cpu").arch == "avx2" else 64  # there, two kernels take less time for many rows
    program = compiled(write, (count, 1000))
    assert len(program.kernels) == 1
    assert "finish_on_chip" in program.kernels[0].rules
    program.verify()


def verify_together(writes: Iterable[Write], shape: tuple[int, ...], dtype: str = "fp32") -> None:
    """One program of all, each of an input of its own: the C compiler starts once."""
    outputs = [write(tensor.input(f"x{number}", shape, dtype)) for number, write in enumerate(writes)]
    optimize_and_compile(outputs).verify()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_of_every_size_are_right(shape: tuple[int, ...]) -> None:
    """The maximum of nothing is refused or infinite; sums of nothing are asked of the norms."""
    verify_together((nn.layer_norm, rms_norm) if shape[-1] == 0 else ROWS.values(), shape)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp64"])
def test_rows_of_every_float_are_right(dtype: str) -> None:
    verify_together(ROWS.values(), (6, 50), dtype)


@pytest.mark.slow
def test_rows_along_the_first_axis_are_right() -> None:
    for shape in ((33, 5), (1, 40), (70, 1)):
        program = optimize_and_compile(nn.softmax(tensor.input("x", shape), axis=0))
        program.verify()


@pytest.mark.slow
def test_a_scan_of_a_row_less_its_mean_is_right() -> None:
    for shape in ((5, 33), (1, 1), (3, 200)):
        compiled(centred_scan, shape).verify()


def test_a_row_that_is_masked_wholly_is_what_playback_gives() -> None:
    program = compiled(nn.softmax, (3, 9))
    x = values((3, 9))
    x[1] = -np.inf
    x[2, 4] = np.nan
    with np.errstate(invalid="ignore"):
        result = program(x=x)
    assert np.isnan(result[1]).all()
    assert np.isnan(result[2]).all()
    assert np.isclose(result[0].sum(), 1.0, atol=1e-6)


def test_a_statistic_of_all_terms_is_not_finished_inside_each() -> None:
    """Σₖ a[i, k]·b[k, j] with a row of statistics per term would be computed again for every term."""
    x, y = tensor.input("x", (6, 5)), tensor.input("y", (5, 8))
    program = optimize_and_compile((x.sum(axis=0).reshape(5, 1) * y).sum(axis=0))
    assert len(program.kernels) == 2
    program.verify()


@pytest.mark.slow
@rows
def test_every_cover_is_right(write: Write) -> None:
    graph = read_model(write(tensor.input("x", (4, 19)))).bind({}, False).graph
    inputs = random_inputs(graph, np.random.default_rng(2))
    view, _ = saturate(graph, RULES)
    for cover in covers(graph, view, range(3)):
        assert not complaint(graph, inputs, run_module(*cover)(inputs))


@pytest.mark.slow
@rows
def test_no_two_tasks_finish_one_statistic(write: Write) -> None:
    """Rows are dealt to threads, never the parts of a row: each would reduce it all again."""
    program = compiled(write, (4, 60_000))
    for plan in program.dump("plan", as_json=True).values():
        assert "i1.o" not in plan["bind"]
    program.verify()


@pytest.mark.parametrize(("rows", "runs", "length"), [(64, 2, 1000), (5, 4, 100), (33, 2, 37), (8, 2, 16)])
def test_terms_that_take_turns_between_runs_are_loaded_together(rows: int, runs: int, length: int) -> None:
    x, w = tensor.input("x", (rows, runs, length)), tensor.input("w", (rows, length * runs))
    program = optimize_and_compile((x.permute(0, 2, 1).reshape(rows, length * runs) * w).sum(-1))
    assert "eq_gather" not in program.source()
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in (x.shape, w.shape))
    np.testing.assert_array_equal(program(x=a, w=b), (a.transpose(0, 2, 1).reshape(b.shape) * b).sum(-1))
