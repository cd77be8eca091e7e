"""The compiled variants of one program: one per binding of its free sizes."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping

from eqsat.runtime.compiled import Compiled

Specialise = Callable[[Mapping[str, int]], Compiled]
Key = tuple[tuple[str, int], ...]

MOST_VARIANTS = 64
"""Variants that a program holds; beyond that, the one that was used least recently is forgotten."""


def key_of(dims: Mapping[str, int]) -> Key:
    """Sizes by symbol, as the key of a variant."""
    return tuple(sorted(dims.items()))


class Variants:
    """Compiled code by sizes, for many threads at once.

    Args:
        specialise: compiles the variant of these sizes.
        known: variants that exist already, the least recently used first.
    """

    def __init__(self, specialise: Specialise, known: Mapping[Key, Compiled]) -> None:
        self._specialise = specialise
        self._held: OrderedDict[Key, Compiled] = OrderedDict(known)
        self._renew_locks()
        _ALIVE.add(self)

    def __call__(self, dims: Mapping[str, int]) -> Compiled:
        """The code for these sizes, compiled when they are first asked for; calls for other sizes that are not held
        wait meanwhile, those for sizes that are held do not."""
        key = key_of(dims)
        found = self._used(key)
        if found is None:
            with self._compiling:
                found = self._used(key)
                if found is None:
                    found = self._specialise(dims)
                    self._hold(key, found)
        return found

    @property
    def held(self) -> dict[Key, Compiled]:
        """All variants, the most recently used last."""
        with self._using:
            return dict(self._held)

    @property
    def latest(self) -> Compiled | None:
        """The variant of the latest call; None where there is none yet."""
        with self._using:
            return next(reversed(self._held.values()), None)

    def _renew_locks(self) -> None:
        self._using, self._compiling = threading.Lock(), threading.Lock()

    def _used(self, key: Key) -> Compiled | None:
        with self._using:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def _hold(self, key: Key, compiled: Compiled) -> None:
        with self._using:
            self._held[key] = compiled
            while len(self._held) > MOST_VARIANTS:
                self._held.popitem(last=False)


_ALIVE: weakref.WeakSet[Variants] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child has none of its parent's other threads, which may have held locks."""
    for each in list(_ALIVE):
        each._renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
