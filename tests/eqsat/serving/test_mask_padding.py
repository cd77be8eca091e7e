"""Graphs with masks: playback at the largest sizes, on arguments padded with zeros, gives the results of all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from eqsat import tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.model import BoundModel
from eqsat.serving.fit_sizes import fit_sizes
from eqsat.serving.mask_padding import MaskedGraph, mask_padding
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind, fail
from ir.tiny.bind import bind as bind_source
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from ir.tiny.graph_by_sizes import Constants, GraphBySizes
from ir.tiny.parse import parse, read_document
from ir.tiny.playback import playback
from ir.tiny.size_expr import Sizes
from tests.ir.tiny.test_restriction import KEPT, MIXED, graph
from tests.support.programs.sized_programs import sized_program

LARGEST = {"S": 7, "T": 5}
SMALLER = ({"S": 7, "T": 5}, {"S": 3, "T": 4}, {"S": 4, "T": 1}, {"S": 1, "T": 3}, {"S": 6, "T": 5}, {"S": 2, "T": 2})
REFUSED = {"view from the end", "loop over them", "sum inside a loop", "loop beside"}
"""Programs that have no masks; the last one needs none."""


def masked(bind: Callable[[Sizes], Graph], largest: Sizes) -> MaskedGraph:
    return mask_padding(fitted(bind, largest))


def fitted(
    bind: Callable[[Sizes], Graph], largest: Sizes, constants: Callable[[Sizes], Constants] = lambda sizes: {}
) -> GraphBySizes:
    return fit_sizes(lambda sizes: BoundModel(bind(sizes), constants(sizes)), largest, [*largest])


def bound(sizes: Sizes, text: str) -> Graph:
    return bind_source(parse(read_document(text)), dict(sizes), strict=False)[0]


def traced(function: Callable[[Tensor, Tensor], Tensor], sizes: Sizes) -> Graph:
    """A function of x [M, 2] and c [8, 2]."""
    document, _ = tensor_to_tiny({"y": function(tensor.input("x", (sizes["M"], 2)), tensor.input("c", (8, 2)))})
    return load(document)[0]


def random_arrays(small: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Arguments, of which some have a NaN or an infinity."""
    arrays = {}
    for name, node in small.inputs.items():
        type_ = small.types[node.id]
        whole = rng.integers(0, 3, type_.shape)
        arrays[name] = (rng.standard_normal(type_.shape) if type_.dtype.is_float else whole).astype(type_.dtype.numpy)
        if type_.dtype.is_float and rng.random() < 0.4:
            arrays[name].flat[rng.integers(arrays[name].size)] = rng.choice([np.nan, np.inf, -np.inf])
    return arrays


def assert_computes(found: MaskedGraph, small: Graph, sizes: Mapping[str, int], rng: np.random.Generator) -> None:
    """The masked graph has the results of the small one."""
    arrays = random_arrays(small, rng)
    padded = {name: np.asarray(sizes[symbol], np.int32) for name, symbol in found.lengths.items()}
    for name, array in arrays.items():
        type_ = found.graph.types[found.graph.inputs[name].id]
        padded[name] = np.zeros(type_.shape, type_.dtype.numpy)
        padded[name][tuple(map(slice, array.shape))] = array
    for expected, result in zip(playback(small, arrays), playback(found.graph, padded), strict=True):
        cut = result[tuple(map(slice, expected.shape))]
        np.testing.assert_allclose(cut, expected, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*KEPT, *MIXED])
def test_uops_that_mix_positions_are_masked(name: str) -> None:
    text = {**KEPT, **MIXED}[name]

    def bind(sizes: Sizes) -> Graph:
        return graph(text, sizes["M"])

    if name in REFUSED:
        with pytest.raises(EqsatError) as caught:
            masked(bind, {"M": 6})
        assert caught.value.kind is Kind.UNSUPPORTED_OP
        return
    found = masked(bind, {"M": 6})
    for size in range(1, 7):
        if name != "windows forward" or size > 1:
            assert_computes(found, graph(text, size), {"M": size}, np.random.default_rng(size))


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_compute_all_smaller_sizes(seed: int) -> None:
    _computes_all_smaller_sizes(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 500))
