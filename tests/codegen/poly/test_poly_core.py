"""Poly Core: the report against isl and against enumeration, the verdict case by case."""

from __future__ import annotations

import itertools
import json
import math

import islpy
import msgspec
import pytest

from codegen.plan.cpu.candidates import candidates
from codegen.plan.poly_core_to_report import nested_accumulators, poly_report
from codegen.poly.analyse import analyse
from codegen.poly.dependences import dependences
from codegen.poly.halo import halo
from codegen.poly.memory_access import strides_of
from codegen.poly.tail_axes import Steps, check_tails, tail_axes
from eqsat.cost.targets import cpu_target
from ir.diagnostics import EqsatError, Kind
from ir.index.map import parse_map
from ir.index.moves import reshape
from ir.plan.cpu import CpuNestPlan
from ir.poly.core import PolyCore
from ir.poly.report import PolyReport
from ir.region.region import Definition, Op, Operand, Region, Yield
from ir.serde import from_json, to_json
from tests.support.oracles.isl_flow import flow
from tests.support.programs import regions
from tests.support.programs.regions import buffer, contraction, ewise, index_map, read, reduction, region, same

TARGET = cpu_target(arch="avx512", cores=4, lanes=16, clock_hz=3e9, source="assumed for tests")
by_name = pytest.mark.parametrize("given", regions.corpus(), ids=lambda given: given.name)


def core(given: Region) -> PolyCore:
    return analyse(given).core


def report(given: Region) -> PolyReport:
    """By the region's first plan for a CPU."""
    plan, _ = candidates(given, core(given), TARGET)[0]
    return poly_report(given, core(given), plan)


def roles(core: PolyCore) -> dict[str, tuple[str, ...]]:
    """The names of the digits in each role."""
    assert core.roles is not None
    return {role: core.roles.names_of(getattr(core.roles, role)) for role in ("batch", "m", "n", "k")}


def refused(given: Region, *words: str) -> PolyCore:
    result = core(given)
    assert not result.legal
    assert all(word in result.reason for word in words), result.reason
    return result


# --- the report -----------------------------------------------------------------------------------


def test_gemm_report() -> None:
    dump = report(regions.gemm_bias_relu(4, 6, 5)).to_dump()["analysis"]
    assert {key: dump[key] for key in ("parallel_axes", "reduce_axes", "tail_axes", "compute_at", "min_buffer")} == {
        "parallel_axes": ["i0", "i1"],
        "reduce_axes": ["r0"],
        "tail_axes": ["i0", "i1", "r0"],
        "compute_at": {"ok": True, "halo": {"bytes": 0, "per_axis": {"i0": 0, "i1": 0, "r0": 0}}, "nested": {}},
        "min_buffer": {"buffer": "stack", "depth": 1},
    }
    assert dump["legal"]
    assert dump["affine_closed"]
    assert dump["buffers"]["B"] == {"buffer": "const_pool", "depth": 1}
    assert dump["buffers"]["C"] == {"buffer": "gmem", "depth": 1}
    assert dump["barriers"] == []


def test_conv_report() -> None:
    result = report(regions.conv(stride=1, pad=1))
    halos = {"i2": (1, 1), "i3": (1, 1)}
    still = dict.fromkeys(("i0", "i1", "r0", "r1", "r2"), (0, 0))
    assert result.halo.per_axis == {**still, **halos}
    assert result.halo.bytes == 3 * (9 * 11 - 7 * 9) * 4
    assert result.to_dump()["analysis"]["compute_at"]["halo"]["per_axis"]["i2"] == 1
    assert roles(result.core) == {"batch": (), "m": ("i2", "i3"), "n": ("i1",), "k": ("r0", "r1", "r2")}


def test_masked_scores_report() -> None:
    result = core(regions.attention_scores())
    assert result.legal
    assert roles(result) == {"batch": ("i0", "i1"), "m": ("i2",), "n": ("i3",), "k": ("r0",)}
    (mask,) = result.reads("mask")
    assert [stride.step for stride in mask.strides] == [0, 0, 5, 1]


