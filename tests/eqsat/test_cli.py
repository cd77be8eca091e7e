"""The command line: what each verb prints, where, and with which exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from codegen.run.device import find_device
from eqsat import load, optimize_and_compile
from eqsat import tensor as t
from eqsat.cli import app
from eqsat.command_words import in_words_of, tuned_text
from eqsat.explanation.measurement import COLUMNS
from eqsat.explanation.profile import Profile
from eqsat.frontends.onnx.operator_table import LOWERINGS
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.planning.tuning import STAGE as TUNING_STAGE
from eqsat.planning.tuning import UNCHANGED
from ir.diagnostics import Diagnostic, Kind, note
from rules import RULES
from tests.support.stages.calibrations import calibration

ROOT = Path(__file__).parents[2]
SIZES = ("-d", "M=64", "-d", "N=64", "-d", "K=64")


def eqsat(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(autouse=True)
def in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says how wide the terminal is: pytest-xdist sets COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


def good(*words: object) -> str:
    result = eqsat(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def bad(*words: object, status: int = 1) -> str:
    result = eqsat(*words)
    assert result.exit_code == status, result.output
    assert not result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A free program, a bound one, and the latter saved."""
    folder = tmp_path_factory.mktemp("cli")
    uops = [
        {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M", 3]}},
        {"id": "y", "uop": "NEG", "src": ["x"]},
    ]
    (folder / "free.json").write_text(json.dumps({"uops": uops}))
    bound, _ = tensor_to_tiny([t.input("x", (2, 3)).exp(), t.input("h", (2,), "bf16") + 1])
    (folder / "bound.json").write_text(json.dumps(bound))
    optimize_and_compile(bound, threads=1).save(folder / "bound.saved")
    return folder


def test_compile_prints_a_table_and_saves(folder: Path, tmp_path: Path) -> None:
    printed = good("compile", folder / "bound.json", "--threads", 1, "-o", tmp_path / "out.eqsat")
    assert "estimated" in printed
    assert "Program(2 kernels for cpu" in printed
    assert load(tmp_path / "out.eqsat").arguments == ("x", "h")


@pytest.mark.slow
def test_sizes_are_given_by_dim(folder: Path) -> None:
    assert "y: float32[4, 3]" in good("run", folder / "free.json", "--dim", "M=4")
    advice = bad("run", folder / "free.json")
    assert "UnboundDim" in advice
    assert "try: -d M=SIZE" in advice
    assert "-d N=SIZE" in bad("compile", ROOT / "docs" / "gemm_bias_relu.json", "-d", "M=1,2", "-d", "K=4")
    assert "M is given twice" in bad("run", folder / "free.json", "-d", "M=4", "-d", "M=5", status=2)
    for wrong in ("M", "M=", "=3", "M=x y", "M=-1", "M=1,", "M=4..1", "M=1..4..0", "M=1...4"):
        assert "NAME=SIZE" in bad("run", folder / "free.json", "-d", wrong, status=2)


@pytest.mark.slow
def test_sizes_follow_from_others(folder: Path) -> None:
    lines = ("%a: fp32[P] = input()", "%m: fp32[T] = input()", "%b = pad(%a, pad=[[0, 1]])", "%y = mul(%b, %m)")
    (folder / "grown.tiny").write_text("\n".join(lines), encoding="utf-8")
    printed = good("check", folder / "grown.tiny", "-d", "P=2,3", "-d", "T=P+1")
    assert "P=2:" in printed
    assert "P=3:" in printed
    assert "y: float32[4]" in good("run", folder / "grown.tiny", "-d", "P=3", "-d", "T=1+P")
    assert "'Q' is no free dim" in bad("run", folder / "grown.tiny", "-d", "P=3", "-d", "T=Q+1")


def test_warnings_go_to_standard_error(folder: Path) -> None:
    result = eqsat("compile", folder / "bound.json", "-d", "Q=3")
    assert result.exit_code == 0
    assert "UnboundDim (warning" in result.stderr
    assert "--dim binds 'Q'" in result.stderr
    assert "warning" not in result.stdout
    assert "--tf32 is for" in eqsat("compile", folder / "bound.json", "--target", "cpu", "--tf32").stderr


def test_dumps_to_standard_output(folder: Path) -> None:
    assert json.loads(good("compile", folder / "bound.json", "--dump", "plan"))
    printed = good("compile", folder / "bound.json", "--dump=tiny,plan")
    first, end = json.JSONDecoder().raw_decode(printed)
    assert first["uops"]
    assert json.loads(printed[end:])
    assert "eq_" in good("compile", folder / "bound.json", "--dump", "c")


def test_dumps_to_files(folder: Path, tmp_path: Path) -> None:
    printed = good("compile", folder / "bound.json", "--dump", "tiny, region,c", "--dump-dir", tmp_path / "d")
    assert "estimated" in printed
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["c.c", "region.json", "tiny.json"]
    assert json.loads((tmp_path / "d" / "tiny.json").read_text())["uops"]
    (tmp_path / "file").write_text("")
    assert "cannot write" in eqsat("compile", folder / "bound.json", "--dump=c", "--dump-dir", tmp_path / "file").stderr


def test_run_takes_and_writes_npz(folder: Path, tmp_path: Path) -> None:
    x, h = np.arange(6, dtype=np.float32).reshape(2, 3), np.asarray([1, 2], ml_dtypes.bfloat16)
    np.savez(tmp_path / "in.npz", x=x, h=h)
    for model in ("bound.json", "bound.saved"):
        printed = good("run", folder / model, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "sub" / "out.npz")
        assert "float32[2, 3]" in printed
        assert "bfloat16[2]" in printed
        exp, more = np.load(tmp_path / "sub" / "out.npz").values()
        np.testing.assert_allclose(exp, np.exp(x), rtol=1e-6)
        np.testing.assert_array_equal(more.view(ml_dtypes.bfloat16).astype(np.float32), [2, 3])


def test_run_refuses_what_are_no_inputs(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    np.savez(tmp_path / "objects.npz", x=np.asarray([{}], object), h=np.zeros(2))
    for name in ("text.npz", "other.npz", "objects.npz", "missing.npz"):
        assert "InputMismatch" in bad("run", folder / "bound.json", "--inputs", tmp_path / name)


def test_random_inputs_are_seeded(folder: Path) -> None:
    assert good("run", folder / "bound.saved") == good("run", folder / "bound.saved", "--seed", 0)
    assert good("run", folder / "bound.saved") != good("run", folder / "bound.saved", "--seed", 1)


def test_explain_bench_and_check(folder: Path) -> None:
    said = good("explain", folder / "bound.saved")
    assert "bound by" in said
    assert "rejected" in said
    for name in ("bound.json", "bound.saved"):
        data = json.loads(good("explain", folder / name, "--json"))
        assert all(kernel["candidates"] > len(kernel["rejected"]) for kernel in data["kernels"])
    printed = good("bench", folder / "bound.saved", "--repeats", 2, "--threads", 1)
    assert {"share", "measured", "total"} <= set(printed.split())
    assert good("check", folder / "bound.saved").count("largest error") == 2
    bad("bench", folder / "bound.saved", "--repeats", 0, status=2)


def test_profile_shows_where_the_time_goes(folder: Path, tmp_path: Path) -> None:
    trace, table = tmp_path / "t.json", tmp_path / "t.csv"
    words = ("--repeats", 2, "--threads", 1, "--trace", trace, "--csv", table)
    printed = good("profile", folder / "bound.json", *words)
    for column in ("share", "measured", "estimated", "GFLOP/s", "GB/s", "total"):
        assert column in printed
    head, *events = json.loads(trace.read_text())["traceEvents"]
    assert head["args"]["name"].startswith("bound.json on ")
    assert len(events) == 2
    assert table.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert "share" in good("profile", folder / "bound.saved", "--repeats", 2)
    assert "cannot write" in eqsat("profile", folder / "bound.saved", "--repeats", 1, "--csv", tmp_path).stderr


def test_estimates_that_are_far_off_hint_at_the_calibrated_target(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for factor, hints in ((1.0, False), (3.0, True), (1 / 3, True)):
        measured = partial(lambda by, profile: profile.estimated_ns * by, factor)
        monkeypatch.setattr(Profile, "measured_ns", property(measured))
        result = eqsat("profile", folder / "bound.json", "--target", "cpu", "--repeats", 1)
        assert ("3.0 times too" in result.stderr) == hints
        assert ("--target calibrated" in result.stderr) == hints


@pytest.mark.parametrize("verb", ["compile", "profile", "check"])
def test_commands_work_at_every_size(folder: Path, verb: str) -> None:
    more = ("--repeats", 1) if verb == "profile" else ()
    printed = good(verb, folder / "free.json", "-d", "M=1,4", *more)
    assert [line for line in printed.splitlines() if line.startswith("M=")] == ["M=1:", "M=4:"]
    printed = good(verb, folder / "free.json", "-d", "M=2..4..2", *more)
    assert [line for line in printed.splitlines() if line.startswith("M=")] == ["M=2:", "M=4:"]


def test_a_program_of_several_sizes_is_saved_with_all_of_them(folder: Path, tmp_path: Path) -> None:
    good("compile", folder / "free.json", "-d", "M=1..3", "-o", tmp_path / "sizes")
    assert sorted(sizes["M"] for sizes in load(tmp_path / "sizes").variants) == [1, 2, 3]


def test_a_trace_has_a_process_for_each_size(folder: Path, tmp_path: Path) -> None:
    good("profile", folder / "free.json", "-d", "M=1,4", "--repeats", 1, "--trace", tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    heads = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert [" on ".join(name.split(" on ")[:1]) for name in heads] == ["free.json M=1", "free.json M=4"]
    assert {event["pid"] for event in events} == {0, 1}


def test_commands_of_one_size_refuse_several(folder: Path, tmp_path: Path) -> None:
    for verb in ("run", "explain", "explore"):
        message = bad(verb, folder / "free.json", "-d", "M=1,4")
        assert f"eqsat {verb} takes one size of M, not 2" in message
        assert "try: -d M=1" in message
    assert "takes one size" in bad("compile", folder / "free.json", "-d", "M=1,4", "--dump", "plan")
    assert "takes one size" in bad("check", folder / "free.json", "-d", "M=1,4", "--inputs", tmp_path / "x.npz")
    assert "10000 are the most" in bad("bench", folder / "free.json", "-d", "M=1..10000000000")


def test_show_takes_several_sizes(folder: Path, tmp_path: Path) -> None:
    shown = good("show", folder / "free.json", "-d", "M=1,4")
    assert [line for line in shown.splitlines() if line.startswith("M=")] == ["M=1:", "M=4:"]
    assert "fp32[M=4, 3] = neg" in shown
    good("show", folder / "free.json", "-d", "M=1,4", "--svg", tmp_path / "x.svg")
    assert "M=4, free.json" in (tmp_path / "x.svg").read_text()


def test_what_autotuning_changed_is_told_once() -> None:
    changed = note(
        Kind.TUNED, TUNING_STAGE, "the fastest of 3 plans: tile 2 → 4; the estimate's choice took 2.0 µs", at="a"
    )
    same = note(Kind.TUNED, TUNING_STAGE, f"the fastest of 3 plans: {UNCHANGED}", at="b")
    other = note(Kind.TUNED, "replan", "chosen by hand", at="c")
    cover = note(Kind.TUNED, TUNING_STAGE, "the fastest of 8 covers that were measured, 3.0 µs")
    text, others = tuned_text([cover, changed, same, other])
    assert text.splitlines()[0].startswith("autotuned: 1 of 2 kernels")
    assert text.splitlines()[1:] == [f"  the cover is {cover.message}", f"  a: {changed.message}"]
    assert others == [other]
    assert tuned_text([other]) == ("", [other])


def test_show_prints_text_that_every_command_reads(folder: Path, tmp_path: Path) -> None:
    printed = good("show", folder / "bound.json")
    assert "%n1: fp32[2, 3] = exp(%n0)" in printed
    assert good("show", folder / "bound.saved") == printed
    (tmp_path / "bound.tiny").write_text(printed)
    assert good("show", tmp_path / "bound.tiny") == printed
    assert good("run", tmp_path / "bound.tiny", "--threads", 1) == good("run", folder / "bound.saved")


def test_show_keeps_the_symbols_of_a_tiny_program(folder: Path) -> None:
    assert good("show", folder / "free.json") == "%x: fp32[M, 3] = input()\n%y = neg(%x)\n"
    assert "%y: fp32[M=4, 3] = neg(%x)\nreturn %y\n" in good("show", folder / "free.json", "-d", "M=4")
    frontend = ROOT / "docs" / "gemm_bias_relu.json"
    assert "try: -d M=SIZE -d K=SIZE -d N=SIZE" in bad("show", frontend)
    assert "-d K=SIZE" in bad("show", frontend, "-d", "M=4", "-d", "N=4")
    assert "= relu(" in good("show", frontend, "-d", "M=4", "-d", "N=4", "-d", "K=4")
    assert "neither a program's text nor a readable file" in bad("show", "nowhere.tiny")


def test_show_prints_onnx_models(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 3]) for name in "xy")
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y])), tmp_path / "relu.onnx")
    assert "-d batch=SIZE" in bad("show", tmp_path / "relu.onnx")
    printed = good("show", tmp_path / "relu.onnx", "-d", "batch=2")
    assert printed.splitlines()[0] == "%n0: fp32[2, 3] = input(tensor_id=x)"
    assert '= relu(%n0, tag="relu_0")' in printed


