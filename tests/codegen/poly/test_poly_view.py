"""Poly-View: isl sets and maps of regions, their patterns, and isl's word on what they claim."""

from __future__ import annotations

import itertools
import json
import math

import islpy
import msgspec
import pytest

from codegen.poly.analyse import analyse, checked_core
from codegen.poly.contraction_check import check_contractions, pattern_holds
from codegen.poly.region_to_indexbook import index_book
from ir.diagnostics import EqsatError, Kind
from ir.index.expr import ZERO, AxisExpr
from ir.index.map import axis_map
from ir.poly.block import Pattern, PolyBlock
from ir.poly.view import PolyView
from ir.poly.view_isl import access_texts, domain, domain_text, relation
from ir.region.region import Region
from ir.serde import from_json, to_json
from tests.support.oracles.isl_flow import flow, written_once
from tests.support.programs import regions
from tests.support.programs.regions import index_map

AFFINE = [region for region in regions.corpus() if region.body[0].op.kind != "gather"]
by_name = pytest.mark.parametrize("given", AFFINE, ids=lambda given: given.name)


def poly_view(given: Region) -> PolyView:
    return analyse(given).view


def holds(block: PolyBlock) -> bool:
    return pattern_holds(block, [relation(block, read) for read in block.reads])


def pattern(given: Region) -> Pattern:
    view = poly_view(given).blocks[0].attrs
    assert view is not None
    return view


def test_gemm_dump() -> None:
    dump = poly_view(regions.gemm_bias_relu(4, 6, 5)).to_dump()["poly_view"]
    assert dump["blocks"][0] == {
        "name": "C0",
        "kind": "contraction_pattern",
        "domain": {"set": "{ [i0, i1, r0] : 0 <= i0 <= 3 and 0 <= i1 <= 5 and 0 <= r0 <= 4 }"},
        "accesses": [
            {"tensor": "A", "map": "{ [i0, i1, r0] -> A[i0, r0] }"},
            {"tensor": "B", "map": "{ [i0, i1, r0] -> B[r0, i1] }"},
            {"tensor": "C0", "map": "{ [i0, i1, r0] -> C0[i0, i1] }"},
        ],
        "attrs": {
            "pattern": "matmul",
            "lhs_idx": ["i0", "r0"],
            "rhs_idx": ["r0", "i1"],
            "out_idx": ["i0", "i1"],
            "reduce_idx": ["r0"],
            "affine_offsets": {},
        },
    }
    assert dump["edges"] == [
        {"src": "C0", "dst": "C1", "value": "C0"},
        {"src": "C1", "dst": "C2", "value": "C1"},
    ]


def test_conv_dump() -> None:
    block = poly_view(regions.conv(batch=2)).to_dump()["poly_view"]["blocks"][0]
    assert block["attrs"] == {
        "pattern": "conv",
        "lhs_idx": ["i0", "r0", "i2", "i3"],
        "rhs_idx": ["i1", "r0", "r1", "r2"],
        "out_idx": ["i0", "i1", "i2", "i3"],
        "reduce_idx": ["r0", "r1", "r2"],
        "affine_offsets": {"i2": "2*i2 + r1 - 1", "i3": "2*i3 + r2 - 1"},
    }
    read = islpy.Map(block["accesses"][0]["map"])
    assert read.is_equal(
        islpy.Map("{ [i0,i1,i2,i3,r0,r1,r2] -> X[i0, r0, 2i2+r1-1, 2i3+r2-1] : 0<=2i2+r1-1<7 and 0<=2i3+r2-1<9 }")
    )


def test_masked_scores_are_a_batched_product() -> None:
    view = poly_view(regions.attention_scores())
    result = pattern(regions.attention_scores())
    assert (result.pattern, result.batch_idx) == ("matmul", ("i0", "i1"))
    assert (result.lhs_idx, result.rhs_idx) == (("i0", "i1", "i2", "r0"), ("i0", "i1", "i3", "r0"))
    texts = dict(access_texts(view.block("S2")))
    assert texts["mask"] == "{ [i0, i1, i2, i3] -> mask[i2, i3] }"


@pytest.mark.parametrize("flags", list(itertools.product((False, True), repeat=3)))
def test_every_transposition_is_a_matmul(flags: tuple[bool, bool, bool]) -> None:
    lhs_t, rhs_t, out_t = flags
    given = regions.matmul((2,), lhs_t=lhs_t, rhs_t=rhs_t, out_t=out_t)
    result = pattern(given)
    assert result.pattern == "matmul"
    assert result.batch_idx == ("i0",)
    assert result.lhs_idx == (("i0", "r0", "i1") if lhs_t else ("i0", "i1", "r0"))
    assert result.rhs_idx == (("i0", "i2", "r0") if rhs_t else ("i0", "r0", "i2"))
    _, write = access_texts(poly_view(given).blocks[0])[-1]
    assert write.endswith("-> Y[i0, i2, i1] }" if out_t else "-> Y[i0, i1, i2] }")


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 0, 1), (1, 1, 1), (2, 1, 1), (3, 2, 2)])
def test_windows(stride: int, pad: int, dilation: int) -> None:
    result = pattern(regions.conv(stride=stride, pad=pad, dilation=dilation, size=(11, 12)))
    assert result.pattern == "conv"
    row = islpy.Map(f"{{ [i2, r1] -> [{stride}i2 + {dilation}r1 - {pad}] }}")
    window = result.offset_texts["i2"].replace("*", "")
    assert islpy.Map(f"{{ [i2, r1] -> [{window}] }}").is_equal(row)


