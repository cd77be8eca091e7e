"""How large the terms are from which a region computes its outputs.

The rounding error of a sum is relative to the sum of the absolute values of its terms (Higham, "Accuracy and Stability
of Numerical Algorithms", 4.2). The sum itself is far smaller where terms cancel.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from ir.dtype import DTYPES
from ir.region.playback import play_region
from ir.region.region import Definition, Number, Op, Operand, Region
from ir.uop.playback import Array
from tests.support.programs.regions import ewise, same

_ON_ABSOLUTES = {"sum": "sum", "add": "add", "sub": "add", "mul": "mul", "copy": "copy", "neg": "copy"}
"""Functions that keep or add up the errors of their terms, and what is computed from the absolute values instead."""
_KINDS = frozenset(["reduce", "scan", "contraction", "ewise", "unary", "copy"])


def sizes_of_terms(region: Region, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name, in fp64, with absolute values in place of the terms of all sums, differences and products.
    Results of other functions are absolute values of themselves."""
    return {name: np.abs(array) for name, array in play_region(_on_absolutes(region), inputs, wide=True).items()}


def _on_absolutes(region: Region) -> Region:
    """The region with a second definition of each sum, difference and product, of absolute values, which it yields."""
    body: list[Definition] = []
    names: dict[str, str] = {}
    for let in region.body:
        body.append(let)
        if DTYPES[let.op.dtype].is_float and let.op.kind in _KINDS and let.op.fn in _ON_ABSOLUTES:
            name = names[let.name] = f"{let.name} of absolutes"
            terms = [
                _absolute(let.op, term, names, f"{name}, term {place}") for place, term in enumerate(let.op.inputs)
            ]
            body += [definition for term, definitions in terms for definition in definitions]
            op = msgspec.structs.replace(let.op, fn=_ON_ABSOLUTES[let.op.fn], inputs=tuple(term for term, _ in terms))
            body.append(Definition(name, op))
    yields = tuple(msgspec.structs.replace(end, value=names.get(end.value, end.value)) for end in region.yields)
    return msgspec.structs.replace(region, body=tuple(body), yields=yields)


def _absolute(
    op: Op, term: Operand | Number, names: Mapping[str, str], name: str
) -> tuple[Operand | Number, list[Definition]]:
    """The absolute value of a term over the domain of its op, padding included; and how it is computed."""
    if isinstance(term, Number):
        return Number(abs(float(term.number)), op.dtype), []
    read = Operand(names.get(term.value, term.value), term.map)
    widened = ewise(f"{name}, widened", "cast", op.domain, read, dtype=op.dtype)
    absolute = ewise(name, "abs", op.domain, same(widened.name, op.domain), dtype=op.dtype)
    return same(name, op.domain), [widened, absolute]
