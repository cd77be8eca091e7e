"""Random programs in the style of people: a few idioms over shared values, determined by seed and index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsat.model import BoundModel, read_model
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.tiny.graph import Graph
from tests.support.fuzz.idioms.choices import CHOICES
from tests.support.fuzz.idioms.movements import MOVEMENTS
from tests.support.fuzz.idioms.norms import NORMS
from tests.support.fuzz.idioms.pool import Idiom, Pool
from tests.support.fuzz.idioms.products import PRODUCTS
from tests.support.fuzz.idioms.random_numbers import RANDOM_NUMBERS

FAMILIES: tuple[tuple[Idiom, ...], ...] = (MOVEMENTS, PRODUCTS, NORMS, CHOICES, RANDOM_NUMBERS)
MAX_IDIOMS = 5
MAX_OUTPUTS = 4
MAX_UOPS = 99
LARGEST, LARGEST_EMULATED = 150_000, 8_000
"""Elements of one value; a program may hold six times as many in all."""

WRITTEN_WRONG = (Kind.MALFORMED_GRAPH, Kind.AXIS_SIZE_MISMATCH, Kind.BROADCAST_MISMATCH, Kind.DTYPE_MISMATCH)
"""Why an idiom may not suit the values that it got."""


@dataclass(frozen=True)
class Written:
    """A program with its constants, and the idioms that made it."""

    model: BoundModel
    idioms: tuple[str, ...]

    @property
    def graph(self) -> Graph:
        return self.model.graph


def written(seed: int, index: int, emulated: bool = False) -> Written:
    """The program of a try: one to five idioms, one to four outputs, values small enough to run in a test."""
    rng = np.random.default_rng((seed, index, 77))
    largest = LARGEST_EMULATED if emulated else LARGEST
    scale = 0 if emulated else int(rng.choice(3, p=(0.4, 0.3, 0.3)))
    while True:
        result = _attempt(Pool(rng, scale, largest), largest)
        if result is not None:
            return result
        scale = max(0, scale - 1)


def _attempt(pool: Pool, largest: int) -> Written | None:
    """A program; None where it is empty or too large."""
    names = []
    for _ in range(pool.integer(1, MAX_IDIOMS)):
        idiom = pool.pick(pool.pick(FAMILIES))
        try:
            idiom(pool)
        except EqsatError as error:
            if error.kind not in WRITTEN_WRONG:
                raise
        else:
            names.append(idiom.__name__)
    outputs = _outputs(pool)
    if not outputs:
        return None
    model = read_model(outputs)
    bound = model.bind(model.infer({}), False)
    sizes = [type_.size for type_ in bound.graph.types.values()]
    if len(sizes) > MAX_UOPS or max(sizes) > largest or sum(sizes) > 6 * largest:
        return None
    return Written(bound, tuple(names))


def _outputs(pool: Pool) -> list[Tensor]:
    """The values that nothing reads, and now and then one that is read."""
    read = {id(tensor) for value in pool.values for tensor in _beneath(value)}
    computed = [value for value in pool.values if value.uop != "INPUT"]
    last = [value for value in computed if id(value) not in read][-MAX_OUTPUTS:]
    inner = [value for value in computed if id(value) in read]
    if inner and len(last) < MAX_OUTPUTS and pool.chance(0.3):
        last.append(pool.pick(inner))
    return last


def _beneath(value: Tensor) -> list[Tensor]:
    """All that a tensor is computed from."""
    results: dict[int, Tensor] = {}
    waiting = [operand for operand in value.src if isinstance(operand, Tensor)]
    while waiting:
        tensor = waiting.pop()
        if id(tensor) not in results:
            results[id(tensor)] = tensor
            waiting += [below for below in tensor.src if isinstance(below, Tensor)]
    return list(results.values())
