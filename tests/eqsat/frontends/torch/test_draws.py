"""Random operators in torch.compile: functions of seeds from torch's generator, computed again in backward graphs."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from eqsat.frontends.torch.draws import draw_again  # noqa: E402 - torch first
from ir.diagnostics import EqsatWarning  # noqa: E402


@pytest.fixture(autouse=True)
def _no_other_graphs() -> Any:
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", EqsatWarning)
        yield


@pytest.mark.slow
def test_dropout_hides_the_same_elements_forward_and_backward() -> None:
    x = torch.ones(50, 40, requires_grad=True)
    dropped = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.25).sin(), backend="eqsat")
    y = dropped(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    kept = y != 0
    assert 0.65 < kept.float().mean() < 0.85
    scaled = torch.tensor(1 / 0.75)
    torch.testing.assert_close(y[kept], scaled.sin().expand(int(kept.sum())))
    torch.testing.assert_close(gradient, torch.where(kept, scaled.cos() * scaled, 0.0))


@pytest.mark.slow
def test_each_call_and_each_operator_draws_other_numbers_of_the_generator() -> None:
    f = torch.compile(lambda: (torch.rand(64), torch.rand(64)), backend="eqsat")
    torch.manual_seed(5)
    first, again = f(), f()
    torch.manual_seed(5)
    repeated = f()
    assert all(torch.equal(a, b) for a, b in zip(first, repeated, strict=True))
    tensors = [*first, *again]
    assert not any(torch.equal(a, b) for place, a in enumerate(tensors) for b in tensors[:place])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "check"),
    [
        (lambda: torch.rand(4000), lambda y: (y.min() >= 0) & (y.max() < 1) & ((y.mean() - 0.5).abs() < 0.03)),
        (lambda: torch.randn(4000), lambda y: (y.mean().abs() < 0.08) & ((y.std() - 1).abs() < 0.08)),
        (lambda: torch.randint(3, 9, (4000,)), lambda y: (y.min() == 3) & (y.max() == 8)),
        (lambda: torch.randint(5, (40, 100)), lambda y: (y.min() == 0) & (y.max() == 4)),
        (lambda: torch.rand_like(torch.zeros(4000)), lambda y: (y.min() >= 0) & (y.max() < 1)),
        (lambda: torch.randn_like(torch.zeros(4000)), lambda y: (y.std() - 1).abs() < 0.08),
        (lambda: torch.bernoulli(torch.full((4000,), 0.3)), lambda y: (y.mean() - 0.3).abs() < 0.04),
        (lambda: torch.empty(4000).bernoulli_(0.3), lambda y: (y.mean() - 0.3).abs() < 0.04),
        (lambda: torch.empty(4000).exponential_(2.0), lambda y: (y.min() >= 0) & ((y.mean() - 0.5).abs() < 0.04)),
        (lambda: torch.normal(torch.ones(4000), torch.ones(1)), lambda y: (y.mean() - 1).abs() < 0.08),
        (lambda: torch.normal(2.0, torch.ones(4000)), lambda y: (y.mean() - 2).abs() < 0.08),
        (lambda: torch.nn.functional.dropout2d(torch.ones(40, 50, 2, 2)), lambda y: (y.mean() - 1).abs() < 0.1),
        (lambda: torch.empty(4000).uniform_(2, 4), lambda y: (y.min() >= 2) & (y.max() < 4) & (y.mean() > 2.9)),
        (lambda: torch.empty(4000).normal_(3, 0.5), lambda y: (y.mean() - 3).abs() < 0.05),
        (lambda: torch.rand(4000, dtype=torch.float64), lambda y: torch.tensor(y.dtype == torch.float64)),
    ],
)
def test_distributions(draw: Any, check: Any) -> None:
    torch.manual_seed(0)
    assert check(torch.compile(draw, backend="eqsat")())


def categories(replacement: bool, count: int) -> Any:
    weights = torch.tensor([[0.0, 1, 2, 0, 5, 0], [3.0, 0, 0, 0, 1, 0]]).bfloat16()
    drawn = torch.compile(lambda w: torch.multinomial(w, count, replacement), backend="eqsat")(weights.repeat(2000, 1))
    return [drawn[place::2, 0].bincount(minlength=6) / 2000 - weights[place] / weights[place].sum() for place in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("replacement", "count"), [(False, 1), (False, 2), (True, 3)])
def test_categories_are_drawn_in_proportion_to_their_weights(replacement: bool, count: int) -> None:
    torch.manual_seed(0)
    for excess in categories(replacement, count):
        assert (excess.abs() < 0.04).all()


@pytest.mark.slow
def test_categories_without_replacement_differ() -> None:
    drawn = torch.compile(lambda w: torch.multinomial(w, 5), backend="eqsat")(torch.ones(300, 5))
    assert torch.equal(drawn.sort(-1).values, torch.arange(5).expand(300, 5))


@pytest.mark.parametrize("replacement", [False, True])
def test_weights_of_categories_are_checked_when_the_graph_runs(replacement: bool) -> None:
    draw = torch.compile(lambda w: torch.multinomial(w, 2, replacement), backend="eqsat")
    for weights, message in (([1.0, -1.0], "element < 0"), ([math.nan, 1.0], "nan"), ([0.0, 0.0], "sum of prob")):
        with pytest.raises(RuntimeError, match=message):
            draw(torch.tensor(weights))


@pytest.mark.slow
def test_masks_are_not_stored_between_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[tuple[int, ...]] = []

    def watched(forward: Any, backward: Any) -> None:
        draw_again(forward, backward)
        saved.extend(
            tuple(node.meta["val"].shape) for node in backward.graph.nodes if node.op == "placeholder" and node.users
        )

    monkeypatch.setattr("eqsat.frontends.torch.backend.draw_again", watched)
    x = torch.ones(30, 20, requires_grad=True)
    torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="eqsat")(x).sum().backward()
    assert sorted(saved) == [(1,), (30, 20)]  # the seed, and the gradient of the result


@pytest.mark.slow
def test_sizes_that_are_symbols() -> None:
    f = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5) * 2, backend="eqsat", dynamic=True)
    for size in (7, 12, 33):
        x = torch.ones(size, 3, requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert torch.equal(y != 0, x.grad != 0)


def test_a_graph_that_eager_runs_in_part_draws_too() -> None:
    def f(x: Any) -> Any:
        return torch.linalg.inv(torch.nn.functional.dropout(x, 0.0001) + torch.rand(6, 6))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EqsatWarning)
        y = torch.compile(f, backend="eqsat")(torch.eye(6) * 30)
    assert torch.isfinite(y).all()


@pytest.mark.exhaustive
def test_numbers_are_those_of_inductor() -> None:
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.ReLU(), nn.Linear(64, 4), nn.Dropout(0.1)).train()
    x = torch.randn(30, 8)
    results = []
    for backend in ("eqsat", "inductor"):
        torch._dynamo.reset()
        own = copy.deepcopy(model)
        compiled = torch.compile(own, backend=backend)
        torch.manual_seed(7)
        y = compiled(x)
        y.square().sum().backward()
        results.append([y.detach(), *(parameter.grad for parameter in own.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_attention_drops_weights_forward_and_backward() -> None:
    """Over the identity as values, attention returns its weights: each is 0, or what eager computes over 1 − p."""
    q, k = torch.randn(2, 16, 8), torch.randn(2, 16, 8)
    v = torch.eye(16).expand(2, 16, 16).contiguous().requires_grad_()
    attend = torch.compile(
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.25),
        backend="eqsat",
        options={"fallback": False},
    )
    weights = attend(q, k, v)
    expected = torch.softmax(q @ k.mT / 8**0.5, -1) / 0.75
    kept = weights != 0
    assert 0.6 < kept.float().mean() < 0.9
    torch.testing.assert_close(weights, expected * kept)
    weights.sum().backward()
    torch.testing.assert_close(v.grad, weights.detach().sum(-2).unsqueeze(-1).expand_as(v))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_drops_the_same_elements_when_it_computes_again(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    block = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 2, bias=False))
    compiled = torch.compile(lambda x: checkpoint(block, x, use_reentrant=reentrant), backend="eqsat")
    result = compiled(torch.randn(8, 4, requires_grad=True))
    result.sum().backward()
    weight = block[2].weight
    torch.testing.assert_close((weight * weight.grad).sum(), result.sum())  # the result is linear in the last weights