@by_name
def test_corpus_is_legal(given: Region) -> None:
    result = core(given)
    assert result.legal, result.reason
    assert from_json(to_json(result), PolyCore) == result
    dumped = report(given).to_dump()
    assert json.loads(json.dumps(dumped)) == dumped
    assert from_json(to_json(report(given)), PolyReport) == report(given)
    assert given.name in str(result)
    assert result.affine_closed == (given.name not in ("gather", "scatter"))


# --- dependences, against isl's dataflow ----------------------------------------------------------


@pytest.mark.parametrize("given", [*regions.corpus(), regions.conv_then_pool()], ids=lambda given: given.name)
def test_true_dependences_are_isls(given: Region) -> None:
    result = dependences(given, core(given))
    mine = {(dependence.src, dependence.dst): islpy.Map(dependence.relation) for dependence in result}
    empty = any(0 in let.op.domain for let in given.body)
    isls = flow(analyse(given).view)
    for edge, relation in isls.items():
        assert mine[edge].is_equal(relation), edge
    outputs = {buffer.name for buffer in given.outputs}
    inner = {edge for edge in mine if edge[1] not in outputs and not mine[edge].is_empty()}
    assert empty or inner == set(isls) or given.name == "gather"
    assert all(dependence.kind == "true" for dependence in result)


def test_memory_dependences() -> None:
    over = regions.pointwise()
    aliased = msgspec.structs.replace(
        over,
        outputs=(buffer("X", (3, 5)),),
        yields=(msgspec.structs.replace(over.yields[0], buffer="X"),),
    )
    kinds = {(dependence.kind, dependence.src, dependence.dst) for dependence in dependences(aliased, core(aliased))}
    assert ("anti", "A", "X") in kinds
    refused(aliased, "overwrites an input")
    twice = msgspec.structs.replace(over, yields=(*over.yields, over.yields[0]))
    assert any(dependence.kind == "output" for dependence in dependences(twice, core(twice)))
    refused(twice, "written 2 times")


# --- strides, runs and unguarded ranges, against enumeration --------------------------------------

MAPS = [
    ("[4,6] -> [i0, i1]", (4, 6)),
    ("[4,6] -> [i1, i0]", (6, 4)),
    ("[5,7] -> [2*i0 + i1 - 1] if 0<=2*i0 + i1 - 1<9 else 0", (9,)),
    ("[7,8] -> [i0 - 1, i1 - 2] if 1<=i0<5 and 2<=i1<7 else 0", (4, 5)),
    ("[24] -> [i0//4, i0 - 4*(i0//4)]", (6, 4)),
    ("[24] -> [i0//12, i0//4 - 3*(i0//12), i0 - 4*(i0//4)]", (2, 3, 4)),
    ("[24] -> [i0 - 4*(i0//4), i0//4]", (4, 6)),
    ("[6,8] -> [(8*i0 + i1)//3, 8*i0 + i1 - 3*((8*i0 + i1)//3)]", (16, 3)),
    ("[9] -> [(i0 + 1)//4]", (3,)),
    ("[12] -> [i0//4] if 1<=i0//4<3 else 0", (3,)),
    ("[6] -> [-i0 + 5]", (6,)),
    ("[5,1] -> [0, i0]", (1, 5)),
    ("[8,8] -> [i0 - i1] if 0<=i0 - i1<8 else 0", (8,)),
    ("[6,6] -> [i0, i1] if 0<=i0 + i1<10 else 0", (6, 6)),
    ("[8,4] -> [i0 - i1 + 2] if 0<=i0 - i1 + 2<10 else 0", (10,)),
    ("[4,9] -> [i0 + i1//3 - 1] if 0<=i0 + i1//3 - 1<5 else 0", (5,)),
    ("[12,3] -> [i0 - 4*(i0//4) + i1 - 1] if 0<=i0 - 4*(i0//4) + i1 - 1<4 else 0", (4,)),
]


