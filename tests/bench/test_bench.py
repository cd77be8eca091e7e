"""The command lines of the benches: what they refuse, print and write."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from bench import ablation, fidelity
from eqsat.find_target import find_target


@pytest.mark.slow
def test_a_bench_writes_tables_and_plots_of_ones_own_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, broken = tmp_path / "small.tiny", tmp_path / "broken.tiny"
    model.write_text("%x: fp32[8, 16] = input()\n%y = exp(%x)\n%z: fp32[8] = reduce(%y, axes=[1], op=SUM)\n")
    broken.write_text("%y = nothing(%x)\n")
    monkeypatch.setattr(fidelity, "calibrated_target", lambda again: find_target("cpu"))
    for bench, words in (
        (fidelity, ["--covers", "2"]),
        (ablation, ["--target", "cpu", "--kinds", "extractor"]),
    ):
        folder = tmp_path / bench.__name__
        rest = ["--rounds", "1", "--out", str(folder / "out")]
        monkeypatch.setattr("sys.argv", [bench.__name__, str(model), str(broken), *words, *rest])
        with pytest.raises(SystemExit, match=r"failed: broken\.tiny"):
            bench.main()
        assert "small.tiny" in capsys.readouterr().out
        assert (folder / "out" / "predicted_against_measured.png").exists()
        assert (folder / "measurements.csv").exists()


@pytest.mark.parametrize(
    "bench",
    [
        "scale",
        "calls",
        "growth",
        "tensat",
        "fidelity",
        "ablation",
        "estimates",
        "idioms.__main__",
        "peers.__main__",
        "gpu.__main__",
    ],
)
def test_a_bench_of_nothing_tells_the_names(
    bench: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [bench, "--only", "no such name"])
    with pytest.raises(SystemExit) as ended:
        import_module(f"bench.{bench}").main()
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "--only: no" in printed
    assert "'no such name'" in printed
    assert {
        "scale": "encoder ×36",
        "calls": "decoder 128 ×12, called",
        "growth": "masks 107",
        "tensat": "NasNet-A",
        "estimates": "gemm 256³",
        "idioms.__main__": "pixel shuffle",
        "peers.__main__": "resnet50",
        "gpu.__main__": "gemm",
    }.get(bench, "gated mlp") in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kinds", "family,fam"], "'fam' is none of family, term, extractor"),
        (["--models", "squeeze"], "'squeeze' is none of bvlc_alexnet"),
        (["--rounds", "0"], "'0' is not a positive integer"),
    ],
)
def test_a_bench_refuses_words_that_stand_for_nothing(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ablation", *words])
    with pytest.raises(SystemExit) as ended:
        ablation.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
