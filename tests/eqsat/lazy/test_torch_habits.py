"""Calls as torch's users write them: the same function of a torch tensor and of a lazy tensor has the same value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from eqsat import optimize_and_compile, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load
from ir.tiny.playback import playback

Call = Callable[..., Any]

torch.manual_seed(3)
X, Y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
WHOLE = torch.tensor([[7, -7, 3], [-2, 5, 0]], dtype=torch.int32)
INDEX = torch.tensor([2, 0, -1, 1])
PLACES = torch.tensor([2, 0, 2, 1])
MASK = X > 0.3
VECTOR = torch.randn(5)


def lazily(call: Call, *arrays: torch.Tensor) -> list[np.ndarray]:
    """The values of the tensors in the result of a call with lazy tensors, by playback."""
    inputs = [tensor.input(f"x{k}", tuple(array.shape), array.dtype) for k, array in enumerate(arrays)]
    results = call(*inputs)
    listed = list(results) if isinstance(results, list | tuple) else [results]
    source, constants = tensor_to_tiny([value for value in listed if isinstance(value, Tensor)], inputs)
    graph, notes = load(source, strict=True)
    assert not notes
    return list(playback(graph, {**{f"x{k}": array.numpy() for k, array in enumerate(arrays)}, **constants}))


def same(call: Call, *arrays: torch.Tensor, dtypes: bool = True) -> None:
    """torch's value and ours agree, and their dtypes."""
    expected = call(*arrays)
    theirs = list(expected) if isinstance(expected, list | tuple) else [expected]
    ours = lazily(call, *arrays)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        wanted = other.numpy()
        assert one.shape == wanted.shape
        assert one.dtype == wanted.dtype or not dtypes
        np.testing.assert_allclose(one, wanted, rtol=2e-5, atol=2e-6)


