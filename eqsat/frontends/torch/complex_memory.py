"""Complex torch tensors ↔ the float arrays that programs take and give, with a last axis of the two parts."""

from __future__ import annotations

from typing import Any


def in_floats(tensor: Any) -> Any:
    """A complex tensor as floats: a view, but of a lazy conjugate a copy. Any other tensor as it is."""
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def complex_of(parts: Any) -> Any:
    """Floats with a last axis of two parts as complex numbers: a view."""
    import torch

    return torch.view_as_complex(parts if parts.numel() else parts.new_empty(parts.shape))  # for torch's strides