def test_a_1x1_convolution_is_a_matmul_with_strided_reads() -> None:
    result = pattern(regions.conv(kernel=1, stride=2, pad=0))
    assert result.pattern == "matmul"
    assert result.offset_texts == {"i2": "2*i2", "i3": "2*i3"}


def test_groups_are_counted() -> None:
    assert pattern(regions.conv(c_in=4, c_out=6, groups=2)).groups == 2
    assert pattern(regions.conv()).groups == 1
    assert "groups" not in poly_view(regions.conv()).to_dump()["poly_view"]["blocks"][0]["attrs"]


@by_name
def test_patterns_hold(given: Region) -> None:
    for block in poly_view(given).blocks:
        assert (block.attrs is not None) == (block.kind == "contraction_pattern")
        assert block.attrs is None or holds(block)


def test_a_wrong_pattern_is_caught() -> None:
    block = poly_view(regions.gemm_bias_relu()).blocks[0]
    assert block.attrs is not None
    for wrong in (
        msgspec.structs.replace(block.attrs, lhs_idx=("r0", "i0")),
        msgspec.structs.replace(block.attrs, affine_offsets={"i0": AxisExpr(1, ((0, 1),))}),
        msgspec.structs.replace(block.attrs, out_idx=("i1", "i0")),
    ):
        assert not holds(msgspec.structs.replace(block, attrs=wrong))
    assert not holds(poly_view(regions.row_reduce()).blocks[0])


@by_name
def test_texts_are_simplified_and_mean_the_book(given: Region) -> None:
    """Within its domain every access is the IndexBook's map with its guards; simplifying again changes nothing."""
    book = index_book(given)
    for block in poly_view(given).blocks:
        points_of = islpy.Set(domain_text(block))
        assert points_of.is_equal(domain(block))
        assert points_of.count_val().to_python() == math.prod(book.values[block.name].domain)
        source = f"{block.name}.mul" if block.kind == "contraction_pattern" else block.name
        for (_, written), read in zip(access_texts(block), book.values[source].inputs, strict=False):
            text = islpy.Map(written)
            assert str(text.coalesce().gist_domain(points_of).remove_redundancies()) == written
            points: list[islpy.Point] = []
            text.intersect_domain(points_of).domain().foreach_point(points.append)
            bounds = [bound for guard in read.map.guards for bound in guard.bounds]
            if math.prod(read.map.sizes) < 3000:
                assert len(points) == sum(
                    all(bound.holds(point) for bound in bounds)
                    for point in itertools.product(*map(range, read.map.sizes))
                )


@by_name
def test_every_output_is_written_once(given: Region) -> None:
    if any(0 in let.op.domain for let in given.body):
        pytest.skip("a reduction of nothing has no point that writes")
    view = poly_view(given)
    for buffer in given.outputs:
        assert written_once(view, buffer.name, buffer.memref.shape)


def test_an_output_that_is_not_covered_is_noticed() -> None:
    view = poly_view(regions.transpose(5, 7))
    assert not written_once(view, "Y", (7, 6))
    assert not written_once(view, "Z", (7, 5))


def test_a_gather_is_left_out_and_named() -> None:
    view = poly_view(regions.gather())
    assert (view.blocks, view.non_scop) == ((), ("G",))
    assert view.to_dump()["poly_view"]["non_scop"] == ["G"]


def test_flow_follows_windows() -> None:
    (relation,) = flow(poly_view(regions.conv_then_pool())).values()
    assert relation.is_equal(
        islpy.Map("{ C[c, h, w] -> P[c, y, x, j, i] : h = 2y + j and w = 2x + i and 0<=c<3 and 0<=y,x<3 and 0<=j,i<2 }")
    )


@by_name
def test_json_and_text(given: Region) -> None:
    view = poly_view(given)
    assert from_json(to_json(view), PolyView) == view
    json.dumps(view.to_dump())
    assert all(block.name in str(view) for block in view.blocks)


def test_no_code_of_a_wrong_book() -> None:
    """A re-split that leaves its operand without a guard is stopped before it is lowered."""
    with pytest.raises(EqsatError) as caught:
        checked_core(regions.move((2, 4), (12,), "i0 // 4", "i0 - 4*(i0 // 4)"))
    assert caught.value.kind is Kind.MISSING_DIV_GUARD
    assert caught.value.diagnostics[0].at == "M"


def test_wrong_loops_of_a_contraction_are_caught() -> None:
    """Two digits of one name, a digit forgotten, an operand loaded without its padding: none becomes a kernel."""
    given = regions.conv(c_in=4, c_out=6, groups=2)
    facts = analyse(given)
    check_contractions(facts.view, facts.core)
    roles = facts.core.roles
    assert roles is not None
    still = axis_map(roles.out.sizes, (*roles.out.exprs[:-1], ZERO))
    short = tuple(size - 1 if name == "r0" else size for name, size in zip(roles.names, roles.sizes, strict=True))
    ((read,), rhs) = roles.reads
    aside = msgspec.structs.replace(read, map=index_map(roles.sizes, *(str(expr) for expr in read.map.exprs)))
    for wrong, word in (
        (msgspec.structs.replace(roles, out=still), "once"),
        (msgspec.structs.replace(roles, sizes=short, point=axis_map(short, roles.point.exprs)), "once"),
        (msgspec.structs.replace(roles, reads=((aside,), rhs)), "load"),
    ):
        with pytest.raises(EqsatError, match=word) as caught:
            check_contractions(facts.view, msgspec.structs.replace(facts.core, roles=wrong))
        assert caught.value.kind is Kind.UNSOUND_RULE
