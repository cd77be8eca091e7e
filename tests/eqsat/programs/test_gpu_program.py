"""Programs for a GPU: the same kernels' text emulated, compiled without a device, saved, and shown."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import eqsat
from codegen.compile import nvrtc
from codegen.run.emulated import EmulatedExecutable, emulated_kernels
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.cli import app
from eqsat.cost.targets import A100, H100, H200, device_target
from eqsat.demo import seed_program
from eqsat.runtime.dump import GPU_STAGES
from ir.diagnostics import EqsatError, Kind
from tests.support.gpu.fake_cupy import Array, Function, Stream, fake_cupy
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.gpu.programs import PROGRAMS, dense, pointwise, softmax

ROOT = Path(__file__).parents[3]
SIZES = {"M": 65, "K": 40, "N": 72}


def emulated(source: Any, **keywords: Any) -> Program:
    return optimize_and_compile(source, target="sm_80", emulate=True, **keywords)


@pytest.fixture(scope="module")
def gemm() -> Program:
    """Compiled by NVRTC, for a device that is not there."""
    return optimize_and_compile(seed_program("gemm"), dims=SIZES, target="sm_80")


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests mean a machine without a GPU."""
    monkeypatch.setattr("codegen.run.device.find_device", lambda: None)


# --- emulated ---


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_emulated_programs_compute_what_playback_does(name: str) -> None:
    source, dims = PROGRAMS[name]()
    emulated(source, dims=dims).verify(seed=3)


@pytest.mark.parametrize(("target", "name"), [("sm_90", "H100"), ("sm_100", "B200"), ("sm_120", "RTX 5090")])
def test_newer_architectures_run_the_same_path(target: str, name: str) -> None:
    program = optimize_and_compile(dense(33, 24, 16, "fp16"), target=target, emulate=True)
    program.verify()
    assert name in repr(program)


def test_exact_programs_keep_the_order_of_sums() -> None:
    program = emulated(t.input("x", (3, 700)).sum(1), exactness="exact")
    x = np.random.default_rng(0).standard_normal((3, 700)).astype(np.float32)
    np.testing.assert_array_equal(program(x), np.cumsum(x, 1, dtype=np.float32)[:, -1])


@pytest.mark.slow
def test_free_sizes_and_outputs_of_the_caller() -> None:
    source = {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M", 3]}}
    program = emulated({"uops": [source, {"id": "y", "uop": "EXP", "src": ["x"]}]})
    for rows in (2, 5):
        x = np.full((rows, 3), 0.5, np.float32)
        out = np.zeros_like(x)
        assert program(x, out=out) is out
        np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)
    assert program.variants == [{"M": 2}, {"M": 5}]


def test_inputs_may_lie_in_one_another() -> None:
    program = emulated(t.input("x", (6,)) + t.input("y", (6,)))
    memory = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(program(memory[:6], memory[2:]), memory[:6] + memory[2:])
    np.testing.assert_array_equal(program(memory[:6], memory[:6]), 2 * memory[:6])


@pytest.mark.slow
def test_rows_above_32_bits() -> None:
    """Elements beyond 2³¹ are found; of sums over so many the text counts in 64 bits, which nobody waits for."""
    table, count = np.zeros(2**31 + 1000, np.int8), 2**31 + 1000  # pages that nobody writes take no memory
    table[-1], table[2**31 - 1] = 7, 5
    program = emulated(t.input("table", (count,), "i8")[t.input("at", (4,), "i64")])
    at = np.array([-1, 2**31 - 1, 0, count - 1])
    np.testing.assert_array_equal(program(table=table, at=at), [7, 5, 0, 7])
    for reduced in (t.input("x", (count,), "i8").sum(), t.input("x", (count, 4), "i8").sum(axis=0)):
        assert "long long e = " in emulated(reduced).source()


def test_nan_goes_through() -> None:
    x = np.array([[1, np.nan, 3], [np.inf, -np.inf, 0]], np.float32)
    assert np.isnan(emulated(t.input("x", (2, 3)).max(axis=1))(x)).tolist() == [True, False]