def test_show_draws(folder: Path, tmp_path: Path) -> None:
    dot, svg = tmp_path / "a.dot", tmp_path / "a.svg"
    assert not good("show", folder / "bound.json", "--dot", dot, "--svg", svg)
    assert dot.read_text().count("label=") == 1 + 4
    assert svg.read_text().startswith("<svg ")
    good("show", folder / "bound.json", "--kernels", "--dot", dot, "--target", "cpu")
    assert "before: 2 kernels, one per uop" in dot.read_text()
    assert "after: 2 kernels" in dot.read_text()
    good("show", folder / "bound.saved", "--kernels", "--svg", svg)
    assert "after: 2 kernels" in svg.read_text()
    assert "-d M=SIZE" in bad("show", folder / "free.json", "--dot", dot)
    assert "needs --dot or --svg" in bad("show", folder / "bound.json", "--kernels", status=2)
    assert "needs --kernels" in bad("show", folder / "bound.json", "--target", "cpu", status=2)
    assert "as it was compiled" in bad("show", folder / "bound.saved", "-d", "M=4", status=2)
    (tmp_path / "file").write_text("")
    assert "cannot write the file" in bad("show", folder / "bound.json", "--dot", tmp_path / "file" / "a.dot")


def test_bad_models_and_choices(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"uops": [')
    (tmp_path / "damaged").write_bytes((folder / "bound.saved").read_bytes()[:5000])
    model = folder / "bound.json"
    for words, says in (
        (("compile", "nowhere.json"), "nowhere.json"),
        (("compile", tmp_path / "cut.json"), "MalformedGraph"),
        (("run", tmp_path / "damaged"), "no saved program"),
        (("compile", model, "--target", "tpu"), "UnknownTarget"),
        (("compile", model, "--exactness", "vague"), "reassociate"),
        (("compile", model, "--threads", 0), "threads"),
        (("compile", model, "--dump", "plans"), "poly_core"),
    ):
        assert says in bad(*words)
    for words in (("-d", "M=3"), ("--target", "sm_80"), ("--exactness", "exact")):
        message = bad("run", folder / "bound.saved", *words, status=2)
        assert "as it was compiled" in message
    bad("fly", status=2)
    bad("compile", status=2)


@pytest.mark.slow
def test_advice_is_in_words_of_the_command_line(folder: Path) -> None:
    model = folder / "bound.json"
    if find_device() is None:
        assert "try: --emulate runs" in bad("check", model, "--target", "sm_80")
        assert "try: --target cpu compiles" in bad("bench", model, "--target", "sm_80")
    assert "--emulate is for" in (message := bad("run", model, "--target", "cpu", "--emulate"))
    assert "try: --target sm_80" in message
    assert "--threads is a number" in bad("compile", model, "--threads", 0)
    assert "--seed is a number" in bad("run", model, "--seed", -1)


def test_words_that_are_no_options_of_the_verb_stay_or_go() -> None:
    hint = 'emulate=True runs; rules=() too; target="a b"'
    said = Diagnostic(kind=Kind.INPUT_MISMATCH, stage="call", message="out= is [2], x=3", hint=hint)
    message = in_words_of({"target": "--target", "emulate": "--emulate"}, said)
    assert (message.message, message.hint) == ("out= is [2], x=3", "--emulate runs; --target a b")
    assert in_words_of({}, said).hint is None


def test_rules() -> None:
    lines = good("rules").splitlines()
    assert len(lines) == len(RULES)
    rule = RULES[-1]
    assert rule.equation in lines[-1]
    shown = good("rules", rule.name)
    assert rule.equation in shown
    assert str(rule.lhs) in shown
    assert rule.name in bad("rules", rule.name + "s")


def test_a_model_is_compared_layer_by_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Elu", ["x"], ["b"], name="middle"),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3])
    graph = helper.make_graph(nodes, "g", [x], [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    assert "3 tensors agree with onnxruntime" in good("check", tmp_path / "m.onnx", "--against", "onnxruntime")
    monkeypatch.setitem(LOWERINGS, "onnx.Elu", lambda x: x)
    result = eqsat("check", tmp_path / "m.onnx", "--against", "onnxruntime")
    assert result.exit_code == 1
    assert "differs first: b, by middle (onnx.Elu)" in result.stdout


def test_doctor_lists_what_a_model_needs_and_lacks(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Unique", ["a"], ["b"])]
    nodes += [helper.make_node("Mish", ["a"], ["c"]), helper.make_node("Elder", ["a"], ["y"], domain="com.acme")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    words = helper.make_tensor_value_info("words", TensorProto.STRING, [2])
    y = helper.make_empty_tensor_value_info("y")
    for name, graph in {
        "lacking": helper.make_graph(nodes, "g", [x, words], [y]),
        "whole": helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]),
    }.items():
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
        )
        onnx.save(model, str(tmp_path / f"{name}.onnx"))
    assert "input x: fp32[n, 3]" in good("doctor", tmp_path / "whole.onnx")
    result = eqsat("doctor", tmp_path / "lacking.onnx")
    assert result.exit_code == 1
    assert "missing: Unique, com.acme.Elder, the element type strings" in result.stderr
    assert [line.split() for line in result.stdout.splitlines()[3:6]] == [
        ["Unique", "1", "missing"],
        ["com.acme.Elder", "1", "missing"],
        ["Relu", "1", "supported"],
    ]
    assert "no such file" in bad("doctor", tmp_path / "absent.onnx")


def test_doctor_reports_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("codegen.measure.doctor.find_calibration", lambda again: calibration())
    printed = good("doctor")
    for fact in ("eqsat 0", "numpy", "cores", "compiler", "256 GFLOP/s", "20 ns", "pow 400"):
        assert fact in printed
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, good("doctor").splitlines())) <= 80
    monkeypatch.setenv("EQSAT_CC", "/no/such/cc")
    result = eqsat("doctor")
    assert result.exit_code == 1
    assert "cores" in result.stdout
    assert "NoCompiler" in result.stderr


def test_help_lists_the_verbs() -> None:
    printed = good("--help")
    for verb in ("compile", "run", "explain", "explore", "rules", "bench", "check", "doctor"):
        assert verb in printed


def test_as_a_process(folder: Path) -> None:
    def process(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "eqsat", *words], cwd=ROOT, capture_output=True, text=True)

    fine = process("run", str(folder / "bound.saved"))
    assert (fine.returncode, fine.stderr) == (0, "")
    wrong = process("run", "nowhere.json")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("MalformedGraph")


