"""Models of the size of real ones, in the halves that GPUs are fast with; weights are inputs."""

from __future__ import annotations

from eqsat import nn
from eqsat import tensor as t


def bert(layers: int = 12, tokens: int = 128, width: int = 768, heads: int = 12, dtype: str = "fp16") -> t.Tensor:
    """A post-norm encoder with biases and GELU, as BERT's (Devlin et al., 2018), without its embeddings."""
    x = t.input("x", (tokens, width), dtype)
    for layer in range(layers):
        x = _layer(x, f"l{layer}", heads)
    return x


def _layer(x: t.Tensor, name: str, heads: int) -> t.Tensor:
    (tokens, width), dtype = x.shape, x.dtype.name

    def weight(part: str, *shape: int) -> t.Tensor:
        return t.input(f"{name}.{part}", shape, dtype)

    def linear(y: t.Tensor, part: str, features: int) -> t.Tensor:
        return y @ weight(f"{part}.w", y.shape[-1], features) + weight(f"{part}.b", features)

    def normed(y: t.Tensor, part: str) -> t.Tensor:
        return nn.layer_norm(y, weight(f"{part}.g", width), weight(f"{part}.s", width))

    def split(part: str) -> t.Tensor:
        return linear(x, part, width).reshape(tokens, heads, width // heads).permute(1, 0, 2)

    mixed = nn.attention(split("q"), split("k"), split("v")).permute(1, 0, 2).reshape(tokens, width)
    x = normed(x + linear(mixed, "o", width), "n1")
    return normed(x + linear(nn.gelu(linear(x, "up", 4 * width)), "down", width), "n2")
