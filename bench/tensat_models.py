"""The graphs of Tensat's table, built from their definitions.

BERT, ResNeXt-50, NasNet-A and NasRNN have the sizes of Tensat's own generators (github.com/uwplse/tensat, src/): eight
attention layers without softmax over 64 tokens of width 1024; 224 × 224 images; three stages of five normal cells and a
reduction; five steps of width 512. Inception-v3, SqueezeNet 1.0 and VGG-19 follow their papers, with batch norms
folded. Weights are constants. Convolutions keep the size by padding (SAME) unless stated otherwise.

Tensat: Yang et al., "Equality Saturation for Tensor Graph Superoptimization", MLSys 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.optimizing import Program, program_of
from eqsat import nn, tensor

T = Any
"""A lazy tensor."""


class Net:
    """Layers with numbered weights."""

    def __init__(self) -> None:
        self._count = 0

    def weight(self, *shape: int) -> T:
        self._count += 1
        return tensor.input(f"w{self._count}", shape)

    def linear(self, x: T, features: int) -> T:
        return x @ self.weight(x.shape[-1], features)

    def conv(
        self,
        x: T,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        groups: int = 1,
        *,
        relu: bool = True,
        bias: bool = False,
        same: bool = True,
    ) -> T:
        """A convolution over x [N, C, H, W], its bias and ReLU."""
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        weight = self.weight(channels, x.shape[1] // groups, *sides)
        padding = _same(x, sides, stride) if same else 0
        y = nn.conv2d(x, weight, self.weight(channels) if bias else None, stride, padding, groups=groups)
        return y.relu() if relu else y


def _same(x: T, kernel: tuple[int, int], stride: int) -> list[tuple[int, int]]:
    """Zeros before and after x, so that ⌈size / stride⌉ windows fit."""
    totals = [
        max((-(-size // stride) - 1) * stride + side - size, 0) for size, side in zip(x.shape[2:], kernel, strict=True)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def _max_pool(x: T, kernel: int, stride: int, *, same: bool = True) -> T:
    return nn.max_pool2d(x, kernel, stride, _same(x, (kernel, kernel), stride) if same else 0)


def _avg_pool(x: T, kernel: int, stride: int) -> T:
    return nn.avg_pool2d(x, kernel, stride, _same(x, (kernel, kernel), stride))


def bert(layers: int = 8, length: int = 64, width: int = 1024, heads: int = 16) -> Program:
    """Attention without softmax; a layer reads a product of the layer before's input."""
    net = Net()
    x = tensor.input("x", (length, width))
    y, outputs = x.relu(), []
    for _ in range(layers):
        q, k, v = (net.linear(y, width).reshape(length, heads, width // heads).permute(1, 0, 2) for _ in range(3))
        outputs.append(((q @ k.swapaxes(1, 2)) @ v).permute(1, 0, 2).reshape(length, width))
        y = net.linear(y, width)
    return program_of([*outputs, y], ("x",))


def resnext50() -> Program:
    """ResNeXt-50 (32 groups) up to its last block."""
    net = Net()
    x = tensor.input("x", (1, 3, 224, 224))
    y = _max_pool(net.conv(x, 64, 7, 2), 3, 2)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 128 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            inner = net.conv(net.conv(y, width, 1), width, 3, stride, groups=32)
            inner = net.conv(inner, 2 * width, 1, relu=False)
            y = y if block else net.conv(y, 2 * width, 1, stride)
            y = (y + inner).relu()
    return program_of([y], ("x",))


class _NasNet(Net):
    """The two cells of NasNet-A."""

    def _fit(self, x: T, channels: int, size: int) -> T:
        return self.conv(x, channels, 1) if x.shape[2] == size else self.conv(x, channels, 3, 2)

    def separable(self, x: T, kernel: int, stride: int = 1) -> T:
        channels = x.shape[1]
        depthwise = self.conv(x, channels, kernel, stride, groups=channels, relu=False)
        return self.conv(depthwise, channels, 1, relu=False)

    def normal(self, before: T, x: T, channels: int) -> T:
        x = self.conv(x, channels, 1)
        before = self._fit(before, channels, x.shape[2])
        return tensor.concatenate(
            [
                self.separable(x, 3) + x,
                self.separable(before, 3) + self.separable(x, 3),
                _avg_pool(x, 3, 1) + before,
                _avg_pool(before, 3, 1) + _avg_pool(before, 3, 1),
                self.separable(before, 3) + self.separable(before, 3),
            ],
            1,
        )

    def reduction(self, before: T, x: T, channels: int) -> T:
        x = self.conv(x, channels, 1)
        before = self._fit(before, channels, x.shape[2])
        first = self.separable(before, 7, 2) + self.separable(x, 5, 2)
        second = _max_pool(x, 3, 2) + self.separable(before, 7, 2)
        third = _avg_pool(x, 3, 2) + self.separable(before, 5, 2)
        fourth = _max_pool(x, 3, 2) + self.separable(first, 3)
        return tensor.concatenate([first, second, third, fourth, _avg_pool(first, 3, 1) + second], 1)


def nasnet_a() -> Program:
    """Three stages of five normal cells and a reduction."""
    net = _NasNet()
    image = tensor.input("x", (1, 3, 224, 224))
    y, channels = _max_pool(net.conv(image, 64, 7, 2), 3, 2), 128
    for _ in range(3):
        before = y
        for _ in range(5):
            before, y = y, net.normal(before, y, channels)
        channels *= 2
        y = net.reduction(before, y, channels)
    return program_of([y], ("x",))


def nasrnn(steps: int = 5, width: int = 512) -> Program:
    """A recurrent cell found by search (Zoph and Le, 2017), unrolled; every step has weights of its own."""
    net = Net()
    inputs = [tensor.input(f"x{step}", (1, width)) for step in range(steps)]
    state = net.weight(1, width)
    for x in inputs:
        t = [net.linear(x, width) + net.linear(state, width) for _ in range(8)]
        a, b = t[0].relu() + t[3].sigmoid(), t[1].sigmoid() + t[2].tanh()
        c, d = t[4].sigmoid() * t[5].tanh(), t[6].sigmoid() * t[7].relu()
        state = ((b.sigmoid() + c.tanh()).tanh() * (a.tanh() * d.tanh()).tanh()).tanh()
    return program_of([state], tuple(f"x{step}" for step in range(steps)))


def inception_v3() -> Program:
    """Szegedy et al., 2015, at 299 × 299, without the auxiliary head."""
    net = Net()
    x = tensor.input("x", (1, 3, 299, 299))

    def conv(x: T, channels: int, kernel: int | tuple[int, int], stride: int = 1, *, same: bool = True) -> T:
        return net.conv(x, channels, kernel, stride, bias=True, same=same)

    def chain(x: T, channels: int, *kernels: tuple[int, int]) -> T:
        for kernel in kernels:
            x = conv(x, channels, kernel)
        return x

    def join(*parts: T) -> T:
        return tensor.concatenate(parts, 1)

    y = conv(conv(conv(x, 32, 3, 2, same=False), 32, 3, same=False), 64, 3)
    y = conv(conv(_max_pool(y, 3, 2, same=False), 80, 1), 192, 3, same=False)
    y = _max_pool(y, 3, 2, same=False)
    for pooled in (32, 64, 64):
        double = conv(conv(conv(y, 64, 1), 96, 3), 96, 3)
        y = join(conv(y, 64, 1), conv(conv(y, 48, 1), 64, 5), double, conv(_avg_pool(y, 3, 1), pooled, 1))
    double = conv(conv(conv(y, 64, 1), 96, 3), 96, 3, 2, same=False)
    y = join(conv(y, 384, 3, 2, same=False), double, _max_pool(y, 3, 2, same=False))
    for width in (128, 160, 160, 192):
        seven = conv(chain(conv(y, width, 1), width, (1, 7)), 192, (7, 1))
        twice = conv(chain(conv(y, width, 1), width, (7, 1), (1, 7), (7, 1)), 192, (1, 7))
        y = join(conv(y, 192, 1), seven, twice, conv(_avg_pool(y, 3, 1), 192, 1))
    seven = chain(conv(y, 192, 1), 192, (1, 7), (7, 1))
    y = join(
        conv(conv(y, 192, 1), 320, 3, 2, same=False),
        conv(seven, 192, 3, 2, same=False),
        _max_pool(y, 3, 2, same=False),
    )
    for _ in range(2):
        three, double = conv(y, 384, 1), conv(conv(y, 448, 1), 384, 3)
        split = [conv(branch, 384, kernel) for branch in (three, double) for kernel in ((1, 3), (3, 1))]
        y = join(conv(y, 320, 1), *split, conv(_avg_pool(y, 3, 1), 192, 1))
    return program_of([net.linear(y.mean((2, 3)), 1000)], ("x",))


def squeezenet() -> Program:
    """SqueezeNet 1.0 (Iandola et al., 2016) at 224 × 224."""
    net = Net()
    x = tensor.input("x", (1, 3, 224, 224))
    y = _max_pool(net.conv(x, 96, 7, 2, bias=True, same=False), 3, 2, same=False)
    for number, (squeezed, expanded) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)), start=2
    ):
        thin = net.conv(y, squeezed, 1, bias=True)
        y = tensor.concatenate([net.conv(thin, expanded, kernel, bias=True) for kernel in (1, 3)], 1)
        if number in (4, 8):
            y = _max_pool(y, 3, 2, same=False)
    return program_of([net.conv(y, 1000, 1, bias=True).mean((2, 3))], ("x",))


