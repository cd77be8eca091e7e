"""Answers of programs that adapt: by code for the first sizes, then for buckets, then for sizes that come often."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from eqsat.runtime.compiled import Compiled
from eqsat.serving.padded_calls import Answer, PaddedCalls
from eqsat.serving.padding import Padding
from eqsat.serving.variants import Key, Variants, key_of

OFTEN = 16
"""Sizes get code of their own after so many padded calls."""
MOST_COUNTED = 4096
"""Sizes whose calls are counted; then all are forgotten."""


class Adapting:
    """Chooses the answer to a call. padding, variants: of the program."""

    def __init__(self, padding: Padding, variants: Variants[Compiled]) -> None:
        self._padding, self._variants = padding, variants
        self._calls = PaddedCalls(padding, variants)
        self._before: Mapping[str, int] = {}
        self._counts: Counter[Key] = Counter()
        self._counting = threading.Lock()

    def answer(self, dims: Mapping[str, int]) -> Compiled | Answer:
        """The answer where sizes are padded once they are many. The first sizes of a program have code of their own;
        so have sizes that come often, and sizes that cannot be padded. Others have the code of a bucket."""
        before, self._before = self._before, dict(dims)
        usual = self._calls.in_buckets(dims, empty=True)
        wanted = self._held_bucket(dims) or self._moved_together(dims, before) or usual
        if not self._variants.held or wanted == dims or not self._padding.can_answer(dims, wanted):
            return self._variants(dims)
        held = self._variants.ready(key_of(wanted))
        if self._padding.add_bucket(wanted) and held is not None and not held.bound.lengths:
            self._variants.drop(key_of(wanted))
        answer = self._calls.padded(dims, key_of(wanted), self._variants(wanted))
        if answer is None:
            return self._variants(dims)
        self._count(dims)
        return answer

    def _held_bucket(self, dims: Mapping[str, int]) -> dict[str, int] | None:
        """The sizes of code with masks that is ready and computes a call with at most twice its sizes."""
        for key, compiled in self._calls.above(dims):
            sizes = dict(key)
            is_near = all(size <= 2 * dims[symbol] for symbol, size in sizes.items())
            if compiled.bound.lengths and is_near and self._padding.can_answer(dims, sizes):
                return sizes
        return None

    def _moved_together(self, dims: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int] | None:
        """The bucket of a call in which several sizes have grown by the same number since the call before, as the cache
        of a decoder and its mask do: they grow by the same number to the bucket. None if no sizes have."""
        pads = self._padding.serving.pads.intersection(before)
        steps = {symbol: dims[symbol] - before[symbol] for symbol in sorted(pads)}
        grown = Counter(step for step in steps.values() if step)
        if not grown or max(grown.values()) == 1:
            return None
        sizes = self._calls.in_buckets(dims, empty=True)
        for step in (step for step, count in grown.items() if count > 1):
            together = sorted((symbol for symbol, own in steps.items() if own == step), key=dims.__getitem__)
            more = sizes[together[0]] - dims[together[0]]
            sizes |= {symbol: dims[symbol] + more for symbol in together}
        return self._padding.model.complete(sizes)

    def _count(self, dims: Mapping[str, int]) -> None:
        """Counts padded calls; sizes that come often are built in the background."""
        own = key_of(dims)
        with self._counting:
            self._counts[own] += 1
            calls = self._counts[own]
            if len(self._counts) > MOST_COUNTED:
                self._counts.clear()
        if calls == OFTEN and not self._variants.has_failed(own):
            self._variants.start(dims)