@pytest.mark.slow
def test_a_wrong_kernel_is_a_kernel_fault_with_its_name_and_line() -> None:
    program = emulated(dense(33, 24, 16, "fp16"))
    result = program._compiled.artifact
    [kernel] = program.kernels
    broken = {name: text.replace("eq_barrier();", ";") for name, text in result.units.items()}
    assert broken != result.units
    executable = EmulatedExecutable(result.module, result.table, emulated_kernels(broken, "sm80"), {})
    inputs = list(program.random_inputs().values())
    with pytest.raises(EqsatError) as caught:
        executable.run(inputs, [np.zeros((33, 24), np.float16)], 1)
    assert caught.value.kind is Kind.KERNEL_FAULT
    assert caught.value.diagnostics[0].at == kernel.function
    assert "at line" in str(caught.value)


# --- without a device ---


@needs_nvrtc
def test_a_call_without_a_device_names_what_to_try(gemm: Program) -> None:
    for call in (gemm, gemm.profile):
        with pytest.raises(EqsatError, match="emulate=True") as caught:
            call(gemm.random_inputs())
        assert caught.value.kind is Kind.NO_DEVICE
    with pytest.raises(EqsatError) as caught:
        gemm(*(Array(buffer) for buffer in gemm.random_inputs().values()))
    assert caught.value.kind is Kind.NO_DEVICE


@pytest.mark.slow
def test_an_emulated_program_has_no_times() -> None:
    program = emulated(t.input("x", (4,)).exp())
    with pytest.raises(EqsatError) as caught:
        program.profile(program.random_inputs())
    assert caught.value.kind is Kind.NO_DEVICE


def test_auto_is_the_cpu() -> None:
    assert "for cpu" in repr(optimize_and_compile(t.input("x", (4,)) + 1, threads=1))


def test_targets_of_devices() -> None:
    assert device_target("NVIDIA H100 80GB HBM3", "sm90", 132).peak_flops == H100.peak_flops  # type: ignore[union-attr]
    assert device_target("NVIDIA H200", "sm90", 132).bandwidth == H200.bandwidth  # type: ignore[union-attr]
    small = device_target("NVIDIA A10", "sm86", 54)
    assert small is not None
    assert small.peak_flops["fp16"] == pytest.approx(A100.peak_flops["fp16"] / 4)  # half the SMs, half the rate of each
    assert small.peak_flops["fp32"] == pytest.approx(A100.peak_flops["fp32"])
    assert device_target("Tesla V100", "sm70", 80) is None


@pytest.mark.parametrize(
    ("name", "arch", "kib", "threads", "blocks"),
    [
        ("NVIDIA A100-SXM4-80GB", "sm80", 164, 2048, 32),
        ("NVIDIA A10", "sm86", 100, 1536, 16),
        ("NVIDIA RTX A1000", "sm86", 100, 1536, 16),  # no A100, whatever its name begins with
        ("Orin", "sm87", 164, 1536, 16),
        ("NVIDIA L40S", "sm89", 100, 1536, 24),
        ("an Ampere to come", "sm88", 100, 1536, 16),
        ("NVIDIA H100 80GB HBM3", "sm90", 228, 2048, 32),
        ("NVIDIA H200", "sm90", 228, 2048, 32),
        ("NVIDIA B200", "sm100", 228, 2048, 32),
        ("NVIDIA B300 SXM6 AC", "sm103", 228, 2048, 32),
        ("NVIDIA GeForce RTX 5070", "sm120", 100, 1536, 24),
    ],
)
def test_multiprocessors_are_those_of_the_device(name: str, arch: str, kib: int, threads: int, blocks: int) -> None:
    result = device_target(name, arch, 20)
    assert result is not None
    assert (result.l1_bytes, result.threads, result.blocks) == (kib << 10, threads, blocks)


# --- what is shown ---


@needs_nvrtc
def test_kernels_tell_registers_and_shared_memory(gemm: Program) -> None:
    [kernel] = gemm.kernels
    assert kernel.geometry is not None
    assert kernel.resources is not None
    assert kernel.geometry.threads * kernel.resources.registers <= 65536
    assert not kernel.resources.spills
    text = gemm.explain()
    assert f"{kernel.resources.registers} registers a thread, no spills" in text
    assert f"blocks of {kernel.geometry.threads} threads" in text
    assert gemm.explained()["kernels"][0]["resources"]["name"] == kernel.function


