"""The input of an explanation or exploration: a model, and how it is optimized."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.model import BoundModel
from eqsat.options import Options
from ir.target import Target


@dataclass(frozen=True)
class Setting:
    """A model at its sizes, the machine, and the options."""

    bound: BoundModel
    target: Target
    options: Options
