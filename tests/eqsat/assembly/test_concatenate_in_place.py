"""Kernels write the parts of concatenations into their places: the results are right, and no kernel copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile, tensor
from eqsat.explanation.explore import explore
from eqsat.planning.replanning import time_plans
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError
from ir.module.module import Module, Placement, Slot
from ir.module.module_verify import verify
from ir.region.region import Buffer, Region
from tests.support.oracles.module_playback import play_module

ROWS, DEPTH = 64, 96


def product(x: Tensor, name: str, columns: int) -> Tensor:
    return (x @ tensor.input(name, (x.shape[-1], columns))).relu()


def parts(*columns: int, rows: int = ROWS) -> list[Tensor]:
    """Products of one input, each of so many columns."""
    x = tensor.input("x", (rows, DEPTH))
    return [product(x, f"w{number}", count) for number, count in enumerate(columns)]


def compiled(*outputs: Tensor) -> Program:
    """The program, whose results are right and whose module is sound."""
    program = optimize_and_compile(outputs if len(outputs) > 1 else outputs[0], threads=2)
    program.verify()
    verify(module_of(program))
    return program


def module_of(program: Program) -> Module:
    return program._compiled.artifact.module


def placed(program: Program) -> list[str]:
    """The slots that lie inside of others."""
    return [slot.name for slot in module_of(program).slots if slot.inside is not None]


def test_no_kernel_copies_the_parts() -> None:
    program = compiled(product(tensor.concatenate(parts(48, 80, 17), 1), "v", 64))
    assert len(program.kernels) == 4
    assert len(placed(program)) == 3
    whole = program.kernels[3].reads[0]
    assert [kernel.fills for kernel in program.kernels] == [(whole,)] * 3 + [()]
    assert all(not price.is_idle for price in program._compiled.artifact.prices)


def test_parts_are_rows() -> None:
    """Parts along the first axis have no gaps: their kernels are as they would be alone."""
    whole = tensor.concatenate([product(x, f"v{k}", 64) for k, x in enumerate(parts(32, 48))], 0)
    program = compiled(product(whole, "u", 32))
    slots = {slot.name: slot for slot in module_of(program).slots}
    assert len(placed(program)) == 2
    for name in placed(program):
        memref = slots[name].memref
        assert (memref.box_of is None) == (memref.span * 4 == memref.nbytes)


@pytest.mark.slow
def test_concatenations_of_concatenations() -> None:
    """Each is read by a product of its own, as in a dense block."""
    whole, results = parts(32)[0], []
    for layer in range(4):
        new = product(whole, f"v{layer}", 32)
        whole = tensor.concatenate([whole, new], 1)
    results.append(product(whole, "u", 32))
    program = compiled(*results)
    assert len(placed(program)) >= 6
    deepest = max(len(kernel.fills) for kernel in program.kernels)
    assert deepest >= 3


def stays_for(case: str) -> list[Tensor]:
    """Programs in which a part, or the whole, can not move."""
    first, second = parts(48, 80)
    given = tensor.input("given", (ROWS, 80))
    match case:
        case "the whole is an output":
            whole = tensor.concatenate([first, second], 1)
            return [whole, product(whole, "v", 64)]
        case "a part is an output":
            return [first, product(tensor.concatenate([first, second], 1), "v", 64)]
        case "a part is an input":
            return [product(tensor.concatenate([first, given], 1), "v", 64)]
        case "a part twice":
            return [product(tensor.concatenate([first, second, first], 1), "v", 64)]
        case _:
            both = [tensor.concatenate([first, second], 1), tensor.concatenate([second, first], 1)]
            return [product(both[0], "v", 64), product(both[1], "u", 64)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    ["the whole is an output", "a part is an output", "a part is an input", "a part twice", "two concatenations"],
)
def test_what_cannot_move_is_copied(case: str) -> None:
    program = compiled(*stays_for(case))
    assert len(placed(program)) <= 2
    assert all(not price.is_idle for price in program._compiled.artifact.prices)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp64"])
@pytest.mark.parametrize("rows", [1, 7])
def test_dtypes_and_odd_sizes(dtype: str, rows: int) -> None:
    x = tensor.input("x", (rows, 33), dtype)
    several = [x @ tensor.input(f"w{count}", (33, count), dtype) for count in (1, 31, 65)]
    whole = tensor.concatenate(several, 1)
    compiled(whole @ tensor.input("v", (97, 17), dtype), several[1].softmax(-1))


@pytest.mark.slow
def test_a_loop_fills_in_place() -> None:
    """The parts are written and read within a trip."""
    w, v, u = (tensor.input(name, shape) for name, shape in (("w", (32, 48)), ("v", (32, 80)), ("u", (128, 32))))

    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        whole = tensor.concatenate([(state @ w).relu(), (state @ v).relu()], 1)
        after = (whole @ u + x).tanh()
        return after, after

    last, states = tensor.scan(step, tensor.input("h", (ROWS, 32)), tensor.input("xs", (5, ROWS, 32)))
    program = compiled(last, states)
    assert len(placed(program)) == 2


@pytest.mark.slow
def test_convolutions_side_by_side() -> None:
    """Channels of images, which kernels store in another order of axes than the program."""
    from eqsat.nn import conv2d

    x = tensor.input("x", (1, 16, 14, 14))
    narrow = conv2d(x, tensor.input("a", (32, 16, 1, 1))).relu()
    wide = conv2d(x, tensor.input("b", (32, 16, 3, 3)), padding=1).relu()
    whole = tensor.concatenate([narrow, wide], 1)
    program = compiled(conv2d(whole, tensor.input("c", (16, 64, 1, 1))).relu())
    assert len(placed(program)) == 2


def with_gaps(region: Region) -> Region:
    """The region, with elements between the rows of its buffers that belong to others."""

    def box(buffer: Buffer) -> Buffer:
        frame = tuple(size + 3 for size in buffer.memref.shape)
        return msgspec.structs.replace(buffer, memref=msgspec.structs.replace(buffer.memref, box_of=frame))

    return msgspec.structs.replace(
        region, inputs=tuple(map(box, region.inputs)), outputs=tuple(map(box, region.outputs))
    )


@pytest.mark.slow
def test_plans_by_hand_and_by_measurement(tmp_path: Path) -> None:
    """Plans of kernels over boxes are timed, replaced, saved and loaded."""
    result = product(tensor.concatenate(parts(48, 80), 1), "v", 64)
    program = compiled(result)
    other = program.replan(0, program.plans(0)[-1].plan)
    other.verify()
    plans = [option.plan for option in program.plans(0)[:3]]
    region = with_gaps(module_of(program).running[0].region)
    times = time_plans(region, plans, target=program._compiled.artifact.target, flush=True)
    assert [isinstance(ns, float) and ns > 0 for ns in times] == [True] * len(plans)
    optimize_and_compile(result, threads=2, autotune=True).verify()  # which cover is the fastest, a clock decides
    program.save(tmp_path / "kept.eqsat")
    inputs = program.random_inputs(1)
    np.testing.assert_array_equal(eqsat.load(tmp_path / "kept.eqsat")(**inputs), program(**inputs))


def test_explanations_name_the_places() -> None:
    program = compiled(product(tensor.concatenate(parts(48, 80), 1), "v", 64))
    whole = program.kernels[2].reads[0]
    assert f"its results are parts of {whole}" in str(program.explain(program.kernels[0].writes[0]))
    pair = program.why_not(program.kernels[0], program.kernels[2])
    assert pair.kind == "placed"
    assert whole in pair.verdict
    answer = program.why_absent(whole)
    assert answer.kind == "placed"
    assert len(answer.reasons) == 2


def test_explorations_fill_in_place(tmp_path: Path) -> None:
    explored = explore(product(tensor.concatenate(parts(48, 80), 1), "v", 64))
    assert [len(kernel.fills) for kernel in explored.kernels] == [1, 1, 0]
    explored.html(tmp_path / "page.html")
    assert "k0" in (tmp_path / "page.html").read_text()


def test_module_playback_fills() -> None:
    """The oracle of modules agrees with the program."""
    program = compiled(product(tensor.concatenate(parts(48, 80), 1), "v", 64))
    inputs = program.random_inputs(0)
    (result,) = play_module(module_of(program), inputs)
    np.testing.assert_allclose(program(**inputs), result, rtol=1e-4, atol=1e-4)


BROKEN: dict[str, Callable[[Slot], dict[str, object]]] = {
    "lies in 'nothing', which is no other slot": lambda slot: {"inside": _moved(slot, slot="nothing")},
    "which is no other slot": lambda slot: {"inside": _moved(slot, slot=slot.name)},
    "do not lie side by side": lambda slot: {"inside": _moved(slot, first=1)},
    "is no box of": lambda slot: {"memref": msgspec.structs.replace(slot.memref, box_of=(200, 200))},
    "is no box of a tensor": lambda slot: {"memref": msgspec.structs.replace(slot.memref, box_of=(200,))},
    "is a box, but lies in no other slot": lambda slot: {
        "inside": None,
        "memref": msgspec.structs.replace(slot.memref, box_of=(200, 200)),
    },
    "not in the arena": lambda slot: {"role": "constant"},
    "does not lie in": lambda slot: {"offset": slot.offset + 64},
}


def _moved(part: Slot, /, **how: object) -> Placement:
    assert part.inside is not None
    return msgspec.structs.replace(part.inside, **how)


@pytest.mark.parametrize("message", BROKEN)
def test_modules_with_wrong_boxes_are_refused(message: str) -> None:
    module = module_of(compiled(product(tensor.concatenate(parts(48, 80), 1), "v", 64)))
    slots = list(module.slots)
    place = next(place for place, slot in enumerate(slots) if slot.inside is not None)
    slots[place] = msgspec.structs.replace(slots[place], **BROKEN[message](slots[place]))
    with pytest.raises(EqsatError, match=message):
        verify(msgspec.structs.replace(module, slots=tuple(slots)))


def test_a_part_that_nothing_writes_is_refused() -> None:
    module = module_of(compiled(product(tensor.concatenate(parts(48, 80), 1), "v", 64)))
    with pytest.raises(EqsatError, match="before it is computed"):
        verify(msgspec.structs.replace(module, calls=module.calls[1:]))
