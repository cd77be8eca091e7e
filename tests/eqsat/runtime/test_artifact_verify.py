"""What an artifact from a file is refused for, each check by itself: behind checksums, and behind the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eqsat import Program
from eqsat.looping.split import split
from eqsat.runtime.artifact import Artifact, contract_of, seal
from eqsat.runtime.artifact_verify import verify, verify_parts
from ir.diagnostics import EqsatError, Kind
from ir.serde import from_builtins, to_builtins
from tests.support.damage.damaged_files import compiled

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module", params=["cpu", "sm_80"])
def program(request: pytest.FixtureRequest) -> Program:
    return compiled(request.param)


def artifact_of(program: Program) -> Artifact:
    return program._compiled.artifact


def refusal(program: Program, edit: Edit) -> str:
    """What the artifact is refused for, edited, with a contract that fits."""
    record = to_builtins(artifact_of(program))
    edit(record)
    with pytest.raises(EqsatError) as caught:
        verify(seal(from_builtins(record, Artifact)), program._compiled.bound)
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    return str(caught.value)


def slot(record: dict[str, Any], role: str) -> dict[str, Any]:
    return next(slot for slot in record["module"]["slots"] if slot["role"] == role)


def reversed_args(record: dict[str, Any]) -> None:
    record["table"]["launches"][2]["args"].reverse()


def swapped_args(record: dict[str, Any]) -> None:
    args = record["table"]["launches"][0]["args"]
    args[0], args[1] = args[1], args[0]


BOTH: dict[str, tuple[Edit, str]] = {
    "beyond the arena": (lambda r: slot(r, "arena").update(offset=1 << 20), "lies outside the arena"),
    "before the arena": (lambda r: slot(r, "arena").update(offset=-64), "before the arena"),
    "an arena too small": (lambda r: r["module"].update(arena_bytes=4), "lies outside the arena"),
    "an arena too large": (lambda r: r["module"].update(arena_bytes=1 << 60), "an arena of"),
    "a slot of no size": (lambda r: slot(r, "arena")["memref"].update(shape=[-1]), "sizes"),
    "a slot of no dtype": (lambda r: slot(r, "arena")["memref"].update(dtype="fp7"), "no dtype"),
    "no alignment": (lambda r: slot(r, "arena")["memref"].update(alignment=0), "an alignment"),
    "a life backwards": (lambda r: slot(r, "arena").update(first=3, last=1), "lives from call"),
    "an order that is none": (lambda r: slot(r, "arena").update(order=[5]), "an order of its axes"),
    "another input": (lambda r: slot(r, "input")["memref"].update(shape=[7, 8]), "does not fit"),
    "no such input": (lambda r: r["module"].update(inputs=["y"]), "no such slot"),
    "other outputs": (lambda r: r["module"]["outputs"].reverse(), "are not those of the graph"),
    "a launch too few": (lambda r: r["table"]["launches"].pop(), "3 launches for 4 calls"),
    "launches in another order": (lambda r: r["table"]["launches"].reverse(), "instead of"),
    "arguments in another order": (swapped_args, "does not take"),
    "arguments backwards": (reversed_args, "instead of"),
    "an argument that is not there": (lambda r: r["table"]["launches"][1]["args"].insert(1, "n99"), "does not read"),
    "an argument too few": (lambda r: r["table"]["launches"][1]["args"].pop(0), "does not take"),
    "a kernel that is not there": (lambda r: r["table"]["launches"][0].update(function="eq_x"), "that is not there"),
    "prices too few": (lambda r: r["prices"].pop(), "3 for 4 calls"),
    "a machine of no cores": (lambda r: r["target"].update(units=0), "units = 0"),
    "a machine of no speed": (lambda r: r["target"].update(bandwidth=0.0), "bandwidth = 0.0"),
    "the graph of another model": (lambda r: r["tiny"]["uops"].pop(), "is the graph of another model"),
    "a number of no dtype": (
        lambda r: r["module"]["calls"][0]["region"]["body"][1]["op"]["inputs"][1].update(dtype="x"),
        "a number of no dtype",
    ),
    "negative memory": (lambda r: r["table"]["workspace"].update(private=-1), "-1 bytes of private memory"),
}


@pytest.mark.parametrize("case", BOTH)
def test_what_is_refused_for_any_target(case: str, program: Program) -> None:
    edit, said = BOTH[case]
    assert said in refusal(program, edit)


CPU: dict[str, tuple[Edit, str]] = {
    "packed from no constant": (lambda r: r["table"]["packings"][0].update(sources=["x"]), "which is no constant"),
    "packed from another": (
        lambda r: r["table"]["packings"][0].update(sources=["b"]),
        "from a slot that it does not read",
    ),
    "packed into a slot": (lambda r: r["table"]["packings"][0].update(slot="x"), "is taken"),
    "negative elements": (lambda r: r["table"]["packings"][0].update(elements=-5), "-5 elements"),
    "packed as no dtype": (lambda r: r["table"]["packings"][0].update(dtype="x"), "no dtype"),
    "a geometry": (
        lambda r: r["table"]["launches"][0].update(geometry={"grid": [1, 1, 1], "threads": 1, "shared_bytes": 0}),
        "a launch must have a geometry",
    ),
    "no instruction set": (lambda r: r["target"].update(arch="avx3"), "no instruction set"),
    "texts without a contract": (lambda r: r.update(units={}), "name no contract"),
}
GPU: dict[str, tuple[Edit, str]] = {
    "no geometry": (lambda r: r["table"]["launches"][0].update(geometry=None), "a launch must have a geometry"),
    "no blocks": (lambda r: r["table"]["launches"][0]["geometry"].update(grid=[0, 1, 1]), "a grid of 0x1x1"),
    "threads": (lambda r: r["table"]["launches"][0]["geometry"].update(threads=4096), "a block of 4096"),
    "shared": (lambda r: r["table"]["launches"][0]["geometry"].update(shared_bytes=-1), "-1 bytes of shared"),
    "other texts": (lambda r: r.update(units={}), "are not those of the kernels"),
    "pieces": (
        lambda r: r["table"]["launches"][0].update(pieces=[{"start": 0, "nbytes": 8}]),
        "takes bytes 0 to 8 of a workspace of 0",
    ),
}


@pytest.mark.parametrize("case", [*CPU, *GPU])
def test_what_is_refused_for_one_target(case: str, program: Program) -> None:
    cases = GPU if artifact_of(program).target.is_gpu else CPU
    if case in cases:
        edit, said = cases[case]
        assert said in refusal(program, edit)


@pytest.mark.parametrize("named", ["uops", "parts"])
def test_parts_are_checked_before_they_are_shown(named: str, program: Program) -> None:
    record = to_builtins(artifact_of(program))
    if named == "uops":
        record["module"]["calls"][1]["uops"].append("n99")
    else:
        record["parts"][0] = 7
    bound = program._compiled.bound
    with pytest.raises(EqsatError, match="does not have" if named == "uops" else "beyond the 1 parts"):
        verify_parts(from_builtins(record, Artifact), split(bound.graph, bound.constants))


def test_an_artifact_is_what_its_contract_says(program: Program) -> None:
    whole = artifact_of(program)
    verify(whole, program._compiled.bound)
    assert whole.contract == contract_of(whole)
    record = to_builtins(whole)
    record["table"]["workspace"]["shared"] += 64
    with pytest.raises(EqsatError, match="not of one program"):
        verify(from_builtins(record, Artifact), program._compiled.bound)
