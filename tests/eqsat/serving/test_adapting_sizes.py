"""`when_missing="adapt"`: code for the first sizes, then for powers of two, then for sizes that come often."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile, tensor
from eqsat.serving.adapting import OFTEN
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind

SECONDS = 60.0
"""How long a test waits for a build before it fails."""


def adapting(function: Callable[[Tensor], Any], **keywords: Any) -> Program:
    source = tensor.program(function, tensor.input("x", ("S", 4)))
    return optimize_and_compile(source, target="cpu", threads=1, when_missing="adapt", **keywords)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)


def sizes(program: Program) -> list[int]:
    return sorted(variant["S"] for variant in program.variants)


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.slow
def test_new_sizes_have_the_code_of_the_next_power_of_two() -> None:
    program = adapting(lambda x: x.sum(0))
    for count, built in (
        (5, [5]),
        (6, [5, 8]),
        (7, [5, 8]),
        (8, [5, 8]),
        (5, [5, 8]),
        (9, [5, 8, 16]),
        (1, [1, 5, 8, 16]),
    ):
        np.testing.assert_allclose(program(rows(count)), rows(count).sum(0), rtol=1e-5, atol=1e-6)
        assert sizes(program) == built


@pytest.mark.slow
def test_sizes_that_grow_together_have_a_bucket_together() -> None:
    def step(keys: Tensor, mask: Tensor, row: Tensor) -> Any:
        longer = tensor.concatenate([keys, row])
        return (longer.sum(1) * mask).sum(), longer

    shapes: dict[str, tuple[int | str, ...]] = {"keys": ("P", 4), "mask": ("T",), "row": (1, 4)}
    inputs = [tensor.input(name, shape) for name, shape in shapes.items()]
    program = optimize_and_compile(tensor.program(step, *inputs), target="cpu", threads=1, when_missing="adapt")
    keys = rows(5)
    for _ in range(15):
        mask, row = np.ones(len(keys) + 1, np.float32), rows(1)
        total, longer = program(keys, mask, row)
        np.testing.assert_allclose(total, longer.sum(), rtol=1e-4)
        np.testing.assert_array_equal(longer, np.concatenate([keys, row]))
        keys = longer
    assert [(sizes["P"], sizes["T"]) for sizes in program.variants] == [(5, 6), (8, 9), (16, 17), (32, 33)]


def test_code_for_the_first_size_gives_way_to_a_bucket() -> None:
    program = adapting(lambda x: x.sum(0))
    program(rows(8))
    assert "length of" not in str(program.dump("tiny"))
    np.testing.assert_allclose(program(rows(5)), rows(5).sum(0), rtol=1e-5, atol=1e-6)
    assert "length of" in str(program.dump("tiny"))
    np.testing.assert_allclose(program(rows(8)), rows(8).sum(0), rtol=1e-5, atol=1e-6)
    assert sizes(program) == [8]


def test_a_program_without_masks_is_padded_as_it_is() -> None:
    program = adapting(lambda x: x.relu())
    for count in (5, 6, 7):
        np.testing.assert_array_equal(program(rows(count)), np.maximum(rows(count), 0))
    assert sizes(program) == [5, 8]
    assert "length of" not in str(program.dump("tiny"))


def test_sizes_that_cannot_be_padded_have_code_of_their_own() -> None:
    program = adapting(lambda x: (x * x.shape[0] ** 0.5).sum(0))
    for count in (5, 6, 8):
        np.testing.assert_allclose(program(rows(count)), (rows(count) * count**0.5).sum(0), rtol=1e-5, atol=1e-6)
    assert sizes(program) == [5, 6, 8]


@pytest.mark.slow
def test_a_size_that_comes_often_gets_code_of_its_own() -> None:
    program = adapting(lambda x: x.max(axis=0))
    program(rows(4))
    for _ in range(OFTEN):
        np.testing.assert_array_equal(program(rows(11)), rows(11).max(0))
        assert 11 not in sizes(program) or _ == OFTEN - 1
    end = time.monotonic() + SECONDS
    while 11 not in sizes(program):
        assert time.monotonic() < end
        time.sleep(0.01)
    np.testing.assert_array_equal(program(rows(11)), rows(11).max(0))


def test_empty_axes_and_other_buckets() -> None:
    program = adapting(lambda x: x.sum(0), dims={"S": [6]})
    for count in (2, 3, 5, 0):
        np.testing.assert_allclose(program(rows(count)), rows(count).sum(0), rtol=1e-5, atol=1e-6)
    assert sizes(program) == [0, 2, 6]


def test_a_saved_program_answers_smaller_sizes(tmp_path: Path) -> None:
    text = "%x: fp32[S, 4] = input()\n%y: fp32[4] = reduce(%x, axes=[0], op=SUM, dtype=fp32)"
    program = optimize_and_compile(text, target="cpu", threads=1, when_missing="adapt")
    program(rows(3))
    program(rows(6))
    program.save(tmp_path / "program")
    again = eqsat.load(tmp_path / "program")
    for count in (3, 7, 1, 8):
        np.testing.assert_allclose(again(rows(count)), rows(count).sum(0), rtol=1e-5, atol=1e-6)
    with pytest.raises(EqsatError) as caught:
        again(rows(9))
    assert caught.value.kind is Kind.UNBOUND_DIM
