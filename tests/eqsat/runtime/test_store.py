"""Programs on disk: saved files and the cache of optimized programs."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from operator import methodcaller
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.runtime.store import is_saved
from ir.diagnostics import EqsatError, Kind

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 40), dtype=np.float32)
W = RNG.standard_normal((40, 24), dtype=np.float32)
SCALE = np.linspace(-2, 4, 24, dtype=ml_dtypes.bfloat16)

FRONTEND = {
    "signature": {
        "inputs": [{"tensor": "unread"}, {"tensor": "b"}, {"tensor": "a"}],
        "outputs": [{"tensor": "difference"}],
    },
    "tensors": {name: {"dtype": "fp32", "shape": [3]} for name in ("a", "b", "unread")},
    "graph": [{"op": "Elementwise", "fn": "sub", "name": "s", "inputs": ["a", "b"], "outputs": ["difference"]}],
}


@pytest.fixture(scope="module")
def program() -> Program:
    """relu(x @ w) · scale with an fp32 and a bf16 constant, and the bf16 constant itself."""
    scale = t.constant(SCALE)
    y = (t.input("x", (6, 40)) @ t.constant(W, name="w")).relu() * scale.cast("fp32")
    return optimize_and_compile([y, scale], threads=1)


@pytest.fixture(scope="module")
def saved(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "program.eqsat"
    program.save(path)
    return path


def refused(path: Path, kind: Kind = Kind.MALFORMED_GRAPH) -> str:
    with pytest.raises(EqsatError) as caught:
        eqsat.load(path)
    assert caught.value.kind is kind, caught.value
    return str(caught.value)


def test_a_loaded_program_is_the_saved_one(program: Program, saved: Path) -> None:
    loaded = eqsat.load(saved, threads=1)
    for one, other in zip(loaded(X), program(X), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    np.testing.assert_allclose(loaded(X)[0], np.maximum(X @ W, 0) * SCALE.astype(np.float32), rtol=1e-5, atol=1e-5)
    assert loaded.arguments == program.arguments == ("x",)
    assert loaded.output_names == program.output_names
    assert loaded.explain() == program.explain()
    assert loaded.kernels == program.kernels
    assert loaded.stats == program.stats
    for stage in ("tiny", "module", "plan", "cpu", "c"):
        assert loaded.dump(stage, as_json=True) == program.dump(stage, as_json=True)
    loaded.verify()


def test_a_loaded_program_can_be_saved_again(saved: Path, tmp_path: Path) -> None:
    eqsat.load(saved).save(tmp_path / "deep" / "again")
    np.testing.assert_array_equal(eqsat.load(tmp_path / "deep" / "again")(X)[0], eqsat.load(saved)(X)[0])


@pytest.mark.parametrize("copied", [lambda program: pickle.loads(pickle.dumps(program)), copy.deepcopy])
def test_pickles_and_deep_copies_are_programs_too(program: Program, copied: Callable[[Program], Program]) -> None:
    np.testing.assert_array_equal(copied(program)(X)[0], program(X)[0])


@pytest.mark.slow
def test_a_process_pool_takes_a_program(program: Program) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        np.testing.assert_array_equal(pool.submit(program, X).result()[0], program(X)[0])


def test_the_order_of_the_signature_and_the_names_survive(tmp_path: Path) -> None:
    program = optimize_and_compile(FRONTEND, threads=1)
    program.save(tmp_path / "f")
    loaded = eqsat.load(tmp_path / "f")
    assert loaded.arguments == program.arguments == ("unread", "b", "a")
    assert loaded.output_names == ["difference"]
    nothing, b, a = (np.full(3, value, np.float32) for value in (0, 1, 5))
    np.testing.assert_array_equal(loaded(nothing, b, a), [4, 4, 4])
    assert loaded.dump("frontend", as_json=True) == program.dump("frontend", as_json=True)


def test_the_notes_survive(tmp_path: Path) -> None:
    program = optimize_and_compile(t.input("x", (3,)) * 3, dims={"Q": 1}, threads=1)
    program.save(tmp_path / "n")
    assert [diagnostic.message for diagnostic in eqsat.load(tmp_path / "n").diagnostics] == [
        diagnostic.message for diagnostic in program.diagnostics
    ]


def free_program() -> Program:
    """−x·w where x has M rows, w is a constant, and `dims` binds K."""
    uops = [
        {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M", "K"]}},
        {"id": "w", "uop": "INPUT", "arg": {"tensor_id": "w", "dtype": "fp32", "shape": ["K"]}},
        {"id": "y", "uop": "MUL", "src": ["x", "w"]},
        {"id": "z", "uop": "NEG", "src": ["y"]},
    ]
    return optimize_and_compile({"uops": uops}, constants={"w": np.arange(3, dtype=np.float32)}, threads=1)


@pytest.mark.slow
def test_every_variant_is_saved(tmp_path: Path) -> None:
    program = free_program()
    for rows in (2, 5, 1, 5):
        program(np.ones((rows, 3), np.float32))
    program.save(tmp_path / "v")
    loaded = eqsat.load(tmp_path / "v", threads=1)
    assert loaded.variants == program.variants == [{"K": 3, "M": 2}, {"K": 3, "M": 1}, {"K": 3, "M": 5}]
    assert loaded.arguments == program.arguments == ("x",)
    assert loaded.explain() == program.explain()
    for rows in (1, 2, 5):
        x = RNG.standard_normal((rows, 3), dtype=np.float32)
        assert loaded(x).tobytes() == program(x).tobytes()
        np.testing.assert_allclose(loaded(x), -x * np.arange(3, dtype=np.float32), rtol=1e-6)
        loaded.verify(x)
    loaded.save(tmp_path / "again")
    assert eqsat.load(tmp_path / "again").variants == loaded.variants
    with zipfile.ZipFile(tmp_path / "v") as archive:
        stored = [archive.read(name) for name in archive.namelist()]
    assert stored.count(np.arange(3, dtype=np.float32).tobytes()) == 1, "what variants share is stored once"


def test_a_size_that_was_not_saved_says_what_to_do(tmp_path: Path) -> None:
    program = free_program()
    program(np.ones((2, 3), np.float32))
    program.save(tmp_path / "v")
    loaded = eqsat.load(tmp_path / "v")
    with pytest.raises(EqsatError) as caught:
        loaded(np.ones((7, 3), np.float32))
    assert caught.value.kind is Kind.UNBOUND_DIM
    assert "M=7" in str(caught.value)
    assert "M=2" in str(caught.value)
    with pytest.raises(EqsatError) as caught:
        loaded(np.ones((2, 4), np.float32))
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH
    program(np.ones((7, 3), np.float32))  # what the hint says
    program.save(tmp_path / "v")
    assert eqsat.load(tmp_path / "v")(np.ones((7, 3), np.float32)).shape == (7, 3)


def test_a_program_of_no_variant_cannot_be_pickled() -> None:
    with pytest.raises(EqsatError, match="no size is known") as caught:
        pickle.dumps(free_program())
    assert caught.value.kind is Kind.UNBOUND_DIM


def test_a_program_of_no_variant_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(EqsatError) as caught:
        free_program().save(tmp_path / "v")
    assert caught.value.kind is Kind.UNBOUND_DIM
    assert "call the program once" in str(caught.value)
    assert not (tmp_path / "v").exists()


OPTIMIZER = ("egglog", "islpy", "rules", "eqsat.pipeline", "eqsat.extraction.extract")
"""Modules that only optimizing needs."""


@pytest.mark.slow
def test_a_program_from_the_cache_needs_no_optimizer(tmp_path: Path) -> None:
    code = (
        "import sys, eqsat\n"
        "eqsat.optimize_and_compile('%x: fp32[4, 8] = input()\\n%y = relu(%x)')\n"
        f"print(sorted(set({OPTIMIZER!r}) & set(sys.modules)))\n"
    )
    environment = {**os.environ, "EQSAT_CACHE_DIR": str(tmp_path)}
    imported = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert "eqsat.pipeline" in imported[0]
    assert imported[1].strip() == "[]"


def test_loading_needs_no_compiler(saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys, numpy as np, eqsat\n"
        f"y = eqsat.load({str(saved)!r}, threads=1)(np.load({str(tmp_path / 'x.npy')!r}))[0]\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, y)\n"
        f"assert not set({OPTIMIZER!r}) & set(sys.modules), 'loading optimizes nothing'\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "EQSAT_CC")}
    environment |= {"PATH": "", "EQSAT_CACHE_DIR": str(tmp_path / "elsewhere")}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), eqsat.load(saved)(X)[0])


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "nowhere" in refused(tmp_path / "nowhere")
    refused(tmp_path)
    assert not is_saved(tmp_path / "nowhere")
    assert not is_saved(tmp_path)


def test_a_file_that_cannot_be_written(program: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EqsatError) as caught:
        program.save(tmp_path / "file" / "program")
    assert caught.value.kind is Kind.INVALID_OPTION


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04", b"{}", b"\0" * 1000])
def test_a_file_that_is_something_else(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    refused(tmp_path / "f")


@pytest.mark.slow
def test_no_damage_gets_through(saved: Path, tmp_path: Path) -> None:
    """A flipped byte is found, or lies where nothing is stored."""
    whole, path = saved.read_bytes(), tmp_path / "damaged"
    rng = np.random.default_rng(1)
    places = [*range(40), *rng.integers(0, len(whole), 150), *range(len(whole) - 80, len(whole))]
    result = harmless = 0
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            loaded = eqsat.load(path, threads=1)
        except EqsatError as error:
            result += error.kind is Kind.MALFORMED_GRAPH
        else:
            harmless += 1
            np.testing.assert_array_equal(loaded(X)[0], eqsat.load(saved)(X)[0])
    assert result + harmless == len(places)
    assert result > 150
    for length in rng.integers(0, len(whole), 20):
        path.write_bytes(whole[:length])
        refused(path)


def edited(saved: Path, path: Path, edit: Callable[[dict[str, object]], object]) -> Path:
    """The file with another manifest."""
    with zipfile.ZipFile(saved) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(parts["manifest.json"])
    edit(manifest)
    parts["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def test_another_format_and_a_strange_manifest(saved: Path, tmp_path: Path) -> None:
    assert "format 99" in refused(edited(saved, tmp_path / "f", lambda manifest: manifest.update(format=99)))
    for name in ("format", "features", "sha256"):
        refused(edited(saved, tmp_path / "f", methodcaller("pop", name)))
        refused(edited(saved, tmp_path / "f", methodcaller("update", {name: 1.5})))


def test_a_machine_without_the_instructions(saved: Path, tmp_path: Path) -> None:
    path = edited(saved, tmp_path / "f", lambda manifest: manifest.update(features=["avx2048"]))
    assert "avx2048" in refused(path, Kind.UNKNOWN_TARGET)


# the cache of optimized programs


def fresh() -> Program:
    return optimize_and_compile(t.input("x", (3, 5)) * 3 + 1, threads=1)


def works(program: Program) -> None:
    np.testing.assert_array_equal(program(np.ones((3, 5), np.float32)), np.full((3, 5), 4))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_second_compilation_optimizes_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh()
    (stored,) = (cache / "programs").iterdir()
    assert list(cache.rglob("*.so"))
    monkeypatch.setattr("eqsat.make_artifact.optimize", lambda *_: pytest.fail("optimized twice"))
    second = fresh()
    works(second)
    assert second.stats == first.stats
    assert list((cache / "programs").iterdir()) == [stored]
    monkeypatch.undo()


@pytest.mark.slow
def test_another_program_target_or_option_is_another_entry(cache: Path) -> None:
    x = t.input("x", (3, 5))
    fresh()
    optimize_and_compile(x * 3 + 2, threads=1)
    optimize_and_compile(x * 3 + 1, rules=(), threads=1)
    optimize_and_compile(x * 3 + 1, exactness="exact", threads=1)
    optimize_and_compile(x * 3 + 1, threads=2)
    assert len(list((cache / "programs").iterdir())) == 4, "threads are the call's, all else counts"


def test_cache_false_stores_no_program(cache: Path) -> None:
    works(optimize_and_compile(t.input("x", (3, 5)) * 3 + 1, cache=False, threads=1))
    assert not (cache / "programs").exists()


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "other json"])
def test_a_damaged_entry_is_made_again_with_a_note(cache: Path, damage: str) -> None:
    fresh()
    (stored,) = (cache / "programs").iterdir()
    data = stored.read_bytes()
    body = {
        "cut": data[: len(data) // 2],
        "empty": b"",
        "flipped": data[:-9] + b"!" + data[-8:],
        "other json": b"{}\n{}",
    }
    stored.write_bytes(body[damage])
    again = fresh()
    works(again)
    assert [diagnostic.severity for diagnostic in again.diagnostics] == ["warning"]
    assert stored.read_bytes() != body[damage]
    assert not fresh().diagnostics


def test_a_cache_that_cannot_be_written_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    program = fresh()
    works(program)
    assert "cannot be written" in str(program.diagnostics[0])
    assert eqsat.load(saved)(X)[0].shape == (6, 24)


def test_a_disk_that_is_full_is_noted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ir.host.checked_file.write_atomically", full)
    program = fresh()
    works(program)
    assert "No space" in str(program.diagnostics[0])


# a file whose code is not used


def recompiled(saved: Path, **keywords: Any) -> Program:
    return eqsat.load(saved, threads=1, recompile=True, **keywords)


def rewritten(saved: Path, path: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """The file with another artifact, its checksums those of what it now holds."""
    with zipfile.ZipFile(saved) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    model = json.loads(parts["model.json"])
    for variant in model["variants"]:
        artifact = json.loads(parts[variant["artifact"]])
        edit(artifact)
        data = json.dumps(artifact).encode()
        variant["artifact"] = f"parts/{hashlib.sha256(data).hexdigest()}"
        parts[variant["artifact"]] = data
    parts["model.json"] = json.dumps(model).encode()
    manifest = json.loads(parts.pop("manifest.json"))
    manifest["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def test_a_recompiled_program_is_the_saved_one(program: Program, saved: Path) -> None:
    result = recompiled(saved)
    for one, other in zip(result(X), program(X), strict=True):
        assert one.tobytes() == other.tobytes()
    assert result.source() == program.source()
    assert result.explain() == program.explain()
    result.verify()


def test_recompiling_needs_no_code_and_no_text_of_the_file(
    program: Program, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine code is cut out of the file, and its texts are nonsense: neither is looked at."""

    def forge(artifact: dict[str, Any]) -> None:
        artifact["units"], artifact["kernels"], artifact["table"] = {"kernels0": "#error"}, {"eq_x": "system()"}, None

    path = rewritten(saved, tmp_path / "f", forge)
    code = program._compiled.code.code
    data = path.read_bytes()
    path.write_bytes(data.replace(code, bytes(len(code))))
    refused(path)
    monkeypatch.setattr(
        "codegen.backends.cpu.library.load_library", lambda _: pytest.fail("code of the file is loaded")
    )
    result = recompiled(path)
    assert result(X)[0].tobytes() == program(X)[0].tobytes()
    assert result.source() == program.source()


