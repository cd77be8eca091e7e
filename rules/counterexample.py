"""Counterexamples: the smallest instance found on which the two sides of an unsound rule differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ir.diagnostics import Kind, fail
from ir.dtype import dtype
from ir.term.language import Term, subterms
from ir.term.rule import Rule
from rules.instances import Instance

Array = NDArray[Any]

_RIVALS = 200
"""The number of further applications that are searched for a smaller counterexample."""
_VALUES = 64
"""The most elements of the inputs that are simplified one by one."""


@dataclass(frozen=True)
class Difference:
    """A difference between the sides: the right side, `how` it differs, and both values where they could be computed.

    inputs: the arrays on which the sides differ, where they are not the arrays of the instance.
    """

    rhs: Term
    how: str
    left: Array | None = None
    right: Array | None = None
    inputs: Mapping[str, Array] | None = None


Failure = tuple[Instance, Difference]
Differs = Callable[[Rule, Instance, Term], Difference | None]


def smallest(
    rule: Rule, first: Failure, rivals: Iterable[tuple[Instance, Difference | None]], differs: Differs
) -> Failure:
    """The smallest counterexample among the first and its rivals, its inputs simplified to zeros and ones."""
    failing = ((instance, rival) for instance, rival in islice(rivals, _RIVALS) if rival is not None)
    instance, difference = min((first, *failing), key=lambda candidate: _measure(*candidate))
    if difference.inputs is not None or difference.left is None or _element_count(instance) > _VALUES:
        return instance, difference
    for array, at in _elements(instance):
        kept = array[at]
        for simple in (0, 1):
            if kept == simple:
                break
            array[at] = simple
            if (again := differs(rule, instance, difference.rhs)) is not None and again.inputs is None:
                difference = again
                break
            array[at] = kept
    return instance, difference


def _elements(instance: Instance) -> Iterator[tuple[Array, tuple[int, ...]]]:
    for array in instance.inputs.values():
        for at in np.ndindex(array.shape):
            yield array, at


def _element_count(instance: Instance) -> int:
    return sum(array.size for array in instance.inputs.values())


def _measure(instance: Instance, difference: Difference) -> tuple[int, int, int]:
    size = sum(1 for side in (instance.term, difference.rhs) for _ in subterms(side))
    return size + _element_count(instance), size, len(str(difference.rhs))


def refuse(rule: Rule, instance: Instance, difference: Difference) -> NoReturn:
    """Raises EqsatError, UnsoundRule, with both sides, their shapes and values, and the inputs."""
    left, right = difference.left, difference.right
    sides = {} if left is None or right is None else _sides(left, right)
    fail(
        Kind.UNSOUND_RULE,
        "rules",
        f"the two sides differ, {difference.how}" if sides else difference.how,
        at=rule.name,
        hint="a condition in `when`, or another level of exactness",
        equation=rule.equation,
        lhs=str(instance.term),
        rhs=str(difference.rhs),
        **sides,
        inputs={name: _show(array) for name, array in (difference.inputs or instance.inputs).items()},
    )


def _sides(left: Array, right: Array) -> dict[str, str]:
    differing = [at for at in np.ndindex(left.shape) if left.shape == right.shape and not _same(left[at], right[at])]
    where = {"differs_at": str(list(differing[0]))} if differing else {}
    return {"left": _show(left), "right": _show(right), **where}


def _same(a: Any, b: Any) -> bool:
    return str(a) == str(b)


def _show(array: Array) -> str:
    """`fp32[2,3] [[…]]`: dtype, shape and values; fractions have no dtype."""
    head = "exact" if array.dtype == object else dtype(array.dtype).name
    values = np.array2string(array, threshold=64, separator=", ", formatter={"object": str}).replace("\n", "")
    return f"{head}{list(array.shape)} {values}"