def test_more_random_programs_compute_all_smaller_sizes(seed: int) -> None:
    _computes_all_smaller_sizes(seed)


def _computes_all_smaller_sizes(seed: int) -> None:
    steps = sized_program(seed, LARGEST)[1]
    found = masked_unless_refused(seed)
    if found is None:
        return
    by_sizes = fitted(lambda sizes: sized_program(seed, sizes)[0], LARGEST)
    for sizes in SMALLER:
        small, own_steps = sized_program(seed, sizes)
        if own_steps == steps and by_sizes.holds(sizes) and not by_sizes.difference(small, {}, sizes):
            assert_computes(found, small, sizes, np.random.default_rng(seed))


def masked_unless_refused(seed: int) -> MaskedGraph | None:
    """A random program with masks; None where it has other uops at other sizes."""
    try:
        return masked(lambda sizes: sized_program(seed, sizes)[0], LARGEST)
    except EqsatError as error:
        if error.kind is not Kind.UNSUPPORTED_OP:
            raise
        return None


@pytest.mark.slow
def test_most_random_programs_are_masked() -> None:
    """The tests above would pass if all programs were refused."""
    assert sum(masked_unless_refused(seed) is None for seed in range(40)) <= 2


def count(found: MaskedGraph, uop: str) -> int:
    return sum(node.uop == uop for node in found.graph.nodes)


def test_sizes_that_differ_by_a_constant_are_no_equal_axes() -> None:
    """S + 211 and T are equal at the largest sizes, and were at all sizes that stand for others."""

    text = "%x: fp32[S, T] = input()\n%a = pad(%x, pad=[[0, 211], [0, 0]], value=1)\n"
    text += "%b = reshape(%a, result_shape=[T, -1])\n%y: fp32[T] = reduce(%b, axes=[1], op=SUM, dtype=fp32)"
    found = masked(lambda sizes: bound(sizes, text), {"S": 2, "T": 213})
    sizes = {"S": 1, "T": 3}
    assert_computes(found, bound(sizes, text), sizes, np.random.default_rng(0))


def test_weights_of_a_softmax_need_no_mask_of_their_own() -> None:
    """One mask for the maximum, whose -∞ makes the weights 0, and none for their sum and the products."""
    text = """
%s: fp32[8, M] = input()
%v: fp32[M, 4] = input()
%m: fp32[8] = reduce(%s, axes=[1], op=MAX, dtype=fp32)
%m1: fp32[8, 1] = reshape(%m, result_shape=[8, 1])
%mm: fp32[8, M] = expand(%m1, result_shape=[8, M])
%d = sub(%s, %mm)
%e = exp(%d)
%t: fp32[8] = reduce(%e, axes=[1], op=SUM, dtype=fp32)
%t1: fp32[8, 1] = reshape(%t, result_shape=[8, 1])
%tt: fp32[8, M] = expand(%t1, result_shape=[8, M])
%p = fdiv(%e, %tt)
%p1: fp32[8, M, 1] = reshape(%p, result_shape=[8, M, 1])
%v1: fp32[1, M, 4] = reshape(%v, result_shape=[1, M, 4])
%pp: fp32[8, M, 4] = expand(%p1, result_shape=[8, M, 4])
%vv: fp32[8, M, 4] = expand(%v1, result_shape=[8, M, 4])
%q = mul(%pp, %vv)
%y: fp32[8, 4] = reduce(%q, axes=[1], op=SUM, dtype=fp32)
"""
    found = masked(lambda sizes: graph(text, sizes["M"]), {"M": 16})
    assert count(found, "WHERE") == 1
    rng = np.random.default_rng(0)
    for size in (1, 5, 16):
        assert_computes(found, graph(text, size), {"M": size}, rng)
    for bad in (np.nan, np.inf, -np.inf):
        small = graph(text, 5)
        arrays = random_arrays(small, rng)
        arrays["s"] = np.full((8, 5), bad, np.float32)
        arrays["v"] = np.ones((5, 4), np.float32)
        padded = {"length of M": np.asarray(5, np.int32)}
        padded["s"], padded["v"] = np.pad(arrays["s"], [(0, 0), (0, 11)]), np.pad(arrays["v"], [(0, 11), (0, 0)])
        assert np.isnan(playback(found.graph, padded)[0]).all()


