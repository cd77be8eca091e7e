"""`tf32=True`: a permission that is asked for, kept in keys and files, shown, and judged by what it may round."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from codegen.compile.nvrtc import build
from eqsat import Program, load, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.cli import app
from eqsat.cost.targets import A100
from eqsat.explanation.explore import explore
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.model import read_model
from eqsat.options import Options, usable
from eqsat.planning.plan_cache import PlanCache
from eqsat.runtime.artifact_cache import key_of
from eqsat.runtime.verify import verify_compiled
from ir.diagnostics import EqsatError, Kind, Severity
from ir.plan.gpu import TF32, GpuContractionPlan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.term.rule import Exactness
from ir.tiny.bind import load as graph_of
from ir.tiny.playback import playback
from ir.tiny.tf32 import summed_products, to_tf32
from tests.codegen.lower.gpu.test_contraction import matmul
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.oracles.agree import disagreement
from tests.support.sampling import first_few
from tests.support.stages.plan_class import plan_of


def dense(m: int = 136, n: int = 128, k: int = 256) -> Any:
    """relu(a·b + c)."""
    return (t.input("a", (m, k)) @ t.input("b", (k, n)) + t.input("c", (n,))).relu()


def images(size: int = 24, channels: int = 32) -> Any:
    x, w = t.input("x", (1, channels, size, size)), t.input("w", (48, channels, 3, 3))
    return nn.conv2d(x, w, None, 1, 1).relu()


def lora() -> Any:
    """x·(w + d·u): products of products."""
    shapes = {"x": (128, 160), "w": (160, 96), "d": (160, 4), "u": (4, 96)}
    x, w, d, u = (t.input(name, shape) for name, shape in shapes.items())
    return x @ (w + d @ u)


def attention() -> Any:
    q, k, v = (t.input(name, (1, 2, 256, 64)) for name in "qkv")
    return nn.attention(q, k, v)


def little_attention() -> Any:
    q, k, v = (t.input(name, (1, 2, 33, 16)) for name in "qkv")
    return nn.attention(q, k, v)


SOURCES: dict[str, Callable[[], Any]] = {
    "dense": dense,
    "images": images,
    "lora": lora,
    "attention": attention,
    "little attention": little_attention,
}


def emulated(source: Any, **keywords: Any) -> Program:
    return optimize_and_compile(source, target="sm_80", emulate=True, tf32=True, **keywords)


@pytest.fixture(scope="module")
def program() -> Program:
    return emulated(dense(), verify=True)


def algorithms(program: Program) -> set[str]:
    return {
        choice
        for price in program._compiled.artifact.prices
        for choice in plan_to_schedule(price.plan).algo_choice.values()
    }


# --- results --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_programs_compute_what_playback_does(name: str) -> None:
    program = emulated(SOURCES[name]())
    assert (TF32 in algorithms(program)) == (name != "little attention"), "which gains nothing by it"
    program.verify(seed=3)


def test_the_rule_of_all_tests_knows_how_far_rounding_goes() -> None:
    """Results of rounded operands agree where they may be rounded, and there alone; others disagree."""
    uops, _ = tensor_to_tiny([t.input("a", (7, 40)) @ t.input("b", (40, 9))])
    graph, rng = graph_of(uops)[0], np.random.default_rng(4)
    arrays = {
        ref: rng.standard_normal(graph.types[node.id].shape).astype(np.float32) for ref, node in graph.inputs.items()
    }
    near = (to_tf32(arrays["a"]) @ to_tf32(arrays["b"])).astype(np.float32)
    assert not disagreement(graph, arrays, [near], tf32=True)[0].wrong
    assert disagreement(graph, arrays, [near])[0].wrong
    assert disagreement(graph, arrays, [near * np.float32(1.02)], tf32=True)[0].wrong


@pytest.mark.slow
def test_it_rounds_and_verify_knows_by_how_much(program: Program) -> None:
    """Further from fp32 than fp32 may be, and no further than operands of 10 bits."""
    inputs = program.random_inputs(1)
    a, b, c = (inputs[name].astype(np.float64) for name in "abc")
    got, exact = program(**inputs), np.maximum(a @ b + c, 0)
    near = np.maximum(to_tf32(a) @ to_tf32(b) + c, 0)
    assert TF32 in algorithms(program)
    assert np.abs(got - near).max() < 1e-5 * np.abs(near).max() < np.abs(got - exact).max()
    plain = optimize_and_compile(dense(), target="sm_80", emulate=True)
    assert algorithms(plain) == {"fma"}
    assert next(iter(plain.verify(seed=1).values())) < 1e-6 < next(iter(program.verify(seed=1).values())) < 1e-3


class Off:
    """An executable whose results are a little too large."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def run(self, inputs: Any, outputs: Any, threads: int) -> None:
        self._inner.run(inputs, outputs, threads)
        outputs[0][...] *= 1.01


def test_verify_still_finds_what_is_wrong(program: Program) -> None:
    compiled = program._compiled
    wrong = dataclasses.replace(compiled, executable=Off(compiled.executable))  # type: ignore[arg-type]
    with pytest.raises(EqsatError) as caught:
        verify_compiled(wrong, threads=1)
    assert caught.value.kind is Kind.WRONG_RESULT


def test_rounding_is_to_the_nearest_and_keeps_what_is_no_number() -> None:
    edges, huge = [0.0, -0.0, np.inf, -np.inf], [3.4e38]
    given = [1, 1 + 2**-10, 1 + 2**-11, 1 + 2**-11 - 2**-23, -1 - 2**-11]
    x = np.array([*given, *edges, *huge], np.float32)
    wanted = np.array([1, 1 + 2**-10, 1 + 2**-10, 1, -1 - 2**-10, *edges, *huge], np.float32)
    assert to_tf32(x)[:9].tobytes() == wanted[:9].tobytes()
    assert abs(to_tf32(x)[9] / wanted[9] - 1) <= 2**-11
    assert np.isnan(to_tf32(np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32))).all()
    values = np.random.default_rng(0).standard_normal(1000)
    assert np.abs(to_tf32(values) / values - 1).max() <= 2**-11
    assert to_tf32(values).dtype == np.float64


