"""Programs whose code for a bucket has masks: all sizes up to the bucket, without a build."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import Program, nn, optimize_and_compile, tensor
from eqsat.model import read_model
from eqsat.serving.padded_model import PaddedModel
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, EqsatWarning, Kind

DEPTH = 8
TEXT = """
%q: fp32[2, 4] = input()
%k: fp32[T, 4] = input()
%q1: fp32[2, 1, 4] = reshape(%q, result_shape=[2, 1, 4])
%k1: fp32[1, T, 4] = reshape(%k, result_shape=[1, T, 4])
%q2: fp32[2, T, 4] = expand(%q1, result_shape=[2, T, 4])
%k2: fp32[2, T, 4] = expand(%k1, result_shape=[2, T, 4])
%p = mul(%q2, %k2)
%s: fp32[2, T] = reduce(%p, axes=[2], op=SUM, dtype=fp32)
%y: fp32[2] = reduce(%s, axes=[1], op=MAX, dtype=fp32)
"""


def decode(x: Tensor, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
    """One token that attends to all tokens before and to itself, and the longer caches."""
    keys, values = tensor.concatenate([keys, x]), tensor.concatenate([values, x * 2])
    return {"y": nn.softmax(x @ keys.T) @ values, "keys": keys, "values": values}


def traced(function: Callable[..., Any], **shapes: tuple[int | str, ...]) -> Any:
    return tensor.program(function, *(tensor.input(name, shape) for name, shape in shapes.items()))


def decoder(**keywords: Any) -> Program:
    source = traced(decode, x=(1, DEPTH), keys=("P", DEPTH), values=("P", DEPTH))
    return optimize_and_compile(source, target="cpu", threads=1, when_missing="pad", **keywords)


def arrays(past: int) -> list[np.ndarray]:
    rng = np.random.default_rng(past)
    shapes = (1, DEPTH), (past, DEPTH), (past, DEPTH)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def expected(x: np.ndarray, keys: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    keys, values = np.concatenate([keys, x]), np.concatenate([values, x * 2])
    weights = np.exp(x @ keys.T - (x @ keys.T).max(1, keepdims=True))
    return [weights / weights.sum(1, keepdims=True) @ values, keys, values]


def assert_decodes(program: Program, past: int) -> None:
    given = arrays(past)
    for got, right in zip(program(*given), expected(*given), strict=True):
        assert got.flags.c_contiguous
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_decoder_answers_every_length_by_the_code_of_its_bucket() -> None:
    program = decoder(dims={"P": [4, 16]})
    program.prepare()
    for past in (9, 10, 11, 16, 5, 3, 1, 4):
        assert_decodes(program, past)
    assert sorted(sizes["P"] for sizes in program.variants) == [4, 16]
    assert_decodes(program, 0)
    assert program.variants[-1] == {"P": 0}, "without elements there is no row of weights: such calls have own code"


@pytest.mark.slow
def test_all_ways_to_use_a_program_know_its_lengths() -> None:
    program = decoder(dims={"P": [6]}, verify=True)
    given = arrays(6)
    run = program.bound(*given)
    for got, right in zip(run(), expected(*given), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
    assert max(program.verify().values()) < 1e-5
    assert max(program.verify(*given).values()) < 1e-5
    assert program.arguments == ("x", "keys", "values")
    inputs = program.random_inputs()
    assert list(inputs) == ["x", "keys", "values"]
    assert len(program.profile(**inputs, repeats=1).rows()) == len(program.kernels)
    assert_decodes(program.replan(0, program.plans(0)[-1].plan), 3)
    out = tuple(np.empty(shape, np.float32) for shape in ((1, DEPTH), (4, DEPTH), (4, DEPTH)))
    given = arrays(3)
    assert program(*given, out=out) is out
    for got, right in zip(out, expected(*given), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)


def test_saved_and_pickled_programs_have_masks(tmp_path: Path) -> None:
    result = optimize_and_compile(TEXT, target="cpu", threads=1, dims={"T": [8]}, when_missing="pad")
    result.prepare()
    result.save(tmp_path / "program")
    rng = np.random.default_rng(0)
    for again in (eqsat.load(tmp_path / "program"), pickle.loads(pickle.dumps(result))):
        for size in (8, 3, 1):
            q, k = -rng.random((2, 4), np.float32), rng.random((size, 4), np.float32)
            np.testing.assert_allclose(again(q, k), (q @ k.T).max(1), rtol=1e-5)
        with pytest.raises(EqsatError) as caught:
            again(q, np.ones((9, 4), np.float32))
        assert caught.value.kind is Kind.UNBOUND_DIM


def test_code_without_buckets_has_no_masks() -> None:
    result = optimize_and_compile(TEXT, target="cpu", threads=1, when_missing="pad")
    result(np.ones((2, 4), np.float32), np.ones((3, 4), np.float32))
    assert "length of" not in str(result.dump("tiny"))


class Counted:
    """The sizes at which a function was traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.sizes = function, list[int]()

    def __call__(self, x: Tensor) -> Any:
        self.sizes.append(x.shape[0])
        return self.function(x)