def _below_maximum(x: Tensor) -> Tensor:
    small = x * 1e-3
    return small - small.max(0, keepdims=True)


def _by_sum_in_fp16(x: Tensor, c: Tensor) -> Tensor:
    weights = (_below_maximum(x) - 30).exp()
    return (weights / weights.cast("fp16").sum(0, keepdims=True).cast("fp32")).sum(0)


def _below_maximum_in_fp16(x: Tensor, c: Tensor) -> Tensor:
    low = _below_maximum(x) - 1e30
    return (low - low.cast("fp16").max(0, keepdims=True).cast("fp32")).exp().sum(0)


def _by_inverse_of_tiny_sum(x: Tensor, c: Tensor) -> Tensor:
    weights = (_below_maximum(x) - 90).exp()
    return (weights * weights.sum(0, keepdims=True).reciprocal()).sum(0)


@pytest.mark.parametrize("function", [_by_sum_in_fp16, _below_maximum_in_fp16, _by_inverse_of_tiny_sum])
def test_weights_by_a_number_that_was_rounded_to_0_or_infinity_are_masked(
    function: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """Weights that are ∞ are no NaN, as their padding is: 0 / 0, -∞ + ∞, 0 · ∞."""
    found = masked(lambda sizes: traced(function, sizes), {"M": 6})
    for size in range(2, 7):
        assert_computes(found, traced(function, {"M": size}), {"M": size}, np.random.default_rng(0))


def test_a_count_of_nan_is_masked() -> None:
    """A padded weight may be NaN with its row, so that it must not be counted."""
    text = """
%x: fp32[M] = input()
%m: fp32[] = reduce(%x, axes=[0], op=MAX, dtype=fp32)
%m1: fp32[1] = reshape(%m, result_shape=[1])
%mm: fp32[M] = expand(%m1, result_shape=[M])
%d = sub(%x, %mm)
%n = cmpne(%d, %d)
%c = cast(%n, to=fp32)
%y: fp32[] = reduce(%c, axes=[0], op=SUM, dtype=fp32)
"""
    found = masked(lambda sizes: graph(text, sizes["M"]), {"M": 8})
    x = np.zeros(8, np.float32)
    x[1] = np.nan
    assert playback(found.graph, {"x": x, "length of M": np.asarray(3, np.int32)})[0] == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: x[:-1].sum(0),
        lambda x, c: c[: x.shape[0]].sum(0) + x.sum(0),
        lambda x, c: c.pad([(0, x.shape[0]), (0, 0)], value=1).sum(0) + x.sum(0),
    ],
)
def test_what_lies_behind_another_end_is_no_padding(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Elements that a slice leaves out, and the value of a PAD, lie where the operand's padding would be."""
    found = masked(lambda sizes: traced(function, sizes), {"M": 6})
    for size in range(2, 7):
        assert_computes(found, traced(function, {"M": size}), {"M": size}, np.random.default_rng(size))


def test_factors_of_a_product_are_masked_before_it_so_that_it_stays_a_contraction() -> None:
    text = """
%a: fp32[3, M] = input()
%b: fp32[M, 4] = input()
%a1 = cos(%a)
%o: fp32[M, 4] = exp(%b)
%a2: fp32[3, M, 1] = reshape(%a1, result_shape=[3, M, 1])
%o2: fp32[1, M, 4] = reshape(%o, result_shape=[1, M, 4])
%a3: fp32[3, M, 4] = expand(%a2, result_shape=[3, M, 4])
%o3: fp32[3, M, 4] = expand(%o2, result_shape=[3, M, 4])
%q = mul(%a3, %o3)
%y: fp32[3, 4] = reduce(%q, axes=[1], op=SUM, dtype=fp32)
"""
    found = masked(lambda sizes: graph(text, sizes["M"]), {"M": 6})
    (total,) = (node for node in found.graph.nodes if node.uop == "REDUCE")
    assert found.graph[total.refs[0]].uop == "MUL"
    assert count(found, "WHERE") == 2
    for size in (1, 4, 6):
        assert_computes(found, graph(text, size), {"M": size}, np.random.default_rng(size))


def test_a_reciprocal_of_a_size_is_computed_from_the_length() -> None:
    def bind(sizes: Sizes) -> Graph:
        return graph(f"%x: fp32[M] = input()\n%y = mul(%x, {1 / sizes['M']})", sizes["M"])

    found = masked(bind, {"M": 9})
    for size in range(1, 10):
        assert_computes(found, bind({"M": size}), {"M": size}, np.random.default_rng(size))


def test_a_number_of_64_bits_is_computed_in_64_bits() -> None:
    def bind(sizes: Sizes) -> Graph:
        return graph(f"%x: i64[M] = input()\n%y = mul(%x, {10**10 - sizes['M'] * 10**9})", sizes["M"])

    found = masked(bind, {"M": 9})
    for size in range(1, 10):
        assert_computes(found, bind({"M": size}), {"M": size}, np.random.default_rng(size))


def test_a_number_that_depends_on_the_size_in_another_way_is_refused() -> None:
    with pytest.raises(EqsatError, match=r"mul.*unknown way"):
        masked(lambda sizes: graph(f"%x: fp32[M] = input()\n%y = mul(%x, {sizes['M'] ** 0.5})", sizes["M"]), {"M": 9})


def test_a_constant_is_not_padded_with_zeros() -> None:
    def bind(sizes: Sizes) -> Graph:
        return graph(MIXED["sum"], sizes["M"])

    rows = np.arange(24, dtype=np.float32).reshape(6, 4)
    found = mask_padding(fitted(bind, {"M": 6}, lambda sizes: {"x": rows[: sizes["M"]]}))
    assert (count(masked(bind, {"M": 6}), "WHERE"), count(found, "WHERE")) == (0, 1)
    length = {"length of M": np.asarray(2, np.int32)}
    np.testing.assert_array_equal(playback(found.graph, {"x": rows, **length})[0], rows[:2].sum(0))


def test_positions_behind_a_cache_are_a_constant_that_moves() -> None:
    """As `arange(past, past + sequence)`, which a frontend computes."""

    def bind(sizes: Sizes) -> Graph:
        return bound(sizes, "%at: i64[S] = input()\n%x: i64[P] = input()\n%y = add(%at, 1)\n%z = relu(%x)")

    def positions(sizes: Sizes) -> Constants:
        return {"at": np.arange(sizes["P"], sizes["P"] + sizes["S"])}

    largest = {"P": 9, "S": 4}
    by_sizes = fitted(bind, largest, positions)
    found = mask_padding(by_sizes)
    sizes = {"P": 3, "S": 2}
    assert not by_sizes.difference(bind(sizes), positions(sizes), sizes)
    assert by_sizes.difference(bind(sizes), {"at": np.array([3, 5])}, sizes)
    given = {name: np.asarray(sizes[symbol], np.int32) for name, symbol in found.lengths.items()}
    result, _ = playback(found.graph, {**positions(largest), **given, "x": np.zeros(9, np.int64)})
    np.testing.assert_array_equal(result[:2], [4, 5])


def test_a_constant_that_differs_is_refused() -> None:
    def bind(sizes: Sizes) -> Graph:
        return graph(KEPT["elementwise"], sizes["M"])

    with pytest.raises(EqsatError, match="padded positions reach results"):
        fitted(bind, {"M": 6}, lambda sizes: {"x": np.full((sizes["M"], 4), sizes["M"], np.float32)})


def test_a_size_that_cannot_be_one_less_stays() -> None:
    """As a batch of 2, where torch traced the program for batches from 2 on."""

    def bind(sizes: Sizes) -> Graph:
        if sizes["B"] < 2:
            fail(Kind.AXIS_SIZE_MISMATCH, "test", "no batch of 1")
        return bound(sizes, "%x: fp32[B, M] = input()\n%y: fp32[B] = reduce(%x, axes=[1], op=SUM, dtype=fp32)")

    assert fitted(bind, {"B": 2, "M": 5}).varying == ("M",)
    assert fitted(bind, {"B": 3, "M": 5}).varying == ("B", "M")


def test_sizes_are_tied_where_one_alone_does_not_fit() -> None:
    text = "%a: fp32[P] = input()\n%b: fp32[T] = input()\n%c: fp32[B] = input()\n"
    text += "%d = pad(%a, pad=[[0, 1]])\n%e = add(%d, %b)\n%y: fp32[] = reduce(%e, axes=[0], op=SUM, dtype=fp32)\n"
    text += "%z: fp32[] = reduce(%c, axes=[0], op=SUM, dtype=fp32)"

    def bind(sizes: Sizes) -> Graph:
        return bound(sizes, text)

    largest = {"B": 4, "P": 6, "T": 7}
    by_sizes = fitted(bind, largest)
    assert by_sizes.varying == ("B", "P", "T")
    assert not by_sizes.difference(bind({"B": 2, "P": 3, "T": 4}), {}, {"B": 2, "P": 3, "T": 4})
    found = mask_padding(by_sizes)
    assert sorted(found.lengths.values()) == ["B", "P"], "T is P + 1"
    sizes = {"B": 3, "P": 2, "T": 3}
    assert_computes(found, bind(sizes), sizes, np.random.default_rng(0))


def test_a_product_of_two_sizes_is_an_expression() -> None:
    """As the rows of a flattened batch of sequences, whose mean divides by B·M."""

    def bind(sizes: Sizes) -> Graph:
        rows = sizes["B"] * sizes["M"]
        text = "%x: fp32[B, M, 4] = input()\n%f = reshape(%x, result_shape=[-1, 4])\n"
        text += "%s: fp32[4] = reduce(%f, axes=[0], op=SUM, dtype=fp32)\n"
        text += f"%m = mul(%s, {1 / rows})\n%c = cumsum(%f, axis=0, dtype=fp32)"
        return bound(sizes, text)

    found = masked(bind, {"B": 4, "M": 6})
    rng = np.random.default_rng(0)
    for batch in range(1, 5):
        for length in range(1, 7):
            sizes = {"B": batch, "M": length}
            assert_computes(found, bind(sizes), sizes, rng)


def test_several_products_are_told_apart() -> None:
    def bind(sizes: Sizes) -> Graph:
        b, s, t = sizes.values()
        numbers = {"a": b * s + t, "b": 3 * b * t - s * t + 2 * b - 7, "c": b}
        lines = [f"%{name} = add(%x, {number})" for name, number in numbers.items()]
        return bound(sizes, "\n".join(["%x: i64[B, S, T] = input()", *lines]))

    by_sizes = fitted(bind, {"B": 5, "S": 8, "T": 7})
    for sizes in ({"B": 2, "S": 3, "T": 6}, {"B": 1, "S": 1, "T": 1}, {"B": 5, "S": 2, "T": 7}):
        assert not by_sizes.difference(bind(sizes), {}, sizes)


def test_positions_that_exceed_i32_are_refused() -> None:
    for text, size in ((MIXED["sum"], 2**31), (MIXED["inner axis flattened"], 2**30)):
        with pytest.raises(EqsatError, match="exceed i32"):
            masked(lambda sizes, text=text: graph(text, sizes["M"]), {"M": size})  # type: ignore[misc]
    masked(lambda sizes: graph(MIXED["sum"], sizes["M"]), {"M": 2**31 - 1})
