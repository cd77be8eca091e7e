"""The models that answer padded calls of one program: as they are at the larger sizes, or with masks."""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from eqsat.model import BoundModel, Model
from eqsat.serving.fit_sizes import at_other_sizes
from eqsat.serving.padded_model import PaddedModel, warn_of_own_code
from eqsat.serving.variants import Key, key_of
from eqsat.serving.when_missing import Serving
from ir.diagnostics import EqsatError, Kind, fail
from ir.tiny.restriction import STAGE, check_restriction

MOST_PROOFS = 1024
"""Pairs of sizes whose proofs are remembered; then all are forgotten."""


class _Form(enum.Enum):
    """How code computes smaller sizes: as it is, or with masks."""

    PLAIN = "plain"
    MASKED = "masked"


class Padding:
    """What is known of the padding of one program. model, serving: of the program. has_masks: whether its code may have
    masks; that for a GPU has none."""

    def __init__(self, model: Model, serving: Serving, has_masks: bool = True) -> None:
        self.model, self.serving, self._has_masks = model, serving, has_masks
        self._models: dict[Key, PaddedModel] = {}
        self._proven: dict[tuple[Key, Key], BoundModel] = {}
        self._forms: dict[Key, _Form | None] = {}
        self._with_masks: set[Key] = set()
        self._reading = threading.Lock()
        self._has_told = bool(serving.adapts)

    def check(self, free: Sequence[str]) -> None:
        """Checks the largest buckets.

        Raises:
            EqsatError: UnsupportedOp if padding would change results; InvalidOption if they do not fit together.
        """
        if not self.serving.pads or self.serving.adapts or not all(symbol in self.serving.buckets for symbol in free):
            return
        buckets = {symbol: self.serving.buckets[symbol][-1] for symbol in free}
        large = self.model.complete({**self.model.infer({}), **buckets})
        try:
            bound = self.model.bind(large, strict=False)
        except EqsatError as error:
            several = ", ".join(f"{symbol}={large[symbol]}" for symbol in free)
            message = f"the largest buckets {several} do not fit together: {error.diagnostics[0].message}"
            hint = "a size that follows from another one is a text: past=[256, 1024], total='past + 1'"
            fail(Kind.INVALID_OPTION, STAGE, message, hint=hint)
        self.model_to_build(bound, large)

    def model_to_build(self, bound: BoundModel, sizes: Mapping[str, int]) -> BoundModel:
        """The model to compile for calls of these sizes and, if they are those of a bucket, of smaller ones.

        bound: the model at these sizes, which is enough where no padded position reaches a result. Else it has masks.

        Raises:
            EqsatError: UnsupportedOp where a padded position reaches a result in spite of all masks.
        """
        if self.serving.adapts:
            return self.model_at(sizes).masked if key_of(sizes) in self._with_masks else bound
        if not self.serving.masked(sizes):
            return bound
        refusal = self._refusal_of(sizes, bound)
        if refusal is None:
            return bound
        if not self._has_masks:
            raise refusal
        return self.model_at(sizes).masked

    def add_bucket(self, sizes: Mapping[str, int]) -> bool:
        """Makes a bucket of sizes that adapt: later, `model_to_build` gives code for them that computes smaller sizes.
        Whether that code has masks."""
        if self._form(sizes) is _Form.MASKED:
            self._with_masks.add(key_of(sizes))
        return key_of(sizes) in self._with_masks

    def can_answer(self, dims: Mapping[str, int], sizes: Mapping[str, int]) -> bool:
        """Whether code for the sizes of a bucket computes a call, as far as is known without the code."""
        form = self._form(sizes)
        if form is not _Form.MASKED:
            return form is not None
        try:
            return self.model_at(sizes).prove(dims)
        except EqsatError:
            return False

    def _form(self, sizes: Mapping[str, int]) -> _Form | None:
        """How code for the sizes of a bucket computes smaller sizes; None if it cannot."""
        key = key_of(sizes)
        if key not in self._forms:
            self._forms[key] = self._find_form(sizes)
        return self._forms[key]

    def _find_form(self, sizes: Mapping[str, int]) -> _Form | None:
        bound = at_other_sizes(partial(self.model.bind, strict=False), sizes)
        if isinstance(bound, Exception):
            return None
        if self._refusal_of(sizes, bound) is None:
            return _Form.PLAIN
        if not self._has_masks:
            return None
        try:
            _ = self.model_at(sizes).masked
        except EqsatError:
            return None
        return _Form.MASKED

    def _refusal_of(self, sizes: Mapping[str, int], bound: BoundModel) -> Exception | None:
        """Why the model at the sizes of a bucket computes no smaller sizes without masks; None if it does."""
        symbols = self.serving.masked(sizes)
        small = {symbol: size - 1 if symbol in symbols else size for symbol, size in sizes.items()}
        complete = self.model.complete(small)
        return _refusal(at_other_sizes(partial(self.model.bind, strict=False), complete), bound)

    def model_at(self, sizes: Mapping[str, int]) -> PaddedModel:
        """The model at the sizes of a bucket that computes all smaller sizes. Raises EqsatError, UnsupportedOp."""
        key = key_of(sizes)
        with self._reading:
            if key not in self._models:
                symbols, tells = self.serving.masked(sizes), not self.serving.adapts
                self._models[key] = PaddedModel(self.model, sizes, symbols, tells)
            return self._models[key]

    def tell(self, dims: Mapping[str, int], refusal: EqsatError) -> None:
        """Warns, once, that calls as those of these sizes are not computed by the code of their bucket."""
        if not self._has_told:
            self._has_told = True
            warn_of_own_code(dims, refusal.diagnostics[0].message)

    def prove(self, dims: Mapping[str, int], large: BoundModel, key: Key) -> BoundModel:
        """The model at the sizes of a call, after the proof that the model `large` of other sizes computes it without
        masks. Raises EqsatError, UnsupportedOp."""
        pair = key_of(dims), key
        bound = self._proven.get(pair)
        if bound is None:
            bound = self.model.bind(dims, strict=False)
            _prove(bound, large)
            if len(self._proven) >= MOST_PROOFS:
                self._proven.clear()
            self._proven[pair] = bound
        return bound


def _refusal(small: BoundModel | Exception, large: BoundModel) -> Exception | None:
    """Why the large model does not compute the small one on padded arguments; None if it does."""
    if isinstance(small, Exception):
        return small
    try:
        _prove(small, large)
    except EqsatError as error:
        return error
    return None


def _prove(small: BoundModel, large: BoundModel) -> None:
    """Raises EqsatError, UnsupportedOp, unless the large model computes the small one on padded arguments."""
    for name in small.constants.keys() | large.constants.keys():
        one, other = small.constants.get(name), large.constants.get(name)
        if one is not other and (one is None or other is None or not _are_same(one, other)):
            message = "padded positions reach results: a constant depends on the padded size"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=name, hint="leave this dim out of when_missing=")
    check_restriction(small.graph, large.graph)


def _are_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
