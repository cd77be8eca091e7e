"""Random lazy tensors, played back: PyTorch's numbers, their distributions, and the edges of seeds and offsets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from eqsat import nn, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load
from ir.tiny.playback import playback
from tests.support.oracles.plain_numpy import philox_words


def played(result: Tensor, given: Mapping[str, Any] | None = None) -> np.ndarray:
    source, constants = tensor_to_tiny(result)
    graph, _ = load(source, strict=True)
    inputs = {name: np.asarray(array) for name, array in {**(given or {}), **constants}.items()}
    return playback(graph, {name: inputs[name] for name in graph.inputs})[0]


RAND = {
    0: ["0x1.989fa2p-1", "0x1.e39330p-1", "0x1.3ea8c8p-5", "0x1.2643bap-1"],
    42: ["0x1.ceaf04p-3", "0x1.f36c82p-1", "0x1.4db006p-1", "0x1.d63822p-2"],
    2**32 - 1: ["0x1.d82e9ep-1", "0x1.f2204ep-5", "0x1.d9b8c6p-1", "0x1.f2cb66p-9"],
    123456789012: ["0x1.3e3674p-2", "0x1.4cd800p-1", "0x1.55dbb4p-2", "0x1.b8e474p-4"],
}
RANDN = {
    0: ["0x1.fbdb60p-4", "-0x1.8dae98p-2", "-0x1.72d282p-3", "0x1.435812p-1"],
    42: ["0x1.523be2p-1", "-0x1.8aef36p+0", "-0x1.2e5116p-1", "-0x1.340838p-1"],
    2**32 - 1: ["0x1.18c7eap+1", "-0x1.2e4034p-4", "-0x1.31c97ap-2", "0x1.84ad36p-5"],
    123456789012: ["-0x1.4d8360p-2", "0x1.54615ep+0", "0x1.5cf880p-2", "0x1.2f1f28p-2"],
}
RANDINT = {
    0: [945616, 790247, 601372, 656732],
    42: [639214, 159370, 440776, 99920],
    2**32 - 1: [847932, 337271, 561141, 383149],
    123456789012: [500478, 970965, 428678, 125033],
}
WIDE_RANDINT = {
    0: [2407672686901192918, 2067716123690060964, 1281048307639690025, 3045687507704409897],
    42: [4032209561764687955, 1421568470513557799, -1691280005047516634, -1463936322647948170],
}
"""By seed, recorded with PyTorch 2.13 on a CPU: torch.compile of `torch.ops.prims.inductor_random([8], seed, "rand")`,
the same with "randn", `inductor_randint(-5, 1000003, [8], seed)` and `inductor_randint(-2**62, 2**62 - 1, [4], seed)`.
torch.compile cuts a seed off to 32 bits."""


@pytest.mark.parametrize("seed", RAND)
def test_the_numbers_of_pytorch(seed: int) -> None:
    kept = seed % 2**32
    np.testing.assert_array_equal(played(tensor.rand((4,), kept)), [float.fromhex(text) for text in RAND[seed]])
    wanted = [float.fromhex(text) for text in RANDN[seed]]
    np.testing.assert_allclose(played(tensor.randn((4,), kept)), wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(played(tensor.randint(-5, 1000003, (4,), kept)), RANDINT[seed])
    if seed in WIDE_RANDINT:
        np.testing.assert_array_equal(played(tensor.randint(-(2**62), 2**62 - 1, (4,), kept)), WIDE_RANDINT[seed])


def test_dropout_is_that_of_pytorch() -> None:
    """Recorded as above, with `(inductor_random([16], seed, "rand") > 0.1) * x * float(1 / (1 - 0.1))`, x from 1 to 16
    and the seed 42."""
    x = np.arange(1, 17, dtype=np.float32)
    wanted = np.where(np.isin(x, [9, 11]), 0, x * np.float32(1 / 0.9))
    actual = played(nn.dropout(tensor.input("x", (16,)), 0.1, 42), {"x": x})
    np.testing.assert_array_equal(actual, wanted)


SEEDS: dict[str, tuple[Any, int]] = {
    "a number": (7, 7),
    "NumPy's": (np.int64(7), 7),
    "negative": (-1, 2**64 - 1),
    "the highest": (2**64 - 1, 2**64 - 1),
    "an array": (np.array([2**63 + 1], np.uint64), 2**63 + 1),
}


@pytest.mark.parametrize("name", SEEDS)
def test_seeds(name: str) -> None:
    seed, bits = SEEDS[name]
    wanted = [philox_words(counter, bits)[2] for counter in range(5)]
    assert played(tensor.random_word((5,), seed, word=2)).tolist() == wanted


@pytest.mark.parametrize("dtype", ["i64", "u64", "i32"])
def test_a_seed_and_an_offset_are_inputs(dtype: str) -> None:
    seed, offset = tensor.input("seed", (), dtype), tensor.input("offset", (1,), dtype)
    words = tensor.random_word((2, 3), seed, offset)
    given = {"seed": np.array(1234, seed.dtype.numpy), "offset": np.array([77], offset.dtype.numpy)}
    wanted = [philox_words(77 + counter, 1234)[0] for counter in range(6)]
    assert played(words, given).ravel().tolist() == wanted


@pytest.mark.parametrize("offset", [2**32 - 2, 2**63 - 2, 2**64 - 2, -2])
def test_counters_carry_and_wrap(offset: int) -> None:
    """A counter beyond 2⁶⁴ starts from 0 again, in the same subsequence."""
    wanted = [philox_words((offset + counter) % 2**64, 5)[1] for counter in range(4)]
    assert played(tensor.random_word((2, 2), 5, offset, 1)).ravel().tolist() == wanted


def test_elements_follow_one_another() -> None:
    whole = played(tensor.rand((3, 5, 7), 11, 2))
    np.testing.assert_array_equal(whole.ravel(), played(tensor.rand(105, 11, 2)))
    np.testing.assert_array_equal(whole.ravel()[40:], played(tensor.rand((65,), 11, 42)))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (1, 1, 1)])
def test_few_elements(shape: tuple[int, ...]) -> None:
    first = np.float32(float.fromhex(RAND[42][0]))
    for result in (played(tensor.rand(shape, 42)), played(nn.dropout(tensor.full(shape, 1.0), 0.1, 42)) * first * 0.9):
        assert result.shape == shape
        np.testing.assert_allclose(result, first, rtol=1e-6)


MANY = (1 << 18,)
Z = 5 / math.sqrt(MANY[0])
"""Five standard deviations of a mean of numbers whose standard deviation is 1."""


def test_uniform_numbers_are_uniform() -> None:
    x = played(tensor.rand(MANY, 2026)).astype(np.float64)
    assert 0 <= x.min() < x.max() < 1
    assert abs(x.mean() - 0.5) < Z * math.sqrt(1 / 12)
    counts = np.histogram(x, 64, (0, 1))[0]
    expected = MANY[0] / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * math.sqrt(2 * 63)
    assert abs(((x[1:] - 0.5) * (x[:-1] - 0.5)).mean()) < Z / 12


def test_normal_numbers_are_normal() -> None:
    x = played(tensor.randn(MANY, 2026)).astype(np.float64)
    assert abs(x.mean()) < Z
    assert abs((x**2).mean() - 1) < Z * math.sqrt(2)
    assert abs((x**3).mean()) < Z * math.sqrt(15)
    assert abs((np.abs(x) < 1).mean() - math.erf(math.sqrt(0.5))) < Z / 2


def test_integers_and_masks_have_their_frequencies() -> None:
    x = played(tensor.randint(-2, 5, MANY, 2026))
    counts = np.bincount(x + 2, minlength=7)
    assert len(counts) == 7
    assert (np.abs(counts / MANY[0] - 1 / 7) < Z / 2).all()
    for p in (0.1, 0.5, 0.99):
        assert abs(played(tensor.dropout_mask(MANY, p, 3)).mean() - (1 - p)) < Z / 2
        assert abs(played(tensor.bernoulli(tensor.full(MANY, p), 3)).mean() - p) < Z / 2


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
def test_a_mask_is_a_comparison_of_rand(p: float) -> None:
    """The mask compares integers. It is that of the floats, also where they are equal to p."""
    shape = (4096,)
    drawn = played(tensor.rand(shape, 8))
    for chance in (p, float(drawn[17])):
        mask = played(tensor.dropout_mask(shape, chance, 8))
        np.testing.assert_array_equal(mask, drawn > np.float32(chance))


def test_the_edges_of_dropout() -> None:
    x = tensor.input("x", (64,))
    values = np.linspace(-1, 1, 64, dtype=np.float32)
    np.testing.assert_array_equal(played(nn.dropout(x, 0, 1), {"x": values}), values)
    np.testing.assert_array_equal(played(nn.dropout(x, 1, 1), {"x": values}), np.zeros(64))
    assert nn.dropout(tensor.input("h", (4,), "bf16"), 0.5, 1).dtype.name == "bf16"


def test_dtypes() -> None:
    for name in ("fp16", "bf16", "fp64"):
        for function in (tensor.rand, tensor.randn):
            single = played(function((9,), 3))
            result = function((9,), 3, dtype=name)
            np.testing.assert_array_equal(played(result), single.astype(result.dtype.numpy))
    small = played(tensor.randint(-128, 128, (100,), 3, dtype="i8"))
    np.testing.assert_array_equal(small, played(tensor.randint(-128, 128, (100,), 3)))


REFUSED: dict[str, tuple[Kind, str, Callable[[], Any]]] = {
    "a seed of 65 bits": (Kind.MALFORMED_GRAPH, "64 bits", lambda: tensor.rand(3, 2**64)),
    "a bool for a seed": (Kind.DTYPE_MISMATCH, "whole number", lambda: tensor.rand(3, True)),
    "a float for a seed": (Kind.DTYPE_MISMATCH, "whole number", lambda: tensor.rand(3, 0.5)),  # type: ignore[arg-type]
    "several seeds": (Kind.AXIS_SIZE_MISMATCH, "one number", lambda: tensor.rand(3, tensor.input("s", (2,), "i64"))),
    "a shape of floats": (Kind.MALFORMED_GRAPH, "whole number", lambda: tensor.rand((0.5,), 1)),  # type: ignore[arg-type]
    "an empty range": (Kind.MALFORMED_GRAPH, "low < high", lambda: tensor.randint(3, 3, (2,), 1)),
    "a range beyond i64": (Kind.MALFORMED_GRAPH, "range of i64", lambda: tensor.randint(0, 2**63, (2,), 1)),
    "integers as floats": (Kind.DTYPE_MISMATCH, "cast", lambda: tensor.randint(0, 3, (2,), 1, dtype="fp32")),
    "a probability of 2": (Kind.MALFORMED_GRAPH, "0 <= p <= 1", lambda: nn.dropout(tensor.full((2,), 1.0), 2, 1)),
    "a probability of NaN": (Kind.MALFORMED_GRAPH, "0 <= p", lambda: tensor.dropout_mask((2,), math.nan, 1)),
    "whole probabilities": (Kind.DTYPE_MISMATCH, "cast", lambda: tensor.bernoulli(tensor.arange(3), 1)),
    "a fifth word": (Kind.MALFORMED_GRAPH, "0, 1, 2 or 3", lambda: tensor.random_word(3, 1, word=4)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    kind, text, call = REFUSED[name]
    with pytest.raises(EqsatError, match=text) as caught:
        call()
    assert caught.value.kind is kind


@pytest.mark.exhaustive
def test_beside_torch_compile() -> None:
    torch = pytest.importorskip("torch")
    draw = torch.ops.prims

    def drawn(seed: Any) -> Any:
        uniform, normal = draw.inductor_random([999], seed, "rand"), draw.inductor_random([999], seed, "randn")
        return uniform, normal, draw.inductor_randint(-7, 10**12, [999], seed)

    compiled = torch.compile(drawn)
    for seed in (0, 99, 2**32 - 1):
        uniform, normal, whole = (tensor_.numpy() for tensor_ in compiled(torch.tensor(seed)))
        np.testing.assert_array_equal(played(tensor.rand((999,), seed)), uniform)
        np.testing.assert_allclose(played(tensor.randn((999,), seed)), normal, rtol=1e-5, atol=2e-6)
        np.testing.assert_array_equal(played(tensor.randint(-7, 10**12, (999,), seed)), whole)
