"""The files that the commands read and write: arrays and dumps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eqsat.runtime.dump import check_stage
from ir.diagnostics import Kind, fail
from ir.dtype import bf16
from ir.host.output_file import write_output

if TYPE_CHECKING:
    from eqsat.runtime.program import Program

STAGE = "write"


def check_egraph_file(path: Path | None) -> None:
    """Refuses a suffix that no e-graph is written to. Raises typer.BadParameter."""
    import typer

    from eqsat.explanation.egraph_files import SUFFIXES

    if path is not None and path.suffix not in SUFFIXES:
        raise typer.BadParameter(f"{path.suffix!r} is none of {', '.join(SUFFIXES)}", param_hint="--egraph")


def stages_of(given: str) -> list[str]:
    """The stages of a list with commas. Raises EqsatError, InvalidOption, for the name of no stage."""
    stages = [stage for stage in map(str.strip, given.split(",")) if stage]
    for stage in stages:
        check_stage(stage)
    return stages


def write_dumps(program: Program, stages: list[str], folder: Path | None) -> None:
    """Writes the dumps into the folder, or prints them."""
    for stage in stages:
        data = program.dump(stage, as_json=True)
        text = data if isinstance(data, str) else json.dumps(data, indent=2)
        if folder is None:
            print(text)
        else:
            name = f"{stage}.{stage}" if isinstance(data, str) else f"{stage}.json"
            write_output(folder / name, f"{text}\n".encode(), STAGE)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; bf16, which NumPy stores as two raw bytes, is restored.

    Raises:
        EqsatError: InputMismatch for another kind of file.
    """
    try:
        with np.load(path) as file:
            arrays = dict(file)
    except Exception as error:  # a damaged zip or array header fails in many ways
        fail(Kind.INPUT_MISMATCH, "run", f"not an .npz file of arrays: {error}", at=str(path))
    return {name: array.view(bf16.numpy) if array.dtype == np.dtype("V2") else array for name, array in arrays.items()}
