"""The machine and its compilers: gcc, clang and the ziglang wheel, each that is here."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from codegen.compile.library import build, pool_source, vector_prelude
from codegen.compile.machine import ARCHES, arches_of, machine, restrict
from codegen.compile.toolchain import OLDEST, Compiler, compile_flags, find_compiler, probe
from codegen.measure.peaks import measure_peaks
from ir.diagnostics import EqsatError, Kind
from ir.target import VNNI

ROOT = Path(__file__).parents[3]
COMMANDS = {"gcc": ("gcc",), "clang": ("clang",), "zig": (sys.executable, "-m", "ziglang", "cc")}


@pytest.fixture(scope="session", params=COMMANDS)
def compiler(request: pytest.FixtureRequest) -> Compiler:
    """Each compiler of this machine."""
    family = request.param
    absent = importlib.util.find_spec("ziglang") is None if family == "zig" else shutil.which(family) is None
    if absent:
        pytest.skip(f"{family} is not installed")
    result = probe(COMMANDS[family])
    assert result is not None
    assert result.family == family
    if result.too_old:
        pytest.skip(f"{result} is too old")
    return result


def test_machine_describes_itself() -> None:
    here = machine()
    assert here.lanes in (4, 8, 16)
    assert 1 <= here.cores <= (os.cpu_count() or 1)
    assert 4096 <= here.l1_bytes <= here.l2_bytes
    assert here.cpu


def test_isa_can_be_restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine()
    if here.arch not in ARCHES:
        pytest.skip("not x86-64")
    for arch in arches_of(here):
        monkeypatch.setenv("EQSAT_ISA", arch)
        assert machine().arch == arch
        assert machine().vector_bytes == {"sse2": 16, "avx2": 32, "avx512": 64, "amx": 64}[arch.split("_")[0]]
        assert ("avx512f" in machine().features) == arch.startswith(("avx512", "amx"))
        assert any("vnni" in feature for feature in machine().features) == (arch in VNNI)
        assert ("avx512_bf16" in machine().features) == (arch in ("avx512_bf16", "amx"))
    monkeypatch.setenv("EQSAT_ISA", "avx1024")
    with pytest.raises(EqsatError) as caught:
        machine()
    assert caught.value.kind == Kind.UNKNOWN_TARGET


def test_units_of_half_a_register_start_half_as_many_multiply_adds() -> None:
    here = msgspec.structs.replace(machine(), arch="avx512", vector_bytes=64)
    assert msgspec.structs.replace(here, halved=False).fma_per_cycle == 2
    assert msgspec.structs.replace(here, halved=True).fma_per_cycle == 1
    assert msgspec.structs.replace(here, halved=True, vector_bytes=32).fma_per_cycle == 2


def test_a_lesser_machine_has_no_greater_isa() -> None:
    if machine().arch not in ARCHES:
        pytest.skip("not x86-64")
    with pytest.raises(EqsatError, match=r"EQSAT_ISA is one of sse2$"):
        restrict(restrict(machine(), "sse2"), "avx2")


def test_a_compiler_names_itself(compiler: Compiler) -> None:
    assert str(compiler.major) in compiler.version
    assert compiler.major >= OLDEST[compiler.family]
    assert "version" in compiler.version


_SUMS = """
__attribute__((visibility("default"))) void sums(const float *x, const double *y, float *f, double *d) {
  eq_store_f32(f, eq_add_f32(eq_exp_f32(eq_load_f32(x)), eq_fma_f32(eq_load_f32(x), eq_load_f32(x), eq_load_f32(x))));
  eq_store_f64(d, eq_sqrt_f64(eq_mul_f64(eq_load_f64(y), eq_cast_f32_f64(eq_load_f32(x)))));
}
"""


@pytest.mark.parametrize("arch", ARCHES)
def test_every_compiler_builds_the_prelude(compiler: Compiler, arch: str, tmp_path: Path) -> None:
    """One function of each kind on each instruction set; pool.h as a unit of its own."""
    here = machine()
    if arch not in arches_of(here):
        pytest.skip(f"this machine has no {arch}")
    on = restrict(here, arch)
    library = build({"sums": vector_prelude() + _SUMS, "pool": pool_source()}, on, compiler=compiler, cache=tmp_path)
    x = np.linspace(0.1, 2, on.lanes, dtype=np.float32)
    y = np.linspace(1, 3, on.lanes)
    f, d = np.zeros_like(x), np.zeros_like(y)
    pointers = [array.ctypes.data for array in (x, y, f, d)]
    library.function("sums", (ctypes.c_void_p,) * 4)(*pointers)
    np.testing.assert_allclose(f, np.exp(x) + x * x + x, rtol=1e-6)
    np.testing.assert_allclose(d, np.sqrt(y * x), rtol=1e-15)


_PROGRAM = """
import numpy as np
from eqsat import nn, optimize_and_compile, tensor
x, w = tensor.input("x", (33, 19)), tensor.input("w", (19, 7))
program = optimize_and_compile(nn.softmax(nn.gelu(x @ w)), cache=False, verify=True)
rng = np.random.default_rng(0)
print(program(rng.standard_normal((33, 19), np.float32), rng.standard_normal((19, 7), np.float32)).tobytes().hex())
"""


@pytest.mark.slow
def test_every_compiler_builds_programs(compiler: Compiler, tmp_path: Path) -> None:
    """A program compared with playback, in a process that was told which compiler to take."""
    env = {**os.environ, "EQSAT_CC": shlex.join(compiler.command), "EQSAT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert len(bytes.fromhex(done.stdout)) == 33 * 7 * 4


def test_compiler_is_found_and_probed() -> None:
    result = find_compiler()
    assert result.family in ("gcc", "clang", "zig")
    assert result.version
    assert probe(("no-such-compiler",)) is None
    assert probe(()) is None


@pytest.mark.parametrize("other", ["true", "false", "cat", "ls", "python3"])
def test_what_is_no_compiler_is_not_taken_for_one(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe((other,)) is None
    monkeypatch.setenv("EQSAT_CC", other)
    with pytest.raises(EqsatError) as caught:
        find_compiler()
    assert caught.value.kind == Kind.NO_COMPILER
    assert repr(other) in str(caught.value)


def test_flags_differ_by_isa_and_never_contract() -> None:
    compiler = find_compiler()
    assert "-ffp-contract=off" in compile_flags(compiler, machine())
    assert not any("fast-math" in flag for flag in compile_flags(compiler, machine()))
    if machine().arch in ARCHES:
        assert not any("avx" in flag for flag in compile_flags(compiler, restrict(machine(), "sse2")))


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH of one folder, which is empty, and no ziglang."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("EQSAT_CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return folder


def refusal() -> str:
    with pytest.raises(EqsatError) as caught:
        find_compiler()
    assert caught.value.kind == Kind.NO_COMPILER
    return str(caught.value)


def test_no_compiler_says_what_to_install(bare: Path) -> None:
    text = refusal()
    for way_out in ("gcc", "clang", "pip install 'eqsat[cc]'", "EQSAT_CC"):
        assert way_out in text


def stub(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_compiler_that_is_too_old_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(bare / "gcc", 'echo "#define __GNUC__ 8"; echo "gcc version 8.5.0 (Red Hat)" >&2')
    text = refusal()
    assert "gcc version 8.5.0 (Red Hat)" in text
    assert "gcc 11" in text
    monkeypatch.setenv("EQSAT_CC", str(bare / "gcc"))
    assert "too old" in refusal()
    monkeypatch.delenv("EQSAT_CC")
    stub(bare / "clang", 'echo "#define __clang_major__ 19"; echo "clang version 19.1.0" >&2')
    assert find_compiler() == Compiler(("clang",), "clang", "clang version 19.1.0", 19)


def test_cc_is_taken_first_and_passed_over_when_it_is_none(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gcc", "mine"):
        stub(bare / name, f'echo "#define __GNUC__ 12"; echo "gcc version 12.0.0 ({name})" >&2')
    monkeypatch.setenv("CC", "mine -m64")
    assert find_compiler().command == ("mine", "-m64")
    for none in ("yours", "'unclosed", "", "  "):
        monkeypatch.setenv("CC", none)
        assert find_compiler().command == ("gcc",)


@pytest.mark.parametrize("chosen", ["/no/such/gcc", "'unclosed", "   "])
def test_a_chosen_compiler_that_does_not_run_is_an_error(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CC", chosen)
    assert repr(chosen) in refusal()


def test_a_compiler_that_vanished_is_an_error(tmp_path: Path) -> None:
    gone = msgspec.structs.replace(find_compiler(), command=(str(tmp_path / "gcc"),))
    with pytest.raises(EqsatError) as caught:
        build({"nothing": "int nothing;"}, machine(), compiler=gone, cache=tmp_path)
    assert caught.value.kind == Kind.NO_COMPILER


@pytest.mark.parametrize("language", ["C", "de_DE.UTF-8"])
def test_messages_are_read_in_any_language(language: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LC_ALL", language)
    monkeypatch.setenv("LANGUAGE", language)
    with pytest.raises(EqsatError) as caught:
        build({"bad": "int wrong(void) { return undeclared_thing; }\n"}, machine(), cache=tmp_path)
    assert caught.value.diagnostics[0].details["errors"][0].startswith("line 1: ")


@pytest.mark.slow
def test_peaks_are_plausible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))
    peaks = measure_peaks(copy_megabytes=64)
    assert 1e9 < peaks.fma_flops[1] < 1e12
    assert 1e8 < peaks.copy_bytes[1] < 1e12
