"""torch.compile beside builds: sizes that are ready, sizes that are built meanwhile, what answers, what an error is."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from eqsat import EqsatError, EqsatWarning, Program
from eqsat.frontends.torch.backend import eqsat as backend
from eqsat.frontends.torch.frozen import MOST_CHANGES
from ir.diagnostics import Kind

SECONDS = 60.0
"""How long a test waits for another thread before it fails."""


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


class Gate:
    """Builds of these sizes wait until the test lets them go on."""

    def __init__(self, program: Program) -> None:
        self.build = program._variants._specialise
        self.held: dict[int, threading.Event] = {}
        self.begun = threading.Semaphore(0)
        program._variants._specialise = self

    def __call__(self, dims: Mapping[str, int]) -> Any:
        size = dims["x_0"]
        if size in self.held:
            self.begun.release()
            assert self.held[size].wait(SECONDS)
        return self.build(dims)

    def hold(self, *sizes: int) -> None:
        self.held = {size: threading.Event() for size in sizes}


def rows(size: int) -> Any:
    """A matrix whose number of rows is a symbol for torch."""
    x = torch.randn(size, 4)
    torch._dynamo.mark_dynamic(x, 0)
    return x


def function(x: Any) -> Any:
    return x.relu() * 2, x.clone()


def compiled(size: int, **options: Any) -> tuple[Any, Gate]:
    """The function with a free number of rows, built for one size; and the gate of its later builds."""
    programs: list[Program] = []
    options["on_program"] = programs.append
    run = torch.compile(function, backend=backend, options=options)
    right(run, size)
    (program,) = programs
    program.prepare(x_0=size)
    assert program.variants == [{"x_0": size}]
    return run, Gate(program)


def right(run: Any, size: int) -> None:
    x = rows(size)
    with torch.no_grad():
        for ours, theirs in zip(run(x), function(x), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as result:
        yield result


@pytest.mark.slow
def test_new_sizes_are_built_side_by_side_and_a_ready_one_waits_for_none(pool: ThreadPoolExecutor) -> None:
    run, gate = compiled(3, when_missing="wait")
    gate.hold(5, 7)
    try:
        calls = [pool.submit(right, run, size) for size in (5, 7)]
        for _ in calls:
            assert gate.begun.acquire(timeout=SECONDS), "the second size waits for the first"
        right(run, 3)
        assert not any(call.done() for call in calls)
    finally:
        for held in gate.held.values():
            held.set()
    for call in calls:
        call.result(SECONDS)


@pytest.mark.slow
def test_eager_answers_while_a_size_is_built() -> None:
    run, gate = compiled(3, when_missing="eager")
    gate.hold(5)
    right(run, 5)
    assert gate.begun.acquire(timeout=SECONDS)
    right(run, 5)
    gate.held[5].set()


@pytest.mark.slow
def test_larger_code_answers_while_a_size_is_built() -> None:
    run, gate = compiled(8, when_missing={"x_0": "pad"}, dims={"x_0": [8]})
    gate.hold(5, 8)
    right(run, 5)
    assert not gate.begun.acquire(blocking=False), "the bucket was ready"


@pytest.mark.slow
def test_a_graph_that_cannot_be_padded_waits_for_its_own_code() -> None:
    run = torch.compile(lambda x: x - x.sum(0), backend=backend, options={"when_missing": "pad"})
    big, small = rows(5), rows(3)
    with torch.no_grad():
        torch.testing.assert_close(run(big), big - big.sum(0))
        with pytest.warns(EqsatWarning, match="wait for their code instead of being padded"):
            torch.testing.assert_close(run(small), small - small.sum(0))


@pytest.mark.slow
def test_sizes_are_prepared_by_the_names_of_arguments() -> None:
    programs: list[Program] = []
    options = {"dims": {"x_0": [1, 2, 6]}, "on_program": programs.append}
    run = torch.compile(lambda x, n: x.sum(1) * n, backend=backend, options=options)
    x = rows(6)
    torch.testing.assert_close(run(x, 7), x.sum(1) * 7)
    torch.testing.assert_close(run(x, 9), x.sum(1) * 9)
    assert len(programs) == 2, "a number that is no size makes a program of its own"
    (sizes,) = programs[0].buckets.values()
    assert 2 in sizes
    assert 1 not in sizes, "torch compiles the size 1 as a graph of its own"
    programs[0].prepare(x_0=[4])
    assert {"x_0": 4} in programs[0].variants


def test_a_copy_is_no_alias_of_the_argument() -> None:
    run = torch.compile(lambda x: (x.clone(), x.to(torch.float64), x.float() + 1), backend=backend)
    x = rows(3)
    with torch.no_grad():
        run(x)[0].add_(1)
        before = x.clone()
        run(x)[0].zero_()
    torch.testing.assert_close(x, before)


def break_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the next build fail by a defect of eqsat."""

    def crash(*_: Any, **__: Any) -> Any:
        raise KeyError("n7")

    monkeypatch.setattr("eqsat.api.compile_model", crash)


def test_a_defect_of_eqsat_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    break_compiling(monkeypatch)
    with pytest.raises(EqsatError, match="please report this") as caught:
        torch.compile(lambda x: x * 2, backend=backend)(rows(2))
    assert caught.value.kind is Kind.INTERNAL_ERROR


@pytest.mark.parametrize("how", ["fallback", "suppress_errors"])
def test_eager_hides_a_defect_if_the_user_asks_for_it(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    break_compiling(monkeypatch)
    options = {"fallback": True} if how == "fallback" else {}
    x = rows(2)
    suppressing = torch._dynamo.config.patch(suppress_errors=how == "suppress_errors")
    with suppressing, pytest.warns(EqsatWarning, match="could not compile: InternalError"):
        torch.testing.assert_close(torch.compile(lambda x: x * 2, backend=backend, options=options)(x), x * 2)


@pytest.mark.slow
def test_frozen_parameters_are_constants_until_they_change() -> None:
    programs: list[Program] = []
    layer = torch.nn.Linear(4, 3)
    run = torch.compile(layer, backend=backend, options={"freezing": True, "on_program": programs.append})
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(run(x), layer(x))
        (argument,) = programs[0].arguments
        assert programs[0].random_inputs()[argument].shape == (2, 4)
        layer.weight.mul_(2)
        torch.testing.assert_close(run(x), layer(x))
        layer.load_state_dict(torch.nn.Linear(4, 3).state_dict())
        torch.testing.assert_close(run(x), layer(x))
        assert len(programs) == 3
        for _ in range(MOST_CHANGES - 3):
            layer.bias.add_(1)
            run(x)
        layer.bias.add_(1)
        with pytest.warns(EqsatWarning, match="they are arguments from now on"):
            torch.testing.assert_close(run(x), layer(x))
    run(x).sum().backward()
    torch.testing.assert_close(layer.bias.grad, torch.full((3,), 2.0))
