"""Random streams of one score, as one random plan each says, against region playback."""

from __future__ import annotations

import random

import pytest

from codegen.lower.cpu.lower import lower
from codegen.plan.cpu.candidates import candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import checked_core
from ir.kernel.cpu.verify import verify
from ir.region.region import verify as verify_region
from tests.support.cpu import nest_kernels as kernels
from tests.support.cpu.played import random_inputs
from tests.support.programs.random_streams import random_streams
from tests.support.sampling import every

SEEDS = range(48)


@every(2)
@pytest.mark.parametrize("arch", ["avx512", "sse2"])
def test_random_streams(arch: str, step: int) -> None:
    where = kernels.required(arch)
    results = []
    for seed in SEEDS[arch == "sse2" :: 2 * step]:
        region = random_streams(seed)
        verify_region(region)
        core = checked_core(region)
        assert core.legal, f"{region.name}: {core.reason}"
        plan, _ = random.Random(seed).choice(candidates(region, core, kernels.target(arch)))
        kernel = lower(fit_plan(region, core, plan), plan, f"eq_{region.name}").kernel
        verify(kernel)
        results.append(kernels.CpuCase(region, plan, kernel))
    library = kernels.library(results, where)
    for seed, case in enumerate(results):
        for nan in (False, True):
            kernels.check(library, case, random_inputs(case.region, seed, nan=nan), at_end=bool(seed % 2))
