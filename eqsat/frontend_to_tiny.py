"""Frontend IR → Tiny IR: one function per high-level op, each written in lazy tensors."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from eqsat import nn, tensor
from eqsat.tensor import Tensor
from eqsat.tensor_to_tiny import tensor_to_tiny
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import dtype
from ir.frontend import STAGE, FrontendGraph, Node
from ir.uop import UOPS

Lowering = Callable[[Node, Sequence[Tensor | None]], Tensor]
OPS: dict[str, Lowering] = {}


def supported() -> list[str]:
    """The names of the ops that have a lowering."""
    return sorted(OPS)


def frontend_to_tiny(
    graph: FrontendGraph, dims: Mapping[str, int], constants: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The model as a Tiny graph with bound sizes, and its constants by tensor_id.

    Raises:
        EqsatError: UnsupportedOp for an op without a lowering, UnboundDim for a size without a value, and what the
            uops' type rules find, located at the node.
    """
    values: dict[str, Tensor | None] = {"": None}
    for argument in graph.signature.inputs:
        name, info = argument.tensor, graph.tensors[argument.tensor]
        if name in constants:
            values[name] = tensor.constant(constants[name], info.dtype)
        else:
            values[name] = tensor.input(name, bind_shape(info.shape, dims), info.dtype)
    for node in graph.graph:
        values[node.outputs[0]] = lower_node(node, [values[name] for name in node.inputs])
    found = [(each.tensor, values.get(each.tensor)) for each in graph.signature.outputs]
    outputs = []
    for name, value in found:
        if value is None:
            fail(Kind.UNSUPPORTED_OP, STAGE, "only the first output of a node is computed", at=name)
        outputs.append(value)
    return tensor_to_tiny(outputs)


