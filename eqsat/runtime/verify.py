"""`verify=True`: the compiled program against the NumPy playback of the Tiny graph that it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.runtime.compiled import Compiled
from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.host_memory import memory_for
from ir.plan import TF32
from ir.tiny_playback import playback
from ir.tiny_tf32 import summed_products

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
    rounds at every uop; where kernels round to tf32, as four times the playback that rounds the operands of products
    so, too.

    Raises:
        EqsatError: WrongResult naming the outputs that are further off.
    """
    graph, constants = compiled.bound.graph, compiled.bound.constants
    if arrays is None:
        arrays = list(random_inputs(compiled.inputs).values())
    inputs = dict(zip(compiled.inputs, arrays, strict=True))
    outputs = compiled.run(arrays, threads)
    exact = playback(graph, {**inputs, **constants}, wide=True)
    rounded = playback(graph, {**inputs, **constants})
    coarse = rounded
    if any(TF32 in price.plan.algo_choice.values() for price in compiled.artifact.prices):
        coarse = playback(graph, {**inputs, **constants}, tf32=summed_products(graph))
    errors, wrong = {}, []
    for (name, type_), got, wide, *near in zip(compiled.outputs, outputs, exact, rounded, coarse, strict=True):
        reference = wide if type_.dtype.is_float else near[0]
        errors[name] = relative_error(got, reference)
        allowed = max(TOLERANCE.get(str(type_.dtype), 0.0), *(SLACK * relative_error(each, reference) for each in near))
        if errors[name] > allowed:
            wrong.append(name)
    if wrong:
        fail(
            Kind.WRONG_RESULT,
            "verify",
            f"{', '.join(wrong)} differ from the playback of the Tiny graph",
            errors={name: errors[name] for name in wrong},
            hint="please report this program; exactness='exact' or rules=() may avoid it",
        )
    return errors
