"""The log tells what happens, on stderr or to the caller's handlers, and costs nothing where nobody listens."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eqsat import EqsatWarning, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.logs.topics import CALL, COMPILE, EXTRACT, PLAN, RULES, TOPICS, show

LOGGERS = (RULES, EXTRACT, PLAN, COMPILE, CALL)


@pytest.fixture
def restored() -> Iterator[None]:
    """The loggers are afterwards as they were before."""
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in LOGGERS]
    yield
    for logger, (level, propagate, handlers) in zip(LOGGERS, before, strict=True):
        logger.setLevel(level)
        logger.propagate, logger.handlers = propagate, handlers


def test_a_caller_hears_of_every_step(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "eqsat"):
        program = optimize_and_compile(nn.softmax(t.input("x", (4, 8))), target="cpu", cache=False)
        program(np.ones((4, 8), np.float32))
    messages = {topic: [r.message for r in caplog.records if r.name == f"eqsat.{topic}"] for topic in TOPICS}
    stats, (kernel,) = program.stats, program.kernels
    assert messages["rules"][: len(stats.saturation.phases)] == [
        message for message in messages["rules"] if message.startswith("phase ")
    ]
    assert f"{stats.saturation.nodes:,} e-nodes, {stats.saturation.classes:,} classes" in messages["rules"][-2]
    assert messages["extract"][0].startswith(f"1 kernel of {stats.candidates} candidates")
    assert kernel.name in messages["extract"][1]
    assert "tile:" in messages["plan"][0]
    assert [re.sub(r"[\d.,]+ ms", "…", message) for message in messages["compile"]] == ["compile took …", "load took …"]
    assert re.fullmatch(r"call: 1 kernel in .*s \(estimate .*s\)", messages["call"][0])
    assert re.fullmatch(rf"  {kernel.name}: .*s \(estimate .*s\), .* GFLOP/s, .* GB/s", messages["call"][1])


def test_a_call_tells_the_sizes_of_its_free_dims(caplog: pytest.LogCaptureFixture) -> None:
    program = optimize_and_compile("%x: fp32[M, 4] = input()\n%y = relu(%x)", target="cpu")
    with caplog.at_level(logging.INFO, "eqsat.call"):
        program(np.ones((3, 4), np.float32))
    (record,) = caplog.records
    assert record.message.startswith("call M=3: 1 kernel in ")


def test_kernels_of_a_call_change_no_result(caplog: pytest.LogCaptureFixture) -> None:
    program = optimize_and_compile(t.input("x", (4,)) * 2, target="cpu")
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    with caplog.at_level(logging.DEBUG, "eqsat.call"):
        assert program(x, out=out) is out
        np.testing.assert_array_equal(program({"x": x}), 2 * x)
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.usefixtures("restored")
def test_a_word_that_is_no_topic_is_named() -> None:
    with pytest.warns(EqsatWarning, match="EQSAT_LOG has no topic rule, fast; its topics are rules, extract"):
        show("rule, call,fast", None)
    assert CALL.handlers
    assert not RULES.handlers


def _stderr(environment: dict[str, str], tmp_path: Path) -> list[str]:
    program = (
        "import numpy as np\n"
        "from eqsat import optimize_and_compile, tensor as t\n"
        "print(optimize_and_compile(t.input('x', (4,)) + 1, target='cpu')(np.zeros(4, np.float32)).sum())\n"
    )
    known = {**os.environ, "EQSAT_CACHE_DIR": str(tmp_path), **environment}
    answer = subprocess.run([sys.executable, "-c", program], env=known, capture_output=True, text=True, check=True)
    assert answer.stdout == "4.0\n"
    return answer.stderr.splitlines()


@pytest.mark.slow
def test_the_environment_shows_topics_on_stderr(tmp_path: Path) -> None:
    lines = _stderr({"EQSAT_LOG": "extract,call"}, tmp_path)
    assert {re.split(r"\s+", line.strip())[2] for line in lines} == {"eqsat.extract", "eqsat.call"}
    assert not _stderr({"EQSAT_LOG": "", "EQSAT_DEBUG": "0"}, tmp_path)
    kernels = _stderr({"EQSAT_DEBUG": "2"}, tmp_path)
    assert [line for line in kernels if "GB/s" in line]
