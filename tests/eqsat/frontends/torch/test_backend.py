"""torch.compile(model, backend="eqsat"): kernels, gradients, sizes, fallback, options, threads."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from eqsat import EqsatError, EqsatWarning, optimize_and_compile
from eqsat.frontends.torch.backend import eqsat as backend
from eqsat.runtime.program import Program
from ir.diagnostics import Kind, fail

F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def model() -> Any:
    layers = (torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    return torch.nn.Sequential(*layers)


@pytest.mark.slow
def test_the_entry_point_is_the_backend() -> None:
    (result,) = entry_points(group="torch_dynamo_backends", name="eqsat")
    assert result.load() is backend


def test_a_model_runs_and_learns_as_in_eager() -> None:
    ours, theirs = model(), model()
    ours.load_state_dict(theirs.state_dict())
    compiled = torch.compile(ours, backend=backend, fullgraph=True, options={"fallback": False})
    x, target = torch.randn(5, 8), torch.randint(0, 4, (5,))
    losses = []
    for network, run in ((ours, compiled), (theirs, theirs)):
        optimizer = torch.optim.Adam(network.parameters(), 0.05)
        steps = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), target)
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        losses.append(steps)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < losses[0][0]


def test_a_parameter_that_changes_is_read_again() -> None:
    layer = torch.nn.Linear(3, 2)
    compiled = torch.compile(layer, backend=backend)
    x = torch.randn(4, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), layer(x))
        layer.weight.data.mul_(2)  # no version counter tells of this change
        layer.bias.add_(1)
        torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.slow
def test_sizes_are_symbols_after_the_first() -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    counted = CompileCounterWithBackend(backend)
    compiled = torch.compile(lambda x: (x.relu().sum(1), x.reshape(-1) * x.shape[0]), backend=counted)
    for batch in (3, 5, 7, 5):
        x = torch.randn(batch, 4)
        expected = (x.relu().sum(1), x.reshape(-1) * batch)
        for ours, theirs in zip(compiled(x), expected, strict=True):
            torch.testing.assert_close(ours, theirs)
    assert counted.frame_count == 2


@pytest.mark.slow
def test_unsupported_operators_run_in_eager_with_one_warning() -> None:
    def function(x: Any) -> Any:
        return torch.linalg.qr(x @ x)[1].abs().sum() + torch.linalg.qr(x.relu())[1].abs().mean() + x.sum()

    x = torch.randn(4, 4, requires_grad=True)
    with pytest.warns(EqsatWarning) as caught:
        loss = torch.compile(function, backend=backend)(x)
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, EqsatWarning)]
    assert len(messages) == 1
    assert "aten.linalg_qr.default (2)" in messages[0]
    loss.backward()
    ours, x.grad = x.grad, None
    expected = function(x)
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours, x.grad)


def test_without_fallback_an_unsupported_operator_is_an_error() -> None:
    compiled = torch.compile(lambda x: torch.linalg.qr(x)[1], backend=backend, options={"fallback": False})
    with pytest.raises(EqsatError, match=r"eqsat lacks aten\.linalg_qr") as caught:
        compiled(torch.randn(3, 3))
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.slow
def test_an_assertion_raises_torchs_error() -> None:
    def function(x: Any) -> Any:
        torch._assert_async((x > 0).all(), "x is not positive")
        torch._assert_async(x.sum() < 9, "x is large")
        return x.sqrt().square().sum()

    compiled = torch.compile(function, backend=backend, fullgraph=True, options={"fallback": False})
    for gradients in (True, False):
        x = torch.ones(3, requires_grad=gradients)
        torch.testing.assert_close(compiled(x), function(x))
        with pytest.raises(RuntimeError, match="x is not positive"):
            compiled(-x)
        with pytest.raises(RuntimeError, match="x is large"):
            compiled(x * 5)


def test_an_unknown_option_is_named() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=backend, options={"speed": 11})
    with pytest.raises(Exception, match="the backend has no option 'speed'"):
        compiled(torch.randn(3))


@pytest.mark.slow
def test_on_program_is_called_with_each_program() -> None:
    programs: list[Program] = []
    layer, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    torch.compile(layer, backend=backend, options={"on_program": programs.append})(x).sum().backward()
    forward, backward = programs
    inputs: dict[str, Any] = forward.random_inputs()
    assert [kernel.measured_ns is not None for kernel in forward.profile(**inputs)] == [True]
    assert backward.kernels
    wrong = torch.compile(layer, backend=backend, options={"on_program": programs})
    with pytest.raises(Exception, match="on_program= is a function of a Program"):
        wrong(x)


@pytest.mark.slow
def test_a_transposed_weight_is_not_stored_for_the_backward_pass() -> None:
    """The backward pass reads the weight itself: a transposed copy would be written and read again in every step."""
    programs: list[Program] = []
    x, weight = torch.randn(3, 4, 5, requires_grad=True), torch.randn(3, 6, 5, requires_grad=True)
    run = torch.compile(lambda x, w: x @ w.transpose(1, 2), backend=backend, options={"on_program": programs.append})
    result = run(x, weight)
    result.backward(torch.ones_like(result))
    assert len(programs[0].output_names) == 1
    assert len(programs[0].kernels) == 1
    grads = x.grad, weight.grad
    x.grad = weight.grad = None
    (x @ weight.transpose(1, 2)).sum().backward()
    for ours, theirs in zip(grads, (x.grad, weight.grad), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_options_reach_the_programs() -> None:
    """In index order, a sum of floats has the bits of a plain loop."""
    x = torch.randn(1000)
    result = torch.compile(lambda x: x.sum(), backend=backend, options={"exactness": "exact"})(x)
    total = torch.tensor(0.0)
    for element in x:
        total += element
    assert result == total


@pytest.mark.slow
def test_mutations_of_arguments_and_buffers_happen() -> None:
    norm = torch.nn.BatchNorm1d(4)
    other = torch.nn.BatchNorm1d(4)
    x = torch.randn(6, 4)
    compiled = torch.compile(norm, backend=backend)
    torch.testing.assert_close(compiled(x), other(x))
    torch.testing.assert_close(norm.running_var, other.running_var)
    assert norm.num_batches_tracked == 1

    def change(y: Any) -> Any:
        y.mul_(2)
        return y[1:]

    ours, theirs = x.clone(), x.clone()
    torch.testing.assert_close(torch.compile(change, backend=backend)(ours), change(theirs))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_dropout_masks_as_torch_draws_them() -> None:
    x = torch.ones(1000, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EqsatWarning)
        y = torch.compile(lambda x: F.dropout(x, 0.5) * 3, backend=backend)(x)
    y.sum().backward()
    assert set(y.tolist()) == {0.0, 6.0}
    assert 400 < int((y == 0).sum()) < 600
    torch.testing.assert_close(x.grad, y.detach())


@pytest.mark.slow
def test_many_threads_may_call_one_model() -> None:
    layer = torch.nn.Linear(3, 2)
    compiled = torch.compile(layer, backend=backend, dynamic=True)
    inputs = [torch.randn(size, 3) for size in (2, 3, 4, 2, 3, 4)]

    def run(x: Any) -> Any:
        with torch.no_grad():
            return compiled(x)

    run(inputs[0])
    with ThreadPoolExecutor(3) as pool:
        for x, y in zip(inputs, pool.map(run, inputs), strict=True):
            torch.testing.assert_close(y, layer(x).detach())


def test_the_number_of_threads_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsat.runtime.program import Program

    threads: list[int] = []
    call = Program.__call__

    def counted(self: Program, *arguments: Any, **named: Any) -> Any:
        threads.append(self._threads)
        return call(self, *arguments, **named)

    monkeypatch.setattr(Program, "__call__", counted)
    compiled = torch.compile(lambda x: x + 1, backend=backend)
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            compiled(torch.randn(3))
    finally:
        torch.set_num_threads(before)
    assert threads == [1, 2]


def test_a_graph_that_does_not_compile_runs_in_eager_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        fail(Kind.RESOURCE_EXCEEDED, "plan", "no plan fits")

    monkeypatch.setattr("eqsat.frontends.torch.compiled_graph.optimize_and_compile", refuse)
    x = torch.randn(3)
    with pytest.warns(EqsatWarning, match="could not compile: ResourceExceeded"):
        result = torch.compile(lambda x: x * 2, backend=backend)(x)
    torch.testing.assert_close(result, x * 2)
    torch._dynamo.reset()
    with pytest.raises(EqsatError, match="no plan fits"):
        torch.compile(lambda x: x * 2, backend=backend, options={"fallback": False})(x)


def test_a_wrong_value_of_an_option_is_an_error() -> None:
    with pytest.raises(EqsatError, match="exactness"):
        torch.compile(lambda x: x * 2, backend=backend, options={"exactness": "roughly"})(torch.randn(3))


@pytest.mark.slow
def test_layers_are_optimized_once_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward graph returns gradients in the order of the parameters; its layers stand together all the same."""

    class ResidualLayer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(8)
            self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x: Any) -> Any:
            return x + self.down(F.gelu(self.up(self.norm(x))))

    programs: list[Any] = []

    def kept(*arguments: Any, **options: Any) -> Any:
        programs.append(optimize_and_compile(*arguments, **options))
        return programs[-1]

    monkeypatch.setattr("eqsat.frontends.torch.compiled_graph.optimize_and_compile", kept)
    model = torch.nn.Sequential(*(ResidualLayer() for _ in range(3)))
    x = torch.randn(6, 8)
    torch.compile(model, backend=backend, options={"fallback": False})(x).square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    for ours, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-3, atol=1e-4)
    assert len(programs) == 2
    for program in programs:
        assert sum(name.startswith("block") for name in program.explorations()) >= 2


@pytest.mark.slow
def test_images_of_any_size_are_enlarged_by_kernels() -> None:
    compiled = torch.compile(
        lambda x: torch.nn.functional.interpolate(x, scale_factor=2), backend="eqsat", dynamic=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", EqsatWarning)
        for size in (5, 7):
            x = torch.randn(1, 2, size, 6)
            torch.testing.assert_close(compiled(x), torch.nn.functional.interpolate(x, scale_factor=2), rtol=0, atol=0)