@pytest.mark.parametrize(("text", "shape"), MAPS, ids=[text for text, _ in MAPS])
def test_strides_are_what_memory_sees(text: str, shape: tuple[int, ...]) -> None:
    view = parse_map(text)
    strides = strides_of(view, shape)
    weights = [math.prod(shape[k + 1 :]) for k in range(len(shape))]

    def place(point: tuple[int, ...]) -> int:
        return sum(weight * expr.eval(point) for weight, expr in zip(weights, view.exprs, strict=True))

    def inside(point: tuple[int, ...]) -> bool:
        return all(guard.holds(point) for guard in view.guards)

    points = [point for point in itertools.product(*map(range, view.sizes)) if inside(point)]
    for axis, stride in enumerate(strides):
        assert stride.size == view.sizes[axis]
        for point in points:
            after = (*point[:axis], point[axis] + 1, *point[axis + 1 :])
            if after not in points:
                continue
            moved = place(after) - place(point)
            assert stride.step is None or moved == stride.step
        padded = {
            point[axis]
            for point in itertools.product(*map(range, view.sizes))
            for guard in view.guards
            for bound in guard.bounds
            if axis in bound.expr.axes and not bound.holds(point)
        }
        low, high = stride.interior
        assert not padded & set(range(low, high))
        assert stride.guarded or not padded
        assert high - low == longest_run(stride.size, padded)


def longest_run(size: int, without: set[int]) -> int:
    """The length of the longest interval of [0, size) that has none of these."""
    ends = [-1, *sorted(without), size]
    return max(after - before - 1 for before, after in itertools.pairwise(ends))


def test_conv_interior_is_tight() -> None:
    result = core(regions.conv(stride=1, pad=1))
    (x,) = result.reads("X")
    strides = {name: stride for (name, _), stride in zip(result.scopes[x.scope], x.strides, strict=True)}
    assert strides["i2"].interior == (1, 6)
    assert strides["i3"].interior == (1, 8)
    assert strides["r1"].interior == (1, 2)
    assert not strides["r0"].guarded


def test_accesses_are_composed_through_prologues() -> None:
    result = core(regions.prologue_gemm())
    (a,) = result.reads("A")
    assert (a.value, a.scope) == ("P", "C")
    assert [stride.step for stride in a.strides] == [5, 0, 1]
    assert [site.scope for site in result.sites if site.value == "P"] == ["C"]


def test_padding_everywhere_reads_nothing() -> None:
    given = regions.move((4,), (3,), "i0 - 9", pad={0: 4}, fill=2.0)
    assert core(given).reads("X") == ()
    assert core(given).legal


def test_a_gather_reads_indirectly() -> None:
    (table,) = core(regions.gather()).reads("T")
    assert (table.indirect, table.data) == ((0,), (0,))
    assert [stride.step for stride in table.strides] == [None, 1]


def test_a_value_used_in_two_scopes_has_two_sites() -> None:
    over = (4, 7)
    body = [
        ewise("E", "exp", over, same("X", over)),
        reduction("R", "sum", over, 1, same("E", over)),
        ewise("D", "div", over, same("E", over), read("R", over, "i0")),
    ]
    result = core(region("softmax", [buffer("X", over)], body, over))
    assert result.legal
    assert sorted(site.scope for site in result.sites if site.value == "E") == ["R", "Y"]
    assert len(result.reads("X")) == 2


# --- halo, tails, buffers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (regions.conv(stride=2, pad=1), (1, 0)),
        (regions.conv(stride=1, pad=0), (0, 2)),
        (regions.conv(stride=1, pad=2, dilation=2), (2, 2)),
        (regions.conv(kernel=1, stride=2, pad=0), (0, 0)),
        (regions.maxpool(), (1, 0)),
        (regions.maxpool(kernel=2, pad=0), (0, 0)),
    ],
)
def test_halo_of_windows(given: Region, expected: tuple[int, int]) -> None:
    assert halo(given, core(given)).per_axis["i2"] == expected


