"""Constant operands that register tiles compute from panels of their parts: the bits of panels of the operand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codegen.plan.cpu.constant_parts import bytes_per_term, constant_parts
from codegen.plan.cpu.cpu_contraction import cpu_contraction_of
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from ir.diagnostics import EqsatError, Kind
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuContractionPlan
from ir.region.region import Buffer, Definition, Number, Op, Operand, Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.codegen.plan.test_row_box import nhwc
from tests.support.cpu.contraction_runs import Built, pairs_of_places, plans_of, restricted, target_of, with_place
from tests.support.programs import regions
from tests.support.programs.regions import buffer, contraction, ewise, index_map, read, region, same
from tests.support.sampling import first_few


def words(
    m: int,
    n: int,
    k: int,
    *,
    block: int,
    bits: int = 4,
    zeros: bool = False,
    table: bool = False,
    dtype: str = "fp32",
) -> Region:
    """Y[i, j] = Σ_k X[i, k]·(q[j, k] - z[j, k/block])·S[j, k/block]: q and z have `bits` bits, which lie together in
    bytes. Without `zeros`, z is half the range of q. table: a constant T has the places of the bits in bytes."""
    each, blocks, point = 8 // bits, -(-k // block), (n, k)
    inputs = [
        buffer("X", (m, k), dtype),
        buffer("Q", (n, -(-k // each)), "u8", constant=True),
        buffer("S", (n, blocks), dtype, constant=True),
    ]
    body: list[Definition] = []
    if table:
        inputs.append(buffer("T", (each,), "u8", constant=True))

    def word(name: str, source: str, step: int) -> None:
        """Word k/step of a row of `source`, at all k."""
        place = f"(i1//{step}) - {each}*(i1//{step * each})" if step > 1 else f"i1 - {each}*(i1//{each})"
        count = read("T", point, place)
        if not table:
            index = index_map((k,), f"{bits}*({place})".replace("i1", "i0"))
            body.append(Definition(f"{name}_at", Op("index", "index", "u8", (k,), index_map=index)))
            count = read(f"{name}_at", point, "i1")
        byte = read(source, point, "i0", f"i1//{step * each}")
        body.append(ewise(f"{name}_moved", "shr", point, byte, count, dtype="u8"))
        body.append(
            ewise(f"{name}_word", "and", point, same(f"{name}_moved", point), Number(2**bits - 1, "u8"), dtype="u8")
        )
        body.append(ewise(name, "cast", point, same(f"{name}_word", point), dtype="i32"))

    word("q", "Q", 1)
    zero: Operand | Number = Number(2 ** (bits - 1), "i32")
    if zeros:
        inputs.append(buffer("Z", (n, -(-blocks // each)), "u8", constant=True))
        word("z", "Z", block)
        zero = same("z", point)
    body += [
        ewise("near", "sub", point, same("q", point), zero, dtype="i32"),
        ewise("number", "cast", point, same("near", point), dtype=dtype),
        ewise("W", "mul", point, same("number", point), read("S", point, "i0", f"i1//{block}"), dtype=dtype),
        contraction("C", (m, n, k), 1, read("X", (m, n, k), "i0", "i2"), read("W", (m, n, k), "i1", "i2"), dtype),
    ]
    return region("words", inputs, body, (m, n), dtype=dtype)


def widened(given: Region, dtype: str, side: int = 1) -> Region:
    """The region whose operand `side` is a constant of `dtype`, widened to what it was."""
    name = next(let.op.operands[side].value for let in given.body if let.op.kind == "contraction")
    before = next(one for one in given.inputs if one.name == name).memref
    inputs = tuple(
        Buffer("N", msgspec.structs.replace(before, dtype=dtype), constant=True) if one.name == name else one
        for one in given.inputs
    )
    cast = ewise(name, "cast", before.shape, same("N", before.shape), dtype=before.dtype)
    return msgspec.structs.replace(given, inputs=inputs, body=(cast, *given.body))


def masked(fn: str = "", kind: str = "bool", dtype: str = "fp32") -> Region:
    """Y[i, j] = Σ_k X[i, k]·(S[j, k/16] where F[j, k], else -1). F is a constant of bool, or `fn` of two constants of
    `kind`."""
    m, n, k = 3, 40, 64
    point, names = (n, k), ("A", "B") if fn else ("F",)
    inputs = [buffer("X", (m, k), dtype), buffer("S", (n, k // 16), dtype, constant=True)]
    inputs += [buffer(name, point, kind, constant=True) for name in names]
    flags = [ewise("F", fn, point, same("A", point), same("B", point), dtype="bool")] if fn else []
    scale = read("S", point, "i0", "i1//16")
    body = [
        *flags,
        ewise("W", "where", point, same("F", point), scale, Number(-1, dtype), dtype=dtype),
        contraction("C", (m, n, k), 1, read("X", (m, n, k), "i0", "i2"), read("W", (m, n, k), "i1", "i2"), dtype),
    ]
    return region("masked", inputs, body, (m, n), dtype=dtype)


def beside(distance: int) -> Region:
    """Y[i, j] = Σ_k X[i, k]·(Q[j, k] + Q[j, k + distance])."""
    m, n, k = 3, 36, 64
    body = [
        ewise("near", "cast", (n, k), same("Q", (n, k))),
        ewise("far", "cast", (n, k), read("Q", (n, k), "i0", f"i1 + {distance}")),
        ewise("W", "add", (n, k), same("near", (n, k)), same("far", (n, k))),
        contraction("C", (m, n, k), 1, read("X", (m, n, k), "i0", "i2"), read("W", (m, n, k), "i1", "i2")),
    ]
    inputs = [buffer("X", (m, k)), buffer("Q", (n, k + distance), "i8", constant=True)]
    return region("beside", inputs, body, (m, n))


REGIONS = {
    "nibbles": words(2, 40, 64, block=16),
    "nibbles of blocks with zeros": words(5, 36, 96, block=32, zeros=True),
    "a table of shifts": words(3, 36, 64, block=16, zeros=True, table=True),
    "a table of three shifts": words(2, 20, 64, block=16, bits=2, table=True),
    "one row of two bits": words(1, 130, 64, block=32, bits=2, zeros=True),
    "bytes of blocks": words(3, 33, 48, block=16, bits=8, zeros=True),
    "doubles": words(3, 20, 32, block=16, dtype="fp64"),
    "signed bytes": widened(regions.matmul((), 5, 40, 50), "i8"),
    "signed bytes along the terms": widened(regions.matmul((), 5, 40, 50, rhs_t=True), "i8"),
    "halves": widened(regions.matmul((), 12, 70, 37), "bf16"),
    "fp16 of a batch": widened(regions.matmul((3,), 4, 20, 24), "fp16"),
    "sums of integers": widened(regions.matmul((), 4, 40, 20, dtype="i32"), "u8"),
    "bools": masked(),
    "bools of bools": masked("xor"),
    "bools of bools for doubles": masked("xor", dtype="fp64"),
    "bools of numbers": masked("cmplt", "fp32"),
    "convolution of pixels": nhwc(widened(regions.conv(1, 8, 40, (6, 6), 3, 2, 1), "i8")),
    "groups": nhwc(widened(regions.conv(1, 8, 40, (6, 6), 3, 1, 1, groups=2), "i8")),
}

WITHOUT = {
    "scales of blocks that do not divide the terms": words(3, 33, 40, block=16),
    "constant rows": words(4, 1, 32, block=16),
    "one term": widened(regions.matmul((), 4, 20, 1), "i8"),
    "the accumulators' dtype": regions.gemm_bias_relu(40, 36, 20),
    "half of the bytes gained": words(3, 32, 32, block=2),
    "a tensor at two places": beside(2),
    "no rows": widened(regions.matmul((), 0, 6, 20), "i8", 0),
    "no columns": widened(regions.matmul((), 5, 0, 20), "i8", 0),
    "no terms": widened(regions.matmul((), 5, 6, 0), "i8", 0),
    "an argument": regions.matmul((), 5, 40, 50, dtype="bf16"),
}
"""Regions whose columns no register tile computes from parts."""


def pairs(given: Region, isa: str | None = None) -> list[tuple[CpuContractionPlan, CpuContractionPlan]]:
    """Plans of each kind that read parts, each beside the same plan with panels of the operand."""
    return pairs_of_places(
        given, "const_parts", "const_pool", lambda blocks: (blocks.bm < 5, blocks.bk < 50, blocks.nr), isa
    )


@first_few(1, "isa", [None, "avx2"])
def test_parts_give_the_bits_of_the_operand(isa: str | None) -> None:
    cases = [(name, given, pair) for name, given in REGIONS.items() for pair in pairs(given, isa)]
    assert {name for name, _, _ in cases} == set(REGIONS)
    built = Built([(given, plan) for _, given, pair in cases for plan in pair], restricted(isa))
    for kernel in built.kernels():
        verify(kernel)
    for number, (name, given, _) in enumerate(cases):
        values = values_of(given)
        computed, packed = (built.call(2 * number + i, values) for i in range(2))
        assert_plays(built, 2 * number, values)
        for output in computed:
            np.testing.assert_array_equal(computed[output], packed[output], err_msg=name)


@pytest.mark.parametrize("name", WITHOUT)
def test_other_operands_have_no_parts(name: str) -> None:
    assert not pairs(WITHOUT[name])


def test_bytes_of_a_weight_are_those_of_its_word_and_its_share_of_the_scale() -> None:
    given = words(2, 40, 64, block=16)
    view = cpu_contraction_of(given, analyse(given).core)
    assert view is not None
    assert bytes_per_term(view, constant_parts(view)) == 1 / 2 + 4 / 16


def test_a_number_that_is_not_finite_stays_in_its_column() -> None:
    given = REGIONS["nibbles"]
    values = values_of(given)
    values["S"][7, 2] = np.nan
    built = Built([(given, plan) for plan, _ in pairs(given)])
    for i in range(len(built.lowered)):
        (result,) = built.call(i, values).values()
        np.testing.assert_array_equal(np.isnan(result), np.broadcast_to(np.arange(40) == 7, result.shape))


def test_kernels_read_panels_of_parts_alone() -> None:
    given = REGIONS["nibbles of blocks with zeros"]
    plan, _ = pairs(given)[0]
    lowered = Built([(given, plan)]).lowered[0]
    assert lowered.args == ("X", "Q_packed", "z_word_packed", "S_packed", "Y")
    assert [(one.sources, one.dtype) for one in lowered.packed] == [(("Q",), "u8"), (("Z",), "u8"), (("S",), "fp32")]
    assert "shr_by" in c_text(lowered.kernel)


def test_plans_ask_for_parts_of_columns_alone() -> None:
    given = REGIONS["nibbles"]
    plan, _ = pairs(given)[0]
    with pytest.raises(EqsatError, match="const_parts") as caught:
        fit_plan(given, analyse(given).core, with_place(plan, 1 - plan.vector, "const_parts"))
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.parametrize(("m", "place"), [(1, "const_parts"), (4, "const_parts"), (128, "const_pool")])
def test_few_rows_read_large_weights_as_words(m: int, place: str) -> None:
    target = msgspec.structs.replace(target_of(None, 2), arch="avx512", lanes=16)
    plan, _ = plans_of(words(m, 4096, 4096, block=32), target)[0]
    assert plan.places[plan.vector] == place
