"""The arguments of a call, which come by position, by name, or in one mapping."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

from eqsat.runtime.arrays import STAGE
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.grammar import with_count

RESERVED = ("out", "repeats", "seed")
"""Keyword arguments of a program's own methods. An input of the same name must be passed in a mapping."""


class CallArguments:
    """Puts the arguments of calls in order. names: of the inputs, in order. constants: names of inputs whose values the
    program holds."""

    def __init__(self, names: Sequence[str], constants: Collection[str] = ()) -> None:
        self._names, self._constants = names, constants
        self._take = tuple_getter(names)

    def in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any] | None:
        """The arguments in the order of the inputs; None where a call has too many, too few, or others."""
        if len(args) == 1 and not named and args[0].__class__ is dict:
            args, named = [], args[0]
        if len(args or named) != len(self._names) or (args and named):
            return None
        if args:
            return args
        try:
            return self._take(named)
        except KeyError:
            return None

    def by_name(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, those that came by position first.

        Raises:
            EqsatError: InputMismatch for arguments that are missing, unknown, given twice, or too many.
        """
        names = self._names
        if len(args) == 1 and isinstance(args[0], Mapping):
            args, named = [], self._merge(args[0], named)
        if len(args) > len(names):
            fail(
                Kind.INPUT_MISMATCH,
                STAGE,
                f"{with_count(len(args), 'argument')} for {with_count(len(names), 'input')}",
                expected=list(names),
            )
        given = dict(zip(names, args, strict=False))
        twice = sorted(given.keys() & named.keys())
        given |= named
        missing = [name for name in names if name not in given]
        unknown = sorted(given.keys() - set(names))
        self._refuse(missing=missing, unknown=unknown, twice=twice)
        return given

    def _merge(self, mapping: Mapping[Any, Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a call that passes some in a mapping and others by name."""
        self._refuse(
            unknown=[name for name in mapping if not isinstance(name, str)], twice=sorted(mapping.keys() & named.keys())
        )
        return {**mapping, **named}

    def _refuse(self, **wrong: Sequence[Any]) -> None:
        """Fail if one of these lists of names is not empty."""
        errors = {what: list(names) for what, names in wrong.items() if names}
        if not errors:
            return
        reserved = next((name for name in errors.get("missing", ()) if name in RESERVED), None)
        constant = next((name for name in errors.get("unknown", ()) if name in self._constants), None)
        hint = reserved and f"an input named {reserved!r} is given in a mapping: program({{{reserved!r}: …}})"
        if constant is not None:
            hint = f"compile with constants={{{constant!r}: None}}, which makes an argument of this constant"
        raise EqsatError(
            Diagnostic(
                kind=Kind.INPUT_MISMATCH,
                stage=STAGE,
                message="arguments do not match the inputs",
                hint=hint,
                details={**errors, "expected": list(self._names)},
            )
        )


def tuple_getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """A fast function that takes the values of these names from a mapping, in order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])
