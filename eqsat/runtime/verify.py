"""`verify=True`: the compiled program against the NumPy playback of the Tiny graph that it came from."""

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
"""Largest error of a result against `playback(wide=True)`, relative to the norm of the result."""
SLACK = 4.0
"""Times the error of a playback that rounds as kernels may."""


def random_inputs(signature: Mapping[str, TensorType], seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded arrays for the inputs: unit normal floats, small integers, fair bools.

    Raises:
        EqsatError: InvalidOption for a seed that is no number from 0 on; ResourceExceeded where they do not fit in
            memory.
    """
    if not isinstance(seed, int | np.integer) or seed < 0:
        fail(Kind.INVALID_OPTION, "random_inputs", f"seed= is a number from 0 on, not {seed!r}")
    rng = np.random.default_rng(seed)
    nbytes = sum(each.nbytes for each in signature.values())
    sizes = {name: str(each) for name, each in signature.items()}
    with memory_for(nbytes, "random_inputs", "an array for every input", inputs=sizes):
        return {name: _random(rng, each) for name, each in signature.items()}


def _random(rng: np.random.Generator, type_: TensorType) -> np.ndarray:
    if type_.dtype.is_float:
        return rng.standard_normal(type_.shape).astype(type_.dtype.numpy)
    return rng.integers(0, 2 if type_.dtype.is_bool else 8, type_.shape).astype(type_.dtype.numpy)


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The greatest difference relative to the greatest finite magnitude; inf where NaN or inf do not match."""
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

    An output may be as far from `playback(wide=True)` as its dtype's tolerance, or as four times the playback that
    rounds at every uop, in index order where kernels keep that; where kernels round to tf32, as four times the playback
    that rounds the operands of products so, too. An element that is further off must be as near to another playback, or
    between the two: one that rounds (and overflows), or one that takes denormals for 0, where kernels may.

    Raises:
        EqsatError: WrongResult naming the outputs that are further off.
    """
    graph = compiled.bound.graph
    if arrays is None:
        arrays = list(random_inputs(compiled.inputs).values())
    inputs = {**dict(zip(compiled.inputs, arrays, strict=True)), **compiled.bound.constants}
    outputs = compiled.run(arrays, threads)
    ordered = compiled.artifact.options.exactness < Exactness.REASSOCIATE
    references = [playback(graph, inputs, wide=True), playback(graph, inputs, ordered=ordered)]
    if any(rounds_to_tf32(price.plan) for price in compiled.artifact.prices):
        references.append(playback(graph, inputs, tf32=summed_products(graph)))
    found = [_Checked(got, [each[k] for each in references]) for k, got in enumerate(outputs)]
    if not all(each.is_right for each in found):
        flushing = [playback(graph, inputs, flush=each) for each in _flushes(compiled.artifact.options.exactness)]
        for place, each in enumerate(found):
            each.others += [several[place] for several in flushing]
    errors = {name: each.error for (name, _), each in zip(compiled.outputs, found, strict=True)}
    wrong = {name: each.error for name, each in zip(errors, found, strict=True) if not each.is_right}
    if wrong:
        fail(
            Kind.WRONG_RESULT,
            "verify",
            f"{', '.join(wrong)} differ from the playback of the Tiny graph",
            errors=wrong,
            hint="please report this program; exactness='exact' or rules=[] may avoid it",
        )
    return errors


class _Checked:
    """An output beside its value in the playbacks: the wide one of floats, that of others as it rounds, comes first."""

    def __init__(self, got: np.ndarray, references: Sequence[np.ndarray]) -> None:
        wide, *near = references
        self.is_float = wide.dtype.kind not in "biu"
        self.got, self.reference, self.others = got, wide if self.is_float else near[0], near
        least = TOLERANCE.get(str(dtype(got.dtype)), 0.0)
        self.allowed = max(least, *(SLACK * _finite_error(each, self.reference) for each in near))

    @property
    def error(self) -> float:
        """Against the reference; where that is too much, of each element against the playback that is nearest to it."""
        error = relative_error(self.got, self.reference)
        if error > self.allowed:
            error = relative_error(self.got, _nearest(self.got, [self.reference, *self.others]))
        return error

    @property
    def is_right(self) -> bool:
        return self.error <= self.allowed


def _flushes(level: Exactness) -> list[Flush]:
    """What kernels of this level may take for 0, each a playback of its own."""
    return [
        *([Flush.DENORMALS] if level >= Exactness.REASSOCIATE else []),
        *([Flush.RECIPROCALS] if level >= Exactness.ROUNDING else []),
    ]


def _finite_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The relative error of the elements that are finite in both."""
    both = np.isfinite(got.astype(np.float64)) & np.isfinite(expected.astype(np.float64))
    return relative_error(got[both], expected[both])


def _nearest(got: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
    """Of each element the reference that is nearest, or the element itself where it is as near to the first reference,
    but for the slack, as another one is: a result that loses less to denormals than either playback."""
    nearest, least = references[0].astype(np.float64), _distance(got, references[0])
    to_first = least
    for each in references[1:]:
        distance, apart = _distance(got, each), _distance(each, references[0])
        nearest, least = np.where(distance < least, each.astype(np.float64), nearest), np.minimum(distance, least)
        is_between = (to_first / SLACK <= apart) & np.isfinite(apart)
        nearest, least = np.where(is_between, got.astype(np.float64), nearest), np.where(is_between, 0.0, least)
    return nearest


def _distance(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Per element; 0 between infinities of one sign, and between NaNs, else infinite where either is not finite."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        between = np.nan_to_num(np.abs(a - b), nan=np.inf)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, between)