def padded(function: Callable[..., Any], largest: Mapping[str, int]) -> PaddedModel:
    return PaddedModel(read_model(traced(function, x=("S", 4)), {}, {}), largest, [*largest])


def test_sizes_that_grow_are_proven_by_a_few_comparisons() -> None:
    counted = Counted(lambda x: x.sum(0))
    model = padded(counted, {"S": 512})
    assert all(model.prove({"S": size}) for size in range(40, 512))
    assert len(counted.sizes) <= 6
    assert {1, 40, 512} <= set(counted.sizes)


def test_a_size_at_which_the_program_differs_is_told_and_not_padded() -> None:
    model = padded(lambda x: x.sum(0) if x.shape[0] < 5 else x.max(axis=0), {"S": 16})
    assert all(model.prove({"S": size}) for size in (16, 9, 5))
    with pytest.warns(EqsatWarning, match=r"as those of S=4 wait for code of their own: Reduce\(sum\)"):
        assert not model.prove({"S": 4})
    assert not model.prove({"S": 1})


def test_a_sequence_of_one_waits_where_the_program_has_fewer_uops() -> None:
    source = traced(nn.softmax, x=("S",))
    program = optimize_and_compile(source, target="cpu", dims={"S": [8]}, when_missing="pad", threads=1)
    np.testing.assert_allclose(program(np.zeros(4, np.float32)), [0.25] * 4, rtol=1e-6)
    with pytest.warns(EqsatWarning, match="as those of S=1 wait for code of their own: the program has other uops"):
        np.testing.assert_array_equal(program(np.zeros(1, np.float32)), [1])
    assert program.variants == [{"S": 8}, {"S": 1}]


def test_a_batch_of_one_waits_where_the_program_has_fewer_uops() -> None:
    """Code without masks, too: a row that is added to one row is not repeated."""
    source = traced(lambda x, row: x + row, x=("B", 4), row=(4,))
    program = optimize_and_compile(source, target="cpu", dims={"B": [8]}, when_missing="pad", threads=1)
    row = np.ones(4, np.float32)
    np.testing.assert_array_equal(program(np.zeros((3, 4), np.float32), row), np.ones((3, 4)))
    with pytest.warns(EqsatWarning, match="as those of B=1 wait for code of their own: .*other uops"):
        np.testing.assert_array_equal(program(np.zeros((1, 4), np.float32), row), np.ones((1, 4)))
    assert program.variants == [{"B": 8}, {"B": 1}]


@pytest.mark.slow
def test_code_above_all_buckets_does_not_keep_the_buckets_from_being_built() -> None:
    """It has no masks, and answers no smaller call."""
    source = traced(nn.softmax, x=("S",))
    program = optimize_and_compile(source, target="cpu", dims={"S": [4, 16]}, when_missing="pad", threads=1)
    for size in (30, 20, 3, 11):
        np.testing.assert_allclose(program(np.zeros(size, np.float32)), [1 / size] * size, rtol=1e-6)
    assert {sizes["S"] for sizes in program.variants} >= {4, 20, 30}


@pytest.mark.filterwarnings("ignore:calls as those of")
@pytest.mark.parametrize("bent", [lambda size: max(size, 8), lambda size: min(size, 8), lambda size: size * size])
def test_sizes_at_which_a_number_bends_away_are_not_padded(bent: Callable[[int], int]) -> None:
    model = padded(lambda x: x.sum(0) + bent(x.shape[0]), {"S": 16})
    for size in range(1, 17):
        line = bent(16) + (bent(16) - bent(15)) * (size - 16)
        assert model.prove({"S": size}) == (line == bent(size)), size


