"""Programs that studies make in other processes, which import this file."""

from __future__ import annotations

import os

from eqsat import nn
from eqsat import tensor as t


def small() -> t.Tensor:
    return nn.softmax(t.input("x", (8, 16)) * 0.5) + 1.0


def broken() -> t.Tensor:
    return t.input("x", (2, 3)) @ t.input("y", (2, 3))


def ending() -> t.Tensor:
    """Ends the process that makes it."""
    os._exit(3)