@pytest.mark.parametrize("field", ["blocks.bm", "blocks.mr", "blocks.lanes", "arch"])
def test_a_plan_that_the_planner_does_not_make_is_refused(field: str, saved: Path, tmp_path: Path) -> None:
    odd: dict[str, Any] = {"blocks.bm": 7, "blocks.mr": 900, "blocks.lanes": 1000, "arch": "avx1024"}

    def forge(artifact: dict[str, Any]) -> None:
        *path, last = field.split(".")
        place = artifact["prices"][0]["plan"]
        for name in path:
            place = place[name]
        assert last in place
        place[last] = odd[field]

    path = rewritten(saved, tmp_path / "f", forge)
    with pytest.raises(EqsatError, match="none that the planner makes") as caught:
        recompiled(path)
    assert caught.value.kind is Kind.MALFORMED_GRAPH


def test_a_region_that_reads_out_of_bounds_is_refused(saved: Path, tmp_path: Path) -> None:
    def forge(artifact: dict[str, Any]) -> None:
        text = json.dumps(artifact["module"]).replace("[i0, i2]", "[i0 + 9000, i2]")
        assert text != json.dumps(artifact["module"])
        artifact["module"] = json.loads(text)

    with pytest.raises(EqsatError):
        recompiled(rewritten(saved, tmp_path / "f", forge))


def test_a_gpus_program_is_recompiled_too(tmp_path: Path) -> None:
    x = t.input("x", (6, 40))
    result = optimize_and_compile((x @ t.constant(W)).relu(), target="sm_80", emulate=True)
    result.save(tmp_path / "g")
    again = eqsat.load(tmp_path / "g", recompile=True, emulate=True)
    assert again.source() == result.source()
    assert again(X).tobytes() == result(X).tobytes()


def test_code_of_another_program_is_refused(saved: Path, tmp_path: Path) -> None:
    """All checksums are right, and the code was written for another table."""
    other = tmp_path / "other"
    optimize_and_compile(t.input("x", (6, 8)).exp(), threads=1).save(other)
    with zipfile.ZipFile(other) as archive:
        code = archive.read(json.loads(archive.read("model.json"))["variants"][0]["code"])
    with zipfile.ZipFile(saved) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    model, manifest = json.loads(parts["model.json"]), json.loads(parts.pop("manifest.json"))
    parts[model["variants"][0]["code"]] = code
    manifest["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    with zipfile.ZipFile(tmp_path / "f", "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, data in parts.items():
            archive.writestr(name, data)
    assert "written for other launches or buffers" in refused(tmp_path / "f")
