"""Streams as ops of a region: verified, printed, dumped, counted, and what they mean on arrays."""

from typing import Any

import msgspec
import numpy as np
import pytest

from ir.diagnostics import EqsatError
from ir.dtype import dtype
from ir.region.dump import dump_region, load_region
from ir.region.playback import play_region
from ir.region.region import Definition, Number, Region, canonical, verify
from ir.region.work import region_flops
from ir.serde import from_json, to_json
from ir.uop.table import UOPS
from tests.support.programs import stream_regions as streams

REGIONS = (
    streams.log_sum_exp(),
    streams.log_sum_exp(3, 0),
    streams.log_sum_exp(transposed=True, fn="exp2"),
    streams.weighted_mean(scale=0.5),
    streams.weighted_mean_2d(),
    streams.log_softmax(),
    streams.weighted_rows(),
    streams.attention(bias=True, mask=True, causal=True),
    streams.attention(b=4, group=2, dtype="fp16"),
    streams.classifier_log_sum_exp(),
)


def arrays(region: Region, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    results = {}
    for buffer in region.inputs:
        element = dtype(buffer.memref.dtype)
        values = rng.standard_normal(buffer.memref.shape) if element.is_float else rng.random(buffer.memref.shape) < 0.6
        results[buffer.name] = np.asarray(values).astype(element.numpy)
    return results


@pytest.mark.parametrize("region", REGIONS, ids=lambda region: region.name)
def test_a_region_with_streams_is_valid_and_survives_json(region: Region) -> None:
    verify(region)
    verify(canonical(region))
    assert load_region(dump_region(region)) == region
    assert from_json(to_json(region), Region) == region


def test_it_prints_as_one_reads_it() -> None:
    assert str(streams.weighted_rows(4, 7, 5)).splitlines()[1:3] == [
        "  A: fp32[4,5] = stream exp[4,5|7](X[i0, r0], V[r0, i1])",
        "  L: fp32[4] = stream exp[4|7](X[i0, r0], 1.0)",
    ]


@pytest.mark.parametrize("change", [{"fn": "log"}, {"dtype": "i32"}, {"inputs": (Number(1.0, "fp32"),) * 2}])
def test_the_verifier_refuses_what_is_no_stream(change: dict[str, Any]) -> None:
    region = streams.weighted_mean()
    first, *rest = region.body
    broken = msgspec.structs.replace(first.op, **change)
    with pytest.raises(EqsatError, match="a stream sums exp"):
        verify(msgspec.structs.replace(region, body=(Definition(first.name, broken), *rest)))


def test_streams_of_one_score_share_its_exponentials() -> None:
    exponential = 2 + UOPS["EXP"].flops
    assert region_flops(streams.weighted_rows(4, 7, 5)) == (
        2 * 4 * 5 * 7 + 2 * 4 * 7 + exponential * 4 * 7 + 4 * 5 * UOPS["FDIV"].flops
    )


def softmax(s: np.ndarray[Any, Any], axis: int = -1) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(axis, keepdims=True))
        return np.asarray(e / e.sum(axis, keepdims=True))


@pytest.mark.parametrize("sizes", [(2, 4, 7, 6, 5), (1, 1, 1, 1, 1), (2, 3, 5, 0, 4), (2, 0, 5, 3, 4)])
def test_attention(sizes: tuple[int, int, int, int, int]) -> None:
    region = streams.attention(*sizes, bias=True, mask=True, causal=True)
    given = {name: array.astype(np.float64) for name, array in arrays(region).items()}
    s = np.einsum("bid,bkd->bik", given["Q"], given["K"]) * 0.5 + given["bias"]
    s = np.where(given["mask"][:, None, :] > 0, s, -np.inf)
    s = np.where(np.arange(s.shape[2]) <= np.arange(s.shape[1])[:, None], s, -np.inf)
    outputs = play_region(region, arrays(region), wide=True)["O"]
    np.testing.assert_allclose(outputs, softmax(s) @ given["V"], rtol=1e-6, atol=1e-12)


def test_grouped_queries_and_log_sum_exp() -> None:
    region = streams.attention(b=4, group=2, scale=None)
    given = arrays(region)
    k, v = (np.repeat(given[name], 2, axis=0).astype(np.float64) for name in "KV")
    wanted = softmax(given["Q"] @ k.transpose(0, 2, 1)) @ v
    np.testing.assert_allclose(play_region(region, given, wide=True)["O"], wanted, rtol=1e-6)
    region = streams.log_sum_exp(fn="exp2")
    x = arrays(region)["X"].astype(np.float64)
    outputs = play_region(region, arrays(region), wide=True)["Y"]
    np.testing.assert_allclose(outputs, np.log2(np.exp2(x).sum(1)), rtol=1e-6)


def test_rows_without_a_finite_maximum_are_nan_and_empty_sums_are_0() -> None:
    region = streams.log_sum_exp(6, 3)
    inf, nan = np.inf, np.nan
    rows = [[-inf, -inf, -inf], [inf, 0, 1], [nan, 0, -inf], [-inf, 0, 0], [1, 2, 3], [-inf, inf, 0]]
    body = msgspec.structs.replace(region, yields=(msgspec.structs.replace(region.yields[0], value="L"),))
    outputs = play_region(body, {"X": np.array(rows, np.float32)})["Y"]
    wanted = [nan, nan, nan, 2, 1 + np.exp(-1) + np.exp(-2), nan]
    np.testing.assert_allclose(outputs, wanted, rtol=1e-6)
    empty = streams.weighted_mean(3, 0)
    only = msgspec.structs.replace(empty, yields=(msgspec.structs.replace(empty.yields[0], value="A"),))
    np.testing.assert_array_equal(play_region(only, arrays(only))["Y"], [0, 0, 0])
