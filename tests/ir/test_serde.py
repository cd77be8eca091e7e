"""JSON of nouns: several threads may read a type for the first time."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST_READS = """
import sys, threading
from typing import Optional
import msgspec
from ir.serde import from_builtins, from_json

sys.setswitchinterval(1e-6)
for turn in range(100):
    inner = msgspec.defstruct("Inner", [(f"f{k}", Optional[int], None) for k in range(30)])
    outer = msgspec.defstruct("Outer", [(f"g{k}", "Optional[inner]", None) for k in range(30)],
                              namespace={"__module__": __name__})
    start, right = threading.Barrier(6), []

    def read(place):
        start.wait()
        if place % 2:
            value = from_json('{"g3": {"f1": 7}}', outer)
        else:
            value = from_builtins({"g3": {"f1": 7}}, outer)
        right.append(value.g3.f1 == 7)

    threads = [threading.Thread(target=read, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 6, right
"""


@pytest.mark.slow
def test_several_threads_may_read_a_type_for_the_first_time() -> None:
    """msgspec 0.22 crashes where one thread uses a struct while another reads its annotations."""
    done = subprocess.run([sys.executable, "-c", FIRST_READS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
