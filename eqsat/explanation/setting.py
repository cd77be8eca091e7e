"""The input of an explanation or exploration: a model, and how it is optimized."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsat.looping.parts import Part
from eqsat.model import BoundModel
from eqsat.options import Options
from ir.target import Target


@dataclass(frozen=True)
class Setting:
    """A model at its sizes, the machine, and the options."""

    bound: BoundModel
    target: Target
    options: Options

    def of_part(self, part: Part) -> Setting:
        """One part of the model as a model of its own. What other parts compute of constants is 0 there."""
        graph, known = part.graph, self.bound.constants
        types = {name: graph.types[graph.inputs[name].id] for name in part.constants}
        constants = {
            name: known[name] if name in known else np.broadcast_to(np.zeros((), type_.dtype.numpy), type_.shape)
            for name, type_ in types.items()
        }
        return Setting(BoundModel(graph, constants), self.target, self.options)
