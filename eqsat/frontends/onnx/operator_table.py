"""The table of ONNX operators: domain, name, the first opset of a version, and a function that lowers the version.

Positional parameters of the function are the operator's inputs; those with a default may be left out. Keywords are its
attributes, under ONNX's names; annotations say their types. A keyword `attributes` receives all attributes as one
struct, a keyword `results` the number of outputs. The function returns a lazy tensor, or one per output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Lowering = Callable[..., Any]
L = TypeVar("L", bound=Lowering)

_DEFAULT_DOMAINS = ("", "ai.onnx")


class Operator(NamedTuple):
    """One version of an operator: from opset `since` until the next version in the table."""

    domain: str
    name: str
    since: int
    lowering: Lowering

    @property
    def id(self) -> str:
        """Its name as an op of Frontend IR: `onnx.Slice-10`; without the opset, if that is 1."""
        return f"{self.domain or 'onnx'}.{self.name}" + (f"-{self.since}" if self.since > 1 else "")


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
"""The versions of each operator by domain and name, oldest first."""
LOWERINGS: dict[str, Lowering] = {}
"""The function of each version by its id."""


def operator(*names: str, since: int = 1, domain: str = "") -> Callable[[L], L]:
    """Registers a function as the lowering of these operators from opset `since` on."""

    def register(lowering: L) -> L:
        for name in names:
            version = Operator(domain, name, since, lowering)
            versions = OPERATORS.setdefault((domain, name), [])
            versions.append(version)
            versions.sort(key=lambda version: version.since)
            LOWERINGS[version.id] = lowering
        return lowering

    return register


def find_operator(domain: str, name: str, opset: int) -> Operator | None:
    """The version of an operator that holds at this opset of its domain; None if the table has none."""
    versions = OPERATORS.get((plain_domain(domain), name), ())
    return next((version for version in reversed(versions) if version.since <= opset), None)


def plain_domain(domain: str) -> str:
    """The domain; "" for ONNX's own, which has two names."""
    return "" if domain in _DEFAULT_DOMAINS else domain


def supported_operators() -> list[str]:
    """The names of all operators in the table, those of other domains with their domain."""
    return sorted(f"{domain}.{name}" if domain else name for domain, name in OPERATORS)
