"""What binds a module to memory: arenas, outputs that nobody writes, packed constants, timings."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.backends.cpu import CpuBackend
from codegen.compile.library import build
from codegen.compile.machine import machine
from codegen.compile.toolchain import compile_flags, find_compiler
from codegen.run.aligned_memory import ALIGNMENT, allocate
from codegen.run.executable import CpuExecutable
from codegen.text.program_to_c import c_units, kernel_texts, launch_table
from eqsat import nn
from eqsat import tensor as t
from eqsat.clock import Clock
from eqsat.find_target import find_target
from eqsat.model import read_model
from eqsat.options import Options
from eqsat.pipeline import lower_module, optimize
from ir.dtype import TensorType
from ir.host.array_pattern import pattern_of_arrays
from ir.module.launch import UNBOUND
from ir.module.module import Module

RNG = np.random.default_rng(0)


def compiled_module(outputs: Any, rules: tuple[str, ...] | None = None) -> tuple[Module, CpuExecutable]:
    """The module of lazy tensors, and what runs it."""
    model = read_model(outputs)
    actual = optimize(model.bind({}, True), find_target("cpu"), Options(rules=rules), Clock())
    library = build(actual.units, machine())
    return actual.module, CpuExecutable(actual.module, actual.table, library, model.constants, 2)


@pytest.fixture(scope="module")
def chain() -> tuple[Module, CpuExecutable]:
    """As written, one kernel a uop: (x·w).exp().sum(1) with buffers between."""
    x = t.input("x", (33, 17))
    return compiled_module((x * t.input("w", (33, 17))).exp().sum(1), rules=())


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(x * w).sum(1))


def test_memory_is_aligned() -> None:
    for size in (0, 1, 63, 64, 1000):
        memory = allocate(size)
        assert memory.nbytes == size
        assert not size or memory.__array_interface__["data"][0] % ALIGNMENT == 0


def test_kernels_pass_values_through_the_arena(chain: tuple[Module, CpuExecutable]) -> None:
    module, executable = chain
    assert module.arena_bytes > 0
    x, w = RNG.standard_normal((2, 33, 17), dtype=np.float32)
    y = np.empty(33, np.float32)
    executable.run([x, w], [y], 1)
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5)


def test_calls_from_many_threads_do_not_share_an_arena(chain: tuple[Module, CpuExecutable]) -> None:
    _, executable = chain

    def call(seed: int) -> None:
        x, w = np.random.default_rng(seed).standard_normal((2, 33, 17), dtype=np.float32)
        y = np.empty(33, np.float32)
        for _ in range(50):
            executable.run([x, w], [y], 1 + seed % 2)
            np.testing.assert_allclose(y, expected(x, w), rtol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(16)))


def test_an_arena_survives_a_failing_call(chain: tuple[Module, CpuExecutable]) -> None:
    _, executable = chain
    x, w = RNG.standard_normal((2, 33, 17), dtype=np.float32)
    executable.run([x, w], [np.empty(33, np.float32)], 1)
    kept = len(executable._arenas)
    with pytest.raises(TypeError):
        executable.run([x, None], [np.empty(33, np.float32)], 1)  # type: ignore[list-item]
    pattern = pattern_of_arrays([TensorType.of("fp32", (33, 17))] * 2)
    assert not executable.run_if_direct((x, None), (np.empty(33, np.float32),), pattern, 1)
    assert len(executable._arenas) == kept > 0


def test_outputs_that_no_kernel_writes() -> None:
    x = t.input("x", (4,))
    constant = t.constant(np.arange(4, dtype=np.float32), name="c")
    y = x + constant
    module, executable = compiled_module([x, y, constant, y, x])
    assert len({slot for _, slot in module.outputs}) == 3
    outputs = [np.full(4, np.nan, np.float32) for _ in range(5)]
    executable.run([np.ones(4, np.float32)], outputs, 1)
    for output, wanted in zip(outputs, ([1] * 4, [1, 2, 3, 4], range(4), [1, 2, 3, 4], [1] * 4), strict=True):
        np.testing.assert_array_equal(output, wanted)


def test_a_program_of_no_kernel() -> None:
    x = t.input("x", (2, 3))
    _, executable = compiled_module(x)
    given, actual = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    executable.run([given], [actual], 2)
    np.testing.assert_array_equal(actual, given)
    assert executable.profile([given], [actual], 1, 3).shape == (3, 0)


def test_profile_has_a_time_per_launch_and_run(chain: tuple[Module, CpuExecutable]) -> None:
    module, executable = chain
    x, w = RNG.standard_normal((2, 33, 17), dtype=np.float32)
    y = np.empty(33, np.float32)
    ns = executable.profile([x, w], [y], 1, 5)
    assert ns.shape == (5, sum(call.when == "run" for call in module.calls))
    assert 0 < ns.sum() < 1e9
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5)


@pytest.mark.slow
def test_a_constant_is_packed_once_for_all_its_readers() -> None:
    x, w = t.input("x", (32, 48)), RNG.standard_normal((48, 64), dtype=np.float32)
    weight = t.constant(w, name="w")
    model = read_model([x @ weight, (x * 2) @ weight])
    actual = optimize(model.bind({}, True), find_target("cpu"), Options(), Clock())
    assert len({(packing.function, packing.sources) for packing in actual.table.packings}) == len(actual.table.packings)
    executable = CpuExecutable(actual.module, actual.table, build(actual.units, machine()), model.constants, 1)
    given = RNG.standard_normal((32, 48), dtype=np.float32)
    outputs = [np.empty((32, 64), np.float32) for _ in range(2)]
    executable.run([given], outputs, 1)
    np.testing.assert_allclose(outputs[0], given @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(outputs[1], 2 * given @ w, rtol=1e-4, atol=1e-4)


QUIETED = ("-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-psabi")
"""All phases have the same parameters, whether they need them or not."""


@pytest.mark.slow
def test_the_compiler_has_nothing_to_say(tmp_path: Path) -> None:
    """Warnings of the optimizer too: what is read before it is set, what is beyond an array."""
    x, w = t.input("x", (9, 33)), t.input("w", (33, 10))
    image = nn.max_pool2d(nn.conv2d(t.input("i", (1, 3, 9, 9)), t.input("f", (4, 3, 3, 3)), padding=1), 2)
    model = read_model([nn.softmax(nn.gelu(x @ w)), x.sin().cumsum(1).cast("fp16"), image])
    actual = optimize(model.bind({}, True), find_target("cpu"), Options(), Clock())
    compiler, here = find_compiler(), machine()
    flags = [flag for flag in compile_flags(compiler, here) if flag != "-w"]
    for name, text in actual.units.items():
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        command = [*compiler.command, *flags, "-Wall", "-Wextra", *QUIETED, "-c", str(source), "-o", os.devnull]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_the_same_module_gives_the_same_text() -> None:
    x = t.input("x", (5, 6))
    model = read_model([(x + 1).sum(0), x.exp()])
    actual = optimize(model.bind({}, True), find_target("cpu"), Options(), Clock())
    lowered = lower_module(actual.module, actual.prices, CpuBackend())
    table = launch_table(actual.module, lowered)
    assert table == actual.table
    bound = {name: text.replace(actual.contract, UNBOUND) for name, text in actual.units.items()}
    assert c_units(kernel_texts(lowered.values()), table, flush=True) == bound
    reverse = dict(reversed(lowered.items()))
    assert c_units(kernel_texts(reverse.values()), table, flush=True) == bound, (
        "units do not depend on the order of the kernels"
    )
    assert c_units(kernel_texts(lowered.values()), table, flush=False) != actual.units
