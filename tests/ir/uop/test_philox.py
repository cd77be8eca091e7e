"""Philox 4x32-10 by NumPy: the known answers of Random123, and the uop RANDOM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.dtype import TensorType
from ir.tiny.bind import load
from ir.tiny.playback import playback
from ir.uop.philox import WORDS, philox
from ir.uop.table import FUNCTIONS, UOPS
from tests.support.oracles.plain_numpy import evaluate, philox_words
from tests.support.programs.philox_answers import ANSWERS, COUNTERS_AND_KEYS

RANDOM = UOPS["RANDOM"]


@pytest.mark.parametrize("word", range(WORDS))
def test_known_answers(word: int) -> None:
    result = philox(*COUNTERS_AND_KEYS, word)
    assert result.dtype == np.uint32
    np.testing.assert_array_equal(result, ANSWERS[word])


def test_the_second_evaluation_has_the_known_answers() -> None:
    for offset, subsequence, key, *words in zip(*COUNTERS_AND_KEYS, *ANSWERS, strict=True):
        assert philox_words(int(offset) | int(subsequence) << 64, int(key)) == tuple(map(int, words))


def test_every_bit_of_counter_and_key_counts() -> None:
    """Each word changes, and about half of its bits, when one bit of an operand does."""
    ones = np.uint64(1) << np.arange(64, dtype=np.uint64)
    zero = np.zeros(64, np.uint64)
    for place in range(3):
        operands = [ones if place == other else zero for other in range(3)]
        for word in range(WORDS):
            changed = philox(operands[0], operands[1], operands[2], word) ^ philox(zero, zero, zero, word)
            assert len(set(changed.tolist()) - {0}) == 64
            assert 14 < np.bitwise_count(changed).mean() < 18


@pytest.mark.parametrize("word", range(WORDS))
def test_a_program_of_immediates_and_tensors(word: int) -> None:
    """An immediate beside the tensors is u64; operands are broadcast."""
    text = f"""
%offset: u64[3, 1] = input()
%key: u64[5] = input()
%y = random(%offset, 18446744073709551615, %key, word={word})
"""
    graph, _ = load(text)
    rng = np.random.default_rng(word)
    given: dict[str, Any] = {
        "offset": rng.integers(0, 2**64, (3, 1), np.uint64),
        "key": rng.integers(0, 2**64, 5, np.uint64),
    }
    (actual,), (wanted,) = playback(graph, given), evaluate(graph, given)
    assert actual.shape == (3, 5)
    assert actual.dtype == np.uint32
    np.testing.assert_array_equal(actual, wanted)
    np.testing.assert_array_equal(playback(graph, given, wide=True)[0], wanted)


def test_its_functions() -> None:
    names = [RANDOM.function({"word": word}) for word in range(WORDS)]
    assert names == [name for name in FUNCTIONS if name.startswith("random")]
    out = TensorType.of("u32", (3,))
    for word, name in enumerate(names):
        np.testing.assert_array_equal(FUNCTIONS[name].apply(COUNTERS_AND_KEYS, {"to": "u32"}, out), ANSWERS[word])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("%x: i64[2] = input()\n%y = random(%x, 0, %x, word=0)", Kind.DTYPE_MISMATCH, "defined for u64 only"),
        ("%x: u64[2] = input()\n%y = random(%x, 0, %x, word=4)", Kind.MALFORMED_GRAPH, "0, 1, 2 or 3"),
        ("%x: u64[2] = input()\n%y = random(%x, 0, %x)", Kind.MALFORMED_GRAPH, "needs the attribute 'word'"),
        ("%x: u64[2] = input()\n%y = random(%x, -1, %x, word=0)", Kind.DTYPE_MISMATCH, "-1 is no u64"),
        ("%x: u64[2] = input()\n%y = random(%x, %x, word=0)", Kind.MALFORMED_GRAPH, "takes 3 operands, found 2"),
    ],
)
def test_refusals(text: str, kind: Kind, message: str) -> None:
    with pytest.raises(EqsatError, match=message) as caught:
        load(text)
    assert caught.value.kind is kind
