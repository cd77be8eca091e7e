"""A lazy tensor of complex numbers: two lazy tensors, the real and the imaginary parts.

    (a + b i) (c + d i)   real: a c - b d   imag: a d + b c

Kernels know real numbers alone. Where complex numbers lie in memory, their parts are neighbours: the tensor of fp32
[M, N, 2] is the complex tensor [M, N].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eqsat.frontends import angles, elementary
from eqsat.tensor import Tensor, constant, iota, where
from ir.dtype import DType


@dataclass(frozen=True)
class ComplexTensor:
    """Both parts have one dtype, which is a float, and one shape."""

    real: Tensor
    imag: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self.real.shape

    @property
    def ndim(self) -> int:
        return self.real.ndim

    @property
    def dtype(self) -> DType:
        """The dtype of both parts."""
        return self.real.dtype

    @property
    def type(self) -> str:
        """The type as a text for messages, such as `complex fp32[2, 3]`."""
        return f"complex {self.real.type}"

    def map(self, function: Callable[[Tensor], Tensor]) -> ComplexTensor:
        """The function of each part."""
        return ComplexTensor(function(self.real), function(self.imag))

    def cast(self, to: DType) -> ComplexTensor:
        return self.map(lambda part: part.cast(to))

    def permute(self, *axes: int) -> ComplexTensor:
        return self.map(lambda part: part.permute(*axes))

    def conjugate(self) -> ComplexTensor:
        return ComplexTensor(self.real, -self.imag)

    def __neg__(self) -> ComplexTensor:
        return self.map(lambda part: -part)

    def __add__(self, other: ComplexTensor) -> ComplexTensor:
        return ComplexTensor(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: ComplexTensor) -> ComplexTensor:
        return ComplexTensor(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: ComplexTensor) -> ComplexTensor:
        real = self.real * other.real - self.imag * other.imag
        return ComplexTensor(real, self.real * other.imag + self.imag * other.real)

    def __truediv__(self, other: ComplexTensor) -> ComplexTensor:
        """The quotient by the larger part of the divisor, so that no square overflows or vanishes (Smith, "Algorithm
        116: Complex division", 1962). A divisor of 0 divides each part."""
        is_wide = abs(other.real) >= abs(other.imag)
        large, small = where(is_wide, other.real, other.imag), where(is_wide, other.imag, other.real)
        first, second = where(is_wide, self.real, self.imag), where(is_wide, self.imag, self.real)
        ratio = small / large
        scale = 1 / (large + small * ratio)
        real, imag = (first + second * ratio) * scale, (second - first * ratio) * scale
        is_zero, by_zero = large == 0, self.map(lambda part: part / abs(large))
        signed = where(is_wide, imag, -imag)
        return ComplexTensor(where(is_zero, by_zero.real, real), where(is_zero, by_zero.imag, signed))

    def __abs__(self) -> Tensor:
        return elementary.hypot(self.real, self.imag)

    def angle(self) -> Tensor:
        return angles.atan2(self.imag, self.real)

    def exp(self) -> ComplexTensor:
        """exp(a + b i) = exp(a) (cos b + i sin b); 0 where exp(a) is 0, and real where b is 0, also of infinite a."""
        size = self.real.exp()
        turned = from_polar(size, self.imag).map(lambda part: where(size == 0, 0.0, part))
        return ComplexTensor(turned.real, where(self.imag == 0, self.imag, turned.imag))

    def log(self) -> ComplexTensor:
        return ComplexTensor(abs(self).log(), self.angle())

    def sign(self) -> ComplexTensor:
        """The number of size 1 with the same angle; 0 for 0."""
        size = abs(self)
        return self.map(lambda part: where(size == 0, 0.0, part / size))

    def power(self, exponent: int) -> ComplexTensor:
        """The power by repeated squares; the exponent is at least 1."""
        result, square = None, self
        while exponent:
            if exponent & 1:
                result = square if result is None else result * square
            square, exponent = square * square, exponent >> 1
        assert result is not None
        return result

    def interleaved(self) -> Tensor:
        """The real tensor with a last axis of the two parts."""
        shape = (*self.shape, 2)
        real, imag = (part.unsqueeze(-1).expand(shape) for part in (self.real, self.imag))
        return where(iota((2,), 0) < 1, real, imag)


def from_interleaved(parts: Tensor) -> ComplexTensor:
    """The complex tensor of a real one whose last axis has the two parts."""
    return ComplexTensor(parts[..., 0], parts[..., 1])


def as_floats(value: Any) -> Any:
    """A complex tensor as the real one with a last axis of two parts; any other value as it is."""
    return value.interleaved() if isinstance(value, ComplexTensor) else value


def from_real(x: Tensor) -> ComplexTensor:
    return ComplexTensor(x, constant(0, x.dtype).expand(x.shape))


def from_polar(size: Tensor, angle: Tensor) -> ComplexTensor:
    return ComplexTensor(size * angle.cos(), size * angle.sin())
