"""Results that update arguments: written in place where kernels may, and right in any case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from eqsat import Program, nn, optimize_and_compile, tensor
from eqsat.runtime.verify import relative_error
from eqsat.tensor import Tensor
from ir.module.module_verify import verify
from ir.tiny.bind import load
from ir.tiny.playback import playback
from tests.support.programs.usual_cpu import usual_cpu

Outputs = dict[str, Tensor]
ROWS, WIDTH = 12, 40


def momentum(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """One kernel, or several, with two results over two arguments."""
    new = m * 0.9 + g
    return {"x": x - new * 0.1, "m": new}


def adam(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    new = m + (g - m) * 0.1
    return {"x": tensor.where(g > 0, x * 0.99 - new / (new.abs().sqrt() + 1e-8), x.exp() + new), "m": new}


def written_rows(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """A cache that a softmax reads after the write."""
    cache = x.scatter(0, i.reshape(3, 1).expand(3, WIDTH), g[:3])
    return {"x": cache, "y": nn.softmax(m @ cache.T, 1) @ cache}


def added_rows(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    return {"x": x.scatter(0, i.reshape(3, 1).expand(3, WIDTH), g[:3], reduction="add")}


def updates_of_itself(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """The updates are rows of the argument: no kernel may overwrite them before they are read."""
    return {"x": x.scatter(0, i.reshape(3, 1).expand(3, WIDTH), x[5:8] * 2)}


def written_over_products(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """The rows that are not written are computed, too."""
    return {"x": (x * 2).scatter(0, i.reshape(3, 1).expand(3, WIDTH), g[:3])}


def turned(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """Each kernel reads what the other one overwrites."""
    return {"x": m.flip(1), "m": x.flip(1)}


def read_later(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """Products of the old values, which other kernels compute."""
    return {"x": x * 2, "y": x.T @ m, "z": x @ g.T}


def read_elsewhere(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    return {"x": x.flip(1) + m}


def centred(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    return {"x": x - x.mean(1, keepdim=True)}


def needs_the_new_value(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """A kernel that reads the old and the new value."""
    new = x.scatter(0, i.reshape(3, 1).expand(3, WIDTH), g[:3])
    return {"x": new, "y": (new - x).sum(1)}


def replaced(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    """A result that does not read its argument, and a product."""
    return {"x": (m @ g.T) @ g, "m": g * 3, "y": x.sum()}


def swapped(x: Tensor, m: Tensor, g: Tensor, i: Tensor) -> Outputs:
    return {"x": m + 0, "m": x + 0}


PROGRAMS: Mapping[Callable[..., Outputs], int | None] = {
    **dict.fromkeys((momentum, adam), 2),
    **dict.fromkeys((written_rows, added_rows, read_later), 1),
    **dict.fromkeys((updates_of_itself, read_elsewhere, centred, needs_the_new_value, written_over_products), 0),
    turned: 1,
    replaced: None,
    swapped: None,
}
"""Programs, and how many of their results are written in place; None: it depends on the order of kernels."""


def arguments() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    floats = {name: rng.standard_normal((ROWS, WIDTH)).astype(np.float32) for name in "xmg"}
    return {**floats, "i": np.array([7, 0, 11])}


def build(make: Callable[..., Outputs], updates: Mapping[str, str], **options: Any) -> Program:
    given = [tensor.input(name, array.shape, array.dtype.name) for name, array in arguments().items()]
    outputs = {f"{name}_out": value for name, value in make(*given).items()}
    return optimize_and_compile(outputs, updates=updates, threads=2, **options)


def updates_for(make: Callable[..., Outputs]) -> dict[str, str]:
    x = tensor.input("x", (ROWS, WIDTH))
    results = make(x, x, x, tensor.input("i", (3,), "i64"))
    return {f"{name}_out": name for name in results if name in "xm"}


def check(program: Program, updates: Mapping[str, str]) -> None:
    """Results and arguments after a call are what playback says, and other arguments are as they were."""
    given = arguments()
    graph = load(program.dump("tiny", as_json=True))[0]
    names = [*program.arguments]
    before = {name: given[name].copy() for name in names}
    expected = dict(zip(program.output_names, playback(graph, before, wide=True), strict=True))
    results = program({name: given[name] for name in names})
    results = results if isinstance(results, tuple) else (results,)
    for name, result in zip(program.output_names, results, strict=True):
        assert relative_error(result, expected[name]) < 1e-5
        if name in updates:
            assert result is given[updates[name]]
    for name in set(names) - set(updates.values()):
        np.testing.assert_array_equal(given[name], before[name])


def in_place(program: Program) -> int:
    return sum(" over " in line for line in program.dump("module").splitlines() if line.startswith("  output"))


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_arguments_hold_the_results(make: Callable[..., Outputs]) -> None:
    updates = updates_for(make)
    program = build(make, updates)
    verify(program._compiled.artifact.module)
    assert PROGRAMS[make] in (None, in_place(program))
    check(program, updates)
    program.verify()


@pytest.mark.slow
@pytest.mark.parametrize("make", [momentum, adam, added_rows], ids=lambda make: make.__name__)
def test_every_plan_writes_in_place(make: Callable[..., Outputs]) -> None:
    updates = updates_for(make)
    program = build(make, updates)
    for kernel in [report.name for report in program.kernels]:
        for option in program.plans(kernel)[:6]:
            check(program.replan(kernel, option.plan), updates)


def test_nothing_is_copied_to_write_some_rows() -> None:
    """A kernel that writes 3 of 12 rows touches these rows and the index alone."""
    (kernel,) = build(added_rows, {"x_out": "x"}).kernels
    assert kernel.bytes == 2 * 3 * WIDTH * 4 + 3 * 8
    (whole,) = build(added_rows, {}).kernels
    assert whole.bytes > 2 * ROWS * WIDTH * 4


def test_kernels_that_read_the_old_value_run_first() -> None:
    program = build(read_later, {"x_out": "x"})
    *others, last = program.kernels
    assert last.writes == ("x_out",)
    assert all("x" in kernel.reads for kernel in others)


@pytest.mark.parametrize(("shape", "count"), [((0, 4), 2), ((1, 1), 1), ((5, 3), 0), ((3, 129), 3)])
def test_sizes_at_the_edge(shape: tuple[int, int], count: int) -> None:
    x, u = tensor.input("x", shape), tensor.input("u", (count, shape[1]))
    i = tensor.input("i", (count,), "i64")
    program = optimize_and_compile(
        {"y": x.scatter(0, i.reshape(count, 1).expand(count, shape[1]), u)}, updates={"y": "x"}
    )
    given = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    wanted, rows = given.copy(), np.full((count, shape[1]), np.nan, np.float32)
    at = np.arange(count) % max(shape[0], 1)
    if shape[0]:
        wanted[at] = rows
    assert program(x=given, i=at, u=rows) is given
    np.testing.assert_array_equal(given, wanted)


def test_arguments_beyond_the_caches_are_read_once() -> None:
    """Kernels of their own would read the moment from memory again, if all weights together fill the last cache."""

    def steps(count: int) -> Program:
        outputs: Outputs = {}
        updates: dict[str, str] = {}
        for k in range(count):
            x, m, g = (tensor.input(f"{name}{k}", (512, 1024)) for name in "xmg")
            moment = m * 0.9 + g
            outputs |= {f"x_{k}": x - (moment.abs() + 1).sqrt().reciprocal() * moment, f"m_{k}": moment}
            updates |= {f"x_{k}": f"x{k}", f"m_{k}": f"m{k}"}
        target = structs.replace(usual_cpu(), l3_bytes=8 << 20, source="a cache of 8 MiB")
        return optimize_and_compile(outputs, updates=updates, target=target)

    assert len(steps(4).kernels) == 4