def test_shifts_have_no_halo() -> None:
    for given in (regions.pad2d(), regions.transpose()):
        assert halo(given, core(given)).bytes == 0


def test_an_axis_that_a_map_divides_is_cut_into_digits() -> None:
    grouped = core(regions.conv(1, 8, 24, (9, 11), 3, 1, 1, groups=2))
    assert roles(grouped) == {"batch": ("i1/12",), "m": ("i2", "i3"), "n": ("i1%12",), "k": ("r0", "r1", "r2")}
    assert grouped.roles is not None
    assert grouped.roles.extent(grouped.roles.n) == 12
    maps = [read.map for side in grouped.roles.reads for read in side]
    assert all(expr.is_affine for map_ in maps for expr in map_.exprs)


def test_tails_are_the_steps_that_do_not_divide() -> None:
    loops = [Steps("m", 64, 16), Steps("n", 48, 32), Steps("k", 33, 11), Steps("i0", 5, 8)]
    assert tail_axes(loops) == ("n", "i0")
    check_tails(loops, ("n", "i0"), "plan", "r")
    with pytest.raises(EqsatError) as caught:
        check_tails(loops, ("n",), "plan", "r")
    assert caught.value.kind is Kind.ALIGNMENT_MISMATCH
    assert core(regions.pointwise((1, 5))).tail_axes == ("i1",)


@by_name
def test_buffers_are_those_of_the_plan(given: Region) -> None:
    """Each value and output has one, and a row that the plan keeps lies in the workspace."""
    plan, _ = candidates(given, core(given), TARGET)[0]
    results = {buffer.value: buffer.buffer for buffer in poly_report(given, core(given), plan).buffers}
    assert results.keys() >= {let.name for let in given.body} | {output.name for output in given.outputs}
    assert {results[output.name] for output in given.outputs} == {"gmem"}
    if isinstance(plan, CpuNestPlan):
        assert {name for name, buffer in results.items() if buffer == "stack"} == {kept.value for kept in plan.kept}


# --- the verdict ----------------------------------------------------------------------------------


def test_a_nest_is_refused() -> None:
    given = regions.conv_then_pool()
    refused(given, "`C`", "inside `P`")
    assert nested_accumulators(given, core(given)) == {"C": "P"}


def test_reductions_over_nested_axes_only() -> None:
    over = (4, 7)
    rows = reduction("R", "sum", over, 1, same("X", over))
    total = reduction("T", "sum", over, 2, same("X", over))
    columns = reduction("K", "sum", (7, 4), 1, read("X", (7, 4), "i1", "i0"))
    inner = [
        rows,
        total,
        ewise("A", "sub", over, read("R", over, "i0"), read("T", over)),
        ewise("D", "sub", over, same("X", over), same("A", over)),
    ]
    assert core(region("nested", [buffer("X", over)], inner, over)).legal
    crossed = [
        rows,
        columns,
        ewise("A", "sub", over, read("R", over, "i0"), read("K", over, "i1")),
        ewise("D", "sub", over, same("X", over), same("A", over)),
    ]
    refused(region("crossed", [buffer("X", over)], crossed, over), "no order", "`R`", "`K`")


