"""What others write kernels for by hand: how many kernels it becomes, and that these compute what playback does."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from docs.derived_programs import PROGRAMS
from docs.make_derived import PAGE, page, row
from eqsat import nn, optimize_and_compile
from eqsat.find_target import find_target
from eqsat.tensor import Tensor, extremum_position, iota, where
from eqsat.tensor import input as input_
from ir.diagnostics import EqsatError, Kind
from ir.uop.playback import Array
from tests.support.sampling import first_few

KERNELS = dict.fromkeys(PROGRAMS, 1) | {
    "self-attention layer (QKV merged)": 3,
    "LoRA, reassociated": 2,
    "RMS norm + linear": 3,
    "gated MLP (SwiGLU)": 2,
}
"""The most; one is one."""
MORE_BYTES = 1.2
"""The cover of the least predicted time may move so many times the bytes of ordinary fusion: a product that reads its
rows in memory may be faster than one that computes them."""
SMALL = 24
"""Rows, tokens or pixels at which the numbers are compared."""
FEW = msgspec.structs.replace(find_target("cpu"), launch_ns=1e6, call_ns=1e6)
"""A machine on which every kernel is dear: what can be one kernel is one."""


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make_derived`"


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_many_kernels_as_the_page_says(name: str) -> None:
    result = row(name)
    ops, fused, best = result.kernels
    assert best <= KERNELS[name]
    assert best <= fused < ops
    assert result.bytes[2] <= MORE_BYTES * result.bytes[1] < result.bytes[0]
    assert result.families or best == fused


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "attention" in name.lower() and KERNELS[name] == 1])
def test_scores_are_never_in_memory(name: str) -> None:
    scores = (8 if "grouped" in name else 4) * 1024 * 1024 * 4
    bias = 1024 * 1024 * 4 if "bias" in name else 0
    assert row(name).bytes[2] - bias < scores


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compute_what_playback_does(name: str) -> None:
    program = optimize_and_compile(PROGRAMS[name](SMALL), target=FEW)
    assert len(program.kernels) <= KERNELS[name]
    program.verify()


# --- rows of any shape, along any axis ---------------------------------------------------------


def layer_norm(x: Tensor, axis: int) -> Tensor:
    sizes = [1] * x.ndim
    sizes[axis] = x.shape[axis]
    centred = x - x.mean(axis, keepdims=True)
    normal = centred * ((centred * centred).mean(axis, keepdims=True) + 1e-5).rsqrt()
    return normal * input_("weight", sizes) + input_("bias", sizes)


def rms_norm(x: Tensor, axis: int) -> Tensor:
    """Of a sum with a residual, cast."""
    total = x + input_("residual", x.shape)
    return (total * ((total * total).mean(axis, keepdims=True) + 1e-5).rsqrt()).cast("fp16")


def loss(x: Tensor, axis: int) -> Tensor:
    labels = input_("label", [1 if place == axis else size for place, size in enumerate(x.shape)], "i32")
    return -where(iota(x.shape, axis, "i32") == labels, nn.log_softmax(x, axis), 0.0).sum(axis)


ALONG: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": nn.softmax,
    "log-softmax": nn.log_softmax,
    "layer norm": layer_norm,
    "RMS norm": rms_norm,
    "loss": loss,
    "argmax": lambda x, axis: x.argmax(axis),
    "argmin": lambda x, axis: x.argmin(axis, keepdims=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 33), 0), ((4, 6, 19), 1), pytest.param((1, 7), 1, marks=pytest.mark.exhaustive), ((6, 1), 1)],
)
def test_one_kernel_along_any_axis(name: str, shape: tuple[int, ...], axis: int) -> None:
    program = optimize_and_compile(ALONG[name](input_("x", shape), axis), target=FEW)
    assert len(program.kernels) == 1
    program.verify()


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 4, 6, 6)])
def test_an_instance_norm_is_one_kernel(shape: tuple[int, ...]) -> None:
    x = input_("x", shape)
    weight, bias = (input_(name, (1, shape[1], 1, 1)) for name in ("weight", "bias"))
    program = optimize_and_compile(nn.layer_norm(x, axes=2) * weight + bias, target=FEW)
    assert len(program.kernels) == 1
    program.verify()


# --- positions of extrema ----------------------------------------------------------------------


def ties(shape: tuple[int, ...], dtype: str) -> Array:
    """Few distinct values, so that most extrema stand in several places."""
    rng = np.random.default_rng(3)
    return rng.integers(0, 3, shape).astype(input_("x", shape, dtype).dtype.numpy)


PLACES = [(axis, keepdims) for axis in (0, 1, -1, None) for keepdims in (False, True)]


@first_few(3, "dtype", ["fp16", "i64", "bool", "fp32", "u8"])
def test_positions_are_numpys(dtype: str) -> None:
    x = ties((3, 5, 18), dtype)
    lazy = input_("x", x.shape, dtype)
    program = optimize_and_compile([result for at in PLACES for result in (lazy.argmax(*at), lazy.argmin(*at))])
    expected = [fn(x, axis, keepdims=keepdims) for axis, keepdims in PLACES for fn in (np.argmax, np.argmin)]
    for actual, wanted in zip(program(x=x), expected, strict=True):
        assert actual.dtype == wanted.dtype == np.int64
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.slow
def test_nan_is_the_extremum_and_infinities_are_numbers() -> None:
    x = np.array(
        [[1, np.nan, 5, np.nan], [np.inf, 2, np.inf, -np.inf], [-np.inf] * 4, [-0.0, 0.0, -0.0, 0.0]], np.float32
    )
    lazy = input_("x", x.shape)
    for axis in (0, 1):
        program = optimize_and_compile([lazy.argmax(axis), extremum_position(lazy, "min", axis, last=True)])
        first, last = program(x=x)
        np.testing.assert_array_equal(first, x.argmax(axis))
        np.testing.assert_array_equal(last, x.shape[axis] - 1 - np.flip(x, axis).argmin(axis))


def test_numpys_functions_are_these() -> None:
    x = ties((4, 9), "fp32")
    lazy = input_("x", x.shape)
    program = optimize_and_compile([np.argmax(lazy, axis=1), np.argmin(lazy, 0, keepdims=True)])
    for actual, wanted in zip(program(x=x), (x.argmax(1), x.argmin(0, keepdims=True)), strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_nothing_has_no_extremum() -> None:
    with pytest.raises(EqsatError, match="no element along axis 1") as caught:
        input_("x", (3, 0)).argmax(1)
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert input_("x", (0, 3)).argmax(1).shape == (0,)