ON_FLOATS: list[Call] = [
    lambda x: x.sum(dim=1, keepdim=True),
    lambda x: x.sum((0, 2)),
    lambda x: x.sum(dim=-1, dtype=torch.float64),
    lambda x: x.mean(dim=(0, 1)),
    lambda x: x.prod(dim=1),
    lambda x: x.amax(dim=(0, 1), keepdim=True),
    lambda x: x.amin(1),
    lambda x: x.max(dim=1),
    lambda x: x.min(dim=-1, keepdim=True),
    lambda x: x.max(),
    lambda x: (x.max(dim=1).values, x.max(dim=1).indices),
    lambda x: x.argmax(dim=1),
    lambda x: x.argmin(dim=2, keepdim=True),
    lambda x: x.var(dim=1),
    lambda x: x.var(dim=(0, 2), keepdim=True),
    lambda x: x.var(dim=1, unbiased=False),
    lambda x: x.std(dim=1),
    lambda x: x.std(correction=0),
    lambda x: x.std(dim=0, correction=2, keepdim=True),
    lambda x: x.view(torch.int32),
    lambda x: x.view(torch.uint8),
    lambda x: x.norm(),
    lambda x: x.norm(dim=1),
    lambda x: x.norm(1, dim=(0, 2), keepdim=True),
    lambda x: x.norm(float("inf"), dim=1),
    lambda x: x.norm(3, dim=0),
    lambda x: x.norm(0, dim=0),
    lambda x: x.logsumexp(1),
    lambda x: x.logsumexp(dim=(0, 2), keepdim=True),
    lambda x: x.softmax(-1),
    lambda x: x.softmax(dim=1),
    lambda x: x.log_softmax(dim=1),
    lambda x: x.cumsum(dim=1),
    lambda x: x.cumprod(dim=0),
    lambda x: (x > 0).any(),
    lambda x: (x > 0).all(1),
    lambda x: (x > 0).any(dim=2, keepdim=True),
    lambda x: (x > 0).count_nonzero(dim=1),
    lambda x: x.view(6, 4),
    lambda x: x.view(-1),
    lambda x: x.reshape((4, -1)),
    lambda x: x.transpose(0, 2),
    lambda x: x.transpose(-1, -2),
    lambda x: x.transpose(dim0=0, dim1=1),
    lambda x: x.permute(2, 0, 1),
    lambda x: x.permute((2, 0, 1)),
    lambda x: x.swapaxes(0, 1),
    lambda x: x.movedim(0, 2),
    lambda x: x.movedim((0, 1), (2, 0)),
    lambda x: x[0].t(),
    lambda x: x.mT,
    lambda x: x.unsqueeze(dim=1).squeeze(dim=1),
    lambda x: x.unsqueeze(-1),
    lambda x: x.flatten(1),
    lambda x: x.flatten(start_dim=0, end_dim=1),
    lambda x: x.unflatten(2, (2, -1)),
    lambda x: x.expand(2, 2, 3, 4),
    lambda x: x.flip(dims=(0, 2)),
    lambda x: x.roll(1, 0),
    lambda x: x.roll(shifts=(1, -2), dims=(0, 2)),
    lambda x: x.repeat(1, 2, 1),
    lambda x: x.repeat(2, 1, 1, 3),
    lambda x: x.repeat_interleave(2, dim=1),
    lambda x: x.tile(2, 1),
    lambda x: x.split(3, dim=2),
    lambda x: x.split([1, 3], dim=2),
    lambda x: x.split(split_size=2),
    lambda x: x.chunk(2, dim=2),
    lambda x: x.chunk(3, dim=2),
    lambda x: x.chunk(4, 1),
    lambda x: x.unbind(1),
    lambda x: x.select(1, -1),
    lambda x: x.narrow(2, 1, 2),
    lambda x: x.diff(),
    lambda x: x.diff(n=2, dim=2),
    lambda x: x.unfold(2, 2, 1),
    lambda x: x.unfold(1, 2, 1),
    lambda x: x.tril(),
    lambda x: x.triu(diagonal=1),
    lambda x: x.clamp(min=0),
    lambda x: x.clamp(-0.5, 0.5),
    lambda x: x.clip(max=0.1),
    lambda x: x.clamp_min(0.2),
    lambda x: x.abs().sqrt().rsqrt(),
    lambda x: x.neg().exp().log().sin().cos().tanh().sigmoid().relu(),
    lambda x: x.pow(2) + x.square(),
    lambda x: x.sign() + x.trunc(),
    lambda x: x.add(1).mul(2).sub(3).div(4),
    lambda x: x.add(x, alpha=2),
    lambda x: x.sub(1, alpha=3),
    lambda x: x.div(0.4, rounding_mode="floor"),
    lambda x: x.div(0.4, rounding_mode="trunc"),
    lambda x: (x.eq(1), x.ne(0), x.lt(0.5), x.le(0), x.gt(0), x.ge(1)),
    lambda x: ((x / 0).isnan(), (x / 0).isinf(), (x / 0).isfinite()),
    lambda x: (x > 0).logical_and(x < 1).logical_or(x > 2).logical_not(),
    lambda x: x.lerp(x * 2, 0.3),
    lambda x: x.topk(2),
    lambda x: x.topk(2, dim=1, largest=False),
    lambda x: x.sort(dim=1),
    lambda x: x.sort(dim=-1, descending=True),
    lambda x: x.argsort(dim=1),
    lambda x: x.kthvalue(2, dim=0, keepdim=True),
    lambda x: x.argsort(descending=True),
    lambda x: x.double().float().half().float(),
    lambda x: (x * 3).int(),
    lambda x: ((x * 3).long(), (x * 3).short(), (x * 3).char(), x.bool()),
    lambda x: x.to(torch.float16).to(dtype=torch.float32),
    lambda x: x.type_as(x.double()),
    lambda x: x[..., None][0, 1:, ::2],
    lambda x: x * x.size(0) + x.size(-1) + x.dim() + x.numel() + len(x.size()) + x.size(dim=1),
    lambda x: x.bmm(x.transpose(1, 2)),
    lambda x: x[0].mm(x[1].t()),
    lambda x: x[0].mv(x[1, 0]),
    lambda x: x[0, 0].outer(x[0, 1]),
    lambda x: x[0, 0].dot(x[1, 1]),
    lambda x: x[0, :, :3].addmm(x[0], x[1].t(), beta=0.5, alpha=2),
    lambda x: x[:, :, :3].baddbmm(x, x.transpose(1, 2), beta=0),
]


@pytest.mark.parametrize("place", range(len(ON_FLOATS)))
def test_methods_are_torchs(place: int) -> None:
    same(ON_FLOATS[place], X)


