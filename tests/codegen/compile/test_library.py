"""Libraries: built once, kept whole, loaded, unloaded; and a cache that cannot be written."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from codegen.compile import cache as cache_module
from codegen.compile import library as library_module
from codegen.compile.compile_units import Units
from codegen.compile.library import (
    OPTIONAL_HEADERS,
    Library,
    build,
    load_library,
    pool_declarations,
    pool_source,
    vector_prelude,
)
from codegen.compile.machine import machine
from codegen.compile.toolchain import compile_flags, find_compiler
from ir.diagnostics import EqsatError, Kind
from ir.host.atomic_file import write_atomically
from ir.host.cache_folder import Notes, cache_dir
from ir.host.process_folder import process_folder

ROOT = Path(__file__).parents[3]
EXPORT = '__attribute__((visibility("default")))'
ANSWER = EXPORT + " int answer(void) { return 42; }\n"


def _answer(library: Library) -> int:
    return int(library.function("answer", (), ctypes.c_int)())


def test_build_loads_and_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert _answer(first) == 42
    monkeypatch.setattr(Units, "shared_object", lambda *_: pytest.fail("compiled twice"))
    assert build({"answer": ANSWER}, machine(), cache=tmp_path).path == first.path


def test_the_key_knows_text_names_flags_and_compiler(tmp_path: Path) -> None:
    base = build({"answer": ANSWER}, machine(), cache=tmp_path).path
    other = find_compiler()
    assert build({"answer": ANSWER + " "}, machine(), cache=tmp_path).path != base
    assert build({"answer2": ANSWER}, machine(), cache=tmp_path).path != base
    flags = (*compile_flags(other, machine()), "-DOTHER")
    assert build({"answer": ANSWER}, machine(), flags=flags, cache=tmp_path).path != base
    newer = msgspec.structs.replace(other, version=other.version + "+1")
    assert build({"answer": ANSWER}, machine(), compiler=newer, cache=tmp_path).path != base


def test_a_process_compiles_a_common_unit_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = "int common_part(void) { return 41; }"
    callers = [f"int common_part(void); {EXPORT} int answer(void) {{ return common_part() + {k}; }}" for k in (1, 2)]
    compiled: list[list[str]] = []
    run = Units._run

    def counting_run(self: Units, arguments: Sequence[str], folder: Path) -> str | None:
        compiled.append([argument for argument in arguments if argument.endswith(".c")])
        return run(self, arguments, folder)

    monkeypatch.setattr(Units, "_run", counting_run)
    libraries = [
        build({"caller": caller, "part": part}, machine(), cache=tmp_path, common=frozenset(["part"]))
        for caller in callers
    ]
    assert [_answer(library) for library in libraries] == [42, 43]
    assert sum(map(len, compiled)) == 3  # two callers, one common unit


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
    assert [diagnostic.severity for diagnostic in again.diagnostics] == ["warning"]
    assert not build({"answer": ANSWER}, machine(), cache=tmp_path).diagnostics


def test_a_rejected_text_names_the_kernel_the_line_and_the_file(tmp_path: Path) -> None:
    units = {"fine": ANSWER, "softmax_3": vector_prelude() + "int wrong(void) { return undeclared_thing; }\n"}
    with pytest.raises(EqsatError) as caught:
        build(units, machine(), cache=tmp_path)
    assert caught.value.kind == Kind.COMPILE_FAILED
    text = str(caught.value)
    assert "softmax_3" in text
    assert "int wrong(void) { return undeclared_thing; }" in text
    assert not list(tmp_path.rglob("*.so"))
    details = caught.value.diagnostics[0].details
    kept = Path(details["source"])
    assert kept.read_text() == units["softmax_3"]
    assert str(kept) in text
    command = [*find_compiler().command, *details["flags"].split(), "-c", str(kept), "-o", os.devnull]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0, "what it says reproduces it"


def test_an_unresolved_symbol_is_reported(tmp_path: Path) -> None:
    """Linkers let a shared library have one; then loading refuses it."""
    with pytest.raises(EqsatError) as caught:
        build(
            {"caller": f"int nowhere(void); {EXPORT} int answer(void) {{ return nowhere(); }}"},
            machine(),
            cache=tmp_path,
        )
    assert "nowhere" in str(caught.value)


def test_a_missing_function_is_an_eqsat_error(tmp_path: Path) -> None:
    with pytest.raises(EqsatError):
        build({"answer": ANSWER}, machine(), cache=tmp_path).function("question")


def test_concurrent_builds_make_one_object(tmp_path: Path) -> None:
    log, wrapper = tmp_path / "log", tmp_path / "cc"
    real = find_compiler()
    wrapper.write_text(f'#!/bin/sh\necho run >> {log}\nexec {" ".join(real.command)} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    counting = msgspec.structs.replace(real, command=(str(wrapper),))
    answers: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(
                _answer(build({"answer": ANSWER}, machine(), compiler=counting, cache=tmp_path / "cache"))
            )
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [42] * 6
    assert log.read_text().count("run") == 2, "one compile, one link"


def test_two_processes_make_one_object(tmp_path: Path) -> None:
    log, wrapper = tmp_path / "log", tmp_path / "cc"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {" ".join(find_compiler().command)} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    env = {**os.environ, "EQSAT_CC": str(wrapper), "EQSAT_CACHE_DIR": str(tmp_path / "cache")}
    script = f"""if True:
        import ctypes
        from codegen.compile.library import build
        from codegen.compile.machine import machine
        print(build({{"answer": {ANSWER!r}}}, machine()).function("answer", (), ctypes.c_int)())"""
    command = [sys.executable, "-c", script]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, env=env, cwd=ROOT, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["42\n"] * 3
    assert sum(" -o " in line for line in log.read_text().splitlines()) == 2, "one compile, one link"


# where the cache cannot be written


def test_a_folder_that_takes_no_lock_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    library = build({"answer": ANSWER}, machine(), cache=tmp_path / "file")
    assert _answer(library) == 42
    assert [diagnostic.severity for diagnostic in library.diagnostics] == ["warning"]
    assert process_folder() in library.path.parents


def test_an_object_under_the_name_of_another_is_built_again(tmp_path: Path) -> None:
    other = build({"answer": f"{EXPORT} int answer(void) {{ return 7; }}"}, machine(), cache=tmp_path).path
    mine = build({"answer": ANSWER}, machine(), cache=tmp_path).path
    for suffix in (".so", ".sha256"):
        (tmp_path / "new").write_bytes(other.with_suffix(suffix).read_bytes())
        os.replace(tmp_path / "new", mine.with_suffix(suffix))
    again = build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert _answer(again) == 42
    assert [diagnostic.severity for diagnostic in again.diagnostics] == ["warning"]


def test_a_pipe_in_the_place_of_an_object_is_not_read(tmp_path: Path) -> None:
    path = build({"answer": ANSWER}, machine(), cache=tmp_path).path
    path.unlink()
    os.mkfifo(path)
    assert _answer(build({"answer": ANSWER}, machine(), cache=tmp_path)) == 42


def test_a_library_outlives_the_cache(tmp_path: Path) -> None:
    library = build({"answer": ANSWER}, machine(), cache=tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    assert _answer(load_library(library.code)) == 42


def test_an_object_that_is_gone_before_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(target: Path, data: bytes) -> tuple[Path, Notes]:
        return target, ()

    monkeypatch.setattr(library_module, "store", lost)
    library = build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert _answer(library) == 42
    assert process_folder() in library.path.parents


def test_an_unwritable_cache_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "file"))
    library = build({"answer": ANSWER}, machine())
    assert _answer(library) == 42
    assert [diagnostic.severity for diagnostic in library.diagnostics] == ["warning"]
    assert process_folder() in library.path.parents
    assert _answer(load_library(library.path.read_bytes())) == 42


_AS_NOBODY = """
import ctypes, os, sys
os.setgroups([])
os.setuid(4242)
from codegen.compile.library import build
from codegen.compile.machine import machine
library = build({"answer": sys.argv[1]}, machine())
print(library.function("answer", (), ctypes.c_int)(), *(each.message for each in library.diagnostics))
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become a user without rights")
@pytest.mark.parametrize("where", ["read-only", "no home"])
def test_a_user_without_a_writable_folder(where: str, tmp_path: Path) -> None:
    """A cache folder of another user, and a user who is not listed, in a process with its modules loaded as root."""
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "EQSAT_CACHE_DIR")}
    if where == "read-only":
        env["EQSAT_CACHE_DIR"] = str(tmp_path)
    folder = tmp_path / "cwd"
    folder.mkdir(mode=0o777)
    script = "import filelock, platformdirs, codegen.compile.library, numpy\n" + _AS_NOBODY
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + script, ANSWER]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, check=False)
    if "Permission denied" in done.stderr and "site-packages" in done.stderr:
        pytest.skip("another user cannot read this Python")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("42 the cache cannot be written")
    assert not list(folder.iterdir()), "no folder named ~"


