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
"""Variants that a program keeps; beyond that, the least recently used variant is dropped."""


def key_of(dims: Mapping[str, int]) -> Key:
    """Sizes by symbol, as the key of a variant."""
    return tuple(sorted(dims.items()))


class Variants:
    """Compiled code by sizes, safe to use from many threads.

    Args:
        specialise: compiles the variant for the given sizes.
        known: variants that exist already, the least recently used first.
    """

    def __init__(self, specialise: Specialise, known: Mapping[Key, Compiled]) -> None:
        self._specialise = specialise
        self._held: OrderedDict[Key, Compiled] = OrderedDict(known)
        self._renew_locks()
        _ALIVE.add(self)

    def __call__(self, dims: Mapping[str, int]) -> Compiled:
        """The code for these sizes, compiled at their first use. One variant compiles at a time; calls with sizes that
        are compiled already do not wait for it."""
        key = key_of(dims)
        compiled = self._use(key)
        if compiled is None:
            with self._compiling:
                compiled = self._use(key)
                if compiled is None:
                    compiled = self._specialise(dims)
                    self._hold(key, compiled)
        return compiled

    @property
    def held(self) -> dict[Key, Compiled]:
        """All variants, the most recently used last."""
        with self._using:
            return dict(self._held)

    @property
    def latest(self) -> Compiled | None:
        """The variant of the latest call; None before the first one."""
        with self._using:
            return next(reversed(self._held.values()), None)

    def _renew_locks(self) -> None:
        self._using, self._compiling = threading.Lock(), threading.Lock()

    def _use(self, key: Key) -> Compiled | None:
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
    """New locks in a forked child, because other threads of the parent, which the child lacks, may have held them."""
    for variants in list(_ALIVE):
        variants._renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
