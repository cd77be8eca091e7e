"""The choices of a call whose code is not built yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from eqsat.serving.buckets import Buckets, check_symbols
from ir.diagnostics import Kind, fail

STAGE = "options"
WAIT, PAD, EAGER, ADAPT = "wait", "pad", "eager", "adapt"
WORDS = (WAIT, PAD, EAGER, ADAPT)
WhenMissing: TypeAlias = "str | Mapping[str, str]"
"""The type of `when_missing=`: one word for all free dims, or a word by symbol; a symbol without a word waits."""


_POWERS = Buckets(*(2**k for k in range(48)))
"""The buckets of dims that adapt."""


class Serving(NamedTuple):
    """buckets: of the free dims that have some. pads: the dims that may be padded. adapts: those of them whose sizes
    are padded where they are no longer few. is_eager: a call may be answered by NumPy while its code is built. builds:
    code for other sizes can be built; that of a saved program cannot."""

    buckets: Mapping[str, Buckets] = {}
    pads: frozenset[str] = frozenset()
    adapts: frozenset[str] = frozenset()
    is_eager: bool = False
    builds: bool = True

    def bucket_of(self, symbol: str, size: int) -> int:
        """The size of the code that answers a size: that of its bucket, where the dim may be padded and has one."""
        buckets = self._buckets_of(symbol)
        return size if buckets is None else buckets.above(size)

    def masked(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """The padded dims whose sizes here are those of a bucket that holds smaller sizes. Of a dim that adapts, every
        size may be a bucket."""
        held = {name: self._buckets_of(name) or () for name in self.pads if sizes.get(name, 0) > 1}
        return tuple(sorted(name for name, buckets in held.items() if sizes[name] in buckets or name in self.adapts))

    def _buckets_of(self, symbol: str) -> Buckets | None:
        """The buckets of a dim that may be padded; of a dim that adapts, powers of two unless it has others."""
        usual = _POWERS if symbol in self.adapts else None
        return self.buckets.get(symbol, usual) if symbol in self.pads else None

    @property
    def stands_in(self) -> bool:
        """Whether anything but the code for its own sizes may answer a call."""
        return bool(self.pads) or self.is_eager


EXACT = Serving()
"""Every call waits for the code for its own sizes."""


def check_when_missing(wanted: object) -> None:
    """Raises EqsatError, InvalidOption, unless `wanted` is a word or a mapping to words."""
    words = wanted.values() if isinstance(wanted, Mapping) else [wanted]
    for word in words:
        if not isinstance(word, str) or word not in WORDS:
            fail(Kind.INVALID_OPTION, STAGE, f"when_missing= cannot be {word!r}", hint=", ".join(WORDS))


def serving(buckets: Mapping[str, Buckets], wanted: WhenMissing, free: Sequence[str]) -> Serving:
    """The choice for a program with these free dims.

    Raises:
        EqsatError: InvalidOption for a name that is no free dim.
    """
    check_symbols(buckets, free, "dims=")
    words = wanted if isinstance(wanted, Mapping) else dict.fromkeys(free, wanted)
    check_symbols(words, free, "when_missing=")
    pads = frozenset(symbol for symbol in free if words.get(symbol) in (PAD, ADAPT))
    adapts = frozenset(symbol for symbol in free if words.get(symbol) == ADAPT)
    return Serving(dict(buckets), pads, adapts, EAGER in words.values())
