"""A failure of eqsat itself: every public call ends in an InternalError with stage, region and a reproducer."""

from __future__ import annotations

import json
import pickle
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import eqsat
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.cli import app
from eqsat.explanation.explore import explore
from eqsat.failure.internal_error import public_call
from eqsat.frontends.onnx.load_onnx import load_onnx
from ir.diagnostics import Diagnostic, EqsatError, Kind

W = np.arange(20, dtype=np.float32).reshape(5, 4)
X = np.ones((3, 5), np.float32)


class PanicException(BaseException):
    """As pyo3's: no Exception."""


def model() -> t.Tensor:
    return (t.input("x", (3, 5)) @ t.constant(W, name="w")).relu()


def make(**keywords: Any) -> Program:
    return optimize_and_compile(model(), threads=1, **keywords)


def failing(error: BaseException) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> Any:
        raise error

    return fails


def internal(call: Callable[[], Any], cause: type[BaseException] = KeyError) -> Diagnostic:
    """The diagnostic of a call that fails from inside."""
    with pytest.raises(EqsatError) as caught:
        call()
    assert caught.value.kind is Kind.INTERNAL_ERROR, caught.value
    assert isinstance(caught.value.__cause__, cause)
    (result,) = caught.value.diagnostics
    assert cause.__name__ in result.message
    return result


def script(diagnostic: Diagnostic) -> Path:
    path = Path(diagnostic.details["reproducer"])
    compile(path.read_text(), str(path), "exec")
    return path


@pytest.fixture(scope="module")
def program() -> Program:
    return make()


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has the program of `make`."""
    folder = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQSAT_CACHE_DIR", str(folder))
        make()
    return folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


STAGES = {
    "eqsat.cover_part.saturate": "saturate",
    "eqsat.egraph.engine.EGraph.execute": "saturate",
    "eqsat.cover_part.extract_several": "extract",
    "eqsat.pipeline.assemble": "extract",
    "codegen.poly.analyse.poly_core": "extract",
    "eqsat.cost.roofline.Roofline.estimate": "extract",
    "eqsat.pipeline.lower_module": "lower",
    "codegen.compile.library.build": "compile",
    "eqsat.load_compiled.fold": "load",
    "codegen.backends.cpu.CpuExecutable": "load",
}


@pytest.mark.slow
@pytest.mark.parametrize("inner", STAGES)
def test_a_stage_that_fails_is_named(inner: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(inner, failing(KeyError("lost")))
        result = internal(make)
        assert result.stage == STAGES[inner]
        path = script(result)
        assert path.parent == own_cache / "reproducers"
        again = internal(lambda: runpy.run_path(str(path)))
        assert again.stage == result.stage, "the reproducer makes the failure happen again"
    actual = runpy.run_path(str(path))["program"]
    np.testing.assert_allclose(actual(X), np.maximum(X @ W, 0))


@pytest.mark.parametrize("inner", ["codegen.poly.analyse.poly_view", "codegen.backends.cpu.CpuBackend.lower"])
def test_the_region_is_named_where_one_is_known(inner: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner, failing(AssertionError("broken")))
    result = internal(make, AssertionError)
    assert result.at
    text = script(result).read_text()
    assert f"region {result.at}(" in text
    assert "AssertionError: broken" in text
    assert "eqsat/pipeline.py" in text
    assert eqsat.__version__ in text


METHODS: dict[str, tuple[str, Callable[[Program], Any]]] = {
    "call": ("eqsat.runtime.direct_call.DirectCall.__call__", lambda program: program(X)),
    "explain": ("eqsat.explanation.explain.explain", lambda program: program.explain()),
    "explanation": ("eqsat.explanation.explain.explanation", lambda program: program.explanation(0)),
    "explained": ("eqsat.explanation.explain.explained", lambda program: program.explained()),
    "chain": ("eqsat.explanation.chain.chain_at", lambda program: program.chain(0)),
    "why_not": ("eqsat.explanation.why_not.why_not_in_program", lambda program: program.why_not(0, 0)),
    "explore": ("eqsat.explanation.explore.Explorer.finish", lambda program: program.explore()),
    "source": ("eqsat.serving.variants.Variants.latest", lambda program: program.source()),
    "dump": ("ir.module.dump.dump_module", lambda program: program.dump("module", as_json=True)),
    "egraph": ("eqsat.egraph.saturate.saturate", lambda program: program.egraph()),
    "profile": ("eqsat.runtime.compiled.Compiled.profile", lambda program: program.profile(x=X, repeats=2)),
    "random_inputs": ("eqsat.runtime.verify.random_inputs", lambda program: program.random_inputs(3)),
    "verify": ("eqsat.runtime.verify.playback", lambda program: program.verify(X)),
    "save": ("eqsat.runtime.store.pack", lambda program: program.save("nowhere")),
    "reduce": ("eqsat.runtime.store.pack", pickle.dumps),
    "repr": ("eqsat.explanation.price_text.micros", repr),
    "kernels": ("eqsat.runtime.compiled.Compiled.kernels", lambda program: program.kernels),
    "diagnostics": ("eqsat.runtime.compiled.Compiled.notes", lambda program: program.diagnostics),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_fails_is_named(name: str, warm_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, call = METHODS[name]
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(warm_cache))
    own = make()
    value: Any = failing(KeyError("lost"))
    monkeypatch.setattr(
        inner, property(value) if name in ("source", "kernels", "diagnostics") else value, raising=False
    )
    if name in ("kernels", "diagnostics"):
        object.__getattribute__(own, "_variants").latest.__dict__.pop(inner.rpartition(".")[2])
    result = internal(lambda: call(own))
    assert result.stage == name
    if name == "source":  # what a script is written from is what fails
        assert "none could be written: KeyError" in result.details["reproducer"]
        return
    path = script(result)
    monkeypatch.undo()
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(warm_cache))
    monkeypatch.chdir(warm_cache)
    runpy.run_path(str(path))


@pytest.mark.slow
def test_arrays_of_a_failing_call_are_in_the_script(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small array to the last bit; of a large one what it takes to draw another, which the file says."""
    a, b, c = t.input("a", (2,)), t.input("b", (90, 100)), t.input("c", (90, 100), "u64")
    own = optimize_and_compile(a.sum() + b.sum() + c.max().cast("fp32"), threads=1)
    given = {"a": np.array([np.nan, -0.0], np.float32), "b": np.full((90, 100), 7, np.float32)}
    given["c"] = np.full((90, 100), 2**64 - 1, np.uint64)
    seen: list[dict[str, np.ndarray]] = []

    def fails(self: object, inputs: list[np.ndarray], outputs: object, threads: int) -> None:
        seen.append(dict(zip("abc", inputs, strict=True)))
        raise KeyError("lost")

    monkeypatch.setattr("codegen.run.executable.CpuExecutable.run", fails)
    monkeypatch.setattr("eqsat.runtime.compiled.Compiled.direct", None)
    path = script(internal(lambda: own(**given)))
    internal(lambda: runpy.run_path(str(path)))
    first, again = seen
    assert again["a"].tobytes() == first["a"].tobytes()
    assert again["b"].shape == first["b"].shape
    assert again["b"].min() == again["b"].max() == 7
    assert again["c"].tobytes() == first["c"].tobytes()
    assert "# Drawn anew, between the least and the greatest of its values: b, fp32[90, 100]." in path.read_text()


