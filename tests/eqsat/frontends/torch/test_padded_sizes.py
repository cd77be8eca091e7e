"""torch.compile with buckets of all free sizes: one build per bucket, for caches that grow and batches that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from eqsat import EqsatError, Program
from eqsat.frontends.torch.backend import eqsat as backend
from eqsat.frontends.torch.backend_options import backend_options
from ir.diagnostics import Kind

POWERS = [2**k for k in range(8)]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def padded(function: Any, programs: list[Program]) -> Any:
    """The function compiled for all free sizes, with code for powers of two."""
    options = {"when_missing": "pad", "dims": POWERS, "on_program": programs.append}
    return torch.compile(function, backend=backend, dynamic=True, options=options)


@pytest.mark.slow
def test_a_cache_that_grows_with_every_token_is_built_once_per_bucket() -> None:
    weights = torch.randn(3, 8, 8) / 3

    def step(token: Any, keys: Any, values: Any) -> Any:
        query, key, value = (token @ weight for weight in weights)
        keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
        seen = torch.nn.functional.scaled_dot_product_attention(query[None], keys[None], values[None])
        return token + seen[0], keys, values

    programs: list[Program] = []
    run = padded(step, programs)
    token = torch.randn(2, 1, 8)
    own = theirs = (token, torch.randn(2, 9, 8), torch.randn(2, 9, 8))
    with torch.no_grad():
        for _ in range(6):
            own, theirs = run(*own), step(*theirs)
            torch.testing.assert_close(own, theirs)
    (program,) = programs
    (sizes,) = program.variants
    assert sizes["keys_1"] == 16


@pytest.mark.slow
def test_without_options_sizes_adapt() -> None:
    programs: list[Program] = []
    run = torch.compile(lambda x: x - x.mean(0), backend=backend, dynamic=True, options={"on_program": programs.append})
    for rows in (5, 6, 7, 11, 12, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run(x), x - x.mean(0))
    (program,) = programs
    assert sorted(sizes["x_0"] for sizes in program.variants) == [5, 8, 16]


@pytest.mark.slow
def test_steps_of_training_with_other_batches_are_built_once_per_bucket() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3))

    def loss(x: Any, wanted: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(x), wanted)

    programs: list[Program] = []
    run = padded(loss, programs)
    for batch in (12, 11, 16, 9):
        x, wanted = torch.randn(batch, 6), torch.randint(0, 3, (batch,))
        gradients = []
        for function in (run, loss):
            model.zero_grad()
            result = function(x, wanted)
            result.backward()
            gradients.append([result.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
        torch.testing.assert_close(*gradients)
    assert [program.variants for program in programs] == [[{"x_0": 16}]] * 2


def test_dims_are_sizes_by_name_or_of_all() -> None:
    with pytest.raises(EqsatError, match="a mapping of sizes by name, or sizes") as caught:
        backend_options({"dims": 8})
    assert caught.value.kind is Kind.INVALID_OPTION