def test_an_accumulator_is_read_at_one_plain_place() -> None:
    over, out = (4, 7), (8,)
    rows = reduction("R", "sum", over, 1, same("X", over))
    repeated = [rows, ewise("U", "relu", out, read("R", out, "i0 // 2"))]
    refused(region("upsampled", [buffer("X", over)], repeated, out), "repeatedly")
    padded = [rows, ewise("U", "relu", (6,), read("R", (6,), "i0 - 1", pad={0: 4}))]
    refused(region("padded", [buffer("X", over)], padded, (6,)), "padded")
    twice = [rows, ewise("U", "add", (4,), same("R", (4,)), read("R", (4,), "3 - i0"))]
    refused(region("twice", [buffer("X", over)], twice, (4,)), "2 different maps")
    part = [rows, ewise("U", "add", (3, 7), same("Z", (3, 7)), read("R", (3, 7), "i0"))]
    refused(region("part", [buffer("X", over), buffer("Z", (3, 7))], part, (3, 7)), "repeatedly")
    split = [rows, ewise("U", "relu", (2, 2), Operand("R", reshape((4,), (2, 2))))]
    assert core(region("split", [buffer("X", over)], split, (2, 2))).legal


def test_contractions_share_domain_and_roles() -> None:
    over, out = (4, 6, 5), (4, 6)
    first = contraction("C", over, 1, read("A", over, "i0", "i2"), read("B", over, "i2", "i1"))
    second = contraction("D", over, 1, read("E", over, "i0", "i2"), read("B", over, "i2", "i1"))
    join = ewise("J", "mul", out, same("C", out), same("D", out))
    inputs = [buffer("A", (4, 5)), buffer("B", (5, 6)), buffer("E", (4, 5))]
    assert core(region("two", inputs, [first, second, join], out)).legal
    turned = contraction("D", over, 1, read("B", over, "i2", "i1"), read("E", over, "i0", "i2"))
    refused(region("turned", inputs, [first, turned, join], out), "different roles")
    deeper = contraction("D", (4, 6, 3), 1, read("F", (4, 6, 3), "i0", "i2"), read("G", (4, 6, 3), "i2", "i1"))
    refused(
        region("deeper", [*inputs, buffer("F", (4, 3)), buffer("G", (3, 6))], [first, deeper, join], out),
        "different domains",
    )


def test_a_contraction_has_the_kernel_to_itself() -> None:
    over, out = (4, 6, 5), (4, 6)
    first = contraction("C", over, 1, read("A", over, "i0", "i2"), read("B", over, "i2", "i1"))
    rows = reduction("R", "sum", (4, 5), 1, same("A", (4, 5)))
    join = ewise("J", "mul", out, same("C", out), read("R", out, "i0"))
    inputs = [buffer("A", (4, 5)), buffer("B", (5, 6))]
    refused(region("both", inputs, [first, rows, join], out), "shares the kernel")
    vector = contraction("V", (4, 5), 1, read("A", (4, 5), "i0", "i1"), read("x", (4, 5), "i1"))
    spread = ewise("J", "add", out, read("V", out, "i0"), same("Z", out))
    refused(
        region("spread", [buffer("A", (4, 5)), buffer("x", (5,)), buffer("Z", out)], [vector, spread], out), "repeated"
    )


def test_scans_run_over_the_whole_output() -> None:
    over = (3, 6)
    scan = Definition("S", Op("scan", "sum", "fp32", over, (same("X", over),), axis=1))
    last = Yield("S", "Y", index_map((3,), "i0", "5"))
    cut = Region("last", (buffer("X", over),), (buffer("Y", (3,)),), (scan,), (last,))
    refused(cut, "`S`")
    other = Definition("T", Op("scan", "sum", "fp32", over, (same("X", over),), axis=0))
    join = ewise("J", "add", over, same("S", over), same("T", over))
    refused(region("both_ways", [buffer("X", over)], [scan, other, join], over), "another axis")
    turned = region("turned", [buffer("X", over)], [scan], (6, 3), at=("i1", "i0"))
    assert core(turned).sequential_axes == (0,)
    assert core(turned).parallel_axes == ("i1",)


def test_a_scan_beside_an_axis_of_size_1() -> None:
    assert core(regions.cumsum(1, 6, axis=1)).sequential_axes == (1,)
    assert core(regions.cumsum(3, 1, axis=1)).sequential_axes == ()


