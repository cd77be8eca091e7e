"""The wheel: it holds what the packages read beside their code, and runs where there is no repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the wheel is built with hatchling")

ROOT = Path(__file__).parent.parent
PACKAGES = ("eqsat", "ir", "rules", "codegen")

EXAMPLE = """
import numpy as np
import eqsat
from eqsat import optimize_and_compile, tensor

rng = np.random.default_rng(0)
a, b = rng.standard_normal((33, 20), np.float32), rng.standard_normal((20, 7), np.float32)
program = optimize_and_compile((tensor.input("x", (33, 20)) @ tensor.constant(b)).relu())
np.testing.assert_allclose(program(x=a), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)
print(eqsat.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_all_that_is_read(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(ROOT)) for path in tracked if "__pycache__" not in path.parts}
    assert held == wanted
    assert {f"{package}/py.typed" for package in PACKAGES} <= held
    assert "codegen/text/prelude/c/pool.h" in held
    assert "codegen/text/prelude/cuda/base.h" in held
    assert "eqsat/programs/gemm.json" in held


def test_the_wheel_offers_the_c_compiler_as_an_extra(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
    assert "ziglang>=0.13; extra == 'cc'" in archive.read(metadata).decode()


@pytest.mark.slow
def test_the_wheel_runs_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", EXAMPLE]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "site")
