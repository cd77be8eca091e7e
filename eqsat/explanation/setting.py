"""The input of an explanation or exploration: a model, and how it is optimized."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.looping.parts import Part
from eqsat.model import BoundModel, zero_constants
from eqsat.options import Options
from ir.target import Target


@dataclass(frozen=True)
class Setting:
    """A model at its sizes, the machine, and the options. prefix: of the names of buffers that no uop writes.
    part_given: of a part of a model, the inputs that the model itself is given; None where the model is whole."""

    bound: BoundModel
    target: Target
    options: Options
    prefix: str = ""
    part_given: tuple[str, ...] | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The inputs that no kernel writes."""
        return tuple(self.bound.graph.inputs) if self.part_given is None else self.part_given

    def of_part(self, part: Part) -> Setting:
        """One part of the model as a model of its own. What other parts compute of constants is 0 there."""
        known = self.bound.constants
        given = {name: known[name] for name in part.constants if name in known}
        constants = zero_constants(part.graph, part.constants) | given
        return Setting(BoundModel(part.graph, constants), self.target, self.options, part.prefix, part.given)