def test_methods_of_several_tensors_are_torchs() -> None:
    same(lambda x, m: x.masked_fill(m, 0.5), X, MASK)
    same(lambda x, m: x.masked_fill(m[0], float("-inf")), X, MASK)
    same(lambda x, y: x.add(y, alpha=0.5).maximum(y).minimum(x + 1), X, Y)
    same(lambda x, i: x.index_select(1, i), X, PLACES)
    same(lambda x, i: x.index_select(dim=2, index=i), X, PLACES)
    wide = torch.tensor([[[0, 1, 2, 0]], [[2, 1, 0, 0]]])
    same(lambda x, i: x.take_along_dim(i, 1), X, wide)
    same(lambda x, i: x.take_along_dim(i, dim=1), X, wide[:1])
    same(lambda x, i: x.gather(dim=1, index=i), X, wide)
    same(lambda x, i: x.scatter(dim=1, index=i, src=x[:, :1] * 2), X, wide)
    same(lambda x, i: x.scatter(1, i, value=2.0), X, wide)
    same(lambda x, i: x.take(i), X, PLACES)
    same(lambda x: (x.div(2, rounding_mode="trunc"), x.div(2, rounding_mode="floor"), x.remainder(3), x // 2), WHOLE)
    same(lambda x: x.div(-3, rounding_mode="trunc"), WHOLE)
    same(lambda x: (x.bool(), x.sign(), x.any(), x.all(dim=1)), WHOLE)


FUNCTIONS: list[Callable[[Any], Call]] = [
    lambda t: lambda x, y: t.stack([x, y], dim=1),
    lambda t: lambda x, y: t.cat([x, y], dim=1),
    lambda t: lambda x, y: t.concat((x, y), -1),
    lambda t: lambda x, y: t.concatenate([x, y]),
    lambda t: lambda x, y: t.cat(tensors=[x, y], dim=2),
    lambda t: lambda x, y: t.einsum("bij,bkj->bik", x, y),
    lambda t: lambda x, y: t.einsum("bij,bij->", x, y),
    lambda t: lambda x, y: t.einsum("...i,...i", x, y),
    lambda t: lambda x, y: t.matmul(x, y.transpose(1, 2)),
    lambda t: lambda x, y: t.where(x > y, x, y),
    lambda t: lambda x, y: t.where(x > y, x, 0.0),
    lambda t: lambda x, y: t.maximum(x, y) + t.minimum(input=x, other=y),
    lambda t: lambda x, y: t.exp(x) + t.sum(y, dim=1, keepdim=True),
    lambda t: lambda x, y: t.softmax(x, dim=1) + t.mean(input=y),
    lambda t: lambda x, y: t.clamp(x, min=0) + t.add(x, y, alpha=2) + t.pow(y, 2),
    lambda t: lambda x, y: t.zeros_like(x) + t.ones_like(y) * t.full_like(x, 3),
    lambda t: lambda x, y: x[0, 0, 0] * t.zeros(2, 3) + t.ones((2, 3)) + t.zeros([2, 3], dtype=t.float32),
    lambda t: lambda x, y: x[0, 0, 0] + (t.arange(4) + t.arange(1, 9, 2) + t.arange(4)).float(),
    lambda t: lambda x, y: x[0, 0, 0] + t.full((2, 2), 0.5) + t.eye(2),
    lambda t: lambda x, y: x[0, 0, 0] + t.linspace(0, 1, steps=5),
    lambda t: lambda x, y: t.topk(x, 2, dim=1),
    lambda t: lambda x, y: t.max(x, dim=1),
    lambda t: lambda x, y: t.flatten(x, 1) @ t.flatten(y, 1).T,
    lambda t: lambda x, y: t.split(x, 2, dim=2),
    lambda t: lambda x, y: t.permute(x, (2, 0, 1)),
    lambda t: lambda x, y: t.logsumexp(x, dim=(0, 1)) + t.std(y, dim=(0, 1)),
]


class OurNames:
    """`eqsat.tensor` with torch's dtypes, so that one function serves both."""

    float32 = torch.float32

    def __getattr__(self, name: str) -> Any:
        return getattr(tensor, name)


@pytest.mark.parametrize("place", range(len(FUNCTIONS)))
def test_functions_are_torchs(place: int) -> None:
    expected, ours = FUNCTIONS[place](torch)(X, Y), lazily(FUNCTIONS[place](OurNames()), X, Y)
    theirs = list(expected) if isinstance(expected, list | tuple) else [expected]
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.numpy().dtype
        np.testing.assert_allclose(one, other.numpy(), rtol=2e-5, atol=2e-6)


def test_created_tensors_have_torchs_shapes_and_dtypes() -> None:
    pairs = [
        (tensor.arange(5), torch.arange(5)),
        (tensor.arange(2, 5), torch.arange(2, 5)),
        (tensor.arange(5, 0, -2), torch.arange(5, 0, -2)),
        (tensor.arange(0, 1, 0.25), torch.arange(0, 1, 0.25)),
        (tensor.arange(start=1, end=4), torch.arange(start=1, end=4)),
        (tensor.arange(3, dtype=torch.int32), torch.arange(3, dtype=torch.int32)),
        (tensor.arange(1, 3, dtype=torch.float32), torch.arange(1, 3, dtype=torch.float32)),
        (tensor.full((2,), 3), torch.full((2,), 3)),
        (tensor.full((2,), True), torch.full((2,), True)),
        (OurNames().full((2,), fill_value=3.0), torch.full((2,), fill_value=3.0)),
        (tensor.zeros(2, 3, dtype=torch.int8), torch.zeros(2, 3, dtype=torch.int8)),
        (tensor.eye(2, 3), torch.eye(2, 3)),
        (tensor.zeros((2, 3), np.int8), torch.zeros((2, 3), dtype=torch.int8)),
        (tensor.ones([2], torch.int64), torch.ones([2], dtype=torch.int64)),
    ]
    for ours, theirs in pairs:
        (result,) = lazily(lambda x, ours=ours: ours, X)
        assert result.dtype == theirs.numpy().dtype
        np.testing.assert_array_equal(result, theirs.numpy())


def test_kernels_compute_what_playback_does() -> None:
    x = tensor.input("x", (2, 3, 4))
    spread = (x.var(dim=1), x.std(axis=1, keepdims=True), x.max(dim=1).values, x.max(dim=1).indices)
    program = optimize_and_compile([*spread, x.logsumexp(dim=-1), x[:, [2, 0]], x.sort(dim=2).values], threads=1)
    given = X.numpy()
    actual = program(x=given)
    wanted = (
        X.var(dim=1), X.std(dim=1, keepdim=True, correction=0), *X.max(dim=1), X.logsumexp(dim=-1), X[:, [2, 0]],
        X.sort(dim=2).values,
    )  # fmt: skip
    for one, other in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=2e-5, atol=2e-6)


def test_torchs_dtypes_are_read() -> None:
    x = tensor.input("x", (2,), torch.bfloat16)
    assert x.dtype.name == "bf16"
    assert x.cast(torch.float16).dtype.name == "fp16"
    assert x.to("fp64").dtype.name == "fp64"
    assert x.to(x.int()).dtype.name == "i32"
    for name in (
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
    ):
        assert x.to(getattr(torch, name)).dtype.numpy == np.dtype(name)
    with pytest.raises(EqsatError, match=r"torch\.complex64|complex64"):
        x.to(torch.complex64)


@pytest.mark.parametrize("where", ["cpu", "cuda:0", torch.device("cpu")])
def test_a_tensor_lies_on_no_device(where: Any) -> None:
    with pytest.raises(EqsatError, match="target="):
        tensor.input("x", (2,)).to(where)


ODD: dict[str, tuple[Kind, Call, str]] = {
    "both names": (Kind.MALFORMED_GRAPH, lambda x: x.sum(axis=1, dim=1), "twice"),
    "a place and a name": (Kind.MALFORMED_GRAPH, lambda x: x.sum(1, dim=1), "twice"),
    "an unknown keyword": (Kind.MALFORMED_GRAPH, lambda x: x.sum(axes=1), "axis="),
    "out": (Kind.UNSUPPORTED_OP, lambda x: x.sum(1, out=x), "out="),
    "all axes by an empty list": (Kind.MALFORMED_GRAPH, lambda x: x.sum(dim=[]), "all axes in torch"),
    "a mask of numbers": (Kind.DTYPE_MISMATCH, lambda x: x.masked_fill(x, 0), "bools"),
    "a matrix for mm": (Kind.AXIS_SIZE_MISMATCH, lambda x: x.mm(x), "x @ y"),
    "batches for bmm": (Kind.BROADCAST_MISMATCH, lambda x: x.bmm(x[:1]), "batches"),
    "a dot of batches": (Kind.UNSUPPORTED_OP, lambda x: x.dot(x), "einsum"),
    "assignment": (Kind.UNSUPPORTED_OP, lambda x: x.__setitem__(0, 1), "scatter"),
    "float": (Kind.UNSUPPORTED_OP, lambda x: float(x.sum()), "optimize_and_compile"),
    "int": (Kind.UNSUPPORTED_OP, lambda x: int(x.sum()), "optimize_and_compile"),
    "no bound": (Kind.MALFORMED_GRAPH, lambda x: x.clip(), "clip(min=0)"),
    "einsum of other operands": (Kind.MALFORMED_GRAPH, lambda x: tensor.einsum("ij,jk->ik", x), "operands"),
    "einsum of a text that is none": (Kind.MALFORMED_GRAPH, lambda x: tensor.einsum(x, x), "text"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_call_of_either_library_is_refused(name: str) -> None:
    kind, call, word = ODD[name]
    with pytest.raises(EqsatError) as caught:
        call(tensor.input("x", (2, 3, 4)))
    assert caught.value.kind is kind
    assert word in str(caught.value)


def test_keywords_that_say_nothing_are_taken() -> None:
    x: Any = tensor.input("x", (2, 3))
    assert OurNames().zeros(2, device="cpu", requires_grad=False).shape == (2,)
    assert x.sum(dim=0, out=None).shape == (3,)
    assert x.max(dim=0, out=None).values.shape == (3,)
