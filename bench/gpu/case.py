"""A case of the GPU bench: one computation, written over lazy tensors and in torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ir.dtype import DTYPES

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`inputs` are shapes by name, all of `dtype`, in the order in which both sides take them.

    ours: lazy tensors → the result. theirs: the torch module and its tensors → the result. flops: useful ones of one
    run. nbytes: every input and output once. tolerance: most ‖difference‖ / ‖result‖. small: the same computation at a
    size that the emulator runs in a moment. scales: of the inputs that are not unit normal. causal: whether attention
    is. tf32: both sides may round the operands of products to tf32.
    """

    name: str
    group: str
    dtype: str
    inputs: Mapping[str, Shape]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    flops: float
    result: Shape
    small: Callable[[], Case]
    scales: Mapping[str, float] = field(default_factory=dict)
    causal: bool = False
    tf32: bool = False

    @property
    def exactness(self) -> str:
        """The level that peers keep to. None computes the scores hidden by a causal mask, which may be ∞ or NaN."""
        return "range" if self.causal else "rounding"

    @property
    def flops_of_halves(self) -> float:
        """FLOPs of halves that tensor cores do in the case's time: tf32 has half the rate."""
        return 2 * self.flops if self.tf32 else self.flops

    @property
    def nbytes(self) -> int:
        elements = sum(map(math.prod, (*self.inputs.values(), self.result)))
        return elements * DTYPES[self.dtype].bytes

    @property
    def tolerance(self) -> float:
        """Both sides may round intermediate results."""
        return 2e-3 if self.tf32 else {"fp32": 1e-5, "fp16": 4e-3, "bf16": 2e-2}[self.dtype]

    def lazy(self) -> Any:
        """The program's source."""
        from eqsat import tensor

        return self.ours(*(tensor.input(name, shape, self.dtype) for name, shape in self.inputs.items()))
