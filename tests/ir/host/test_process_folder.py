"""What killed processes leave behind goes with the next process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ir.host.atomic_file import write_atomically

ROOT = Path(__file__).parents[3]
HOLD = """
import os, sys
from ir.host.process_folder import process_folder
(process_folder() / "library.so").write_bytes(b"code")
if len(sys.argv) > 1 and os.fork() == 0:
    sys.exit()
print(process_folder(), flush=True)
sys.stdin.read()
"""


def holder(folder: Path, *words: str) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a folder below `folder`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def make_old(path: Path) -> None:
    os.utime(path, (time.time() - 1e5,) * 2)


def test_a_folder_goes_with_its_process(tmp_path: Path) -> None:
    process, folder = holder(tmp_path)
    assert (folder / "library.so").exists()
    process.communicate()
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_killed_process_goes_with_the_next(tmp_path: Path) -> None:
    process, left = holder(tmp_path)
    process.kill()
    process.communicate()
    make_old(left)
    living, kept = holder(tmp_path)
    assert not left.exists()
    make_old(kept)
    again, _ = holder(tmp_path)
    assert (kept / "library.so").exists(), "its process lives"
    for holding in (living, again):
        holding.communicate()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_leaves_the_folder_alone(tmp_path: Path) -> None:
    process, folder = holder(tmp_path, "fork")
    time.sleep(0.3)
    assert (folder / "library.so").exists()
    process.communicate()


def test_unfinished_files_of_killed_processes_go_with_the_next_write(tmp_path: Path) -> None:
    left, young, other = (tmp_path / name for name in (f".new-{'0' * 32}", f".new-{'1' * 32}", ".new-thing"))
    for file in (left, young, other):
        file.write_bytes(b"half")
    make_old(left)
    make_old(other)
    write_atomically(tmp_path / "file", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {young.name, other.name, "file"}
