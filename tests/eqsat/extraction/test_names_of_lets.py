"""Names of lets: no let has the name of a buffer that its kernel reads, in whatever order the kernel reads them."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import optimize_and_compile, tensor


@pytest.mark.parametrize("name", ["mul_0", "add_1", "exp_2", "gather_1"])
def test_an_argument_may_have_the_name_that_a_let_would_have(name: str) -> None:
    """The argument is transposed, so that a read by the wrong name does not fit."""
    a, b, late = tensor.input("a", (3, 4)), tensor.input("b", (3, 4)), tensor.input(name, (4, 3))
    program = optimize_and_compile(((a * b + 1).exp() + late.T).exp(), cache=False)
    arrays = [np.random.default_rng(seed).standard_normal(x.shape, np.float32) for seed, x in enumerate((a, b, late))]
    expected = np.exp(np.exp(arrays[0] * arrays[1] + 1) + arrays[2].T)
    np.testing.assert_allclose(program({"a": arrays[0], "b": arrays[1], name: arrays[2]}), expected, rtol=1e-5)