def test_a_full_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        if tmp_path in path.parents:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_atomically(path, data)

    monkeypatch.setattr(cache_module, "write_atomically", full)
    library = build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert _answer(library) == 42
    assert "No space left" in library.diagnostics[0].message
    assert library.diagnostics[0].severity == "warning"
    monkeypatch.setattr(cache_module, "process_folder", lambda: tmp_path / "also full")
    with pytest.raises(EqsatError) as caught:
        build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert caught.value.kind == Kind.COMPILE_FAILED


def test_no_place_to_compile_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(EqsatError) as caught:
        build({"answer": ANSWER}, machine(), cache=tmp_path)
    assert caught.value.kind == Kind.COMPILE_FAILED
    assert "TMPDIR" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("kernels0.c:7:1: error: error closing /tmp/a.s: No space left on device", "no room"),
        ("gcc: fatal error: Killed signal terminated program cc1", "out of memory"),
    ],
)
def test_a_machine_that_stands_in_the_way_is_no_defect_of_the_text(tmp_path: Path, said: str, message: str) -> None:
    script = tmp_path / "cc"
    script.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    compiler = msgspec.structs.replace(find_compiler(), command=(str(script),))
    with pytest.raises(EqsatError) as caught:
        build({"answer": ANSWER}, machine(), compiler=compiler, cache=tmp_path)
    assert message in str(caught.value)
    assert "defect" not in str(caught.value)


