"""Windows of images as columns, samples of images at points, and pools of a given number of windows."""

from __future__ import annotations

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.nn.sampling import grid_sample_gradients
from eqsat.tensor import Tensor

Sizes = list[int]


@aten("im2col")
def _unfold(x: Tensor, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Tensor:
    """The windows of an image as columns."""
    image = x if x.ndim == 4 else x.unsqueeze(0)
    columns = nn.unfold(image, kernel, dilation, padding, stride)
    return columns if x.ndim == 4 else columns.squeeze(0)


@aten("col2im")
def _fold(x: Tensor, sizes: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Tensor:
    """The image whose elements are sums of the columns at their windows."""
    columns = x if x.ndim == 3 else x.unsqueeze(0)
    image = nn.fold(columns, sizes, kernel, dilation, padding, stride)
    return image if x.ndim == 3 else image.squeeze(0)


_GRID_MODES = ("bilinear", "nearest", "bicubic")
_GRID_PADDINGS = ("zeros", "border", "reflection")


@aten("grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    return nn.grid_sample(x, grid, _GRID_MODES[mode], _GRID_PADDINGS[padding], align_corners)


@aten("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _grid_sample_gradients(
    gradient: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool, wanted: list[bool]
) -> tuple[Tensor | None, Tensor | None]:
    names = _GRID_MODES[mode], _GRID_PADDINGS[padding]
    of_x, of_grid = grid_sample_gradients(gradient, x, grid, *names, align_corners)
    return (of_x if wanted[0] else None), (of_grid if wanted[1] else None)


def _register_adaptive(axes: int) -> None:
    @aten(f"adaptive_max_pool{axes}d")
    def pool(x: Tensor, places: Sizes) -> tuple[Tensor, Tensor]:
        """The greatest element of each window, and its place in the plane."""
        image = x if x.ndim == axes + 2 else x.unsqueeze(0)
        best, indices = nn.adaptive_max_pool(image, list(places), return_indices=True)
        return (best, indices) if x.ndim == axes + 2 else (best.squeeze(0), indices.squeeze(0))


for _axes in (1, 2, 3):
    _register_adaptive(_axes)
