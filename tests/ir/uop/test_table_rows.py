"""All that the row of an elementwise uop promises: its method, its functions in the preludes, its meaning in tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from codegen.compile.library import vector_prelude
from codegen.compile.nvrtc import cuda_prelude
from codegen.compile.toolchain import find_compiler
from codegen.simt.libraries import prelude_source
from docs import make_operators
from eqsat.lazy.promotion import dtypes_of
from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, TensorType
from ir.kernel.elementwise import elementwise_functions
from ir.uop.table import UOPS, UOp
from tests.support.oracles.meanings import MEANINGS
from tests.support.oracles.plain_numpy import COMPARISONS, POINTWISE

SAMPLED = [uop for uop in UOPS.values() if uop.samples]
OWN = {"WHERE", "RANDOM", "CAST", "BITCAST"}
"""The uops that `plain_numpy` computes by functions of its own."""


def _defined(text: str, language: str) -> set[str]:
    """The functions that a prelude defines, after its macros."""
    command = [*find_compiler().command, "-E", "-P", "-w", "-x", language, "-"]
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b(eq_\w+)\s*\(", out))


@pytest.mark.parametrize(
    ("text", "language", "where"),
    [
        (
            vector_prelude,
            "c",
            "codegen/text/prelude/c/ops.h, as eq_<fn>_<type> on registers (of 64 bits: on half ones, and EQ_LIFT)",
        ),
        (cuda_prelude, "c++", "codegen/text/prelude/cuda/plain.h, as eq_<fn>_<type> on scalars"),
        (prelude_source, "c++", "codegen/simt/prelude/scalar.h, if it is not in the plain.h that both read"),
    ],
    ids=["c", "cuda", "emulator"],
)
def test_every_prelude_has_the_functions_of_all_rows(text: Callable[[], str], language: str, where: str) -> None:
    missing = {function.name for function in elementwise_functions()} - _defined(text(), language)
    assert not missing, f"no function {', '.join(sorted(missing))}: write it in {where}"


def test_the_methods_of_lazy_tensors_are_those_of_the_rows() -> None:
    hint = "eqsat/lazy/operators.py is not what the rows say: run `python -m docs.make_operators`"
    assert make_operators.FILE.read_text(encoding="utf-8") == make_operators.text(), hint


@pytest.mark.parametrize("name", [name for name, uop in UOPS.items() if uop.method])
def test_a_method_knows_its_dtypes(name: str) -> None:
    dtypes_of(name)


def test_every_function_has_a_meaning_that_is_not_its_rows() -> None:
    functions = {function.fn for function in elementwise_functions()}
    missing = sorted(functions - MEANINGS.keys())
    missing += [
        name
        for name, uop in UOPS.items()
        if uop.kind.is_elementwise and name not in {*OWN, *POINTWISE, *COMPARISONS} and not uop.samples
    ]
    assert not missing, f"no known answers of {', '.join(missing)}: write `samples` in the row of ir/uop/table.py"


@pytest.mark.parametrize("uop", SAMPLED, ids=[uop.name for uop in SAMPLED])
def test_known_answers(uop: UOp) -> None:
    """In every dtype that holds the operands."""
    checked = 0
    for dtype, (*given, wanted) in product(DTYPES.values(), uop.samples):
        operands = [np.asarray(value).astype(dtype.numpy) for value in given]
        with suppress(EqsatError):
            out = uop.type_of([TensorType.of(dtype, ())] * uop.arity, {})
            if np.array_equal(np.asarray(operands, np.float64), given, equal_nan=True):
                actual, eps = (
                    uop.apply(operands, {}, out),
                    float(ml_dtypes.finfo(dtype.numpy).eps) if dtype.is_float else 0.0,
                )
                np.testing.assert_allclose(np.float64(actual), wanted, rtol=4 * eps, atol=4 * eps)
                checked += 1
    assert checked
