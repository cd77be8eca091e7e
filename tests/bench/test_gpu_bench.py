"""The bench of GPUs with torch on the CPU and the emulator in the device's place: all of it but the launch."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.device.ceilings import Ceilings, measure_ceilings
from bench.device.ceilings import check as check_ceilings
from bench.device.clock import Runner, Times, in_turns, quartiles
from bench.device.launch import EmulatedDevice
from bench.facts import ROOT
from bench.gpu import __main__ as gpu
from bench.gpu import measure as gpu_measure
from bench.gpu import peers as gpu_peers
from bench.gpu import plans as gpu_plans
from bench.gpu import session as gpu_session
from bench.gpu.answers import Request
from bench.gpu.answers import answers as real_answers
from bench.gpu.case import Case
from bench.gpu.cases import cases, chosen, gemm
from bench.gpu.lab import TorchLab, draw
from bench.gpu.peers import AbsentError, peers_of
from bench.gpu.results import Results
from bench.gpu.tables import cells, missing, show, title
from bench.gpu.worker import LostError, Worker, working
from codegen.run.device import Device
from eqsat.cost.targets import A100, H100
from ir.diagnostics import EqsatError, Kind, note
from ir.dtype import DTYPES
from tests.support.gpu.answers import CEILINGS as KNOWN
from tests.support.gpu.answers import answers, broken
from tests.support.sampling import first_few

FACTS = {"device": "Emulated X-1", "cuda": 13, "driver": "none", "versions": {"torch": "1"}, "source": "abc"}
CEILINGS = Ceilings(**KNOWN)
SMALL = {small.name: small for small in (case.small() for case in cases().values())}
ALIKE = ("+ silu", "48 + bias + relu", "1×1", "sums of columns")
"""Cases that differ from others in a detail."""
KINDS = [name for name in SMALL if not any(part in name for part in ALIKE)]


class FakeClock:
    """Runs everything once; the first runner takes 1 ms, each further one twice as long."""

    def measure(self, runs: Mapping[str, Runner], seconds: float) -> dict[str, Times]:
        in_turns(runs, 1, lambda name, run: run())
        return {name: quartiles([1e-3 * 2**place]) for place, name in enumerate(runs)}


class HostLab:
    """NumPy's arrays, without a peer."""

    target, emulate, has_peers = A100, True, False

    def put(self, array: np.ndarray) -> np.ndarray:
        return array

    def allocate_poisoned(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.full(shape, np.nan, DTYPES[dtype].numpy)

    def get(self, array: np.ndarray) -> np.ndarray:
        return array.astype(np.float32)

    def wait(self) -> None: ...

    def release(self) -> None: ...


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> TorchLab:
    """Peers that compile are left out: Inductor takes seconds a case."""
    pytest.importorskip("torch")

    def absent(case: Case, tensors: Any) -> Runner:
        raise AbsentError("left out of the test")

    monkeypatch.setattr(gpu_peers, "_PEERS", {**gpu_peers._PEERS, "torch.compile": absent, "triton": absent})
    return TorchLab("cpu", A100, emulate=True)


# --- cases ---


def test_the_cases_are_those_of_the_marks_first() -> None:
    names = list(cases())
    assert names[0] == "gemm bf16 8192³"
    assert names[1] == "attention bf16 16384 ×16 heads of 128"
    assert len(names) == len(set(names)) > 40
    assert chosen("gemm bf16 1024") == ["gemm bf16 1024³"]
    assert len(chosen("attention bf16")) == 16
    assert {case.group for case in cases().values()} == {"gemm", "conv", "attention", "memory", "model", "fused"}
    for case in cases().values():
        assert case.flops > 0
        assert peers_of(case.group)
        assert all(scale > 0 for scale in case.scales.values())
        assert case.scales.keys() <= case.inputs.keys()


def test_work_is_counted_once() -> None:
    result = cases()["gemm bf16 1024³"]
    assert (result.flops, result.nbytes) == (2 * 1024**3, 3 * 2 * 1024**2)
    full, half = cases()["attention bf16 512 ×512 heads of 128"], cases()["attention bf16 512 ×512 heads of 128 causal"]
    assert full.flops == 2 * half.flops == 4 * 32 * 16 * 512**2 * 128
    assert full.nbytes == 4 * 2 * 16384 * 2048


def test_what_is_drawn_is_random_and_no_row_repeats() -> None:
    x, weight, bias = draw(cases()["linear bf16 4096×4096×4096 + bias + relu"])
    assert x.dtype == "bfloat16"
    assert (x.astype(np.float32) != 0).mean() > 0.99
    assert len({row.tobytes() for row in x[:, :64]}) == len(x)
    assert abs(weight.astype(np.float32).std() - 1 / 64) < 1e-3
    assert bias.shape == (4096,)


@pytest.mark.slow
@first_few(8, "name", KINDS)
def test_every_kind_of_case_is_measured(name: str, lab: TorchLab) -> None:
    """eqsat beside torch, the same numbers; a row with all its figures."""
    row = gpu_measure.measure_case(SMALL[name], lab, FakeClock(), CEILINGS, 0.1)
    assert "failed" not in row, row["failed"]
    assert 0 < row["errors"]["torch"] + 1e-30 <= SMALL[name].tolerance
    assert row["times"].keys() == {"eqsat", "torch"}
    assert (row["best peer"], row["ratio"]) == ("torch", pytest.approx(2))
    assert row["TFLOP/s"] == pytest.approx(SMALL[name].flops / 1e9)
    assert row["of ceiling"] == pytest.approx(CEILINGS.floor_s(SMALL[name].flops_of_halves, SMALL[name].nbytes) / 1e-3)
    assert all(kernel["threads"] % 32 == 0 for kernel in row["kernels"])
    json.dumps(row)


@pytest.mark.slow
def test_wrong_outputs_are_not_timed(lab: TorchLab, monkeypatch: pytest.MonkeyPatch) -> None:
    case = SMALL["gemm bf16 72³"]
    right = gpu_peers._PEERS["torch"]
    wrong = {"torch": lambda case, tensors: lambda: 1.1 * right(case, tensors)()}
    monkeypatch.setattr(gpu_peers, "_PEERS", {**gpu_peers._PEERS, **wrong})
    row = gpu_measure.measure_case(case, lab, FakeClock(), CEILINGS, 0.1)
    assert "eqsat differs from torch" in row["failed"]
    assert "times" not in row
    assert cells(row, ())[1] == "failed"
    assert row["errors"]["torch"] == pytest.approx(1 - 1 / 1.1, rel=0.1)
    nothing = {"torch": lambda case, tensors: lambda: right(case, tensors)() * float("nan")}
    monkeypatch.setattr(gpu_peers, "_PEERS", {**gpu_peers._PEERS, **nothing})
    assert "failed" in gpu_measure.measure_case(case, lab, FakeClock(), CEILINGS, 0.1)


@pytest.mark.slow
def test_without_a_peer_the_small_case_is_played_back() -> None:
    row = gpu_measure.measure_case(SMALL["softmax fp32 5×104"], HostLab(), FakeClock(), CEILINGS, 0.1)
    assert set(row["absent"]) == {"torch", "torch.compile"}
    assert row["errors"]["playback of the small case"] < 1e-5
    assert row["times"].keys() == {"eqsat"}
    assert row["ratio"] is None
    assert cells(row, ())[5] == "alone"


@pytest.mark.slow
def test_programs_with_warpgroups_are_timed_beside_those_without() -> None:
    class HopperLab(HostLab):
        target = H100

    row = gpu_measure.measure_case(gemm(512), HopperLab(), FakeClock(), CEILINGS, 0.1)
    assert row["times"].keys() == {"eqsat", gpu_measure.WARPGROUPS}
    assert 0 <= row["errors"][gpu_measure.WARPGROUPS] <= gemm(512).tolerance
    assert row["best peer"] is None
    small = gpu_measure.measure_case(gemm(72), HopperLab(), FakeClock(), CEILINGS, 0.1)
    assert small["times"].keys() == {"eqsat"}  # which takes none


@pytest.mark.slow
def test_a_lost_case_is_tried_without_the_peers_that_compile(tmp_path: Path) -> None:
    class Slow(Served):
        def ask(self, request: Any, seconds: float) -> Any:
            if request == "ceilings":
                return CEILINGS._asdict()
            if not request.left_out:
                raise LostError("no answer within 9 s")
            return super().ask(request, seconds) | {"absent": request.left_out}

    results = Results(FACTS, tmp_path)
    gpu.bench(results, ["a"], Slow(), 0.1, time.monotonic() + 1000)  # type: ignore[arg-type]
    assert results.is_done("a")
    assert "no answer within 9 s" in results.rows["a"]["absent"]["triton"]
    gpu.bench(results, ["b"], Slow(), 0.1, time.monotonic() + 1000, without=["torch"])  # type: ignore[arg-type]
    assert results.rows["b"]["absent"] == {"torch": "left out by --without"}
    left_out = {"torch": "slow", "torch.compile": "slow"}
    row = gpu_measure.measure_case(SMALL["softmax fp32 5×104"], HostLab(), FakeClock(), CEILINGS, 0.1, left_out)
    assert row["absent"] == left_out


@pytest.mark.slow
def test_a_peer_that_fails_is_named(lab: TorchLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise RuntimeError("no kernel for this")

    monkeypatch.setattr(gpu_peers, "_PEERS", {**gpu_peers._PEERS, "cuDNN attention": lambda case, tensors: fails})
    row = gpu_measure.measure_case(SMALL["attention bf16 33 ×2 heads of 16"], lab, FakeClock(), CEILINGS, 0.1)
    assert row["absent"]["flash-attn"] == "flash_attn is not installed"
    assert row["absent"]["cuDNN attention"] == "RuntimeError: no kernel for this"
    assert row["times"].keys() == {"eqsat", "torch"}
    assert "flash-attn left out of 2 cases: flash_attn is not installed" in missing([row, row])


# --- the clock and the ceilings ---


def test_turns_are_reversed() -> None:
    taken: list[str] = []
    in_turns({"a": lambda: None, "b": lambda: None}, 3, lambda name, run: taken.append(name))
    assert "".join(taken) == "abbaab"
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == Times(2.0, 3.0, 4.0, 5)


def test_the_kernels_of_the_ceilings_are_right() -> None:
    check_ceilings(EmulatedDevice())
    result = measure_ceilings(EmulatedDevice(), FakeClock(), blocks=1, copied=1 << 15, turns=2)
    assert result.bytes_per_s == 2 * (1 << 15) / 1e-3
    assert result.flops_per_s == 8 * 2 * 16 * 2 * 16 * 8 * 16 / 2e-3
    assert result.floor_s(result.flops_per_s, 0) == 1


def test_the_ceiling_is_the_best_that_a_device_has() -> None:
    """Where wgmma is faster than mma.sync, cuBLAS would otherwise pass 100 %."""
    results = [
        measure_ceilings(EmulatedDevice(), FakeClock(), blocks=1, copied=1 << 15, turns=1, sheet_flops=sheet)
        for sheet in (0.0, 989e12, 1.0)
    ]
    assert results[1].flops_per_s == 989e12
    assert results[0] == results[2]


# --- the worker ---


@pytest.mark.slow
def test_a_worker_outlives_its_process() -> None:
    with working(answers) as worker:
        first = worker.ask("who", 30)
        assert worker.ask("who", 30) == first
        with pytest.raises(LostError, match=r"ValueError: no \(answer"):
            worker.ask("raise", 30)
        assert worker.ask("who", 30) != first, "a process in which something failed may have lost its device"
        with pytest.raises(LostError, match="no answer within 0 s"):
            worker.ask("hang", 0.2)
        with pytest.raises(LostError, match="the process ended"):
            worker.ask("die", 30)
        assert worker.ask(("y", 1), 30)["case"] == "y"
    with pytest.raises(LostError, match="no device after all"):
        Worker(broken).ask(("x", 1), 30)


def test_the_answers_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the worker does, with a small device of the emulator's."""

    class Emulated(EmulatedDevice):
        gpu = Device("Emulated A100", "80", 1, 1 << 30, 13000)

    small = partial(measure_ceilings, copied=1 << 14, turns=1)
    monkeypatch.setattr(
        "bench.device.ceilings.measure_ceilings",
        lambda device, clock, blocks, sheet_flops: small(device, clock, blocks, sheet_flops=sheet_flops),
    )
    monkeypatch.setattr("bench.device.launch.CudaDevice", Emulated)
    monkeypatch.setattr("bench.device.clock.EventClock", FakeClock)
    monkeypatch.setattr("bench.gpu.lab.cuda_lab", lambda target: HostLab())
    monkeypatch.setattr("bench.gpu.cases.cases", lambda: SMALL)
    answer = real_answers()
    ceilings = answer("ceilings")
    assert ceilings.keys() == CEILINGS._asdict().keys()
    row = answer(Request("softmax fp32 5×104", 0.1, ceilings, left_out={"torch": "slow"}))
    assert row["times"]["eqsat"]["us"] == pytest.approx(1000)
    assert row["absent"]["torch"] == "slow"
    Emulated.gpu = Device("Old", "70", 1, 1 << 30, 13000)
    with pytest.raises(ValueError, match="no kernels are written for Old"):
        real_answers()


# --- results and the command ---


class Served:
    """Answers in this process."""

    def __init__(self, lost: str = "") -> None:
        self.asked: list[Any] = []
        self._lost, self._answer = lost, answers()

    def ask(self, request: Any, seconds: float) -> Any:
        self.asked.append(request if isinstance(request, str) else request.case)
        if self.asked[-1] == self._lost:
            raise LostError("no answer within 9 s")
        return self._answer(request)


def test_a_run_goes_on_where_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = time.monotonic() + 1000
    first = Served(lost="b")
    assert gpu.bench(Results(FACTS, tmp_path), ["a", "b", "c"], first, 0.1, late) == []  # type: ignore[arg-type]
    assert first.asked == ["ceilings", "a", "b", "b", "c"]
    second = Served()
    results = Results(FACTS, tmp_path)
    assert results.ceilings == CEILINGS._asdict()
    assert gpu.bench(results, ["a", "b", "c", "d"], second, 0.1, late) == []  # type: ignore[arg-type]
    assert second.asked == ["b", "d"]
    tuned = Results(FACTS, tmp_path)
    assert gpu.bench(tuned, ["a"], second, 0.1, late, autotune=True) == []  # type: ignore[arg-type]
    assert tuned.is_done("a, autotuned")
    assert gpu.bench(Results(FACTS, tmp_path), ["a", "e"], second, 0.1, time.monotonic() + 1) == ["e"]  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    assert "b: no answer within 9 s" in printed
    assert "a: 5.0 µs, 50 % of the ceiling" in printed
    [path] = tmp_path.iterdir()
    assert path.name == "gpu_emulated_x_1_cuda13.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["facts"] == FACTS
    assert [row["case"] for row in document["rows"]] == ["a", "b", "c", "d", "a, autotuned"]


def test_without_ceilings_cases_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = Results(FACTS, tmp_path)
    assert gpu.bench(results, ["a"], Served(lost="ceilings"), 0.1, time.monotonic() + 1000) == []  # type: ignore[arg-type]
    assert results.is_done("a")
    assert "the ceilings of this device were not measured: no answer within 9 s" in capsys.readouterr().out
    assert "whose ceilings were not measured" in title("X-1", results.ceilings)
    row = gpu_measure.measure_case(SMALL["softmax fp32 5×104"], HostLab(), FakeClock(), None, 0.1)
    assert row["of ceiling"] is None
    assert gpu._summary(row) == "1,000.0 µs"
    assert cells(row, ())[4] == ""


def test_rows_of_another_source_are_forgotten(tmp_path: Path) -> None:
    Results(FACTS, tmp_path).keep({"case": "a", "times": {}})
    assert Results(FACTS | {"date": "another"}, tmp_path).is_done("a")
    assert Results(FACTS | {"driver": "of another patch level"}, tmp_path).is_done("a")
    assert not Results(FACTS | {"source": "def"}, tmp_path).is_done("a")
    assert not Results(FACTS | {"cuda": 12}, tmp_path).is_done("a")
    assert not Results(FACTS, tmp_path, again=True).is_done("a")
    path = tmp_path / "gpu_emulated_x_1_cuda13.json"
    path.write_text("{", encoding="utf-8")
    assert not Results(FACTS, tmp_path).rows


def test_the_table_names_who_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    row = answers()(("a", 1))
    show([row, {"case": "b", "failed": "no answer within 9 s"}], "Emulated X-1")
    printed = capsys.readouterr().out
    assert "triton left out of 1 cases: is not installed" in printed
    assert "no answer within 9 s" in " ".join(printed.split())


@pytest.mark.parametrize("option", ["", "--all"])
def test_without_a_gpu_it_says_so(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.device.facts.find_device", lambda: None)
    monkeypatch.setattr("sys.argv", ["gpu", "--to", str(tmp_path), *filter(None, [option])])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_command_measures_shows_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "require_device", lambda: Device("Emulated X-1", "80", 2, 1 << 30, 13000))
    monkeypatch.setattr(gpu, "answers", answers)
    monkeypatch.setattr("sys.argv", ["gpu", "--only", "gemm bf16 1024", "--to", str(tmp_path)])
    gpu.main()
    printed = capsys.readouterr().out
    assert "gemm bf16 1024³: 5.0 µs, 50 % of the ceiling" in printed
    assert "Emulated X-1: 1,000 GB/s by a kernel of ours, 100 TFLOP/s of bf16" in printed
    facts = json.loads((tmp_path / "gpu_emulated_x_1_cuda13.json").read_text(encoding="utf-8"))["facts"]
    assert facts["versions"]["numpy"] == np.__version__
    assert {"driver", "commit", "source", "date", "power limit"} <= facts.keys()


# --- the session ---


@pytest.mark.slow
def test_a_session_is_bounded_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(name: str, script: str, seconds: float, goes_on: bool = False) -> gpu_session.Step:
        return gpu_session.Step(name, seconds, lambda left: ["sh", "-c", script], goes_on)

    log = tmp_path / "log"
    results = [
        step("good", f"echo good >> {log}", 30),
        step("bench", f"echo bench >> {log}", 30, goes_on=True),
        step("slow", "sleep 60 & sleep 60", 0.3),
        step("bad", "echo wrong; exit 3", 30),
        gpu_session.Step("tool", 30, lambda left: None),
    ]
    monkeypatch.setattr(gpu_session, "steps", lambda folder: results)
    for _ in range(2):
        assert gpu_session.session(FACTS, tmp_path, time.monotonic() + 600) == 1
    assert log.read_text(encoding="utf-8").split() == ["good", "bench", "bench"]
    rows = Results(FACTS, tmp_path).steps
    assert rows["good"]["passed"]
    assert rows["bad"]["status"] == 3
    assert rows["bad"]["output"] == "wrong\n"
    assert "ended after 0 s" in rows["slow"]["output"]
    assert rows["tool"]["skipped"] == "the tool is not there"
    monkeypatch.setattr(gpu_session, "steps", lambda folder: [step("late", "exit 1", 30)])
    assert gpu_session.session(FACTS, tmp_path / "other", time.monotonic() + 1) == 0


def test_the_steps_of_a_session_are_commands(tmp_path: Path) -> None:
    result = gpu_session.steps(tmp_path)
    assert [step.name for step in result][:4] == ["smoke", "fixtures", "marks", "tests"]
    for step in result:
        assert step.seconds <= 720
        command = step.command(100)
        assert command is None or len(command) > 2
    named = (*gpu_session.DEVICE_TESTS, gpu_session.SMOKE[0], gpu_session.SANITIZED[0])
    assert all((ROOT / path).exists() for path in named)


# --- plans ---


@pytest.mark.slow
def test_plans_are_measured_beside_their_estimates(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    refused = EqsatError(note(Kind.COMPILE_FAILED, "nvrtc", "no such instruction"))

    def times(region: Any, plans: Sequence[Any], **_: Any) -> list[float | EqsatError]:
        return [2000.0, 1000.0, *[3000.0] * (len(plans) - 3), refused]

    monkeypatch.setattr(gpu_plans, "time_plans", times)
    monkeypatch.setattr(gpu_plans, "cases", lambda: {"small": cases()["gemm bf16 1024³"].small()})
    rows = list(gpu_plans.measure(["small"], A100, time.monotonic() + 1000))
    assert all(row["estimate us"] > 0 for row in rows)
    assert rows[0]["us"] == 2
    assert "no such instruction" in rows[-1]["failed"]
    assert f"{len(rows) - 1:3d} plans" in capsys.readouterr().out
    assert ", loss 2.00" in gpu_plans.summary(rows)
