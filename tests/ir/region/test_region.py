"""Regions as data: the verifier, the JSON of the seeds' dumps, the canonical form, the printed form, the work."""

from collections.abc import Callable

import msgspec
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.index.map import identity
from ir.region.dump import dump_region, load_region
from ir.region.region import Definition, Number, Op, Operand, Region, Yield, canonical, rename, verify
from ir.region.work import read_bytes, region_bytes, region_flops
from ir.serde import from_json, to_builtins, to_json
from tests.support.programs import regions

CORPUS = regions.corpus()


def _name(region: Region) -> str:
    return f"{region.name}{list(region.outputs[0].memref.shape)}"


@pytest.mark.parametrize("region", CORPUS, ids=_name)
def test_a_region_is_valid_and_survives_json(region: Region) -> None:
    verify(region)
    verify(canonical(region))
    assert load_region(dump_region(region)) == region
    assert from_json(to_json(region), Region) == region
    assert msgspec.json.decode(msgspec.json.encode(dump_region(region))) == dump_region(region)


def test_the_dump_has_the_seeds_names() -> None:
    dump = dump_region(regions.gemm_bias_relu())
    assert [buffer["name"] for buffer in dump["inputs"]] == ["A", "B", "bias"]
    first, second, third, ends = dump["body"]
    assert first["let"] == "C0"
    assert first["op"]["kind"] == "contraction"
    assert (first["op"]["lhs"]["value"], first["op"]["rhs"]["value"], first["op"]["acc_dtype"]) == ("A", "B", "fp32")
    assert (second["op"]["fn"], [operand["value"] for operand in second["op"]["inputs"]]) == ("add", ["C0", "bias"])
    assert (third["op"]["kind"], third["op"]["fn"]) == ("unary", "relu")
    assert ends == {"yield": ["C2 -> C"]}
    assert dump["outputs"][0]["materialize"] == "gmem"


def test_it_prints_as_one_reads_it() -> None:
    assert str(regions.gemm_bias_relu(4, 6, 5)) == (
        "region gemm_bias_relu(A: fp32[4,5], B: const fp32[5,6], bias: fp32[6]) -> (C: fp32[4,6])\n"
        "  C0: fp32[4,6] = contraction[4,6|5](A[i0, r0], B[r0, i1])\n"
        "  C1: fp32[4,6] = add[4,6](C0[i0, i1], bias[i1])\n"
        "  C2: fp32[4,6] = relu[4,6](C1[i0, i1])\n"
        "  yield C2[i0, i1] -> C"
    )


def test_canonical_regions_forget_names_and_nothing_else() -> None:
    region = regions.gemm_bias_relu()
    other = rename(region, "other", {"A": "x", "C0": "y", "C": "z"})
    assert other != region
    assert canonical(other) == canonical(region)
    assert canonical(regions.gemm_bias_relu(4, 6, 7)) != canonical(region)
    assert canonical(regions.matvec(1, 1)) != canonical(regions.row_reduce(1, 1))


def _without_first_let(region: Region) -> Region:
    return msgspec.structs.replace(region, body=region.body[1:])


def _with_op(region: Region, **changes: object) -> Region:
    op = msgspec.structs.replace(region.body[0].op, **changes)
    return msgspec.structs.replace(region, body=(Definition(region.body[0].name, op), *region.body[1:]))


def _read_through_another_domain(region: Region) -> Region:
    (first, second) = region.body[0].op.inputs
    assert isinstance(first, Operand)
    return _with_op(region, inputs=(Operand(first.value, identity((4, 6))), second))


BREAKS: dict[str, tuple[Callable[[Region], Region], str]] = {
    "a value read before it is there": (_without_first_let, "C0"),
    "a map of another domain": (_read_through_another_domain, "another shape"),
    "one operand of a contraction": (lambda r: _with_op(r, inputs=r.body[0].op.inputs[:1]), "1 inputs"),
    "more reduced axes than axes": (lambda r: _with_op(r, reduced=9), "reduced"),
    "a dtype that is none": (lambda r: _with_op(r, dtype="fp12"), "fp12"),
    "two values of one name": (lambda r: msgspec.structs.replace(r, body=(r.body[0], *r.body)), "taken"),
    "an output that nothing yields": (lambda r: msgspec.structs.replace(r, yields=()), "yielded once"),
    "a yield of an input": (
        lambda r: msgspec.structs.replace(r, yields=(Yield("bias", "C", r.yields[0].map),)),
        "no value",
    ),
    "two buffers of one name": (lambda r: msgspec.structs.replace(r, inputs=(r.inputs[0], *r.inputs)), "two buffers"),
}


@pytest.mark.parametrize("case", BREAKS)
def test_the_verifier_finds(case: str) -> None:
    broken, message = BREAKS[case]
    with pytest.raises(EqsatError, match=message) as caught:
        verify(broken(regions.gemm_bias_relu()))
    assert caught.value.kind is Kind.MALFORMED_GRAPH


def test_scans_indices_and_gathers_are_checked() -> None:
    with pytest.raises(EqsatError, match="runs along an axis"):
        verify(_with_op(regions.cumsum(), axis=2))
    with pytest.raises(EqsatError, match="one coordinate"):
        verify(_with_op(regions.iota(), index_map=None))
    gather = regions.gather()
    value = Definition("V", Op("copy", "copy", "fp32", (10, 4), (Operand("T", identity((10, 4))),)))
    source, index = gather.body[0].op.inputs
    assert isinstance(source, Operand)
    moved = _with_op(gather, inputs=(Operand("V", source.map), index))
    with pytest.raises(EqsatError, match="reads an input buffer"):
        verify(msgspec.structs.replace(moved, body=(value, *moved.body)))


@pytest.mark.parametrize("broken", [{}, {"name": "x"}, {"body": [{"let": "v"}]}, []])
def test_json_that_is_no_region_is_a_diagnostic(broken: object) -> None:
    with pytest.raises(EqsatError) as caught:
        load_region(broken)  # type: ignore[arg-type]
    assert caught.value.kind is Kind.MALFORMED_GRAPH


def test_numbers_in_json_are_finite() -> None:
    op = Op("unary", "relu", "fp32", (), (Number("-inf", "fp32"),))
    assert to_builtins(op)["inputs"][0]["number"] == "-inf"


def test_the_work_of_a_region() -> None:
    gemm = regions.gemm_bias_relu(4, 6, 5)
    assert region_flops(gemm) == 2 * 4 * 6 * 5 + 4 * 6 + 4 * 6
    assert read_bytes(gemm) == {"A": 4 * 20, "B": 4 * 30, "bias": 4 * 6}
    assert region_bytes(gemm) == 4 * (20 + 30 + 6 + 24)


def test_bytes_count_what_is_read_once() -> None:
    strided = regions.conv(kernel=1, stride=2, pad=0, size=(7, 9))
    assert read_bytes(strided)["X"] == 4 * 3 * 4 * 5
    windows = regions.conv(stride=1, pad=0, size=(7, 9))
    assert read_bytes(windows)["X"] == 4 * 3 * 7 * 9
    assert read_bytes(regions.gather(rows=10, width=4, count=6))["T"] == 4 * 24
    assert region_bytes(regions.pointwise((0, 5))) == 4 * 5 or region_bytes(regions.pointwise((0, 5))) == 0
