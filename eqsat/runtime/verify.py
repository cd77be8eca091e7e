"""`verify=True`: compares a compiled program with the NumPy playback of its Tiny graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.runtime.compiled import Compiled
from ir.diagnostics import Kind, fail
from ir.dtype import TensorType, dtype
from ir.host.memory import memory_for
from ir.plan.plan import rounds_to_tf32
from ir.term.rule import Exactness
from ir.tiny.flush import Flush
from ir.tiny.playback import playback
from ir.tiny.tf32 import summed_products

TOLERANCE: Mapping[str, float] = {"fp64": 1e-12, "fp32": 1e-5, "fp16": 1e-3, "bf16": 1e-2}
"""Largest error of a result against `playback(wide=True)`, relative to the result's largest magnitude, by dtype."""
CANCELLED = 4.0
"""The tolerance is so many times as large at level range, where terms may cancel: tiles of 4 × 4 results, of a
convolution over 512 channels, are 2e-5 off."""
SLACK = 4.0
"""A result may have this many times the error of a playback that rounds as kernels may."""


def random_inputs(signature: Mapping[str, TensorType], seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded arrays for the inputs: unit normal floats, small integers, fair bools.

    Raises:
        EqsatError: InvalidOption for a seed that is no number from 0 on; ResourceExceeded if the arrays do not fit in
            memory.
    """
    if not isinstance(seed, int | np.integer) or seed < 0:
        fail(Kind.INVALID_OPTION, "random_inputs", f"seed= is a number from 0 on, not {seed!r}")
    rng = np.random.default_rng(seed)
    nbytes = sum(type_.nbytes for type_ in signature.values())
    sizes = {name: str(type_) for name, type_ in signature.items()}
    with memory_for(nbytes, "random_inputs", "an array for every input", inputs=sizes):
        return {name: _random(rng, type_) for name, type_ in signature.items()}


def _random(rng: np.random.Generator, type_: TensorType) -> np.ndarray:
    if type_.dtype.is_float:
        return rng.standard_normal(type_.shape).astype(type_.dtype.numpy)
    return rng.integers(0, 2 if type_.dtype.is_bool else 8, type_.shape).astype(type_.dtype.numpy)


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference divided by the largest finite magnitude; inf where NaN or inf do not match."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    if a.shape != b.shape:
        return float("inf")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.abs(b[finite]).max())
    difference = float(np.abs(a[finite] - b[finite]).max())
    return difference / scale if scale else difference


def verify_compiled(compiled: Compiled, threads: int, arrays: Sequence[np.ndarray] | None = None) -> dict[str, float]:
    """The error of each output, relative to its largest value, on these inputs (None: random ones).

    The reference is `playback(wide=True)`. An output may differ from it by the larger of its dtype's tolerance and
    SLACK times the error of another playback. The other playbacks round at every uop (in index order where kernels keep
    it), and round the operands of products to tf32 where kernels do. An element that is further off is right if it is
    as near to another playback, or little further from the reference than that playback is. For such elements there are
    also playbacks that take denormals for 0, where kernels may, and playbacks in which floats are off by the tolerance
    where they become whole numbers or are compared.

    Raises:
        EqsatError: WrongResult that names the outputs that are further off.
    """
    graph = compiled.bound.graph
    if arrays is None:
        arrays = [*random_inputs(compiled.inputs).values(), *compiled.bound.length_arrays()]
    inputs = {**dict(zip(compiled.bound.signature, arrays, strict=True)), **compiled.bound.constants}
    outputs = compiled.run(compiled.without_updates(arrays), threads)
    exactness = compiled.artifact.options.exactness
    ordered = exactness < Exactness.REASSOCIATE
    references = [playback(graph, inputs, wide=True), playback(graph, inputs, ordered=ordered)]
    if any(rounds_to_tf32(price.plan) for price in compiled.artifact.prices):
        references.append(playback(graph, inputs, tf32=summed_products(graph)))
    scale = CANCELLED if exactness >= Exactness.RANGE else 1.0
    checks = [_OutputCheck(got, [values[k] for values in references], scale) for k, got in enumerate(outputs)]
    if not all(check.is_right for check in checks):
        others = [playback(graph, inputs, flush=flush) for flush in _flushes(exactness)]
        others += [playback(graph, inputs, wide=True, nudge=nudge) for nudge in _nudges(exactness)]
        for place, check in enumerate(checks):
            check.others += [values[place] for values in others]
    named = [(name, check) for (name, _), check in zip(compiled.outputs, checks, strict=True)]
    wrong = {name: check.error for name, check in named if not check.is_right}
    errors = {name: check.error for name, check in named} | wrong  # a value may be an output twice, under one name
    if wrong:
        fail(
            Kind.WRONG_RESULT,
            "verify",
            f"{', '.join(wrong)} differ from the playback of the Tiny graph",
            errors=wrong,
            hint="please report this program; exactness='exact' or rules=[] may avoid it",
        )
    return errors


class _OutputCheck:
    """An output and its values in the playbacks. The reference is the wide playback of a float output, and the rounding
    playback of any other. The tolerance is multiplied by `scale`."""

    def __init__(self, got: np.ndarray, references: Sequence[np.ndarray], scale: float) -> None:
        wide, *near = references
        self.is_float = wide.dtype.kind not in "biu"
        self.got, self.reference, self.others = got, wide if self.is_float else near[0], near
        least = scale * TOLERANCE.get(str(dtype(got.dtype)), 0.0)
        self.allowed = max(least, *(SLACK * _finite_error(value, self.reference) for value in near))

    @property
    def error(self) -> float:
        """The error against the reference; if too large, the error of each element against its nearest playback."""
        error = relative_error(self.got, self.reference)
        if error > self.allowed:
            error = relative_error(self.got, _nearest(self.got, [self.reference, *self.others]))
        return error

    @property
    def is_right(self) -> bool:
        return self.error <= self.allowed


def _flushes(level: Exactness) -> list[Flush]:
    """The numbers that kernels at this exactness level may flush to 0; every entry needs a playback of its own."""
    return [
        *([Flush.DENORMALS] if level >= Exactness.REASSOCIATE else []),
        *([Flush.RECIPROCALS] if level >= Exactness.ROUNDING else []),
    ]


def _nudges(level: Exactness) -> list[Mapping[str, float]]:
    """The errors that floats may have before they become whole numbers; every entry needs a playback of its own."""
    signs = (1.0, -1.0) if level >= Exactness.REASSOCIATE else ()
    return [{name: sign * share for name, share in TOLERANCE.items()} for sign in signs]


def _finite_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The relative error of the elements that are finite in both."""
    both = np.isfinite(got.astype(np.float64)) & np.isfinite(expected.astype(np.float64))
    return relative_error(got[both], expected[both])


def _nearest(got: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
    """Per element the nearest reference. An element that is at most SLACK times as far from the first reference as
    another reference is counts as right: a kernel may lose less to denormals than either playback does."""
    nearest, least = references[0].astype(np.float64), _distance(got, references[0])
    to_first = least
    for reference in references[1:]:
        distance, apart = _distance(got, reference), _distance(reference, references[0])
        nearest, least = np.where(distance < least, reference.astype(np.float64), nearest), np.minimum(distance, least)
        is_between = (to_first / SLACK <= apart) & np.isfinite(apart)
        nearest, least = np.where(is_between, got.astype(np.float64), nearest), np.where(is_between, 0.0, least)
    return nearest


def _distance(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Absolute difference per element: 0 for equal infinities and two NaNs, inf if only one value is finite."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        between = np.nan_to_num(np.abs(a - b), nan=np.inf)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, between)