def test_compile_draws_the_egraph(folder: Path, tmp_path: Path) -> None:
    good("compile", folder / "bound.json", "--egraph", tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text().startswith("digraph")
    good("compile", folder / "bound.json", "--egraph", tmp_path / "g.json")
    assert json.loads((tmp_path / "g.json").read_text())
    assert "--egraph" in bad("compile", folder / "bound.json", "--egraph", tmp_path / "g.png", status=2)


@pytest.mark.slow
def test_explain_tells_the_chain_of_a_kernel_and_of_pairs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for model in ("bound.json", "bound.saved"):
        said = good("explain", folder / model, "0")
        assert "the uops" in said
        assert "the kernel" in said
        data = json.loads(good("explain", folder / model, "0", "--json"))
        assert [chain["output"] for chain in data["chains"]] == data["writes"]
        assert said == good("explain", folder / model, data["writes"][0])
        assert "neither reads what the other writes" in good("explain", folder / model, "--pair", 0, 1)
        assert json.loads(good("explain", folder / model, "--pair", 0, 1, "--json"))["kind"] == "apart"
    assert "no kernel 'q'" in bad("explain", folder / "bound.saved", "q")
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, good("explain", folder / "bound.saved", "--pair", 0, 1).splitlines())) <= 40


@pytest.mark.slow
def test_explore_takes_rules_extractor_terms_and_a_budget(folder: Path) -> None:
    def kernels(*words: object) -> list[str]:
        return [kernel["name"] for kernel in json.loads(good("explore", gemm, *SIZES, "--json", *words))["kernels"]]

    gemm = ROOT / "eqsat" / "programs" / "gemm.json"
    assert len(kernels()) == 1
    assert len(kernels("--rules=-fusion")) > 1
    assert kernels("--rules", "-fusion,-epilogues") == kernels("--rules=-fusion", "--rules=-epilogues")
    assert kernels("--extractor", "greedy", "--cost-model=-launch", "--budget", "nodes=50000,seconds=60")
    model = folder / "bound.json"
    assert "InvalidOption" in bad("explore", model, "--extractor", "best")
    assert "--cost-model cannot be" in bad("explore", model, "--cost-model", "-speed")
    assert "try: nodes=…, iterations=…" in bad("explore", model, "--budget", "kernels=3")
    assert "no limit of a budget" in bad("explore", model, "--budget", "nodes=many")
    for words in (("--rules=-fusion",), ("--budget", "nodes=9"), ("--cost-model=-launch",), ("-d", "M=3")):
        assert "as it was compiled" in bad("explore", folder / "bound.saved", *words, status=2)


