"""Padded positions: a program is proven only if playback at larger sizes agrees with playback at its own sizes."""

from __future__ import annotations

import numpy as np
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import bind
from ir.tiny.graph import Graph
from ir.tiny.parse import parse, read_document
from ir.tiny.playback import playback
from ir.tiny.restriction import check_restriction

SMALL, LARGE = 3, 5


def graph(text: str, size: int) -> Graph:
    return bind(parse(read_document(text)), {"M": size}, strict=False)[0]


KEPT = {
    "elementwise": "%x: fp32[M, 4] = input()\n%y = relu(%x)",
    "sum over another axis": "%x: fp32[M, 4] = input()\n%y: fp32[M] = reduce(%x, axes=[1], op=SUM, dtype=fp32)",
    "scan forward": "%x: fp32[M, 4] = input()\n%y = cumsum(%x, axis=0, dtype=fp32)",
    "positions": "%x: fp32[M] = input()\n%i: fp32[M] = iota(shape=[M], axis=0, dtype=fp32)\n%y = mul(%x, %i)",
    "outer axis flattened": "%x: fp32[M, 4] = input()\n%y = reshape(%x, result_shape=[-1])",
    "outer axis split": "%x: fp32[M, 4] = input()\n%a = reshape(%x, result_shape=[-1])\n"
    "%y: fp32[M, 2, 2] = reshape(%a, result_shape=[M, 2, 2])",
    "permuted": "%x: fp32[M, 4] = input()\n%y = permute(%x, perm=[1, 0])",
    "repeated": "%x: fp32[1, 4] = input()\n%y: fp32[M, 4] = expand(%x, result_shape=[M, 4])",
    "padded in front": "%x: fp32[M, 4] = input()\n%y = pad(%x, pad=[[2, 0], [1, 1]], value=3)",
    "every second": "%x: fp32[M, 4] = input()\n%y = shrink(%x, lo=[1, 0], hi=[M, 4], step=[2, 1])",
    "flip of another axis": "%x: fp32[M, 4] = input()\n%y = flip(%x, axes=[1])",
    "windows forward": "%x: fp32[M, 4] = input()\n%a = permute(%x, perm=[1, 0])\n%y = pool(%a, kernel=[2], stride=[1])",
    "view": '%x: fp32[M, 4] = input()\n%y: fp32[M, 2] = view(%x, result_shape=[M, 2], index_map=["i0", "i1 + 1"])',
    "gather on another axis": "%x: fp32[4, M] = input()\n%i: i64[2, M] = input()\n%y = gather(%x, %i, axis=0)",
    "index grows": "%x: fp32[4] = input()\n%i: i64[M] = input()\n%y = gather(%x, %i, axis=0)",
    "scatter into a longer axis": "%x: fp32[M] = input()\n%i: i64[4] = input()\n%u: fp32[4] = input()\n"
    "%y = scatter(%x, %i, %u, axis=0, op=SUM)",
    "loop beside": "graph @step(%s: fp32[n], %e: fp32[n]) {\n  %t = add(%s, %e)\n  return %t, %t\n}\n"
    "%s: fp32[M] = input()\n%x: fp32[4, M] = input()\n"
    "%y: fp32[4, M] = loop(%s, %x, graph=step, states=1, scanned=1, result=1)",
}
MIXED = {
    "sum": "%x: fp32[M, 4] = input()\n%y: fp32[4] = reduce(%x, axes=[0], op=SUM, dtype=fp32)",
    "largest": "%x: fp32[M, 4] = input()\n%y: fp32[4] = reduce(%x, axes=[0], op=MAX, dtype=fp32)",
    "flip": "%x: fp32[M, 4] = input()\n%y = flip(%x, axes=[0])",
    "inner axis flattened": "%x: fp32[4, M] = input()\n%y = reshape(%x, result_shape=[-1])",
    "axes exchanged by reshape": "%x: fp32[M, 4] = input()\n%y: fp32[4, M] = reshape(%x, result_shape=[4, M])",
    "padded behind": "%x: fp32[M, 4] = input()\n%y = pad(%x, pad=[[0, 1], [0, 0]], value=3)",
    "padded to a size": "%x: fp32[M, 4] = input()\n%y = pad(%x, pad=[[M, 0], [0, 0]])",
    "gather along": "%x: fp32[M] = input()\n%i: i64[4] = input()\n%y = gather(%x, %i, axis=0)",
    "scatter of more updates": "%x: fp32[4] = input()\n%i: i64[M] = input()\n%u: fp32[M] = input()\n"
    "%y = scatter(%x, %i, %u, axis=0, op=SUM)",
    "view from the end": "%x: fp32[M, 4] = input()\n"
    '%y: fp32[2] = view(%x, result_shape=[2], index_map=["M - 1", "i0"])',
    "loop over them": "graph @step(%s: fp32[n], %e: fp32[n]) {\n  %t = add(%s, %e)\n  return %t\n}\n"
    "%s: fp32[4] = input()\n%x: fp32[M, 4] = input()\n"
    "%y: fp32[4] = loop(%s, %x, graph=step, states=1, scanned=1, result=0)",
    "sum inside a loop": "graph @step(%s: fp32[], %e: fp32[n]) {\n"
    "  %r: fp32[] = reduce(%e, axes=[0], op=SUM, dtype=fp32)\n  %t = add(%s, %r)\n  return %t\n}\n"
    "%s: fp32[] = input()\n%x: fp32[4, M] = input()\n"
    "%y: fp32[] = loop(%s, %x, graph=step, states=1, scanned=1, result=0)",
}


