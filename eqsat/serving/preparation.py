"""`Program.prepare`: sizes that are built ahead of calls, and the handle by which the caller awaits the builds."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as WaitedLongEnough

import msgspec

from eqsat.failure.internal_error import callers_code
from eqsat.runtime.compiled import Compiled
from eqsat.serving.buckets import Buckets, buckets_of, check_symbols
from eqsat.serving.variants import Build, Variants, key_of
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.grammar import with_count

STAGE = "prepare"
MOST_SIZES = 10_000
"""Combinations of sizes that one call of `prepare` takes."""
Told = Callable[[str], None]


def combinations(
    given: Mapping[str, object], buckets: Mapping[str, Buckets], free: Sequence[str]
) -> list[dict[str, int]]:
    """Every combination of these sizes by symbol; a symbol that is not given has its buckets.

    Raises:
        EqsatError: InvalidOption for a name that is no free dim, for a symbol without sizes, or for a value that is
            no size.
    """
    check_symbols(given, free, "prepare()")
    missing = [symbol for symbol in free if symbol not in given and symbol not in buckets]
    if missing:
        names = ", ".join(missing)
        hint = f"prepare({missing[0]}=[1, 8]), or dims={{{missing[0]!r}: Buckets(1, 8)}} when compiling"
        fail(Kind.INVALID_OPTION, STAGE, f"no sizes are given for {names}", hint=hint, missing=missing)
    sizes = [buckets_of(given[symbol]) if symbol in given else buckets[symbol] for symbol in free]
    count = math.prod(map(len, sizes))
    if count > MOST_SIZES:
        message = f"{count} combinations of sizes are more than {MOST_SIZES}"
        fail(Kind.RESOURCE_EXCEEDED, STAGE, message, hint="prepare fewer sizes of each dim")
    return [dict(zip(free, combination, strict=True)) for combination in itertools.product(*sizes)]


class Preparation:
    """Builds that `Program.prepare` has begun. `wait()` returns when all are ready; `print` shows how far they are."""

    def __init__(self, variants: Variants[Compiled], sizes: Sequence[Mapping[str, int]], shown: Sequence[str]) -> None:
        self._variants, self._shown = variants, tuple(shown)
        self._builds = [variants.start(size, keep=True) for size in sizes]

    def __len__(self) -> int:
        return len(self._builds)

    def __repr__(self) -> str:
        failed = f", {with_count(len(self.errors), 'error')}" if self.errors else ""
        return f"Preparation({len(self.ready)} of {with_count(len(self), 'size')} ready{failed})"

    @property
    def sizes(self) -> list[dict[str, int]]:
        """All sizes, in the order of their builds."""
        return [self._sizes_of(build) for build in self._builds]

    @property
    def ready(self) -> list[dict[str, int]]:
        """The sizes that are built."""
        return [self._sizes_of(build) for build in self._builds if _is_ready(build)]

    @property
    def errors(self) -> list[tuple[dict[str, int], BaseException]]:
        """The sizes whose build failed, and why."""
        return [
            (self._sizes_of(build), error)
            for build in self._builds
            if build.result.done() and not build.result.cancelled() and (error := build.result.exception()) is not None
        ]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to build."""
        return all(build.result.done() for build in self._builds)

    def wait(self, timeout: float | None = None, progress: Told | None = None) -> Preparation:
        """Returns when no build is left, or after `timeout` seconds. progress: called with a line for each size that is
        ready.

        Raises:
            EqsatError: the diagnostics of all sizes that failed, each with its sizes.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for number, build in enumerate(self._builds, 1):
            try:
                build.result.exception(None if end is None else max(0.0, end - time.monotonic()))
            except WaitedLongEnough:
                return self
            except CancelledError:
                continue
            if progress is not None:
                how = "ready" if _is_ready(build) else "failed"
                with callers_code():
                    progress(f"{self._text_of(build)} {how}, {number} of {len(self)}")
        if self.errors:
            raise EqsatError(self._diagnostics())
        return self

    def cancel(self) -> None:
        """Gives up the sizes whose build has not begun. Builds under way are finished."""
        for build in self._builds:
            self._variants.cancel(build)

    def _diagnostics(self) -> Iterator[Diagnostic]:
        for sizes, error in self.errors:
            if not isinstance(error, EqsatError):
                raise error
            for one in error.diagnostics:
                yield msgspec.structs.replace(one, details={"sizes": sizes, **one.details})

    def _sizes_of(self, build: Build[Compiled]) -> dict[str, int]:
        return {symbol: size for symbol, size in key_of(build.dims) if symbol in self._shown}

    def _text_of(self, build: Build[Compiled]) -> str:
        return ", ".join(f"{symbol}={size}" for symbol, size in self._sizes_of(build).items())


def _is_ready(build: Build[Compiled]) -> bool:
    result = build.result
    return result.done() and not result.cancelled() and result.exception() is None
