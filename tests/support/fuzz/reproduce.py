"""Reduces a finding of the fuzzer, finds the stage at fault, and writes a file that reproduces it."""

from __future__ import annotations

import contextlib
import pprint
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ir.dtype import dtype
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from ir.tiny.playback import playback
from tests.support.fuzz.batch import Arrays
from tests.support.fuzz.error_text import error_text
from tests.support.fuzz.limited import HangError, limited
from tests.support.fuzz.report import Finding
from tests.support.fuzz.shrink import shrunk
from tests.support.stages.path import first_guilty_stage

REDUCE_SECONDS = 80
HERE = Path(tempfile.gettempdir()) / "eqsat-fuzz"


def reduced_finding(seed: int, index: int, graph: Graph, given: Arrays, stage: str, message: str) -> Finding:
    """Reduced, with the first guilty stage, and a file."""
    first, said = first_guilty_stage(graph, given)
    if first:
        kind = first.rstrip(" 0123456789")
        with limited(REDUCE_SECONDS), contextlib.suppress(HangError):
            graph, given = shrunk(graph, given, lambda *case: _same(first_guilty_stage(*case), (kind, said)))
        stage, message = first_guilty_stage(graph, given)
    encoded = {name: (str(dtype(array.dtype)), array.shape, array.tobytes().hex()) for name, array in given.items()}
    text = _REPRODUCER.format(
        seed=seed,
        index=index,
        stage=stage,
        message=message,
        program=pprint.pformat(graph.to_json(), width=110),
        inputs=pprint.pformat(encoded, width=110),
    )
    return Finding(index, stage, message, _written(seed, index, text))


def _same(error: tuple[str, str], wanted: tuple[str, str]) -> bool:
    """The same stage; and of exceptions the same class."""
    stage, said = error[0].rstrip(" 0123456789"), error[1].split(":")[0]
    return stage == wanted[0] and (said == wanted[1].split(":")[0] or said.startswith("output"))


def load_finding(seed: int, index: int, source: Any, error: Exception, stage: str = "load") -> Finding:
    program = pprint.pformat(source, width=110)
    text = f"from ir.tiny.bind import load\n\n# seed {seed}, try {index}: {error_text(error)!r}\nload(\n{program}\n)\n"
    return Finding(index, stage, error_text(error), _written(seed, index, text))


def _written(seed: int, index: int, text: str) -> str:
    HERE.mkdir(parents=True, exist_ok=True)
    path = HERE / f"seed{seed}_try{index}.py"
    path.write_text(text)
    return str(path)


_REPRODUCER = '''"""Seed {seed}, try {index}. First guilty stage: {stage}.

{message}
"""

from tests.support.fuzz.reproduce import reproduce

PROGRAM = {program}
INPUTS = {inputs}

if __name__ == "__main__":
    reproduce(PROGRAM, INPUTS)
'''


def reproduce(program: Mapping[str, Any], inputs: Mapping[str, tuple[str, tuple[int, ...], str]]) -> None:
    """Run a reproducer: prints the program, its inputs and the first guilty stage."""
    graph, _ = load(program)
    given = {
        name: np.frombuffer(bytes.fromhex(data), dtype(element).numpy).reshape(shape)
        for name, (element, shape, data) in inputs.items()
    }
    print(graph, *(f"{name} = {array!r}" for name, array in given.items()), sep="\n")
    with np.errstate(all="ignore"):
        print("wide playback:", *playback(graph, given, wide=True), sep="\n")
    print("first guilty stage:", *first_guilty_stage(graph, given) or ("none",))