def test_sizes_at_which_an_axis_has_no_element_are_not_padded() -> None:
    model = padded(lambda x: x[2:].sum(0), {"S": 16})
    assert model.prove({"S": 3})
    assert not model.prove({"S": 2})
    assert not model.prove({"S": 1})


@pytest.mark.slow
def test_an_axis_that_is_longer_at_smaller_sizes_is_not_padded() -> None:
    """The code of a bucket of 7 has one element of c[S:], and a call of 3 five."""
    source = traced(lambda x, c: c[x.shape[0] :].sum(0) + x.sum(0), x=("S", 4), c=(8, 4))
    program = optimize_and_compile(source, target="cpu", dims={"S": [7]}, when_missing="pad", threads=1)
    c = np.ones((8, 4), np.float32)
    for size in (7, 3):
        np.testing.assert_array_equal(program(np.zeros((size, 4), np.float32), c), [8 - size] * 4)
    assert program.variants == [{"S": 7}, {"S": 3}]


def test_sizes_that_vary_together_only_are_one_direction() -> None:
    def attend(x: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        return (tensor.concatenate([keys, x]).sum(1) * mask).sum()

    source = traced(attend, x=(1, 4), keys=("P", 4), mask=("T",))
    program = optimize_and_compile(source, target="cpu", dims={"P": [8], "T": [9]}, when_missing="pad", threads=1)
    rng = np.random.default_rng(0)
    for past in (3, 8, 1):
        x, keys, mask = (rng.random(shape, np.float32) for shape in ((1, 4), (past, 4), (past + 1,)))
        np.testing.assert_allclose(program(x, keys, mask), (np.concatenate([keys, x]).sum(1) * mask).sum(), rtol=1e-5)
    assert program.variants == [{"P": 8, "T": 9}]
    with pytest.raises(EqsatError):
        program(x, keys, np.ones(5, np.float32))
    with pytest.raises(EqsatError, match="P=8, T=8 do not fit together") as caught:
        optimize_and_compile(source, target="cpu", dims={"P": [8], "T": [8]}, when_missing="pad", threads=1)
    assert caught.value.diagnostics[0].hint


def grown_sum(x: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
    total: Tensor = (tensor.concatenate([keys, x]).sum(1) * mask).sum()
    return total


def related(**keywords: Any) -> Program:
    source = traced(grown_sum, x=(1, 4), keys=("P", 4), mask=("T",))
    return optimize_and_compile(source, target="cpu", threads=1, **keywords)


def assert_sums(program: Program, past: int) -> None:
    rng = np.random.default_rng(past)
    x, keys, mask = (rng.random(shape, np.float32) for shape in ((1, 4), (past, 4), (past + 1,)))
    np.testing.assert_allclose(program(x, keys, mask), (np.concatenate([keys, x]).sum(1) * mask).sum(), rtol=1e-5)


@pytest.mark.slow
def test_a_size_follows_from_others() -> None:
    program = related(dims={"P": [4, 8], "T": "P + 1"}, when_missing="pad")
    assert "free dims: P;" in repr(program)
    assert program.prepare().is_done
    assert sorted(sizes["T"] for sizes in program.variants) == [5, 9]
    for past in (3, 5, 8, 1):
        assert_sums(program, past)
    assert len(program.variants) == 2
    with pytest.raises(EqsatError, match="T is 7, and P \\+ 1 is 6") as caught:
        program(np.ones((1, 4), np.float32), np.ones((5, 4), np.float32), np.ones(7, np.float32))
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH
    assert_sums(related(dims={"P": 3, "T": "P + 1"}), 3)


def test_a_saved_program_knows_which_sizes_follow(tmp_path: Path) -> None:
    source = "%x: fp32[P] = input()\n%m: fp32[T] = input()\n%a = pad(%x, pad=[[0, 1]])\n%b = mul(%a, %m)\n"
    source += "%y: fp32[] = reduce(%b, axes=[0], op=SUM, dtype=fp32)"
    dims: dict[str, Any] = {"P": [4], "T": "1 + P"}
    program = optimize_and_compile(source, target="cpu", threads=1, dims=dims, when_missing="pad")
    program.prepare()
    program.save(tmp_path / "program")
    again = eqsat.load(tmp_path / "program")
    for past in (4, 2):
        np.testing.assert_allclose(again(np.ones(past, np.float32), np.ones(past + 1, np.float32)), past, rtol=1e-6)
    with pytest.raises(EqsatError, match="T is 4"):
        again(np.ones(2, np.float32), np.ones(4, np.float32))


@pytest.mark.parametrize("dims", [{"T": "P +"}, {"T": "P / 2"}, {"T": "Q + 1"}, {"Q": "P + 1"}, {"T": "P", "P": "T"}])
def test_texts_that_are_no_expressions_of_sizes_are_refused(dims: dict[str, str]) -> None:
    with pytest.raises(EqsatError) as caught:
        related(dims=dims)
    assert caught.value.kind is Kind.INVALID_OPTION
    assert caught.value.diagnostics[0].hint


@pytest.mark.slow
def test_prompts_with_empty_caches_have_one_code_for_their_lengths() -> None:
    source = traced(decode, x=("S", DEPTH), keys=("P", DEPTH), values=("P", DEPTH))
    dims: dict[str, Any] = {"S": [1, 4], "P": [8]}
    program = optimize_and_compile(source, target="cpu", threads=1, dims=dims, when_missing="pad")
    rng = np.random.default_rng(0)
    empty = np.zeros((0, DEPTH), np.float32)
    for prompt in (3, 4, 2):
        cache = empty, empty
        for tokens in (prompt, 1, 1):
            x = rng.standard_normal((tokens, DEPTH)).astype(np.float32)
            given = x, *cache
            result, *cache = program(*given)
            for got, right in zip((result, *cache), expected(*given), strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
    assert program.variants == [{"P": 0, "S": 4}, {"P": 8, "S": 1}]


def test_a_size_that_cannot_vary_is_told_once() -> None:
    def root(x: Tensor) -> Any:
        return (x * x.shape[1] ** 0.5).sum()

    source = traced(root, x=("M", "N"))
    program = optimize_and_compile(source, target="cpu", dims={"M": [8], "N": [5]}, when_missing="pad", threads=1)
    np.testing.assert_allclose(program(np.ones((3, 5), np.float32)), 15 * 5**0.5, rtol=1e-5)
    with pytest.warns(EqsatWarning, match="as those of N=4 wait"):
        np.testing.assert_allclose(program(np.ones((8, 4), np.float32)), 64, rtol=1e-5)
    assert program.variants == [{"M": 8, "N": 5}, {"M": 8, "N": 4}]


def test_a_function_that_refuses_sizes_may_have_buckets() -> None:
    """Calls of sizes that it takes wait for code of their own."""

    def by_rows(x: Tensor, y: Tensor) -> Tensor:
        if y.shape[0] % 4:
            raise ValueError("no rows of four")
        return x.sum(0) + y.reshape(-1, 4).sum(0)

    source = traced(by_rows, x=("M", 4), y=("N",))
    program = optimize_and_compile(source, target="cpu", dims={"M": [8], "N": [8]}, when_missing="pad", threads=1)
    ones = np.ones(12, np.float32)
    np.testing.assert_array_equal(program(np.ones((3, 4), np.float32), ones[:8]), [5] * 4)
    with pytest.warns(EqsatWarning, match="as those of N=4 wait"):
        np.testing.assert_array_equal(program(np.ones((3, 4), np.float32), ones[:4]), [4] * 4)
    with pytest.raises(EqsatError, match=r"no program at sizes that are one less.*no rows of four") as caught:
        optimize_and_compile(source, target="cpu", dims={"M": 1, "N": [8]}, when_missing="pad", threads=1)
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.slow
def test_programs_for_a_gpu_have_no_masks() -> None:
    """A program that would need them is refused when it is made, not at its first padded call."""

    def made(function: Callable[[Tensor], Tensor]) -> Program:
        source = traced(function, x=("S", 4))
        return optimize_and_compile(source, target="sm_80", emulate=True, dims={"S": [8]}, when_missing="pad")

    np.testing.assert_array_equal(made(lambda x: x.sum(1))(np.ones((3, 4), np.float32)), [4] * 3)
    with pytest.raises(EqsatError, match="the reduction combines them"):
        made(lambda x: x.sum(0))
