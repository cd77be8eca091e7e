"""A short run of the sanitizers, and what they must notice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen.text.cpu_to_c import c_text
from eqsat import nn, tensor
from eqsat.model import read_model
from eqsat.runtime.verify import random_inputs
from eqsat.tensor import Tensor
from ir.kernel.cpu.kernel import CpuKernel
from tests.stress import pool_races, sanitized
from tests.stress.programs import Batch, batch
from tests.stress.sanitized import check
from tests.support.fuzz.batch import merged
from tests.support.sampling import first_few


def one(y: Tensor) -> Batch:
    """A batch of one program."""
    graph = merged([read_model(y).bind({}, True).graph])
    types = {name: graph.types[node.id] for name, node in graph.inputs.items()}
    return Batch(graph, {}, random_inputs(types), "rounding", None, ["it"])


def rows() -> Batch:
    """One kernel with a tail and a scratch buffer: an output of fp64 does not hold the exponentials."""
    return one(nn.softmax(tensor.input("x", (9, 33)) + tensor.input("y", (33,))).cast("fp64"))


def damage(patch: pytest.MonkeyPatch, pattern: str, other: str) -> None:
    """Emit other C text from now on."""
    before = c_text

    def text(kernel: CpuKernel) -> str:
        changed, count = re.subn(pattern, other, before(kernel))
        assert count
        return changed

    patch.setattr(sanitized, "c_text", text)


@pytest.mark.slow
@pytest.mark.parametrize("races", [False, True])
def test_kernels_as_they_are(races: bool) -> None:
    x, w = tensor.input("x", (9, 33)), tensor.input("w", (33, 10))
    result = check(one(nn.softmax(nn.gelu(x @ w)).cumsum(1)), races)
    assert result.kernels
    assert not result.complaint


@first_few(3, "number", range(6))
def test_batches(number: int) -> None:
    assert not check(batch(1, number), races=number % 3 == 2).complaint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "other", "said"),
    [
        (r"eq_load_n_f32\((g0_x[^,]*), \d+\)", r"eq_load_f32(\1)", "heap-buffer-overflow"),
        (r"eq_store_n_f64\((g0_n[^,]*), (\w+), \d+\)", r"eq_store_f64(\1, \2)", "heap-buffer-overflow"),
        (r"eq_store_n_f32\((exp_3_row[^,]*), (\w+), \d+\)", r"eq_store_f32(\1, \2)", "use-after-poison"),
        (r"eq_store_n_f32\(exp_3_row[^;]*;", "", "differs between two runs"),
        (r"= task;", "= task; volatile int64_t far = INT64_MAX; far = far + 1;", "signed integer overflow"),
    ],
    ids=["read", "write", "scratch", "unwritten", "overflow"],
)
def test_damaged_kernels_are_noticed(monkeypatch: pytest.MonkeyPatch, pattern: str, other: str, said: str) -> None:
    damage(monkeypatch, pattern, other)
    assert re.search(said, check(rows()).complaint)


@pytest.mark.slow
def test_a_race_between_tasks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    damage(monkeypatch, r"= task;", "= task; static int64_t sum; sum += task;")
    assert "data race" in check(one(tensor.input("x", (64, 4096)).exp()), races=True).complaint


@pytest.mark.slow
def test_the_pool_has_no_races(tmp_path: Path) -> None:
    for mode in ("hosts", "exit"):
        assert not pool_races.complaint(mode, tmp_path, 100)


@pytest.mark.slow
@pytest.mark.parametrize("mode", pool_races.MODES)
def test_the_pool_has_no_races_for_long(tmp_path: Path, mode: str) -> None:
    assert not pool_races.complaint(mode, tmp_path, 1000 if mode != "unload" else 200)