def test_cache_dir_obeys_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQSAT_CACHE_DIR", "below")
    assert cache_dir() == tmp_path / "below"
    monkeypatch.delenv("EQSAT_CACHE_DIR")
    folder = cache_dir()
    assert folder is not None
    assert folder.name == "eqsat"


# loading and unloading


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_loaded_object_is_written_again(tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "other"))
    code = build({"answer": ANSWER}, machine(), cache=tmp_path).path.read_bytes()
    stored = load_library(code).path
    broken = code[:100] if damage == "cut" else code[:-1] + bytes([code[-1] ^ 1])
    (tmp_path / "new").write_bytes(broken)
    os.replace(tmp_path / "new", stored)
    again = load_library(code)
    assert again.path == stored
    assert stored.read_bytes() == code
    assert _answer(again) == 42


def test_bytes_that_are_no_library() -> None:
    with pytest.raises(EqsatError) as caught:
        load_library(b"no library")
    assert caught.value.kind == Kind.INPUT_MISMATCH


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="libraries are unloaded on Linux")
def test_a_library_is_unloaded_with_its_last_function(tmp_path: Path) -> None:
    library = build({"answer": ANSWER + "/* of its own */"}, machine(), cache=tmp_path)
    path, answer = library.path, library.function("answer", (), ctypes.c_int)
    other = build({"answer": ANSWER + "/* of its own */"}, machine(), cache=tmp_path)
    del library
    gc.collect()
    assert mapped(path)
    assert answer() == 42
    del answer
    gc.collect()
    assert mapped(path), "the other one is still in use"
    assert _answer(other) == 42
    del other
    gc.collect()
    assert not mapped(path)


_POOL = (
    pool_declarations()
    + f"""
static void one(void *ctx, int32_t task, int32_t thread) {{ ((int32_t *)ctx)[task] += 1; }}
{EXPORT} void loop(int32_t *hits) {{ eq_parallel_for(one, hits, 64, 3); }}
"""
)

_UNLOADED = """
import ctypes, gc, os, sys
from pathlib import Path
import numpy as np
from codegen.compile.library import Library
for number in range(30):
    library = Library(Path(sys.argv[1]), b'')
    loop, hits = library.function("loop", (ctypes.c_void_p,)), np.zeros(64, np.int32)
    loop(hits.ctypes.data)
    assert (hits == 1).all()
    if number % 3 == 1:
        child = os.fork()
        if child == 0:
            loop(hits.ctypes.data)
            del library, loop
            gc.collect()
            os._exit(0 if (hits == 2).all() and sys.argv[1] not in Path("/proc/self/maps").read_text() else 1)
        assert os.waitpid(child, 0)[1] == 0
    del library, loop
    gc.collect()
    assert sys.argv[1] not in Path("/proc/self/maps").read_text()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "no handler of the library that is gone"
print("fine", len(os.listdir("/proc/self/task")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="libraries are unloaded on Linux")
def test_unloading_takes_the_pool_along(tmp_path: Path) -> None:
    """Workers joined, handlers of fork gone, in the process and in its children."""
    path = build({"tasks": _POOL, "pool": pool_source()}, machine(), cache=tmp_path).path
    done = subprocess.run(
        [sys.executable, "-c", _UNLOADED, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.stdout == "fine 1\n", done.stderr


@pytest.mark.slow
def test_a_prelude_has_every_function_that_a_text_calls() -> None:
    """Each function of the prelude is called by a text alone: the prelude for this text declares it."""
    compiler = find_compiler()
    command = [*compiler.command, *compile_flags(compiler, machine()), "-E", "-P", "-xc", "-"]
    whole = subprocess.run(command, input=vector_prelude(), capture_output=True, text=True, check=True).stdout
    functions = set(re.findall(r"\b(eq_\w+)\([^;{}]*\)\s*\{", whole))
    assert {"eq_hsum_f32", "eq_runadd_i64", "eq_prefixadd_f32", "eq_last_bool", "eq_far_random_1_u64"} <= functions
    headers = {name: vector_prelude(f"{name}(") for name in sorted(functions)}
    preludes = set(headers.values())
    assert 1 < len(preludes) <= len(OPTIONAL_HEADERS) + 1
    for prelude in preludes:
        result = subprocess.run(command, input=prelude, capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"\b(eq_\w+)\([^;{}]*\)\s*\{", result))
        assert {name for name, header in headers.items() if header == prelude} <= known
        assert len(prelude) < len(vector_prelude())
        build({"alone": prelude}, machine(), flags=[*compile_flags(compiler, machine()), "-Werror=implicit"])