@needs_nvrtc
@pytest.mark.parametrize("stage", GPU_STAGES[1:])
def test_every_stage_is_shown(gemm: Program, stage: str) -> None:
    assert gemm.dump(stage)
    assert gemm.dump(stage, as_json=True)


@needs_nvrtc
def test_the_text_is_that_of_the_dialect(gemm: Program) -> None:
    [kernel] = gemm.kernels
    assert gemm.dump("cu") == gemm.source()
    assert f"void {kernel.function}(" in gemm.source()
    assert "eq_mma_m16n8k16" in gemm.source()
    assert gemm.dump("gpu", as_json=True)[kernel.name]["gpu_ir"]["arch"] == "sm80"
    with pytest.raises(EqsatError, match="on a GPU"):
        gemm.dump("c")


@pytest.mark.slow
def test_texts_do_not_depend_on_hash_seeds() -> None:
    code = """
from eqsat import optimize_and_compile
from tests.support.gpu.programs import softmax
print(optimize_and_compile(softmax(7, 130), target="sm_80", emulate=True, cache=False).source(), end="")
"""
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert result == emulated(softmax(7, 130), cache=False).source()


# --- kept ---


@needs_nvrtc
def test_a_saved_program_needs_no_nvrtc(gemm: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gemm.save(tmp_path / "gemm.eqsat")
    monkeypatch.setattr(nvrtc, "_binding", lambda: pytest.fail("NVRTC was asked for"))
    loaded = eqsat.load(tmp_path / "gemm.eqsat")
    assert loaded.kernels == gemm.kernels
    assert loaded._compiled.code.code == gemm._compiled.code.code
    with pytest.raises(EqsatError, match="emulate=True"):
        loaded(loaded.random_inputs())
    eqsat.load(tmp_path / "gemm.eqsat", emulate=True).verify()


def test_an_emulated_program_stays_one(tmp_path: Path) -> None:
    program = emulated(softmax(3, 5))
    program.save(tmp_path / "softmax.eqsat")
    for other in (eqsat.load(tmp_path / "softmax.eqsat"), copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        other.verify()


def test_optimized_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = emulated(softmax(4, 6))
    monkeypatch.setattr("eqsat.make_artifact.optimize", lambda *_: pytest.fail("optimized twice"))
    assert emulated(softmax(4, 6)).source() == first.source()


@needs_nvrtc
def test_cubins_are_kept_by_kernel(gemm: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "assemble", lambda *_, **__: pytest.fail("compiled twice"))
    again = optimize_and_compile(seed_program("gemm"), dims=SIZES, target="sm_80", cache=False)
    assert again.kernels == gemm.kernels


# --- the command line ---


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
@needs_nvrtc
def test_the_command_line(tmp_path: Path) -> None:
    model = ROOT / "eqsat" / "programs" / "gemm.json"
    dims = [word for name, size in SIZES.items() for word in ("-d", f"{name}={size}")]
    printed = run("compile", model, *dims, "--target", "sm_80", "--dump", "gpu,cu", "--dump-dir", tmp_path)
    assert "for A100" in printed
    assert "EQ_KERNEL" in (tmp_path / "cu.cu").read_text()
    assert "largest error" in run("check", model, *dims, "--target", "sm_80", "--emulate")
    refused = CliRunner().invoke(app, ["run", str(model), *dims, "--target", "sm_80"])
    assert refused.exit_code == 1
    assert "NoDevice" in refused.stderr


# --- on a device, as far as CuPy's calls go ---


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A device that is not one; the names of the kernels that run on it."""
    monkeypatch.setattr("codegen.run.cuda_executable.device_for", lambda arch: None)
    return []


def on_fake_device(source: Any, launched: list[str], monkeypatch: pytest.MonkeyPatch, **keywords: Any) -> Program:
    program = optimize_and_compile(source, target="sm_80", **keywords)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(program._compiled.artifact.units, launched))
    return program


@needs_nvrtc
@pytest.mark.parametrize("graph", [False, True])
def test_host_arrays_are_copied_there_and_back(
    graph: bool, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = on_fake_device(pointwise(), launched, monkeypatch, graph=graph)
    for _ in range(3):
        program.verify()
    assert launched == [kernel.function for kernel in program.kernels] * 3


@needs_nvrtc
def test_a_newer_device_gets_the_ptx(launched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = on_fake_device(pointwise(), launched, monkeypatch)
    program.save(tmp_path / "pointwise.eqsat")
    cupy: Any = sys.modules["cupy"]
    load, files = cupy.RawModule, list[str]()

    def load_noted(path: str) -> Any:
        files.append(path)
        return load(path)

    monkeypatch.setattr(cupy, "RawModule", load_noted)
    monkeypatch.setattr(cupy.cuda, "Device", lambda: SimpleNamespace(id=0, compute_capability="120"))
    loaded = eqsat.load(tmp_path / "pointwise.eqsat")
    loaded.verify()
    assert launched
    assert all(".version" in Path(path).read_text() and path.endswith(".ptx") for path in files)
    assert len(files) == len(loaded.kernels)


@pytest.mark.slow
@needs_nvrtc
def test_device_arrays_come_and_go_as_they_are(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = on_fake_device(dense(33, 24, 200, "fp16"), launched, monkeypatch)
    given = program.random_inputs(4)
    there = {name: Array(array) for name, array in given.items()}
    result = program(there)
    assert isinstance(result, Array)
    np.testing.assert_array_equal(result.host, program(given))
    out = Array(np.zeros((33, 24), np.float16))
    assert program(there, out=out) is out
    np.testing.assert_array_equal(out.host, result.host)
    mixed = program({**there, "bias": given["bias"]})
    np.testing.assert_array_equal(mixed.host, result.host)
    for wrong, what in ((np.zeros((33, 23), np.float16), "shape"), (np.zeros((33, 24), np.float32), "dtype")):
        with pytest.raises(EqsatError, match=what):
            program(there, out=Array(wrong))
    with pytest.raises(EqsatError, match="on the host"):
        program(there, out=np.zeros((33, 24), np.float16))


@pytest.mark.slow
@needs_nvrtc
def test_a_device_with_less_shared_memory_is_told_of(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_function: object, _nbytes: int) -> None:
        raise RuntimeError("CUDA_ERROR_INVALID_VALUE")

    program = on_fake_device(dense(512, 512, 512, "fp16"), launched, monkeypatch)
    monkeypatch.setattr(Function, "max_dynamic_shared_size_bytes", property(fset=refused))
    with pytest.raises(EqsatError, match="bytes of shared memory, which this device does not give") as caught:
        program(program.random_inputs())
    assert caught.value.kind is Kind.RESOURCE_EXCEEDED
    assert caught.value.diagnostics[0].at == program.kernels[0].function


@needs_nvrtc
def test_a_fault_that_comes_late_tells_how_to_find_its_kernel(
    launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulted(_array: Array) -> Any:
        raise RuntimeError("cudaErrorIllegalAddress")

    program = on_fake_device(softmax(4, 6), launched, monkeypatch)
    monkeypatch.setattr(Array, "get", faulted)
    with pytest.raises(EqsatError, match="CUDA_LAUNCH_BLOCKING") as caught:
        program(program.random_inputs())
    assert caught.value.kind is Kind.KERNEL_FAULT


@needs_nvrtc
def test_a_graph_of_the_callers_takes_no_call(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would replay on memory that is another's by then."""
    program = on_fake_device(softmax(4, 6), launched, monkeypatch)
    x = Array(program.random_inputs()["x"])
    monkeypatch.setattr(Stream, "capturing", [])
    with pytest.raises(EqsatError, match="graph=True") as caught:
        program(x)
    assert caught.value.kind is Kind.INPUT_MISMATCH
    assert not launched


@needs_nvrtc
def test_times_are_per_launch(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = on_fake_device(softmax(4, 6), launched, monkeypatch)
    measured = program.profile(program.random_inputs(), repeats=2)
    assert [row.measured_ns for row in measured] == [1000.0] * len(program.kernels)
