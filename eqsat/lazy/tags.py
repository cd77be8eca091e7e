"""Tags of lazy tensors: names of a model's parts, by which reports say what a kernel computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from eqsat.lazy.argument_checks import STAGE
from ir.diagnostics import Kind, fail
from ir.grammar import with_article
from ir.uop.args import is_text

_CURRENT: ContextVar[str | None] = ContextVar("tag", default=None)


def current_tag() -> str | None:
    """The tag of the tensors that are made now."""
    return _CURRENT.get()


@contextmanager
def tagged(name: str) -> Iterator[None]:
    """Uops that are made within have this tag. Tags nest: within `tagged("encoder")`, `tagged("0")` is `encoder.0`.

    Raises:
        EqsatError: InvalidOption for a name that is no string, or an empty one.
    """
    if not is_text(name) or not name:
        given = "an empty string" if name == "" else with_article(type(name).__name__)
        fail(Kind.INVALID_OPTION, STAGE, f"a tag is the name of a part of the program, not {given}")
    outer = _CURRENT.get()
    token = _CURRENT.set(name if outer is None else f"{outer}.{name}")
    try:
        yield
    finally:
        _CURRENT.reset(token)
