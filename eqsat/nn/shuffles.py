"""Channels as parts of larger pixels, and back."""

from __future__ import annotations

from typing import SupportsIndex

from eqsat.lazy.argument_checks import integer, refuse
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, tensor_of
from eqsat.tensor import Tensor
from ir.diagnostics import Kind


@takes_torchs_names
def pixel_shuffle(x: Operand, upscale_factor: SupportsIndex) -> Tensor:
    """x [..., C·r², H, W] as [..., C, H·r, W·r] (Shi et al., 2016)."""
    image, r = tensor_of("pixel_shuffle", "x", x), integer(upscale_factor, "upscale_factor")
    if image.ndim < 3 or r < 1 or image.shape[-3] % (r * r):
        hint = "x […, C·r², H, W]"
        refuse(Kind.AXIS_SIZE_MISMATCH, "pixel_shuffle", f"no pixels of {r} × {r} parts", image.shape, hint=hint)
    *batch, channels, height, width = image.shape
    rank = len(batch)
    split = image.reshape(*batch, channels // (r * r), r, r, height, width)
    ordered = split.permute(*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2)
    return ordered.reshape(*batch, channels // (r * r), height * r, width * r)


@takes_torchs_names
def pixel_unshuffle(x: Operand, downscale_factor: SupportsIndex) -> Tensor:
    """x [..., C, H·r, W·r] as [..., C·r², H, W]: the inverse of `pixel_shuffle`."""
    image, r = tensor_of("pixel_unshuffle", "x", x), integer(downscale_factor, "downscale_factor")
    if image.ndim < 3 or r < 1 or image.shape[-1] % r or image.shape[-2] % r:
        hint = "x […, C, H·r, W·r]"
        refuse(Kind.AXIS_SIZE_MISMATCH, "pixel_unshuffle", f"no pixels of {r} × {r} parts", image.shape, hint=hint)
    *batch, channels, height, width = image.shape
    rank = len(batch)
    split = image.reshape(*batch, channels, height // r, r, width // r, r)
    ordered = split.permute(*range(rank + 1), rank + 2, rank + 4, rank + 1, rank + 3)
    return ordered.reshape(*batch, channels * r * r, height // r, width // r)
