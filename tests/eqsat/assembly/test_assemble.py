"""The module of a cover: slots, lifetimes, the arena, and what each call says of itself."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import optimize_and_compile, tensor
from eqsat.assembly.arena import ALIGNMENT, Interval, pack
from eqsat.assembly.assemble import AssembledModule, assemble
from eqsat.egraph.saturate import saturate
from eqsat.extraction.extract import extract
from ir.diagnostics import EqsatError
from ir.module.module import Module
from ir.module.module_verify import verify
from ir.region.region import Region
from ir.serde import from_json, to_json
from ir.tiny.graph import Graph
from rules import RULES
from tests.support.fuzz.strategies import random_inputs
from tests.support.programs import graphs
from tests.support.programs.graphs import Tiny
from tests.support.stages.approximate import ApproximatePricer, check, saturated


def assembled(graph: Graph, constants: tuple[str, ...] = ()) -> AssembledModule:
    bound, view = saturated(graph)
    cover = extract(view, bound.outputs, ApproximatePricer(), constants=constants)
    return assemble(cover, view, bound, constants)


def chain(depth: int = 6) -> Graph:
    t = Tiny()
    x = t.input("x", 32, 32)
    for layer in range(depth):
        x = t.op("RELU", t.linear(x, f"l{layer}", 32))
    return t.graph(x)


def test_kernels_have_names_of_their_own() -> None:
    """Layers that are alike share a region, which is called after its first kernel, and each has its number."""
    module = assembled(chain()).module
    names = [call.name for call in module.running]
    regions = {call.region.name for call in module.running}
    assert len(set(names)) == len(names) > len(regions)
    first = names[0]
    assert names[1:3] == [f"{first}_2", f"{first}_3"]
    assert regions <= set(names)


def test_kernels_that_run_once_are_counted_last() -> None:
    t = Tiny()
    x, w = t.input("x", 8), t.input("w", 8)
    graph = t.graph(t.op("ADD", t.op("EXP", x), t.op("EXP", w)), t.op("EXP", w))
    names = {call.name: call.when for call in assembled(graph, ("w",)).module.calls}
    assert len(names) == len(assembled(graph, ("w",)).module.calls)
    assert all(when == "compile" for name, when in names.items() if name.endswith("_2"))


def test_a_module_is_valid_and_survives_json() -> None:
    module = assembled(graphs.attention(), ()).module
    verify(module)
    assert from_json(to_json(module), Module) == module
    assert "return" in str(module)


def test_a_kernel_whose_result_a_rule_made_names_the_uops_it_is_made_for() -> None:
    """x·A, x·B and x·C are one product of x with all three: it stands for theirs, and their readers for the rest."""
    t = Tiny()
    x, weights = t.input("x", 6, 64), ("a", "b", "c")
    products = [t.matmul(x, t.input(name, 64, 8)) for name in weights]
    graph = t.graph(*(t.op("RELU", product) for product in products))
    view, _ = saturate(graph, RULES, constants=weights)

    def refuse(region: Region) -> str:
        sums = any(let.op.kind in ("contraction", "reduce") for let in region.body)
        return "a product apart" if sums and region.outputs[0].memref.shape == (6, 8) else ""

    cover = extract(view, graph.outputs, ApproximatePricer(refuse=refuse), constants=weights)
    module, _ = assemble(cover, view, graph, weights)
    (merged,) = [call for call in module.running if not {*call.writes} & {*graph.outputs}]
    assert {*products} <= {*merged.uops}
    assert not {*graph.outputs} & {*merged.uops}
    assert all(call.uops for call in module.running)


def test_two_buffers_are_enough_for_a_chain() -> None:
    module = assembled(chain()).module
    assert module.arena_bytes == 2 * 32 * 32 * 4
    assert [slot.role for slot in module.slots].count("arena") == 5
    assert len(module.regions) == 1
    assert {call.region.name for call in module.calls} == {"dot_add_relu"}


def test_the_signature_is_the_graphs() -> None:
    t = Tiny()
    x, unused, w = t.input("x", 4), t.input("unused", 4), t.input("w", 4)
    y = t.op("ADD", x, w)
    module = assembled(t.graph(y, x, y), ("w",)).module
    assert module.inputs == ("x", "unused")
    assert module.constants == ("w",)
    assert module.outputs == ((y, y), (x, "x"), (y, y))
    assert unused in {node.id for node in t.nodes}


def test_calls_know_their_uops_and_rules() -> None:
    graph = graphs.gemm_bias_relu()
    (call,) = assembled(graph).module.calls
    assert set(call.uops) == {node.id for node in graph.nodes if node.uop != "INPUT"}
    assert {"sum_of_products", "compose_movements"} <= set(call.rules)


def test_compile_time_calls_come_first_and_write_constants() -> None:
    t = Tiny()
    x, w = t.input("x", 8), t.input("w", 8)
    graph = t.graph(t.op("MUL", x, t.op("RSQRT", w)))
    module, prices = assembled(graph, ("w",))
    assert [call.when for call in module.calls] == ["compile", "run"]
    assert len(prices) == 1
    roles = {slot.name: slot.role for slot in module.slots}
    assert roles[module.calls[0].writes[0]] == "constant"
    assert module.constants == ("w",)


def test_names_do_not_collide() -> None:
    t = Tiny()
    x = t.input("n2", 4)
    y = t.op("EXP", x)
    z = t.op("MUL", t.reduce("SUM", y, 0), 2.0)
    assert z == "n3"
    graph, view = saturated(t.graph(z, y, t.reduce("MAX", y, 0)))
    cover = extract(view, graph.outputs, ApproximatePricer())
    module = check(cover, view, graph, random_inputs(graph, np.random.default_rng(0))).module
    assert len({slot.name for slot in module.slots}) == len(module.slots)


def _overlapping(module: Module) -> Module:
    slots = tuple(msgspec.structs.replace(slot, offset=0) for slot in module.slots)
    return msgspec.structs.replace(module, slots=slots)


def _reordered(module: Module) -> Module:
    return msgspec.structs.replace(module, calls=module.calls[::-1])


def _without_call(module: Module) -> Module:
    return msgspec.structs.replace(module, calls=module.calls[:-1])


def _small_arena(module: Module) -> Module:
    return msgspec.structs.replace(module, arena_bytes=64)


@pytest.mark.parametrize("broken", [_overlapping, _reordered, _without_call, _small_arena])
def test_the_verifier_finds_broken_modules(broken: object) -> None:
    module = assembled(chain()).module
    with pytest.raises(EqsatError):
        verify(broken(module))  # type: ignore[operator]


intervals = st.lists(
    st.builds(
        lambda first, length, size: Interval(first, first + length, size),
        st.integers(0, 20),
        st.integers(0, 6),
        st.integers(0, 1000),
    ),
    max_size=24,
)


@given(intervals)
def test_the_arena_holds_everything_apart(ranges: list[Interval]) -> None:
    offsets, size = pack(ranges)
    for i, a in enumerate(ranges):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.size <= size
        for j, b in enumerate(ranges[:i]):
            together = a.first <= b.last and b.first <= a.last
            assert not together or offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
    aligned = [-(-one.size // ALIGNMENT) * ALIGNMENT for one in ranges]
    assert size <= sum(aligned)
    assert size >= max(
        (sum(s for one, s in zip(ranges, aligned, strict=True) if one.first <= t <= one.last) for t in range(27)),
        default=0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("step", [1, -1])
def test_constants_are_read_as_they_are_in_any_order_in_memory(order: tuple[int, ...], step: int) -> None:
    """A transposed array is a view in another order, and a copy of it keeps that order."""
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(order)[::step]
    x = tensor.input("x", array.shape)
    zeros = np.zeros(array.shape, np.float32)
    added = optimize_and_compile(x + tensor.constant(array), target="cpu", threads=1)
    np.testing.assert_array_equal(added(zeros), array)
    bound = optimize_and_compile(x + tensor.input("w", array.shape), constants={"w": array}, threads=1, target="cpu")
    np.testing.assert_array_equal(bound(zeros), array)
    np.testing.assert_array_equal(optimize_and_compile(tensor.constant(array), target="cpu", threads=1)(), array)
    product = optimize_and_compile(tensor.constant(array[0]) @ tensor.input("y", (array.shape[2], 5)), target="cpu")
    y = np.arange(5 * array.shape[2], dtype=np.float32).reshape(-1, 5)
    np.testing.assert_allclose(product(y), array[0] @ y, rtol=1e-5)
