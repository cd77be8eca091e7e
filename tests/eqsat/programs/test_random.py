"""Random numbers as kernels: every instruction set and every emulated GPU gives the same bits, within what reads
them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import Program, nn, optimize_and_compile, tensor
from eqsat.model import read_model
from eqsat.tensor import Tensor
from ir.tiny.playback import playback
from ir.uop.philox import WORDS
from tests.support.cpu.lanes import arches
from tests.support.oracles.plain_numpy import evaluate, philox_words
from tests.support.programs.philox_answers import ANSWERS, COUNTERS_AND_KEYS

TARGETS = (*arches(), "sm_80", "sm_90")
GPUS = ("sm_80", "sm_90")
SEED = np.int64(2026)

ALL_WORDS = "%offset: u64[n] = input()\n%subsequence: u64[n] = input()\n%key: u64[n] = input()\n" + "".join(
    f"%word{word} = random(%offset, %subsequence, %key, word={word})\n" for word in range(WORDS)
)


def compiled(monkeypatch: pytest.MonkeyPatch, program: Any, target: str, **options: Any) -> Program:
    """The program for a GPU to emulate, or for the CPU with this instruction set."""
    if target in GPUS:
        return optimize_and_compile(program, target=target, emulate=True, **options)
    monkeypatch.setenv("EQSAT_ISA", target)
    return optimize_and_compile(program, threads=1, **options)


def drawing_kernels(program: Program) -> list[tuple[str, ...]]:
    """The values that are written by each kernel that computes random words."""
    random = {uop["id"] for uop in program.dump("tiny", as_json=True)["uops"] if uop["uop"] == "RANDOM"}
    return [kernel.writes for kernel in program.kernels if random & set(kernel.uops)]


@pytest.mark.parametrize("target", TARGETS)
def test_known_answers(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Those of Random123, and 34 random counters, so that registers are full, and the last one is not."""
    rng = np.random.default_rng(1)
    given = [np.append(edge, rng.integers(0, 2**64, 34, np.uint64)) for edge in COUNTERS_AND_KEYS]
    program = compiled(monkeypatch, ALL_WORDS, target, dims={"n": 37})
    assert len(program.kernels) == 1
    actual = program(*given)
    for word, got in enumerate(actual):
        assert got.dtype == np.uint32
        np.testing.assert_array_equal(got[:3], ANSWERS[word])
        wanted = [
            philox_words(int(low) | int(high) << 64, int(key))[word] for low, high, key in zip(*given, strict=True)
        ]
        np.testing.assert_array_equal(got, wanted)


def all_functions(shape: tuple[int, ...], seed: Tensor, offset: Tensor) -> list[Tensor]:
    words = [tensor.random_word(shape, seed, offset, word) for word in range(WORDS)]
    mask = tensor.dropout_mask(shape, 0.3, seed, offset)
    return [*words, mask, tensor.rand(shape, seed, offset), tensor.randint(-3, 1000, shape, seed, offset)]


def check(program: Program, outputs: list[Tensor], given: dict[str, Any]) -> None:
    """The results have the bits of both evaluators."""
    bound = read_model(outputs).bind({}, strict=False)
    inputs = {name: np.asarray({**given, **bound.constants}[name]) for name in bound.graph.inputs}
    actual = program(**given)
    for wanted in (playback(bound.graph, inputs), evaluate(bound.graph, inputs)):
        for one, other in zip(actual, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 19), (1, 1), (0, 5), (), (2, 1, 33)])
@pytest.mark.parametrize("target", [arches()[-1], "sm_80"])
def test_shapes(monkeypatch: pytest.MonkeyPatch, target: str, shape: tuple[int, ...]) -> None:
    outputs = all_functions(shape, tensor.input("seed", (), "i64"), tensor.input("offset", (), "u64"))
    program = compiled(monkeypatch, outputs, target)
    check(program, outputs, {"seed": SEED, "offset": np.uint64(2**64 - 3)})


