"""Building blocks of neural networks on lazy tensors.

A function builds its definition in uops; fusing them into one kernel is the optimizer's work. If a definition divides
or takes a root, integers and bools are cast to fp64 first, as in NumPy.

Arguments have torch's order, and torch's names are taken beside ours: `dim=` for `axis=`, `kernel_size=` for `kernel=`.
Arguments that other libraries order differently are passed by name. Functions whose names end with 1d, 2d or 3d take so
many spatial axes; the same names without an ending take as many as x has.
"""

from typing import TYPE_CHECKING, Any

from eqsat.lazy.missing_names import missing, public_names
from eqsat.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softsign,
    tanh,
    tanhshrink,
)
from eqsat.nn.adaptive_pools import (
    adaptive_avg_pool,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from eqsat.nn.attention import attention, scaled_dot_product_attention
from eqsat.nn.convolutions import conv, conv1d, conv2d, conv3d
from eqsat.nn.dropout import dropout
from eqsat.nn.linear import linear
from eqsat.nn.lookups import embedding, one_hot
from eqsat.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from eqsat.nn.norms import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, rms_norm
from eqsat.nn.operands import Operand
from eqsat.nn.orders import top_k
from eqsat.nn.paddings import pad
from eqsat.nn.pools import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from eqsat.nn.resizing import interpolate, resize
from eqsat.nn.sampling import grid_sample
from eqsat.nn.shuffles import pixel_shuffle, pixel_unshuffle
from eqsat.nn.similarity import cosine_similarity, normalize
from eqsat.nn.transposed import conv_transpose, conv_transpose1d, conv_transpose2d, conv_transpose3d
from eqsat.nn.unfolding import fold, unfold
from eqsat.nn.windows import Padding, PerAxis
from eqsat.tensor import Tensor

__all__ = [
    "Operand",
    "Padding",
    "PerAxis",
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "attention",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "fold",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu",
    "relu6",
    "resize",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
    "top_k",
    "unfold",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        missing("eqsat.nn", name, __all__, methods=public_names(dir(Tensor)))