def vgg19() -> Program:
    """Simonyan and Zisserman, 2014, at 224 × 224."""
    net = Net()
    y = tensor.input("x", (1, 3, 224, 224))
    for channels, convolutions in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(convolutions):
            y = net.conv(y, channels, 3, bias=True)
        y = _max_pool(y, 2, 2)
    y = y.reshape(1, -1)
    for features in (4096, 4096):
        y = (net.linear(y, features) + net.weight(features)).relu()
    return program_of([net.linear(y, 1000) + net.weight(1000)], ("x",))


@dataclass(frozen=True)
class Entry:
    """One row of Tensat's table: its search in seconds and its gain in percent, on a GPU."""

    build: Callable[[], Program]
    search_s: float
    gain_percent: float


TABLE: dict[str, Entry] = {
    "BERT": Entry(bert, 1.4, 9.2),
    "ResNeXt-50": Entry(resnext50, 0.7, 8.8),
    "NasNet-A": Entry(nasnet_a, 10.6, 7.3),
    "NasRNN": Entry(nasrnn, 0.5, 68.9),
    "Inception-v3": Entry(inception_v3, 5.1, 10.0),
    "SqueezeNet": Entry(squeezenet, 0.3, 24.5),
    "VGG-19": Entry(vgg19, 0.4, 8.9),
}
