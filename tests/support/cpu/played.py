"""What kernels are tried on, and what their outputs are held against: playback of their regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from ir.dtype import DTYPES
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.gpu.kernel import GpuKernel
from ir.plan.plan import Plan
from ir.region.region import Region
from tests.support.cpu.absolute_terms import sizes_of_terms

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
K = TypeVar("K", CpuKernel, GpuKernel)
P_co = TypeVar("P_co", bound=Plan, covariant=True)
NORMS = {"fp16": 1e-3, "bf16": 1e-2}
"""DESIGN's, of results of these dtypes; of all others 1e-5."""


@dataclass(frozen=True)
class Case(Generic[K, P_co]):
    """One kernel to try: `region` as `plan` says."""

    region: Region
    plan: P_co
    kernel: K

    def __str__(self) -> str:
        shapes = [buffer.memref.shape for buffer in self.region.inputs]
        return f"{self.region.name}{shapes} {self.plan}"

    def named(self, name: str) -> Case[K, P_co]:
        """The same under another name."""
        return replace(self, kernel=msgspec.structs.replace(self.kernel, name=name))


def numbered(cases: Sequence[Case[K, P_co]], prefix: str = "eq_k") -> list[Case[K, P_co]]:
    """The cases under names that tell them apart."""
    return [case.named(f"{prefix}{number}") for number, case in enumerate(cases)]


def unwritten(region: Region) -> dict[str, Array]:
    """Its outputs before a kernel runs: a number that none leaves by chance."""
    return {
        output.name: np.full(output.memref.shape, 77, DTYPES[output.memref.dtype].numpy) for output in region.outputs
    }


def random_inputs(region: Region, seed: int = 0, *, nan: bool = False) -> dict[str, Array]:
    """Numbers of every sign, for floats every seventh a NaN where `nan`; integers reach the ends of their dtype, so
    that indices run beyond both ends."""
    random = np.random.default_rng(seed)
    results = {}
    for buffer in region.inputs:
        kind, shape = DTYPES[buffer.memref.dtype], buffer.memref.shape
        if kind.is_float:
            values: Array = (random.standard_normal(shape) * 2).astype(np.float32)
            if nan:
                values.reshape(-1)[::7] = np.nan
        else:
            values = random.integers(-5 if kind.is_signed else 0, 2 if kind.is_bool else 100, shape).astype(kind.numpy)
            if kind.is_int:
                ends = [kind.lowest, kind.highest, int(kind.highest) // 2 + 1, kind.bits - 1, kind.bits]
                rare = values.reshape(-1)[3::6]
                rare[:] = random.choice(np.array(ends, kind.numpy), rare.size)
        results[buffer.name] = np.asarray(values).astype(kind.numpy)
    return results


def assert_played(
    region: Region, inputs: Arrays, got: Arrays, wanted: Arrays, what: object, *, exact: bool = False
) -> None:
    """Outputs against playback's: equal bits where `exact` or not of floats, else within DESIGN's norms and a rounding
    of the terms of sums, which may be far larger than the sums."""
    for output in region.outputs:
        kind, result, reference = DTYPES[output.memref.dtype], got[output.name], wanted[output.name]
        assert result.shape == reference.shape
        if exact or not kind.is_float:
            compute = kind.accumulator.numpy
            np.testing.assert_array_equal(result.astype(compute), reference.astype(compute), err_msg=str(what))
            continue
        a, b = result.astype(np.float64), reference.astype(np.float64)
        finite = np.isfinite(b)
        np.testing.assert_array_equal(np.isfinite(a), finite, err_msg=str(what))
        np.testing.assert_array_equal(a[~finite], b[~finite], err_msg=str(what))
        error, size = float(np.linalg.norm(a[finite] - b[finite])), float(np.linalg.norm(b[finite]))
        tolerance = NORMS.get(kind.name, 1e-5) * max(size, 1e-6)
        if error > tolerance:
            terms = float(np.linalg.norm(sizes_of_terms(region, inputs)[output.name][finite]))
            tolerance += float(np.finfo(kind.accumulator.numpy).eps) * terms
        assert error <= tolerance, f"{what}: off by {error / max(size, 1e-30):.2e} of the norm"