def test_a_load_that_fails_takes_its_file_along(
    program: Program, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.save(tmp_path / "p.eqsat")
    with monkeypatch.context() as broken:
        broken.setattr("eqsat.load_program.load_compiled", failing(IndexError("lost")))
        result = internal(lambda: eqsat.load(tmp_path / "p.eqsat", threads=1), IndexError)
        internal(lambda: pickle.loads(pickle.dumps(program)), IndexError)
    assert result.stage == "load"
    (tmp_path / "p.eqsat").unlink()
    actual = runpy.run_path(str(script(result)))["program"]
    np.testing.assert_allclose(actual(X), np.maximum(X @ W, 0))


def test_conversions_are_public_calls(own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("eqsat.frontends.onnx.load_onnx.read_onnx", failing(TypeError("lost")))
        (tmp_path / "m.onnx").write_bytes(b"model")
        assert internal(lambda: load_onnx(b"model"), TypeError).stage == "load_onnx"
        assert (
            "stored('m.onnx'"
            in script(internal(lambda: optimize_and_compile(tmp_path / "m.onnx"), TypeError)).read_text()
        )
    frontend = {
        "signature": {"inputs": [{"tensor": "a"}], "outputs": [{"tensor": "b"}]},
        "tensors": {"a": {"dtype": "fp32", "shape": [3]}},
        "graph": [{"op": "Elementwise", "fn": "relu", "name": "s", "inputs": ["a"], "outputs": ["b"]}],
    }
    with monkeypatch.context() as broken:
        broken.setattr("eqsat.frontends.frontend_to_tiny.lower_nodes", failing(KeyError("lost")))
        path = script(internal(lambda: optimize_and_compile(frontend)))
        internal(lambda: runpy.run_path(str(path)))
    runpy.run_path(str(path))


def test_a_size_that_fails_at_its_first_call(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uops = [
        {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M", 3]}},
        {"id": "y", "uop": "NEG", "src": ["x"]},
    ]
    free = optimize_and_compile({"uops": uops}, threads=1)
    with monkeypatch.context() as broken:
        broken.setattr("eqsat.cover_part.extract_several", failing(KeyError("lost")))
        path = script(internal(lambda: free(np.ones((7, 3), np.float32))))
        assert internal(lambda: runpy.run_path(str(path))).stage == "extract"
    assert runpy.run_path(str(path))["program"](np.ones((7, 3), np.float32)).shape == (7, 3)
    monkeypatch.setattr("eqsat.model.Model.infer", failing(KeyError("lost")))
    script(internal(lambda: free(np.ones((5, 3), np.float32))))


@pytest.mark.slow
def test_an_exploration_is_reported(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = explore(model())
    with monkeypatch.context() as broken:
        broken.setattr("eqsat.explanation.explore.extract", failing(KeyError("lost")))
        assert internal(lambda: explore(model())).stage == "explore"
        path = script(internal(lambda: run.without("fusion")))
        internal(lambda: runpy.run_path(str(path)))
    runpy.run_path(str(path))


def test_the_command_line_reports(own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(
        json.dumps({"uops": [{"id": "x", "uop": "IOTA", "arg": {"shape": [3], "axis": 0, "dtype": "i32"}}]})
    )
    for inner in ("eqsat.cover_part.extract_several", "eqsat.explanation.notebook.kernel_table"):
        with monkeypatch.context() as broken:
            broken.setattr(inner, failing(KeyError("lost")))
            result = CliRunner().invoke(app, ["compile", str(path)])
        assert result.exit_code == 1
        assert "InternalError" in result.stderr
        assert "reproducer = " in result.stderr
        assert "Traceback" not in result.stderr


def test_a_panic_is_a_failure(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.cover_part.extract_several", failing(PanicException("out of bounds")))
    assert internal(make, PanicException).stage == "extract"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_a_process_passes(error: BaseException, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.cover_part.extract_several", failing(error))
    with pytest.raises(type(error)) as caught:
        make()
    assert caught.value is error
    assert not (own_cache / "reproducers").exists()


def test_full_memory_is_resource_exceeded(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.cover_part.extract_several", failing(MemoryError()))
    with pytest.raises(EqsatError) as caught:
        make()
    assert caught.value.kind is Kind.RESOURCE_EXCEEDED
    assert caught.value.diagnostics[0].stage == "extract"
    assert isinstance(caught.value.__cause__, MemoryError)


class CallersError(Exception):
    """Of a caller's own."""


def test_what_the_callers_own_code_raises_passes(own_cache: Path) -> None:
    def stop(stage: str) -> None:
        if stage == "extract":
            raise CallersError

    with pytest.raises(CallersError):
        make(progress=stop)
    assert not (own_cache / "reproducers").exists()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no alarm")
def test_what_a_handler_of_a_signal_raises_passes(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ring(*_: object) -> None:
        raise CallersError

    def waits(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr("eqsat.cover_part.extract_several", waits)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(CallersError):
            make()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_reproducer_that_cannot_be_written_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("eqsat.cover_part.extract_several", failing(KeyError("lost")))
    monkeypatch.setattr("eqsat.failure.reproducer.tempfile.gettempdir", lambda: str(tmp_path))
    assert tmp_path in script(internal(make)).parents, "the folder of temporary files stands in"
    monkeypatch.setattr("eqsat.failure.reproducer._folders", lambda: [tmp_path / "file" / "reproducers"])
    result = internal(make)
    assert "none could be written: NotADirectoryError" in result.details["reproducer"]
    monkeypatch.setattr("eqsat.failure.internal_error.write_reproducer", failing(ValueError("a defect of the writer")))
    assert "a defect of the writer" in internal(make).details["reproducer"]


@pytest.mark.slow
def test_a_reproducer_runs_by_itself(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.cover_part.extract_several", failing(KeyError("lost\n'''\"\"\"\\")))
    path = script(internal(lambda: make(exactness="exact", budget=eqsat.options.Budget(nodes=1000), cache=False)))
    root = Path(__file__).parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import runpy; runpy.run_path({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_public_call_adds_one_frame() -> None:
    frames: list[Any] = []

    def look() -> None:
        frames.append(sys._getframe(1).f_code.co_name)
        frames.append(sys._getframe(2).f_code.co_name)

    public_call()(look)()
    assert frames == ["call", "test_a_public_call_adds_one_frame"]


def test_a_keyword_that_there_is_not_is_pythons_own_error(program: Program, own_cache: Path) -> None:
    wrong: Any = {"taget": "cpu"}
    calls: tuple[Callable[..., Any], ...] = (optimize_and_compile, eqsat.load)
    for call in calls:
        with pytest.raises(TypeError, match="taget"):
            call(model(), **wrong)
    with pytest.raises(TypeError, match="stage"):
        program.dump()  # type: ignore[call-arg]
    assert not (own_cache / "reproducers").exists()
