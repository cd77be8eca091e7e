"""No contraction kernel touches memory beyond its buffers: small, odd products whose arrays lie beside guard pages.

A kernel that does ends the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from codegen.compile.machine import machine, restrict
from eqsat import optimize_and_compile, tensor
from ir.dtype import dtype
from ir.plan.cpu import CpuContractionPlan
from ir.region.playback import play_region
from ir.region.region import Region
from tests.support.cpu.contraction_runs import Built, plans_of, target_of
from tests.support.cpu.nest_kernels import available, required
from tests.support.cpu.played import random_inputs
from tests.support.damage.guard_pages import beside_guard
from tests.support.programs import regions as r

DTYPES = ("fp16", "fp32", "fp64")
LAYOUTS = {"nn": (False, False), "nt": (False, True), "tn": (True, False), "tt": (True, True)}
SMALL = range(1, 10)
ODD = (1, 3, 17, 101)
"""Terms of a sum: none is a whole number of registers."""
FEW = ((1, 1), (1, 9), (9, 1), (2, 7), (3, 3), (5, 2), (6, 9), (7, 8), (8, 5), (9, 9))


def sizes(whole: bool) -> Iterator[tuple[int, int, int]]:
    """Rows, columns and terms of the products to try."""
    shapes = ((m, n) for m in SMALL for n in SMALL) if whole else FEW
    yield from ((m, n, ODD[(m + 2 * n) % len(ODD)]) for m, n in shapes)


# --- every algorithm ---


def variants(region: Region, arch: str) -> dict[tuple[str, int], CpuContractionPlan]:
    """The best plan of each algorithm and vector side."""
    results: dict[tuple[str, int], CpuContractionPlan] = {}
    for plan, _ in plans_of(region, target_of(restrict(machine(), arch))):
        results.setdefault((plan.blocks.algorithm, plan.vector), plan)
    return results


def stays_inside(arch: str, dtypes: tuple[str, ...], layout: str, whole: bool) -> set[str]:
    """Runs the products; the algorithms that did."""
    lhs_t, rhs_t = LAYOUTS[layout]
    products = [
        r.matmul(m=m, n=n, k=k, lhs_t=lhs_t, rhs_t=rhs_t, dtype=dtype) for dtype in dtypes for m, n, k in sizes(whole)
    ]
    cases = [(region, plan) for region in products for plan in variants(region, arch).values()]
    built = Built(cases, restrict(machine(), arch), threads=1)
    for number, (region, plan) in enumerate(cases):
        inputs = random_inputs(region, number)
        wanted = play_region(region, inputs, wide=True)["Y"]
        for at_end in (True, False):
            got = built.call(number, inputs, partial(beside_guard, at_end=at_end))["Y"]
            close(got, wanted, f"{region.inputs} {plan}")
    return {plan.blocks.algorithm for _, plan in cases}


def close(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], what: str) -> None:
    tolerance = 1e-3 if got.dtype.itemsize == 2 else 1e-5
    error, size = np.linalg.norm(got.astype(np.float64) - wanted), np.linalg.norm(wanted)
    assert error <= tolerance * max(float(size), 1e-6), what


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_stay_inside_their_operands(layout: str) -> None:
    arch = next(arch for arch in ("avx512", "avx2", "sse2") if available(arch))
    assert stays_inside(arch, DTYPES, layout, whole=False) == {"outer", "dot"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_small_tiles_stay_inside_their_operands(arch: str, layout: str, dtype: str) -> None:
    required(arch)
    stays_inside(arch, (dtype,), layout, whole=True)


# --- as a program ---


def runs_beside_guards(layout: str, kind: str, whole: bool) -> None:
    """One program of many products, each of inputs of its own, called with arrays beside guard pages."""
    lhs_t, rhs_t = LAYOUTS[layout]
    rng = np.random.default_rng(0)
    element = dtype(kind).numpy
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    products, wanted = [], []
    for number, (m, n, k) in enumerate(sizes(whole)):
        a = arrays[f"a{number}"] = rng.standard_normal((k, m) if lhs_t else (m, k)).astype(element)
        b = arrays[f"b{number}"] = rng.standard_normal((n, k) if rhs_t else (k, n)).astype(element)
        x, y = tensor.input(f"a{number}", a.shape, kind), tensor.input(f"b{number}", b.shape, kind)
        products.append((x.T if lhs_t else x) @ (y.T if rhs_t else y))
        wanted.append((a.T if lhs_t else a).astype(np.float64) @ (b.T if rhs_t else b).astype(np.float64))
    program = optimize_and_compile(products, threads=1)
    plain = program(**arrays)
    for at_end in (True, False):
        place = partial(beside_guard, at_end=at_end)
        outputs = tuple(place(np.zeros_like(array)) for array in plain)
        program(**{name: place(array) for name, array in arrays.items()}, out=outputs)
        for got, reference in zip(outputs, wanted, strict=True):
            close(got, reference, f"{layout} {kind} {got.shape}")


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "kind"), [("nn", "fp32"), ("nt", "fp32"), ("tn", "fp64"), ("tt", "fp16")])
def test_programs_stay_inside_their_arrays(layout: str, kind: str) -> None:
    runs_beside_guards(layout, kind, whole=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", DTYPES)
def test_programs_of_all_small_products_stay_inside_their_arrays(layout: str, kind: str) -> None:
    runs_beside_guards(layout, kind, whole=True)
