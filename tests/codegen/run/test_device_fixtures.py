"""Every device function beside what hardware gave, where that was recorded; and the recorder, with the emulator in the
hardware's place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import record_device_functions
from bench.device.fixtures import FOLDER, differences, read
from bench.device.launch import EmulatedDevice
from bench.device.probes import PAIRS, Recorded, functions_of, probes, run
from codegen.compile.nvrtc import assemble
from codegen.compile.nvrtc_log import resources
from ir.kernel.gpu.device_functions import DEVICE_FUNCTIONS
from tests.support.gpu.nvrtc import needs_nvrtc

FIXTURES = sorted(FOLDER.glob("*.npz"))
ABOUT = {"device": "Emulated X-1", "cuda": 13, "driver": "none"}


@pytest.fixture(scope="module")
def emulated() -> dict[str, Recorded]:
    return run(EmulatedDevice())


@pytest.mark.skipif(not FIXTURES, reason="no GPU has recorded them: `python -m bench.record_device_functions` does")
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_emulator_gives_what_hardware_gave(path: Path, emulated: dict[str, Recorded]) -> None:
    assert not differences(emulated, read(path)[1])


@pytest.mark.slow
def test_every_function_is_tried(emulated: dict[str, Recorded]) -> None:
    assert functions_of(emulated) == set(DEVICE_FUNCTIONS)
    constant = {
        name for name, fixture in emulated.items() if fixture.result.size > 1 and np.unique(fixture.result).size == 1
    }
    assert constant <= {"eq_inf_f32", "eq_inf_f64", "eq_nan_f32", "eq_nan_f64", "eq_ticket"}


@pytest.mark.slow
def test_a_recording_is_read_as_it_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = record_device_functions.record(EmulatedDevice(), ABOUT, tmp_path, probes()[::7])
    assert record == []
    [path] = tmp_path.iterdir()
    assert path.name == "emulated_x_1_cuda13.npz"
    assert path.stat().st_size < 1 << 20
    about, result = read(path)
    assert about == ABOUT
    assert f"{len(result)} functions: " in capsys.readouterr().out


@pytest.mark.slow
def test_differences_are_reported(emulated: dict[str, Recorded]) -> None:
    def reported(name: str, change: np.ndarray | int) -> list[str]:
        one = emulated[name]
        other = Recorded(one.result, change) if isinstance(change, int) else Recorded(change, one.given)
        return differences({name: one}, {name: other})

    def moved(name: str, ulps: int) -> np.ndarray:
        bits = emulated[name].result.copy().view(np.int32)
        bits[PAIRS - 1] += ulps
        return bits.view(np.float32)

    assert reported("eq_add_f32", emulated["eq_add_f32"].result.copy()) == []
    assert "1 of 512 differ, first at 511" in reported("eq_add_f32", moved("eq_add_f32", 1))[0]
    assert reported("eq_exp_f32", moved("eq_exp_f32", 3)) == []
    assert reported("eq_exp_f32", moved("eq_exp_f32", 9))
    assert reported("eq_mma_m16n8k16_bf16", emulated["eq_mma_m16n8k16_bf16"].result + np.float32(1e-6)) == []
    assert reported("eq_mma_m16n8k16_bf16", emulated["eq_mma_m16n8k16_bf16"].result * np.float32(1.001))
    assert reported("eq_exp_f32", np.full(PAIRS, np.nan, np.float32))
    assert reported("eq_max_i32", emulated["eq_max_i32"].result[1:])
    assert "other arguments" in reported("eq_max_i32", 1)[0]
    assert "in one of them alone" in differences(emulated, {})[0]


@needs_nvrtc
@pytest.mark.slow
def test_the_probes_compile_for_hardware() -> None:
    for warpgroups, arch in ((False, "sm_80"), (True, "sm_90a")):
        text = "\n".join(dict.fromkeys(probe.text for probe in probes() if probe.warpgroups is warpgroups))
        assert all(not resource.lints for resource in resources(assemble(text, arch).log))


def test_without_a_gpu_the_recorder_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.device.facts.find_device", lambda: None)
    monkeypatch.setattr("sys.argv", ["record", "--to", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        record_device_functions.main()
    assert ended.value.code == 2
    assert "there is no CUDA device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
