"""Values that are built once per set of sizes, such as the compiled variants of one program."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from eqsat.runtime.compiled import Compiled
from eqsat.serving.background import in_background

Specialise = Callable[[Mapping[str, int]], Compiled]
Key = tuple[tuple[str, int], ...]
T = TypeVar("T")

MOST_VARIANTS = 64
"""Variants that a program keeps beside the prepared ones; beyond that, the least recently used variant is dropped."""


def key_of(dims: Mapping[str, int]) -> Key:
    """Sizes by symbol, as the key of a variant."""
    return tuple(sorted(dims.items()))


class Build(Generic[T]):
    """A variant that is being built, or waits for a thread that builds it.

    result: the variant, or the error. has_begun: a thread builds. was_left: the thread was interrupted, and says
    nothing about the sizes. keep: the variant is not dropped by age.
    """

    def __init__(self, dims: Mapping[str, int], keep: bool) -> None:
        self.dims, self.keep = dict(dims), keep
        self.result: Future[T] = Future()
        self.has_begun = self.was_left = False


class Variants(Generic[T]):
    """Compiled code by sizes, or anything else that is built for numbers by name, safe to use from many threads.

    The variants of several sizes are built side by side; one that several calls want is built once. Sizes that are
    ready wait for no build.

    Args:
        specialise: compiles the variant for the given sizes.
        known: variants that exist already, the least recently used first.
    """

    def __init__(self, specialise: Callable[[Mapping[str, int]], T], known: Mapping[Key, T]) -> None:
        self._specialise = specialise
        self._held: OrderedDict[Key, T] = OrderedDict(known)
        self._kept: set[Key] = set()
        self._latest: Key | None = None
        self._failed: set[Key] = set()
        self._begin_anew()
        _ALIVE.add(self)

    def __call__(self, dims: Mapping[str, int]) -> T:
        """The code for these sizes. If there is none, this thread builds it, or waits for the thread that does."""
        key = key_of(dims)
        while True:
            with self._using:
                compiled = self._use(key)
                if compiled is not None:
                    return compiled
                build = self._enter(key, dims, keep=False)
                is_mine = self._claim(build)
            if is_mine:
                self._run(key, build)
            try:
                compiled = build.result.result()
            except BaseException:
                if not is_mine and build.was_left:
                    continue
                raise
            self.ready(key)
            return compiled

    def ready(self, key: Key) -> T | None:
        """The code for these sizes, if it exists; this is a use of it."""
        with self._using:
            return self._use(key)

    def drop(self, key: Key) -> None:
        """Forgets the variant of these sizes, so that the next call builds another one."""
        with self._using:
            self._held.pop(key, None)

    def start(self, dims: Mapping[str, int], keep: bool = False) -> Build[T]:
        """Builds the variant of these sizes in a thread of its own, unless it exists or is being built. keep: the
        variant is not dropped by age."""
        key = key_of(dims)
        with self._using:
            if keep:
                self._kept.add(key)
            if key in self._held:
                build = Build[T](dims, keep)
                build.has_begun = True
                build.result.set_result(self._held[key])
                return build
            if key in self._building:
                return self._building[key]
            build = self._enter(key, dims, keep)
        in_background(lambda: self._run_claimed(key, build))
        return build

    def cancel(self, build: Build[T]) -> bool:
        """Gives up a build that no thread has begun; False if one has."""
        with self._using:
            if build.has_begun:
                return False
            build.has_begun = True
            self._building.pop(key_of(build.dims), None)
        return build.result.cancel()

    def has_failed(self, key: Key) -> bool:
        """Whether the latest build of these sizes failed."""
        return key in self._failed

    @property
    def held(self) -> dict[Key, T]:
        """All variants, that of the latest call last."""
        with self._using:
            return dict(self._held)

    @property
    def latest(self) -> T | None:
        """The variant of the latest call; before the first one, that built last; None if there is none."""
        with self._using:
            return next(reversed(self._held.values()), None)

    def _begin_anew(self) -> None:
        """New locks, and no builds under way."""
        self._using = threading.Lock()
        self._building: dict[Key, Build[T]] = {}

    def _use(self, key: Key) -> T | None:
        compiled = self._held.get(key)
        if compiled is not None and key != self._latest:
            self._held.move_to_end(key)
            self._latest = key
        return compiled

    def _enter(self, key: Key, dims: Mapping[str, int], keep: bool) -> Build[T]:
        """The build of these sizes: the one under way, or a new one."""
        return self._building.setdefault(key, Build[T](dims, keep))

    @staticmethod
    def _claim(build: Build[Any]) -> bool:
        """Whether the build has waited for a thread until now; then it is the caller's."""
        is_mine, build.has_begun = not build.has_begun, True
        return is_mine

    def _run_claimed(self, key: Key, build: Build[T]) -> None:
        """Builds, unless a call that would not wait has taken the build over."""
        with self._using:
            is_mine = self._claim(build)
        if is_mine:
            self._run(key, build)

    def _run(self, key: Key, build: Build[T]) -> None:
        """Builds the variant, and hands it, or the error, to all that wait."""
        try:
            compiled = self._specialise(build.dims)
        except BaseException as error:
            with self._using:
                self._building.pop(key, None)
                self._failed.add(key)
            build.was_left = not isinstance(error, Exception)
            build.result.set_exception(error)
            return
        with self._using:
            self._building.pop(key, None)
            self._failed.discard(key)
            self._hold(key, compiled)
        build.result.set_result(compiled)

    def _hold(self, key: Key, compiled: T) -> None:
        """Adds a variant. That of the latest call stays the last in order."""
        self._held[key] = compiled
        if self._latest is not None and self._latest in self._held:
            self._held.move_to_end(self._latest)
        aging = [key for key in self._held if key not in self._kept]
        for oldest in aging[: max(0, len(aging) - MOST_VARIANTS)]:
            del self._held[oldest]


_ALIVE: weakref.WeakSet[Variants[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    """New locks in a forked child, because other threads of the parent, which the child lacks, may have held them, and
    because nobody goes on with their builds."""
    for variants in list(_ALIVE):
        variants._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
