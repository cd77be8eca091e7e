"""What an operand's element costs that no copy moves: its place is found by divisions, its padding by comparisons."""

from __future__ import annotations

import msgspec
import pytest

from codegen.plan.contraction_view import contraction_of
from codegen.plan.gpu.contraction_work import GpuContractionWork
from codegen.poly.analyse import checked_core
from eqsat import nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.cost.targets import A100
from ir.region.region import Buffer, Region
from tests.support.programs import regions


def halves(one: Region) -> Region:
    def narrow(buffer: Buffer) -> Buffer:
        return msgspec.structs.replace(buffer, memref=msgspec.structs.replace(buffer.memref, dtype="bf16"))

    body = tuple(msgspec.structs.replace(let, op=msgspec.structs.replace(let.op, dtype="bf16")) for let in one.body)
    inputs, outputs = (tuple(map(narrow, buffers)) for buffers in (one.inputs, one.outputs))
    return msgspec.structs.replace(one, inputs=inputs, outputs=outputs, body=body)


@pytest.mark.parametrize(
    ("one", "counted"),
    [
        (regions.matmul((), 4096, 4097, 4095, dtype="bf16"), 10.5),
        (halves(regions.conv(32, 64, 64, (56, 56), 3, 1, 0)), 23.8),
        (halves(regions.conv(32, 64, 64, (56, 56), 3, 1, 1)), 38.3),
    ],
    ids=["odd matrix", "NCHW 3×3", "NCHW 3×3 padded"],
)
def test_an_element_is_priced_as_sass_counts_it(one: Region, counted: float) -> None:
    """Instructions of a turn on sm_80 beside its mma and their ldmatrix, for each element that is computed."""
    view = contraction_of(one, checked_core(one))
    assert view is not None
    assert GpuContractionWork(view, A100)._element_slots[0] == pytest.approx(counted, rel=0.2)


@pytest.mark.slow
def test_buffers_between_convolutions_of_images_lie_with_channels_last() -> None:
    """There 16 bytes of channels are one copy."""
    x = t.input("x", (4, 64, 28, 28), "bf16")
    for place in range(3):
        x = nn.conv2d(x, t.input(f"w{place}", (64, 64, 3, 3), "bf16"), padding=1).relu()
    module = optimize_and_compile(x, target="sm_80", emulate=True)._compiled.artifact.module
    orders = {slot.order for slot in module.slots if slot.role == "arena" and slot.memref.shape[0] == 4}
    assert orders == {(0, 2, 3, 1)}