def test_a_gather_reads_memory() -> None:
    table = ewise("P", "relu", (10, 4), same("T", (10, 4)))
    out = (6, 4)
    op = Op("gather", "gather", "fp32", out, (read("P", (*out, 10), "i2", "i1"), read("index", out, "i0")))
    given = region("g", [buffer("T", (10, 4)), buffer("index", (6,), "i64")], [table, Definition("G", op)], out)
    refused(given, "not in memory")


def test_a_scatter_is_alone_and_stored_as_it_is() -> None:
    given = regions.scatter((4, 7))
    (let,) = given.body
    after = ewise("R", "relu", (4, 7), same("S", (4, 7)))
    assert core(region("relu", given.inputs, [let, after], (4, 7))).legal
    both = (given.yields[0], Yield("R", "Z", index_map((4, 7), "i0", "i1")))
    outputs = (*given.outputs, buffer("Z", (4, 7)))
    refused(Region("both", given.inputs, outputs, (let, after), both), "other results")
    half = ewise("H", "cast", (4, 7), same("S", (4, 7)), dtype="fp16")
    refused(region("half", given.inputs, [let, half], (4, 7), dtype="fp16"), "another dtype")
    mirrored = ewise("M", "relu", (4, 7), read("S", (4, 7), "3 - i0", "i1"))
    refused(region("mirrored", given.inputs, [let, mirrored], (4, 7)), "element by element")
    turned = region("turned", given.inputs, [let], (7, 4), at=("i1", "i0"))
    refused(turned, "element by element")
    rows = reduction("T", "max", (7, 4), 1, read("X", (7, 4), "i1", "i0"))
    shifted = ewise("D", "sub", (4, 7), same("X", (4, 7)), read("T", (4, 7), "i1"))
    moved = msgspec.structs.replace(let.op, inputs=(read("D", let.op.domain, "i0", "i1"), *let.op.inputs[1:]))
    refused(region("beside", given.inputs, [rows, shifted, Definition("S", moved)], (4, 7)), "another accumulator")
    wide = msgspec.structs.replace(
        let.op, inputs=(let.op.inputs[0], read("X", let.op.domain, "i0", "i1"), let.op.inputs[2])
    )
    refused(region("wide", given.inputs, [Definition("S", wide)], (4, 7)), "more axes than their own")


def test_outputs_have_one_domain() -> None:
    over = (4, 7)
    body = (ewise("E", "exp", over, same("X", over)), reduction("R", "sum", over, 1, same("E", over)))
    yields = (Yield("E", "Y", index_map(over, "i0", "i1")), Yield("R", "Z", index_map((4,), "i0")))
    outputs = (buffer("Y", over), buffer("Z", (4,)))
    refused(Region("two", (buffer("X", over),), outputs, body, yields), "different domains")
    both = (yields[0], Yield("F", "Z", index_map(over, "i0", "i1")))
    pair = (body[0], ewise("F", "relu", over, same("E", over)))
    result = core(Region("pair", (buffer("X", over),), (buffer("Y", over), buffer("Z", over)), pair, both))
    assert result.legal
    assert len([access for access in result.accesses if access.input < 0]) == 2


def test_part_of_an_accumulator_may_be_stored() -> None:
    over = (4, 7)
    rows = reduction("R", "sum", over, 1, same("X", over))
    part = [rows, ewise("U", "relu", (3,), read("R", (3,), "i0"))]
    assert core(region("part", [buffer("X", over)], part, (3,))).legal


def test_a_long_chain_is_no_recursion() -> None:
    body = [ewise("v0", "exp", (3,), same("X", (3,)))]
    body += [ewise(f"v{k}", "exp", (3,), same(f"v{k - 1}", (3,))) for k in range(1, 3000)]
    assert core(region("chain", [buffer("X", (3,))], body, (3,))).legal