def padded_agrees(small: Graph, large: Graph) -> bool:
    """Whether playback of the large graph gives the small graph's results, with noise behind the arguments' ends."""
    return all(_agrees(small, large, np.random.default_rng(seed)) for seed in range(5))


def _agrees(small: Graph, large: Graph, rng: np.random.Generator) -> bool:
    given, noisy = {}, {}
    for name, node in small.inputs.items():
        type_, wide = small.types[node.id], large.types[large.inputs[name].id]
        noisy[name] = rng.integers(-1, 6, wide.shape) if wide.dtype.is_int else rng.normal(size=wide.shape) * 9
        noisy[name] = np.asarray(noisy[name], wide.dtype.numpy)
        given[name] = noisy[name][tuple(map(slice, type_.shape))]
    cut = [
        other[tuple(map(slice, small.types[ref].shape))]
        for ref, other in zip(small.outputs, playback(large, noisy), strict=True)
    ]
    return all(map(np.array_equal, playback(small, given), cut))


@pytest.mark.parametrize("name", KEPT)
def test_positions_that_stay_apart_are_proven(name: str) -> None:
    small, large = graph(KEPT[name], SMALL), graph(KEPT[name], LARGE)
    check_restriction(small, large)
    assert padded_agrees(small, large)


@pytest.mark.parametrize("name", MIXED)
def test_positions_that_are_mixed_are_refused_by_name(name: str) -> None:
    small, large = graph(MIXED[name], SMALL), graph(MIXED[name], LARGE)
    with pytest.raises(EqsatError) as caught:
        check_restriction(small, large)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.kind is Kind.UNSUPPORTED_OP
    assert diagnostic.op
    assert diagnostic.at
    assert diagnostic.hint
    assert not padded_agrees(small, large)


def test_a_size_that_is_a_number_in_the_program_is_refused() -> None:
    """A mean over another axis may multiply by 1 / M: the immediate differs."""
    small, large = (graph(f"%x: fp32[M, 4] = input()\n%y = mul(%x, {1 / size})", size) for size in (SMALL, LARGE))
    with pytest.raises(EqsatError, match="another one"):
        check_restriction(small, large)


@pytest.mark.parametrize("seed", range(200))
def test_reshapes_are_proven_only_where_playback_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = [*rng.choice([1, 2, 3, 4], rng.integers(0, 3)), "M"]
    rng.shuffle(axes)
    result = list(axes)
    rng.shuffle(result)
    if rng.random() < 0.5 and len(result) > 1:
        place = int(rng.integers(len(result) - 1))
        numbers = [name for name in result[place : place + 2] if name != "M"]
        if len(numbers) == 2:
            result[place : place + 2] = [str(int(numbers[0]) * int(numbers[1]))]
    before, after = (", ".join(map(str, group)) for group in (axes, result))
    text = f"%x: fp32[{before}] = input()\n%y = reshape(%x, result_shape=[{after}])"
    small, large = graph(text, SMALL), graph(text, LARGE)
    try:
        check_restriction(small, large)
    except EqsatError:
        return
    assert padded_agrees(small, large)
