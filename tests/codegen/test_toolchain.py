"""The compiler, the library cache, the machine."""

from __future__ import annotations

import ctypes
import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest

from codegen.compile import library as library_module
from codegen.compile.library import Library, PointerTable, build, cache_dir, vector_prelude
from codegen.compile.machine import ARCHES, machine, restricted
from codegen.compile.peaks import measure_peaks
from codegen.compile.toolchain import Compiler, compile_flags, find_compiler, probe
from ir.diagnostics import EqsatError, Kind

EXPORT = '__attribute__((visibility("default")))'
ANSWER = EXPORT + " int answer(void) { return 42; }\n"


def _answer(library: Library) -> int:
    return int(library.function("answer", (), ctypes.c_int)())


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
    for arch in ARCHES[: ARCHES.index(here.arch) + 1]:
        monkeypatch.setenv("EQSAT_ISA", arch)
        assert machine().arch == arch
        assert machine().vector_bytes == {"sse2": 16, "avx2": 32, "avx512": 64}[arch]
        assert ("avx512f" in machine().features) == (arch == "avx512")
    monkeypatch.setenv("EQSAT_ISA", "avx1024")
    with pytest.raises(EqsatError) as caught:
        machine()
    assert caught.value.kind == Kind.UNKNOWN_TARGET


def test_a_lesser_machine_has_no_greater_isa() -> None:
    if machine().arch not in ARCHES:
        pytest.skip("not x86-64")
    with pytest.raises(EqsatError):
        restricted(restricted(machine(), "sse2"), "avx2")


def test_compiler_is_found_and_probed() -> None:
    found = find_compiler()
    assert found.family in ("gcc", "clang", "zig")
    assert found.version
    assert probe(("no-such-compiler",)) is None
    assert probe(()) is None


def test_flags_differ_by_isa_and_contraction() -> None:
    compiler = find_compiler()
    assert "-ffp-contract=off" in compile_flags(compiler, machine())
    assert "-ffp-contract=fast" in compile_flags(compiler, machine(), contract=True)
    assert not any("fast-math" in flag for flag in compile_flags(compiler, machine()))
    if machine().arch in ARCHES:
        assert not any("avx" in flag for flag in compile_flags(compiler, restricted(machine(), "sse2")))


def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("EQSAT_CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EqsatError) as caught:
        find_compiler()
    assert caught.value.kind == Kind.NO_COMPILER
    assert "ziglang" in str(caught.value)


def test_a_chosen_compiler_that_does_not_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CC", "/no/such/gcc")
    with pytest.raises(EqsatError) as caught:
        find_compiler()
    assert "/no/such/gcc" in str(caught.value)


def test_build_loads_and_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert _answer(first) == 42
    monkeypatch.setattr(library_module, "_compiled", lambda *_: pytest.fail("compiled twice"))
    assert build({"answer": ANSWER}, machine(), cache=tmp_path).path == first.path


def test_the_key_knows_text_names_flags_and_compiler(tmp_path: Path) -> None:
    base = build({"answer": ANSWER}, machine(), cache=tmp_path).path
    other = find_compiler()
    assert build({"answer": ANSWER + " "}, machine(), cache=tmp_path).path != base
    assert build({"answer2": ANSWER}, machine(), cache=tmp_path).path != base
    assert build({"answer": ANSWER}, machine(), contract=True, cache=tmp_path).path != base
    newer = msgspec.structs.replace(other, version=other.version + "+1")
    assert build({"answer": ANSWER}, machine(), compiler=newer, cache=tmp_path).path != base


def test_units_are_linked_together(tmp_path: Path) -> None:
    units = {
        "caller": f"int part(void); {EXPORT} int answer(void) {{ return part() + 1; }}",
        "part": "int part(void) { return 41; }",
    }
    assert _answer(build(units, machine(), cache=tmp_path)) == 42


@pytest.mark.parametrize("damage", ["cut", "flipped", "unsigned"])
def test_a_damaged_object_is_built_again(tmp_path: Path, damage: str) -> None:
    whole = build({"answer": ANSWER}, machine(), cache=tmp_path).path
    data = whole.read_bytes()
    if damage == "unsigned":
        whole.with_suffix(".sha256").unlink()
    else:
        broken = data[:100] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1])
        (tmp_path / "new").write_bytes(broken)
        os.replace(tmp_path / "new", whole)
    again = build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert _answer(again) == 42
    assert [each.severity for each in again.diagnostics] == ["warning"]
    assert not build({"answer": ANSWER}, machine(), cache=tmp_path).diagnostics


def test_a_rejected_text_names_the_kernel_and_the_line(tmp_path: Path) -> None:
    units = {"fine": ANSWER, "softmax_3": vector_prelude() + "int wrong(void) { return undeclared_thing; }\n"}
    with pytest.raises(EqsatError) as caught:
        build(units, machine(), cache=tmp_path)
    text = str(caught.value)
    assert "softmax_3" in text
    assert "int wrong(void) { return undeclared_thing; }" in text
    assert not list(tmp_path.rglob("*.so"))


def test_an_unresolved_symbol_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EqsatError):
        build(
            {"caller": f"int nowhere(void); {EXPORT} int answer(void) {{ return nowhere(); }}"},
            machine(),
            cache=tmp_path,
        )


def test_a_missing_function_is_an_eqsat_error(tmp_path: Path) -> None:
    with pytest.raises(EqsatError):
        build({"answer": ANSWER}, machine(), cache=tmp_path).function("question")


def test_concurrent_builds_make_one_object(tmp_path: Path) -> None:
    log, wrapper = tmp_path / "log", tmp_path / "cc"
    real = find_compiler()
    wrapper.write_text(f'#!/bin/sh\necho run >> {log}\nexec {" ".join(real.command)} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    counting = Compiler((str(wrapper),), real.family, real.version)
    answers: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(
                _answer(build({"answer": ANSWER}, machine(), compiler=counting, cache=tmp_path / "cache"))
            )
        )
        for _ in range(6)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [42] * 6
    assert log.read_text().count("run") == 2, "one compile, one link"


def test_an_unwritable_cache_is_an_eqsat_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EqsatError) as caught:
        build({"answer": ANSWER}, machine(), cache=tmp_path / "file")
    assert "EQSAT_CACHE_DIR" in str(caught.value)


def test_cache_dir_obeys_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("EQSAT_CACHE_DIR")
    assert cache_dir().name == "eqsat"


def test_entry_takes_a_pointer_table(tmp_path: Path) -> None:
    text = f"{EXPORT} void run(void **t) {{ *(int *)t[1] = *(int *)t[0] + 1; }}"
    entry = build({"run": text}, machine(), cache=tmp_path).entry("run")
    source, target = ctypes.c_int(41), ctypes.c_int(0)
    table = PointerTable(2)
    table[0], table[1] = ctypes.addressof(source), ctypes.addressof(target)
    assert table[0] == ctypes.addressof(source)
    entry(table.address)
    assert target.value == 42


@pytest.mark.slow
def test_peaks_are_plausible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))
    peaks = measure_peaks(copy_megabytes=64)
    assert 1e9 < peaks.fma_flops[1] < 1e12
    assert 1e8 < peaks.copy_bytes[1] < 1e12
