"""`updates=`: results that are written into arguments, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from eqsat.model import BoundModel, Model
from eqsat.options import STAGE, Options
from ir.diagnostics import Kind, fail
from ir.target import Target


class Update(NamedTuple):
    """The output at this place of the module's outputs updates the input `argument`."""

    output: int
    argument: str


def check_target_of_updates(options: Options, target: Target) -> None:
    """Raises EqsatError, InvalidOption, for a program of a GPU, whose results are arrays of their own."""
    if options.updates and target.is_gpu:
        message = f"updates= is for programs of a CPU, and this one is for {target.name}"
        fail(Kind.INVALID_OPTION, STAGE, message, hint="copy the results into the arguments after the call")


def check_arguments_of_updates(model: Model) -> None:
    """Raises EqsatError, InvalidOption, for a name that is no argument of the model."""
    for result, argument in model.updates.items():
        if argument not in model.arguments:
            message = f"updates= has no argument {argument!r} for the result {result!r}"
            fail(Kind.INVALID_OPTION, STAGE, message, expected=list(model.arguments))


def check_results_of_updates(updates: Mapping[str, str], bound: BoundModel) -> None:
    """Raises EqsatError: InvalidOption for a name that is no result of the model, or of several; AxisSizeMismatch for a
    result of another dtype or shape than its argument."""
    names = [name for name, _ in bound.outputs]
    for result, argument in updates.items():
        if names.count(result) != 1:
            message = f"updates= has {result!r}, which names {'several results' if result in names else 'no result'}"
            fail(Kind.INVALID_OPTION, STAGE, message, expected=names)
        after, before = dict(bound.outputs)[result], bound.signature[argument]
        if (after.shape, after.dtype) != (before.shape, before.dtype):
            message = f"the result {result} is {after}, and the argument {argument}, which it updates, is {before}"
            fail(Kind.AXIS_SIZE_MISMATCH, STAGE, message, at=result, hint="an update changes no shape and no dtype")


def updates_of(options: Options, bound: BoundModel) -> list[Update]:
    """The updates by place of the result."""
    places = {name: place for place, (name, _) in enumerate(bound.outputs)}
    return [Update(places[result], argument) for result, argument in options.updates]
