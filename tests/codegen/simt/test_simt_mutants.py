"""Random changes of one number or operator: the emulator lives, and where it finds nothing, order is no matter."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from codegen.simt import Order, compile_kernels
from tests.codegen.simt.gemm import GEMM, SHARED_BYTES, Problem

PROBLEM = Problem(m=100, n=90, k=147)
SWAPS = {" + ": " - ", " < ": " <= ", " % ": " / ", " / ": " % ", " && ": " || "}


def mutants() -> Iterator[str]:
    """The product with one literal more, doubled or less, or with one operator for another."""
    body = GEMM.index("const int thread")
    for match in re.finditer(r"(?<![\w.])\d+(?![\w.])", GEMM[body:]):
        start, end = match.start() + body, match.end() + body
        value = int(match[0])
        for other in sorted({value + 1, 2 * value, max(value - 1, 0)} - {value}):
            yield f"{GEMM[:start]}{other}{GEMM[end:]}"
    for old, new in SWAPS.items():
        for match in re.finditer(re.escape(old), GEMM[body:]):
            start = match.start() + body
            yield GEMM[:start] + new + GEMM[start + len(old) :]


@pytest.mark.exhaustive
def test_where_nothing_is_found_all_orders_agree() -> None:
    chosen = random.Random(3).sample(list(mutants()), 80)
    kernels = compile_kernels("\n".join(text.replace("eq_gemm", f"eq_mutant{at}") for at, text in enumerate(chosen)))
    result = 0
    for name in kernels:
        results, kinds = set(), set()
        for order in Order:
            a, b, c = PROBLEM.arrays()
            sizes = [PROBLEM.m, PROBLEM.n, PROBLEM.k, a.shape[1], b.shape[1], c.shape[1]]
            options = {"shared_bytes": SHARED_BYTES, "fuel": 1 << 20}
            report = kernels[name].launch(PROBLEM.grid, [a, b, c, *sizes], order=order, **options)
            results.add(c.tobytes())
            kinds |= {*report.kinds}
        result += bool(kinds)
        assert kinds or len(results) == 1, name
    assert result > 30
