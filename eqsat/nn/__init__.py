"""Building blocks of neural networks on lazy tensors.

A function builds its definition in uops; fusing them into one kernel is the optimizer's work. If a definition divides
or takes a root, integers and bools are cast to fp64 first, as in NumPy.

Arguments have torch's order. Arguments that other libraries order differently are passed by name. Functions whose names
end with 1d, 2d or 3d take so many spatial axes; the same names without an ending take as many as x has.
"""

from eqsat.nn.activations import gelu, log_softmax, relu, silu, softmax
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
from eqsat.nn.attention import attention
from eqsat.nn.convolutions import conv, conv1d, conv2d, conv3d
from eqsat.nn.dropout import dropout
from eqsat.nn.norms import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, rms_norm
from eqsat.nn.operands import Operand
from eqsat.nn.orders import top_k
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
from eqsat.nn.transposed import conv_transpose, conv_transpose1d, conv_transpose2d, conv_transpose3d
from eqsat.nn.unfolding import fold, unfold
from eqsat.nn.windows import Padding, PerAxis

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
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dropout",
    "fold",
    "gelu",
    "grid_sample",
    "group_norm",
    "instance_norm",
    "interpolate",
    "layer_norm",
    "local_response_norm",
    "log_softmax",
    "lp_pool",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "relu",
    "resize",
    "rms_norm",
    "silu",
    "softmax",
    "top_k",
    "unfold",
]
