"""Hints for names that NumPy's or torch's users look for and eqsat lacks: the nearest name that eqsat has."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import NoReturn

_COMPILE = "optimize_and_compile(tensor) computes values"
_PURE = "a lazy tensor never changes and has no storage: leave it out"
_GRADIENT = "a program has no gradients of its own; torch.compile(model, backend='eqsat') has torch's"
_DEVICE = "optimize_and_compile(…, target=…) chooses the device"
_EIGEN = "matrix decompositions are not supported"

INSTEAD: Mapping[str, str] = {
    "allclose": "compare the arrays that a program returns",
    "apply_along_axis": "operations along an axis take axis=",
    "argwhere": "the shape depends on the values; where(condition, a, b) keeps it",
    "array": "tensor.constant(array)",
    "array_split": "chunk(n, dim=0)",
    "asarray": "tensor.constant(array)",
    "as_strided": "reshape, permute, expand and unfold",
    "average": "mean(axis)",
    "backward": _GRADIENT,
    "bernoulli_": "tensor.bernoulli(…, seed=…)",
    "cholesky": _EIGEN,
    "clone": _PURE,
    "compute": _COMPILE,
    "contiguous": _PURE,
    "copy": _PURE,
    "cpu": _DEVICE,
    "cuda": _DEVICE,
    "data": _PURE,
    "detach": _PURE,
    "device": _DEVICE,
    "dropout1d": "nn.dropout(x, p, seed)",
    "dropout2d": "nn.dropout(x, p, seed)",
    "dstack": "tensor.concatenate(parts, axis=2)",
    "eig": _EIGEN,
    "empty": "tensor.zeros(shape): a program has no uninitialized memory",
    "empty_like": "tensor.zeros_like(x)",
    "equal": "x.eq(y) compares elements; x.eq(y).all() compares tensors",
    "expand_dims": "unsqueeze(axis)",
    "fliplr": "flip(1)",
    "flipud": "flip(0)",
    "from_numpy": "tensor.constant(array)",
    "grad": _GRADIENT,
    "hsplit": "split(n, axis=1)",
    "hstack": "tensor.concatenate(parts, axis=1)",
    "index_add": "scatter(axis, index, updates, reduction='add')",
    "index_copy": "scatter(axis, index, updates)",
    "index_put": "scatter(axis, index, updates)",
    "inner": "x @ y.T",
    "inverse": _EIGEN,
    "is_contiguous": _PURE,
    "is_cuda": _DEVICE,
    "is_floating_point": "x.dtype.is_float",
    "item": _COMPILE,
    "linalg": "norm(p, axis), x @ y, or tensor.einsum",
    "masked_scatter": "where(condition, a, b)",
    "masked_select": "where(condition, a, b) keeps the shape; the shape of masked_select depends on the values",
    "median": "kthvalue((n + 1) // 2, axis): torch's, the lower of the middle elements",
    "mps": _DEVICE,
    "multi_head_attention_forward": "nn.scaled_dot_product_attention(q, k, v)",
    "multinomial": "tensor.rand(shape, seed)",
    "nanmean": "where(x.isnan(), 0, x).sum() / (~x.isnan()).sum()",
    "nansum": "where(x.isnan(), 0, x).sum()",
    "nbytes": "x.size * x.dtype.bits // 8",
    "nelement": "numel()",
    "new_full": "tensor.full(shape, value, x.dtype)",
    "new_ones": "tensor.ones(shape, dtype=x.dtype)",
    "new_tensor": "tensor.constant(array, x.dtype)",
    "new_zeros": "tensor.zeros(shape, dtype=x.dtype)",
    "newaxis": "None in an index, or unsqueeze(axis)",
    "nonzero": "the shape depends on the values; where(condition, a, b) keeps it",
    "normal": "tensor.randn(shape, seed)",
    "numpy": _COMPILE,
    "Parameter": "tensor.input(name, shape), or tensor.constant(array)",
    "permute_dims": "permute(axes)",
    "pin_memory": _DEVICE,
    "put": "scatter(axis, index, updates)",
    "qr": _EIGEN,
    "rand_like": "tensor.rand(x.shape, seed)",
    "randn_like": "tensor.randn(x.shape, seed)",
    "realize": _COMPILE,
    "register_hook": _GRADIENT,
    "repeat_like": "expand_as(other)",
    "requires_grad": _GRADIENT,
    "retain_grad": _GRADIENT,
    "register_buffer": "tensor.constant(array)",
    "row_stack": "tensor.concatenate(parts, axis=0)",
    "rot90": "flip(axis) and swapaxes(0, 1)",
    "scatter_add": "scatter(axis, index, updates, reduction='add')",
    "scatter_reduce": "scatter(axis, index, updates, reduction=…)",
    "stride": _PURE,
    "strides": _PURE,
    "storage": _PURE,
    "svd": _EIGEN,
    "tensor": "tensor.constant(array)",
    "tensor_split": "split(n, axis=…)",
    "tensordot": "tensor.einsum(equation, x, y)",
    "to_dense": _PURE,
    "tolist": _COMPILE,
    "unique": "the shape of unique depends on the values",
    "untyped_storage": _PURE,
    "upsample": "nn.interpolate(x, size or scale_factor)",
    "vdot": "(x * y).sum()",
    "vsplit": "split(n, axis=0)",
    "vstack": "tensor.concatenate(parts, axis=0)",
}
"""The text to write in place of a name, where the name that is spelled most alike would mislead."""

LAYERS: Mapping[str, str] = {
    "Linear": "linear", "Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d", "LayerNorm": "layer_norm",
    "BatchNorm1d": "batch_norm", "BatchNorm2d": "batch_norm", "BatchNorm3d": "batch_norm", "GroupNorm": "group_norm",
    "RMSNorm": "rms_norm", "Embedding": "embedding", "Dropout": "dropout", "MultiheadAttention": "attention",
    "CrossEntropyLoss": "cross_entropy", "MSELoss": "mse_loss", "MaxPool2d": "max_pool2d", "AvgPool2d": "avg_pool2d",
    "Upsample": "interpolate", "Flatten": "flatten",
}  # fmt: skip
"""Modules of torch.nn, and the functions that compute what they do."""


NETWORKS: tuple[str, ...] = (
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "attention", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "cosine_similarity", "cross_entropy", "dropout", "elu", "embedding", "fold", "gelu", "glu",
    "grid_sample", "group_norm", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "instance_norm", "interpolate",
    "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "local_response_norm", "logsigmoid", "lp_pool1d",
    "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "mish", "mse_loss", "nll_loss", "normalize",
    "one_hot", "pad", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu6", "rms_norm",
    "scaled_dot_product_attention", "selu", "silu", "smooth_l1_loss", "softmin", "softplus", "softsign", "tanhshrink",
)  # fmt: skip
"""Functions of `eqsat.nn` that users look for on a tensor or in `eqsat.tensor`."""


def missing(
    owner: str, name: str, known: Iterable[str], methods: Iterable[str] = (), functions: Iterable[str] = ()
) -> NoReturn:
    """Raises AttributeError for a name that the owner (a class or a module) lacks, with what to write in its place.

    known: the public names of the owner. methods, functions: those of lazy tensors and of `eqsat.tensor`, if these are
    not the owner.
    """
    hint = "" if name.startswith("_") else _instead(name, sorted(known), set(methods), set(functions))
    raise AttributeError(f"{owner} has no attribute {name!r}{hint}")


def _instead(name: str, known: Sequence[str], methods: Container[str], functions: Container[str]) -> str:
    plain = name.rstrip("_")
    if plain != name and (plain in known or plain in methods):
        return f": a lazy tensor never changes; x = x.{plain}(…) makes a new one"
    if name in INSTEAD:
        return f": {INSTEAD[name]}"
    layer = LAYERS.get(name, name)
    if layer in NETWORKS and layer not in known:
        return f": nn.{layer}(…)"
    if layer in known:
        return f": nn.{layer}(…) is a function of its weights"
    if name in methods:
        return f": it is a method, x.{name}"
    if name in functions:
        return f": tensor.{name}(…)"
    near = get_close_matches(name, known, 1, 0.7)
    return f"; the nearest is {near[0]!r}" if near else ""


def public_names(names: Iterable[str]) -> set[str]:
    """The names that do not begin with an underscore."""
    return {name for name in names if not name.startswith("_")}