def test_only_factors_of_what_is_summed_are_rounded() -> None:
    """Of a·b, not of what scales its sums, nor of what is squared and stored."""
    a, b = (t.input(name, (6, 6)) for name in "ab")
    uops, _ = tensor_to_tiny([(a @ b) * 1.1, a * a, -t.where(a > 0, a * b, 0.0).sum(0)])
    graph, _ = graph_of(uops)
    products = summed_products(graph)
    assert products
    assert all(graph[ref].uop == "MUL" for ref in products)
    arrays = {name: np.random.default_rng(2).standard_normal((6, 6)).astype(np.float32) for name in "ab"}
    coarse = playback(graph, arrays, wide=True, tf32=products)
    x, y = (arrays[name].astype(np.float64) for name in "ab")
    np.testing.assert_allclose(coarse[0], (to_tf32(x) @ to_tf32(y)) * np.float64(np.float32(1.1)), rtol=1e-6)
    np.testing.assert_array_equal(coarse[1], x * x)
    np.testing.assert_allclose(coarse[2], -np.where(x > 0, to_tf32(x) * to_tf32(y), 0).sum(0))


# --- keys, files, and what is said ----------------------------------------------------------------


def test_programs_and_plans_that_may_round_have_keys_of_their_own(tmp_path: Path) -> None:
    bound = read_model(dense(), None, None).bind({}, False)
    assert key_of(bound, A100, Options()) != key_of(bound, A100, Options(tf32=True))
    region = matmul((), 8, 8, 8)
    paths = {
        PlanCache(tmp_path, A100, "a GPU", options).path(region) for options in (["rounding"], ["rounding", "tf32"])
    }
    assert len(paths) == 2


def test_saved_programs_keep_it(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p")
    again = load(tmp_path / "p")
    assert again._compiled.artifact.options.tf32
    assert algorithms(again) == algorithms(program)
    inputs = program.random_inputs(4)
    np.testing.assert_array_equal(again(**inputs), program(**inputs))
    again.verify()


def test_it_is_shown(program: Program) -> None:
    assert f"matmul: {TF32}" in program.explain()
    assert [plan["algo_choice"] for plan in program.dump("plan", as_json=True).values()] == [{"matmul": TF32}]
    assert "eq_mma_m16n8k8_tf32" in program.source()
    assert not program.diagnostics
    plans = [plan_of(price.plan, GpuContractionPlan) for price in explore(dense(), target="sm_80", tf32=True).prices]
    assert {plan.tile.algorithm for plan in plans} == {TF32}


@pytest.mark.slow
def test_attention_rounds_and_verify_knows_by_how_much() -> None:
    """The error is that of operands and weights of 10 bits: three parts of 2⁻¹¹ at most."""
    program, plain = emulated(attention()), optimize_and_compile(attention(), target="sm_80", emulate=True)
    assert algorithms(program) == {TF32}
    assert TF32 not in algorithms(plain)
    assert next(iter(plain.verify(seed=1).values())) < 2e-6 < next(iter(program.verify(seed=1).values())) < 3 * 2**-11


def test_elsewhere_it_is_a_note_and_changes_nothing() -> None:
    program = optimize_and_compile(dense(), target="cpu", tf32=True, threads=1, verify=True)
    (diagnostic,) = program.diagnostics
    assert (diagnostic.kind, diagnostic.severity) == (Kind.INVALID_OPTION, Severity.NOTE)
    assert "cpu" in diagnostic.message
    assert program.source() == optimize_and_compile(dense(), target="cpu", threads=1).source()
    for level in (Exactness.EXACT, Exactness.REASSOCIATE):
        options, notes = usable(Options(exactness=level, tf32=True), A100)
        assert options == Options(exactness=level)
        assert str(level) in notes[0].message
    assert usable(Options(tf32=True), A100) == (Options(tf32=True), ())


def test_it_is_a_switch() -> None:
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(dense(), tf32="yes")  # type: ignore[arg-type]
    assert caught.value.kind is Kind.INVALID_OPTION


def test_the_command_line_asks_for_it(tmp_path: Path) -> None:
    uops, _ = tensor_to_tiny([dense()])
    path = tmp_path / "dense.json"
    path.write_text(json.dumps(uops))
    result = CliRunner().invoke(app, ["check", str(path), "--target", "sm_80", "--emulate", "--tf32"])
    assert result.exit_code == 0, result.output
    assert 1e-6 < float(result.stdout.split()[3]) < 1e-3
    answer = CliRunner().invoke(app, ["compile", str(path), "--target", "cpu", "--tf32"])
    assert "changes nothing on cpu" in answer.stderr
    saved = tmp_path / "dense.saved"
    emulated(dense()).save(saved)
    refused = CliRunner().invoke(app, ["compile", str(saved), "--tf32"])
    assert refused.exit_code == 2


@needs_nvrtc
@first_few(1, "arch", ["sm_80", "sm_90"])
def test_kernels_compile_without_spills(arch: str) -> None:
    program = optimize_and_compile([dense(512, 512, 512), images(56, 64)], target=arch, tf32=True)
    assert algorithms(program) == {TF32}
    kernels = build(program.source(), arch).kernels
    assert len(kernels) == 2
    assert all((kernel.spills, kernel.stack, kernel.lints) == (False, 0, ()) for kernel in kernels)