@pytest.mark.slow
@pytest.mark.parametrize("offset", [2**31 - 2, 2**32 - 2, 2**63 - 2, 2**64 - 2])
@pytest.mark.parametrize("target", [arches()[-1], "sm_90"])
def test_counters_carry_and_wrap(monkeypatch: pytest.MonkeyPatch, target: str, offset: int) -> None:
    """An offset that is known at compile time becomes part of an index only where no index overflows."""
    outputs = [tensor.random_word((3, 11), tensor.input("seed", (), "i64"), offset, word) for word in (0, 3)]
    program = compiled(monkeypatch, outputs, target)
    check(program, outputs, {"seed": SEED})
    first = program(seed=SEED)[0].ravel()
    assert first.tolist() == [philox_words((offset + i) % 2**64, int(SEED))[0] for i in range(33)]


@pytest.mark.parametrize("target", [arches()[-1], "sm_90"])
def test_normal_numbers_are_those_of_playback(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    numbers = tensor.randn((7, 41), tensor.input("seed", (), "i64"))
    program = compiled(monkeypatch, numbers, target)
    bound = read_model(numbers).bind({}, strict=False)
    (wanted,) = playback(bound.graph, {"seed": np.asarray(SEED)})
    np.testing.assert_allclose(program(seed=SEED), wanted, rtol=1e-5, atol=2e-6)
    assert len(program.kernels) == 1


@pytest.mark.parametrize("target", [arches()[-1], "sm_80"])
def test_dropout_is_part_of_the_kernel_around_it(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Every call may have another seed, without another compilation."""
    x, seed = tensor.input("x", (130, 650)), tensor.input("seed", (), "i64")
    result = (nn.dropout(x.relu(), 0.2, seed) + x).max(axis=-1)
    program = compiled(monkeypatch, result, target)
    assert len(program.kernels) == 1
    given = np.random.default_rng(0).standard_normal((130, 650)).astype(np.float32)
    bound = read_model(result).bind({}, strict=False)
    for number in (SEED, np.int64(-1)):
        (wanted,) = playback(bound.graph, {"x": given, "seed": np.asarray(number)})
        np.testing.assert_allclose(program(x=given, seed=number), wanted, rtol=1e-5)


def forward_and_backward(shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    x, g, seed = tensor.input("x", shape), tensor.input("g", shape), tensor.input("seed", (), "i64")
    return nn.dropout(x, 0.1, seed), nn.dropout(g, 0.1, seed), seed


@pytest.mark.parametrize("target", [arches()[-1], "sm_80", "sm_90"])
def test_a_mask_that_is_read_twice_is_computed_once(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Forward and backward read one mask. Elementwise programs are one kernel, which stores the results alone."""
    y, grad, _ = forward_and_backward((31, 67))
    program = compiled(monkeypatch, [y, grad], target)
    (kernel,) = program.kernels
    assert len(kernel.writes) == 2
    ones = np.ones((31, 67), np.float32)
    result = program(x=ones, g=2 * ones, seed=SEED)
    np.testing.assert_array_equal(2 * result[0], result[1])
    assert 0.05 < (result[0] == 0).mean() < 0.15
    assert not np.array_equal(result[0], program(x=ones, g=ones, seed=SEED + 1)[0])


def test_a_mask_is_computed_again_where_that_is_cheaper() -> None:
    """The gradient waits for a sum over the whole forward pass, so there are two kernels. On an H100 words are drawn
    while other data come from memory, so both kernels draw them."""
    y, grad, _ = forward_and_backward((1024, 1024))
    total = y.sum()
    program = optimize_and_compile([total, grad * total], target="h100", emulate=True)
    drawn = drawing_kernels(program)
    assert len(drawn) == len(program.kernels) == 2
    stored = {name for kernel in program.kernels for name in kernel.writes}
    assert len(stored) == 2, "the outputs"


@pytest.mark.parametrize("target", [arches()[-1], "sm_80", "sm_90"])
def test_two_kernels_have_one_mask(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    y, grad, _ = forward_and_backward((16, 40))
    total = y.sum()
    program = compiled(monkeypatch, [y, total, grad * total], target)
    ones = np.ones((16, 40), np.float32)
    forward, whole, backward = program(x=ones, g=ones, seed=SEED)
    np.testing.assert_allclose(backward, forward * whole, rtol=1e-6)


def test_constant_random_numbers_are_computed_when_the_program_is_built() -> None:
    program = optimize_and_compile(tensor.rand((5,), 42), threads=1)
    assert not program.kernels
    assert program()[0] == float.fromhex("0x1.ceaf04p-3")
