"""Lazy tensors against NumPy and torch: the graph that they build, played back, is what NumPy computes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import nn, optimize_and_compile, tensor
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load
from ir.tiny.playback import playback

RNG = np.random.default_rng(7)


def run(build: Callable[..., Tensor], *arrays: Any) -> np.ndarray:
    inputs = [tensor.input(f"x{i}", array.shape, str(array.dtype)) for i, array in enumerate(arrays)]
    source, constants = tensor_to_tiny(build(*inputs))
    graph, notes = load(source, strict=True)
    assert not notes
    given = {f"x{i}": array for i, array in enumerate(arrays)}
    used = {name: array for name, array in (given | constants).items() if name in graph.inputs}
    return playback(graph, used)[0]


def randn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X, Y = randn(3, 1, 5), randn(4, 1)
INDEXED = [
    np.s_[1],
    np.s_[-1, ..., ::2],
    np.s_[::-1],
    np.s_[:, None, 0],
    np.s_[2:0:-1, :, 4:1:-2],
    np.s_[..., 5:5],
    np.s_[0, 0, 3],
    np.s_[None, ..., None],
    np.s_[-3:-1, :, 1:100],
]
ELEMENTWISE: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("add", lambda x, y: x + y),
    ("rsub", lambda x, y: 2 - x),
    ("div", lambda x, y: x / y),
    ("scaled", lambda x, y: 0.5 * x + y * 2),
    ("compare", lambda x, y: x < y),
    ("negate", lambda x, y: -x),
    ("absolute", lambda x, y: abs(y)),
    ("square", lambda x, y: x**2 + y),
    ("reflected pow", lambda x, y: 2.0**x),
    ("floor division", lambda x, y: x // y),
    ("modulo", lambda x, y: x % y),
]


@pytest.mark.parametrize("key", INDEXED, ids=str)
def test_indexing_is_numpys(key: Any) -> None:
    np.testing.assert_array_equal(run(lambda x: x[key], X), X[key])


@pytest.mark.parametrize(("name", "fn"), ELEMENTWISE, ids=[name for name, _ in ELEMENTWISE])
def test_operators_broadcast_as_numpys(name: str, fn: Callable[[Any, Any], Any]) -> None:
    np.testing.assert_allclose(run(fn, X, Y), fn(X, Y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var", "prod"])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    got = run(lambda x: getattr(x, name)(axis=axis, keepdims=keepdims), X)
    np.testing.assert_allclose(got, getattr(X, name)(axis=axis, keepdims=keepdims), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("a", "b"),
    [((4, 3), (3, 5)), ((3,), (3, 5)), ((4, 3), (3,)), ((3,), (3,)), ((2, 1, 4, 3), (6, 3, 2)), ((5, 2, 3), (3,))],
)
def test_matmul_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = randn(*a), randn(*b)
    np.testing.assert_allclose(run(lambda x, y: x @ y, left, right), left @ right, rtol=1e-5, atol=1e-5)


def test_movement() -> None:
    np.testing.assert_array_equal(run(lambda x: x.reshape(5, -1), X), X.reshape(5, -1))
    np.testing.assert_array_equal(run(lambda x: x.T, X), X.T)
    np.testing.assert_array_equal(run(lambda x: x.expand(2, 3, 4, 5), X), np.broadcast_to(X, (2, 3, 4, 5)))
    np.testing.assert_array_equal(
        run(lambda x: x.pad([(1, 0), (0, 0), (2, 3)], -1), X), np.pad(X, [(1, 0), (0, 0), (2, 3)], constant_values=-1)
    )
    np.testing.assert_array_equal(run(lambda x: x.flip((0, 2)), X), np.flip(X, (0, 2)))
    np.testing.assert_array_equal(run(lambda x: x.squeeze().unsqueeze(-1).flatten(1), X), X.reshape(3, 5))


def test_where_concatenate_take_and_cumsum() -> None:
    np.testing.assert_array_equal(run(lambda x: tensor.where(x > 0, x, 0), X), np.where(X > 0, X, 0))
    np.testing.assert_array_equal(run(lambda x: tensor.where(x > 0, 1.0, 0.0), X), np.where(X > 0, 1.0, 0.0))
    parts = [randn(2, n) for n in (3, 1, 4)]
    joined = run(lambda *tensors: tensor.concatenate(tensors, -1), *parts)
    np.testing.assert_array_equal(joined, np.concatenate(parts, -1))
    index = np.array([[0, 2], [1, 1]])
    np.testing.assert_array_equal(run(lambda x, i: x.take(i, 0), X, index), X.take(index, 0))
    np.testing.assert_allclose(run(lambda x: x.cumsum(2), X), X.cumsum(2), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_take_counts_negative_positions_from_the_end(dtype: str, axis: int) -> None:
    array = randn(130, 130)
    written = np.array([[0, -1, 5], [127, -128, -2]])
    index = (written % 130 if dtype == "uint8" else written).astype(dtype)
    expected = array.take(index, axis)
    np.testing.assert_array_equal(run(lambda x, i: x.take(i, axis), array, index), expected)
    np.testing.assert_array_equal(run(lambda x: x.take(index, axis), array), expected)
    np.testing.assert_array_equal(run(lambda x: x.take(index.tolist(), axis), array), expected)
    empty = index[:0]
    np.testing.assert_array_equal(run(lambda x: x.take(empty, axis), array), array.take(empty, axis))


def test_take_clamps_what_a_call_passes_and_refuses_a_constant_outside() -> None:
    index = np.array([4, -4, 9, -9])
    np.testing.assert_array_equal(run(lambda x, i: x.take(i), np.arange(4.0), index), [3, 0, 3, 0])
    for outside in (4, -5):
        with pytest.raises(EqsatError, match=f"index {outside} is out of bounds"):
            tensor.input("x", (4,)).take([0, outside])
    with pytest.raises(EqsatError, match="integer dtypes only"):
        tensor.input("x", (4,)).take([0.5])


def test_dtypes_meet() -> None:
    half, whole = X.astype(np.float16), np.arange(5, dtype=np.int32)
    assert run(lambda x, y: x + y, half, X).dtype == np.float32
    assert run(lambda x, y: x * y, half, whole).dtype == np.float64
    assert run(lambda x: x.sum(), whole) == 10
    assert run(lambda x: x.sum(), half).dtype == np.float16
    assert run(lambda x: (x > 0).sum(), X) == (X > 0).sum()


def torch_check(build: Callable[..., Tensor], reference: Callable[..., Any], *arrays: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    expected = reference(torch, *(torch.from_numpy(array) for array in arrays)).numpy()
    np.testing.assert_allclose(run(build, *arrays), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), ((2, 1), (1, 2), 1, 3), (1, 2, 2, 1), (1, 1, 1, 6)],
)
def test_conv2d_is_torchs(stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    x, w, b = randn(2, 6, 9, 8), randn(12, 6 // groups, 3, 3), randn(12)
    torch_check(
        lambda x, w, b: nn.conv2d(x, w, b, stride, padding, dilation, groups),
        lambda torch, x, w, b: torch.nn.functional.conv2d(x, w, b, stride, padding, dilation, groups),
        x, w, b,
    )  # fmt: skip


def test_pools_are_torchs() -> None:
    x = randn(2, 3, 9, 7)
    torch_check(lambda x: nn.max_pool2d(x, 3, 2, 1), lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1), x)
    for include in (True, False):
        torch_check(
            lambda x, include=include: nn.avg_pool2d(x, 3, 2, 1, False, include),
            lambda t, x, include=include: t.nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=include),
            x,
        )


def test_activations_and_norms_are_torchs() -> None:
    x, w, b = randn(3, 7), randn(7), randn(7)
    torch_check(nn.silu, lambda t, x: t.nn.functional.silu(x), x)
    torch_check(nn.gelu, lambda t, x: t.nn.functional.gelu(x), x)
    torch_check(lambda x: nn.gelu(x, True), lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), x)
    torch_check(nn.softmax, lambda t, x: t.softmax(x, -1), x)
    torch_check(nn.log_softmax, lambda t, x: t.log_softmax(x, -1), x)
    torch_check(nn.layer_norm, lambda t, x, w, b: t.nn.functional.layer_norm(x, (7,), w, b), x, w, b)
    torch_check(nn.rms_norm, lambda t, x, w: t.nn.functional.rms_norm(x, (7,), w, 1e-6), x, w)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_torchs(causal: bool) -> None:
    q, k, v = randn(2, 3, 5, 4), randn(2, 3, 5, 4), randn(2, 3, 5, 4)
    torch_check(
        lambda q, k, v: nn.attention(q, k, v, causal=causal),
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
        q, k, v,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda x, y: x + y, Kind.BROADCAST_MISMATCH),
        (lambda x, y: x @ y, Kind.AXIS_SIZE_MISMATCH),
        (lambda x, y: x.reshape(7), Kind.AXIS_SIZE_MISMATCH),
        (lambda x, y: x.reshape(-1, -1), Kind.AXIS_SIZE_MISMATCH),
        (lambda x, y: x.permute(0, 0), Kind.INVALID_PERMUTATION),
        (lambda x, y: x.sum(2), Kind.MALFORMED_GRAPH),
        (lambda x, y: x[5], Kind.MALFORMED_GRAPH),
        (lambda x, y: x[0, 0, 0], Kind.MALFORMED_GRAPH),
        (lambda x, y: nn.conv2d(x, y), Kind.AXIS_SIZE_MISMATCH),
        (lambda x, y: ~x, Kind.DTYPE_MISMATCH),
    ],
)
def test_errors_show_shapes(build: Callable[..., Any], kind: Kind) -> None:
    with pytest.raises(EqsatError) as caught:
        build(tensor.input("x", (2, 3)), tensor.input("y", (2, 4)))
    assert caught.value.kind is kind
    assert "3" in str(caught.value)


SHAPES = st.lists(st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=3).map(tuple), max_size=3)


@given(SHAPES)
def test_shapes_broadcast_as_numpy_has_it(shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(EqsatError, match="neither is 1"):
            broadcast_shape("ADD", *shapes)
    else:
        assert broadcast_shape("ADD", *shapes) == expected


def test_a_shape_too_large_for_numpy_broadcasts() -> None:
    assert (tensor.input("x", (2**61, 2**3)) + 1).shape == (2**61, 2**3)


def test_truth_is_refused() -> None:
    with pytest.raises(EqsatError, match="where"):
        bool(tensor.input("x", (2,)) > 0)


@pytest.mark.slow
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.data())
def test_random_slices(shape: list[int], data: st.DataObject) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    bound = st.one_of(st.none(), st.integers(-5, 5))
    step = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
    key = tuple(slice(data.draw(bound), data.draw(bound), data.draw(step)) for _ in shape)
    np.testing.assert_array_equal(run(lambda x: x[key], array), array[key])


def test_inputs_come_in_the_order_of_their_creation() -> None:
    a, b, c = (tensor.input(name, (2,)) for name in "abc")

    def names(*outputs: Tensor, first: tuple[Tensor, ...] = ()) -> list[str]:
        source, _ = tensor_to_tiny(outputs, first)
        return list(load(source, strict=True)[0].inputs)

    assert names(b - a) == ["a", "b"]
    assert names(c.relu() * b, a + 1.0) == ["a", "b", "c"]
    assert names(c - b) == ["b", "c"]
    assert names(b - a, first=(c,)) == ["c", "a", "b"]
    assert names(tensor.constant(np.ones(2, np.float32)) * (c + a)) == ["a", "c", "const0"]


def test_one_element_without_axes_is_a_number() -> None:
    x, chosen = tensor.input("x", (3,)), tensor.input("chosen", (3,), "bool")
    _, constants = tensor_to_tiny(tensor.where(chosen, x, tensor.full((), -math.inf)) + tensor.full((3,), 0.1))
    assert not constants
    _, constants = tensor_to_tiny(x * tensor.constant(2.0, name="two") + tensor.constant([3.0]))
    assert list(constants) == ["two", "const1"]


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(-0.0, "fp32"), (math.nan, "fp16"), (-math.inf, "bf16"), (2**64 - 1, "u64"), (-128, "i8"), (True, "bool")],
)
def test_numbers_keep_their_values(number: float, dtype: str) -> None:
    result = optimize_and_compile([tensor.full((2,), number, dtype), tensor.constant(number, dtype)], cache=False)()
    for array in result:
        np.testing.assert_array_equal(array.astype("f8"), np.full(array.shape, number, "f8"))
        assert np.signbit(array.astype("f8")).all() == (math.copysign(1, number) < 0)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, "u8"), (-1, "u32"), ([0, 128], "i8"), (1e10, "i32"), (math.nan, "i64"), (2**64, "u64"), (2**63, "i64")],
)
def test_a_number_that_a_dtype_has_not_is_refused(value: Any, dtype: str) -> None:
    with pytest.raises(EqsatError) as caught:
        tensor.constant(value, dtype)
    assert caught.value.kind is Kind.DTYPE_MISMATCH


def test_arrays_are_cast() -> None:
    given = [tensor.constant(np.array([300, -1]), "u8"), tensor.constant([1.9, -0.5], "u8"), tensor.constant([], "u8")]
    wrapped, cut, empty = optimize_and_compile(given, cache=False)()
    assert wrapped.tolist() == [44, 255]
    assert cut.tolist() == [1, 0]
    assert empty.shape == (0,)
