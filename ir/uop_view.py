"""VIEW: the general affine remap, whose expressions `ir.axis_map` parses and evaluates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir.dtype import TensorType
from ir.uop_numpy import Array
from ir.uop_types import Types


def view(src: Types, arg: Mapping[str, Any]) -> TensorType:
    raise NotImplementedError


def view_array(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    raise NotImplementedError