def test_explore_writes_the_egraph(folder: Path, tmp_path: Path) -> None:
    assert not good("explore", folder / "bound.json", "--egraph", tmp_path / "e.json")
    data = json.loads((tmp_path / "e.json").read_text())
    nodes, classes = data["nodes"], data["class_data"]
    assert len(data["root_eclasses"]) == 2
    for node in nodes.values():
        assert set(node["children"]) <= set(nodes)
        assert node["eclass"] in classes
    assert set(data["root_eclasses"]) <= {node["eclass"] for node in nodes.values()}
    good("explore", folder / "bound.json", "--egraph", tmp_path / "e.dot")
    assert (tmp_path / "e.dot").read_text().startswith("digraph")
    good("explore", folder / "bound.json", "--egraph", tmp_path / "e.svg", "--around", 0, "--steps", 1)
    assert (tmp_path / "e.svg").read_text().startswith("<svg")
    assert "none of .json" in bad("explore", folder / "bound.json", "--egraph", tmp_path / "e.png", status=2)


@pytest.mark.parametrize(
    "words",
    [
        ("compile",),
        ("profile", "--repeats", 1),
        ("explain",),
        ("explain", "0"),
        ("explore",),
        ("explore", "-w", "fusion"),
    ],
    ids=str,
)
def test_tables_fit_80_columns(words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    verb, *others = words
    model = ROOT / "eqsat" / "programs" / "gemm.json"
    printed = good(verb, model, *others, *SIZES)
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed


@pytest.mark.slow
def test_rules_fold_on_a_terminal_and_are_lines_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (("rules",), *(("rules", rule.name) for rule in RULES[:20])):
        printed = good(*words)
        assert max(map(len, printed.splitlines())) <= 80
    assert len(good("rules").splitlines()) > len(RULES)
    monkeypatch.delenv("COLUMNS")
    assert len(good("rules").splitlines()) == len(RULES)


@pytest.mark.slow
def test_explore_prints_compares_and_writes_a_page(folder: Path, tmp_path: Path) -> None:
    for model in ("bound.json", "bound.saved"):
        said = good("explore", folder / model)
        for part in ("phases", "growth", "rules", "kernels", "movement, gathers"):
            assert part in said
    data = json.loads(good("explore", folder / "bound.json", "--json"))
    assert len(data["kernels"]) == 2
    assert "without movement" in good("explore", folder / "bound.json", "-w", "movement")
    both = json.loads(good("explore", folder / "bound.json", "--without", "movement", "--json"))
    assert both["comparison"]["measures"][0]["name"] == "kernels"
    assert good("explore", folder / "bound.json", "--html", tmp_path / "p.html") == ""
    assert "<title>bound.json</title>" in (tmp_path / "p.html").read_text()
    assert "InvalidOption" in bad("explore", folder / "bound.json", "-w", "moves")
    assert "UnboundDim" in bad("explore", folder / "free.json")


def test_a_saved_program_is_recompiled(folder: Path) -> None:
    assert "largest error" in good("check", folder / "bound.saved", "--recompile")
    told = bad("check", folder / "bound.json", "--recompile", status=2)
    assert "is no saved program" in " ".join(told.replace("│", " ").split()), (
        "in lines that end where the path ends them"
    )