def lower_node(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    """The node's first result."""
    lowering = OPS.get(node.op)
    if lowering is None:
        near = difflib.get_close_matches(node.op, OPS, 1)
        fail(
            Kind.UNSUPPORTED_OP,
            STAGE,
            f"no lowering for {node.op!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
            at=node.name,
            op=node.op,
            supported=supported(),
        )
    try:
        return lowering(node, inputs)
    except EqsatError as error:
        raise EqsatError(
            msgspec.structs.replace(one, message=f"{one.message} (in {node.op})", at=node.name)
            for one in error.diagnostics
        ) from None
    except (TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"inputs or attributes do not fit the op: {error}",
            at=node.name,
            op=node.op,
            inputs=[str(each.type) if each is not None else "absent" for each in inputs],
            attrs=node.attrs,
        )


def bind_shape(shape: Sequence[int | str], dims: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes with every symbol replaced."""
    free = sorted({size for size in shape if isinstance(size, str) and size not in dims})
    if free:
        fail(Kind.UNBOUND_DIM, STAGE, f"no size for {', '.join(free)}", hint=f"dims={{{free[0]!r}: …}}", shape=shape)
    return tuple(size if isinstance(size, int) else dims[size] for size in shape)


def op(name: str) -> Callable[[Lowering], Lowering]:
    """Register the lowering of an op."""

    def register(lowering: Lowering) -> Lowering:
        OPS[name] = lowering
        return lowering

    return register


def _present(inputs: Sequence[Tensor | None], least: int) -> list[Tensor]:
    given = [each for each in inputs if each is not None]
    if len(given) < least or any(each is None for each in inputs[:least]):
        raise ValueError(f"needs {least} inputs")
    return given


def _optional(inputs: Sequence[Tensor | None], position: int) -> Tensor | None:
    return inputs[position] if len(inputs) > position else None


@op("GEMM")
def _gemm(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    """alpha · op(A) · op(B) + beta · C; the product is summed in acc_dtype and rounded to A's dtype."""
    a, b = _present(inputs, 2)[:2]
    a = a.T if node.attrs.get("trans_a") else a
    b = b.T if node.attrs.get("trans_b") else b
    product = a @ b
    if (alpha := node.attrs.get("alpha", 1.0)) != 1:
        product = product * alpha
    if (c := _optional(inputs, 2)) is None:
        return product
    beta = node.attrs.get("beta", 1.0)
    return product + (c if beta == 1 else c * beta)


@op("MatMul")
def _matmul(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    a, b = _present(inputs, 2)
    return a @ b


@op("Conv")
def _conv(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    x, weight = _present(inputs, 2)[:2]
    attrs = node.attrs
    return nn.conv2d(
        x,
        weight,
        _optional(inputs, 2),
        stride=attrs.get("stride", 1),
        padding=attrs.get("pad", 0),
        dilation=attrs.get("dilation", 1),
        groups=attrs.get("groups", 1),
    )


@op("BatchNorm")
def _batch_norm(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    x, scale, bias, mean, var = _present(inputs, 5)
    return nn.batch_norm(x, scale, bias, mean, var, node.attrs.get("eps", 1e-5))


@op("LayerNorm")
def _layer_norm(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    (x, *_) = _present(inputs, 1)
    axes = x.ndim - node.attrs["axis"] % x.ndim if "axis" in node.attrs else 1
    return nn.layer_norm(x, _optional(inputs, 1), _optional(inputs, 2), node.attrs.get("eps", 1e-5), axes)


@op("Attention")
def _attention(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    """q, k, v and an optional additive mask, [B, H, M, D]."""
    q, k, v = _present(inputs, 3)[:3]
    return nn.attention(q, k, v, _optional(inputs, 3), bool(node.attrs.get("causal", False)))


@op("Softmax")
def _softmax(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    (x,) = _present(inputs, 1)
    return nn.softmax(x, node.attrs.get("axis", -1))


@op("Elementwise")
def _elementwise(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    """`fn` is a lower-case uop, or silu, gelu, clip; more than two operands fold from the left."""
    operands = _present(inputs, 1)
    fn = str(node.fn)
    if fn in ("silu", "gelu"):
        return nn.silu(operands[0]) if fn == "silu" else nn.gelu(operands[0])
    uop = {"div": "FDIV", "pow": "POW"}.get(fn, fn.upper())
    if uop not in UOPS or not (UOPS[uop].kind.is_elementwise):
        known = sorted(each.fn for each in UOPS.values() if each.kind.is_elementwise)
        fail(Kind.UNSUPPORTED_OP, STAGE, f"no elementwise function {fn!r}", supported=[*known, "gelu", "silu"])
    if uop == "CAST":
        return operands[0].cast(node.attrs["to"])
    if uop == "WHERE":
        return tensor.where(*operands)
    if UOPS[uop].arity == 1:
        return Tensor(uop, operands)
    result = operands[0]
    for operand in operands[1:]:
        result = tensor.binary(uop, result, operand)
    return result


@op("Reduce")
def _reduce(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    (x,) = _present(inputs, 1)
    if node.fn not in ("sum", "max", "min", "prod", "mean"):
        fail(Kind.UNSUPPORTED_OP, STAGE, f"no reduction {node.fn!r}", supported=["sum", "max", "min", "prod", "mean"])
    result: Tensor = getattr(x, node.fn)(node.attrs.get("axes"), node.attrs.get("keepdims", False))
    return result


@op("Pool")
def _pool(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    """Windows of [N, C, H, W]: `fn` is max or avg."""
    (x,) = _present(inputs, 1)
    attrs = node.attrs
    kernel, stride, pad = attrs["kernel"], attrs.get("stride"), attrs.get("pad", 0)
    if node.fn == "max":
        return nn.max_pool2d(x, kernel, stride, pad, attrs.get("dilation", 1))
    return nn.avg_pool2d(x, kernel, stride, pad, attrs.get("count_include_pad", False))


@op("GlobalPool")
def _global_pool(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    (x,) = _present(inputs, 1)
    over = tuple(range(2, x.ndim))
    return x.max(over, keepdims=True) if node.fn == "max" else x.mean(over, keepdims=True)


@op("Reshape")
def _reshape(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    """`shape` may hold one -1; a 0 keeps the size at that place."""
    (x,) = _present(inputs, 1)
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(node.attrs["shape"])])


@op("Flatten")
def _flatten(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    """To rank 2: the axes before `axis`, and the rest."""
    (x,) = _present(inputs, 1)
    axis = node.attrs.get("axis", 1)
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return x.reshape(rows, x.size // rows if rows else int(np.prod(x.shape[axis:], dtype=np.int64)))


@op("Transpose")
def _transpose(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    (x,) = _present(inputs, 1)
    return x.transpose(*node.attrs.get("perm", ()))


@op("Concat")
def _concat(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    return tensor.concatenate(_present(inputs, 1), node.attrs["axis"])


@op("Cast")
def _cast(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    (x,) = _present(inputs, 1)
    return x.cast(str(dtype(node.attrs["to"])))


@op("Identity")
def _identity(node: Node, inputs: Sequence[Tensor | None]) -> Tensor:
    return _present(inputs, 1)[0]
