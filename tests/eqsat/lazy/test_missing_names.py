"""A name that eqsat lacks says what to write in its place."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest

from eqsat import nn, tensor
from eqsat.lazy.missing_names import INSTEAD, LAYERS, NETWORKS
from eqsat.tensor import Tensor

X: Any = tensor.input("x", (2, 3))
MODULE: Any = tensor
NETWORK: Any = nn

HINTS = [
    (X, "squeeze_", "x = x.squeeze(…)"),
    (X, "add_", "x = x.add(…)"),
    (X, "masked_fill_", "x = x.masked_fill(…)"),
    (X, "cuda", "target="),
    (X, "backward", "torch.compile"),
    (X, "item", "optimize_and_compile"),
    (X, "tolist", "optimize_and_compile"),
    (X, "numpy", "optimize_and_compile"),
    (X, "detach", "leave it out"),
    (X, "contiguous", "leave it out"),
    (X, "requires_grad", "no gradients"),
    (X, "gelu", "nn.gelu(…)"),
    (X, "layer_norm", "nn.layer_norm(…)"),
    (X, "concatenate", "tensor.concatenate(…)"),
    (X, "cumsumm", "'cumsum'"),
    (X, "new_zeros", "tensor.zeros(shape"),
    (MODULE, "vstack", "axis=0"),
    (MODULE, "asarray", "tensor.constant"),
    (MODULE, "empty", "tensor.zeros"),
    (MODULE, "conv2d", "nn.conv2d(…)"),
    (MODULE, "view", "x.view"),
    (MODULE, "concatenat", "'concatenate'"),
    (NETWORK, "Linear", "nn.linear(…)"),
    (NETWORK, "BatchNorm2d", "nn.batch_norm(…)"),
    (NETWORK, "MultiheadAttention", "nn.attention(…)"),
    (NETWORK, "sofmax", "'softmax'"),
    (NETWORK, "matmul", "x.matmul"),
]


@pytest.mark.parametrize(("owner", "name", "hint"), HINTS, ids=[name for _, name, _ in HINTS])
def test_what_is_not_there_says_what_is(owner: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert name in str(caught.value)
    assert hint in str(caught.value)
    assert not hasattr(owner, name)


def test_private_names_are_plainly_missing() -> None:
    for owner in (X, MODULE, NETWORK):
        with pytest.raises(AttributeError, match=r"__dlpack__'$"):
            owner.__dlpack__()


def test_a_name_that_is_there_needs_no_other() -> None:
    names = {*dir(Tensor), *vars(tensor), *nn.__all__}
    assert names & INSTEAD.keys() == {"array"}, "a tensor has an array, the module has none"
    assert set(NETWORKS) <= set(nn.__all__)
    assert set(LAYERS.values()) - {"flatten"} <= set(nn.__all__)
    listed = {name for name in nn.__all__ if isinstance(getattr(nn, name), FunctionType)}
    alone = listed - set(NETWORKS) - {*dir(Tensor)}
    assert alone <= {
        "adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "conv", "conv_transpose", "lp_pool", "max_pool",
        "resize", "top_k",
    }  # fmt: skip


def test_what_a_hint_says_exists() -> None:
    written = [hint for hint in INSTEAD.values() if hint.startswith(("tensor.", "nn."))]
    for hint in written:
        module, _, rest = hint.partition(".")
        name = rest.partition("(")[0].split(",")[0]
        assert hasattr(tensor if module == "tensor" else nn, name), hint
