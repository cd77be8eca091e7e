"""Programs whose calls are optimized once: against the same programs inlined, and what reports say of them."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile, tensor
from eqsat.explanation.explore import explore
from eqsat.looping.cut_calls import CalledPart, without_cycles
from eqsat.looping.parts import Part, Steps, parts_of
from eqsat.looping.split import split
from eqsat.looping.stored import free_values, live_uops
from eqsat.runtime.compiled import CompiledPart
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.module.module_verify import verify
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from tests.support.fuzz.strategies import random_graph
from tests.support.programs.called_blocks import blocks, call, feed_forward, given, graph_json, inlined, two_results
from tests.support.sampling import first_few

SHAPES = ((6, 8), (8, 16), (16, 8), (8,))
WEIGHTS = ("up", "down", "scale")


def compiled(source: Any, **options: Any) -> Program:
    program = optimize_and_compile(source, **{"threads": 1, "cache": False, **options})
    verify(program._compiled.artifact.module)
    program.verify()
    return program


@cache
def repeated(count: int) -> Program:
    """The program of so many blocks, for tests that change nothing of a program."""
    return compiled(blocks(count))


def steps_of(source: Any, constants: tuple[str, ...] = ()) -> Steps:
    return split(load(source)[0], constants)


def names_of(source: Any) -> list[str]:
    return [part.name for part in parts_of(steps_of(source))]


def with_weights(*uops: dict[str, Any], outputs: list[str], body: Any = feed_forward) -> dict[str, Any]:
    """A program of x, the weights, and these uops."""
    inputs = [given(name, shape) for name, shape in zip(("x", *WEIGHTS), SHAPES, strict=True)]
    return {"graphs": {"block": graph_json(body, *SHAPES)}, "uops": [*inputs, *uops], "outputs": outputs}


def assert_same(source: Any, dearer: float = 1.001, **options: Any) -> Program:
    """The program gives the bits of the inlined one, with as many kernels, which cost at most `dearer` times as
    much."""
    program, other = compiled(source, **options), compiled(inlined(source), **options)
    assert len(list(parts_of(split(program._compiled.bound.graph, ())))) > 1
    arrays = program.random_inputs()
    actual, wanted = (run(arrays) for run in (program, other))
    for got, want in zip(
        *(results if isinstance(results, tuple) else (results,) for results in (actual, wanted)), strict=True
    ):
        assert got.tobytes() == want.tobytes()
    assert len(program.kernels) == len(other.kernels)
    assert program.cost <= other.cost * dearer
    return program


@pytest.mark.slow
# optimized once
def test_equal_calls_are_optimized_once() -> None:
    one, many = repeated(1), compiled(blocks(6))
    assert len(many.kernels) == 6 * len(one.kernels)
    assert len(many.stats.saturation.phases) == len(one.stats.saturation.phases)
    assert many.stats.candidates == one.stats.candidates
    assert many.cost == pytest.approx(6 * one.cost, rel=1e-9)
    assert many._compiled.artifact.kernels.keys() == one._compiled.artifact.kernels.keys()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["exact", "reassociate", "rounding", "range"])
def test_calls_have_the_bits_of_the_inlined_program(level: str) -> None:
    """At the level `exact`, the search finds a cheaper kernel for the second and third layer if it sees all layers."""
    assert_same(blocks(3), dearer=1.02 if level == "exact" else 1.001, exactness=level)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "width", "dtype"), [(1, 8, "fp32"), (0, 4, "fp32"), (6, 8, "fp16")])
def test_sizes_and_dtypes(rows: int, width: int, dtype: str) -> None:
    assert_same(blocks(2, rows, width, dtype))


@pytest.mark.slow
def test_threads_do_not_change_bits() -> None:
    program = [compiled(blocks(3, 64, 32), threads=threads) for threads in (1, 2, 4)]
    arrays = program[0].random_inputs()
    assert len({run(arrays).tobytes() for run in program}) == 1


@pytest.mark.slow
def test_emulated_gpus_run_calls() -> None:
    compiled(blocks(2, 16, 16), target="sm_80", emulate=True, threads=None)


@pytest.mark.slow
def test_constants_of_a_call_are_its_own() -> None:
    rng = np.random.default_rng(3)
    arrays = {
        name: rng.standard_normal(node.arg["shape"]).astype("f")
        for name, node in load(blocks(3))[0].inputs.items()
        if name != "x"
    }
    program = compiled(blocks(3), constants=arrays)
    alone = compiled(inlined(blocks(3)), constants=arrays)
    assert len(names_of(blocks(3))) == 3
    x = program.random_inputs()
    assert program(x).tobytes() == alone(x).tobytes()
    assert len(program.kernels) == len(alone.kernels)


@pytest.mark.slow
def test_calls_with_other_constants_are_optimized_apart() -> None:
    """Weights that are known, and weights that are arguments."""
    arrays = {f"layer1.{name}": np.ones(shape, "f") for name, shape in zip(WEIGHTS, SHAPES[1:], strict=True)}
    assert len(list(parts_of(steps_of(blocks(2), tuple(arrays))))) == 1
    compiled(blocks(2), constants=arrays)
    arrays |= {name.replace("1", "2"): array for name, array in arrays.items()}
    program = compiled(blocks(4), constants=arrays)
    assert len(program.stats.saturation.phases) == 2 * len(repeated(1).stats.saturation.phases)


@pytest.mark.slow
def test_dims_may_be_free() -> None:
    """Of three rows, the calls are the same graph for the same sizes; sizes come with each call of the program."""
    text = """
    graph @block(%x: fp32[n, 8], %w: fp32[8, 8]) {
      %a = reshape(%x, result_shape=[n, 1, 8])
      %l: fp32[n, 8, 8] = expand(%a)
      %r = reshape(%w, result_shape=[1, 8, 8])
      %s: fp32[n, 8, 8] = expand(%r)
      %p = mul(%l, %s)
      %d: fp32[n, 8] = reduce(%p, axes=[2], op=SUM)
      %u0 = tanh(%d)
      TANHS
      %y = add(%x, %u20)
      return %y
    }
    %x: fp32[batch, 8] = input()
    %v: fp32[8, 8] = input()
    %w: fp32[8, 8] = input()
    %one = call @block(%x, %v)
    %two = call @block(%one, %w)
    """
    text = text.replace("TANHS", "\n".join(f"%u{place + 1} = tanh(%u{place})" for place in range(20)))
    program = optimize_and_compile(text, threads=1, cache=False)
    rng = np.random.default_rng(1)
    v, w = (rng.standard_normal((8, 8)).astype("f") for _ in range(2))
    for rows in (3, 1, 3):
        wanted = x = rng.standard_normal((rows, 8)).astype("f")
        for weights in (v, w):
            d = wanted @ weights.T
            for _ in range(21):
                d = np.tanh(d)
            wanted = wanted + d
        np.testing.assert_allclose(program(x=x, v=v, w=w), wanted, rtol=1e-4, atol=1e-5)
    assert names_of(text.replace("batch", "3")) == ["one", "two"]


@pytest.mark.slow
def test_saved_programs_and_caches_keep_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    program = optimize_and_compile(blocks(3), threads=1)
    arrays = program.random_inputs()
    program.save(tmp_path / "program")
    again = [
        optimize_and_compile(blocks(3), threads=1),
        eqsat.load(tmp_path / "program"),
        eqsat.load(tmp_path / "program", recompile=True),
    ]
    for other in again:
        other.verify()
        assert other(arrays).tobytes() == program(arrays).tobytes()
        assert list(other.explorations()) == ["layer0", "layer1", "layer2"]


# what calls take and give


@pytest.mark.slow
def test_several_results_some_unused_and_an_operand_returned() -> None:
    """`same` is x; no uop reads `unused`; `sums` is an output of the program."""
    source = with_weights(
        call("block", ["a", "sums", "same"], "x", *WEIGHTS),
        call("block", ["b", "unused", "before"], "a", *WEIGHTS),
        call("block", ["c", "more", "last"], "b", *WEIGHTS),
        outputs=["c", "sums", "same", "more", "before", "c"],
        body=two_results,
    )
    program = compiled(source, exactness="exact")
    actual = program(arrays := program.random_inputs())
    np.testing.assert_array_equal(actual[2], arrays["x"])
    assert actual[0].tobytes() == actual[5].tobytes()
    wanted = compiled(inlined(source), exactness="exact")(arrays)
    assert [array.tobytes() for array in actual] == [array.tobytes() for array in wanted]


@pytest.mark.slow
def test_calls_beside_each_other_are_inlined() -> None:
    """One kernel may compute uops of both."""
    source = with_weights(
        call("block", ["a"], "x", *WEIGHTS),
        given("other", SHAPES[0]),
        call("block", ["b"], "other", *WEIGHTS),
        {"id": "y", "uop": "ADD", "src": ["a", "b"]},
        outputs=["a", "b", "y"],
    )
    assert names_of(source) == ["main"]
    compiled(source)


@pytest.mark.slow
def test_equal_calls_of_equal_operands_run_once() -> None:
    source = with_weights(call("block", ["a"], "x", *WEIGHTS), call("block", ["b"], "x", *WEIGHTS), outputs=["a", "b"])
    program = compiled(source)
    assert len(program.kernels) == len(repeated(1).kernels)
    a, b = program(program.random_inputs())
    assert a.tobytes() == b.tobytes()


@pytest.mark.slow
def test_what_calls_have_in_common_is_computed_once() -> None:
    """Both calls read the square of the same scale."""

    def body(x: Tensor, up: Tensor, down: Tensor, scale: Tensor) -> list[Tensor]:
        return feed_forward(x, up, down, (scale * scale).exp())

    source = with_weights(
        given("v", (8, 16)),
        call("block", ["a"], "x", *WEIGHTS),
        call("block", ["b"], "a", "v", "down", "scale"),
        outputs=["b"],
        body=body,
    )
    assert names_of(source) == ["main", "a", "b"]
    compiled(source)


@pytest.mark.slow
def test_calls_of_calls_are_cut_where_they_repeat() -> None:
    """A pair of blocks is called twice, the blocks four times."""
    shapes = dict(zip(WEIGHTS, SHAPES[1:], strict=True))
    two = [[f"{name}{place}" for name in WEIGHTS] for place in (1, 2)]
    pair = {
        "uops": [
            given("x", SHAPES[0]),
            *(given(name, shapes[name[:-1]]) for names in two for name in names),
            call("block", ["h"], "x", *two[0]),
            call("block", ["y"], "h", *two[1]),
        ],
        "outputs": ["y"],
    }
    uops = [given("x", SHAPES[0])]
    for place in range(2):
        own = [f"w{place}.{name}" for names in two for name in names]
        uops += [given(name, shapes[name.partition(".")[2][:-1]]) for name in own]
        uops.append(call("pair", [f"p{place}"], f"p{place - 1}" if place else "x", *own))
    block = graph_json(feed_forward, *SHAPES)
    source = {"graphs": {"block": block, "pair": pair}, "uops": uops, "outputs": ["p1"]}
    assert names_of(source) == ["p0/h", "p0/y", "p1/h", "p1/y"]
    assert len(assert_same(source).stats.saturation.phases) == len(repeated(1).stats.saturation.phases)


@pytest.mark.slow
def test_calls_in_loops() -> None:
    x, h = tensor.input("x", (3, 6, 8)), tensor.input("h", (6, 8))
    step = {
        "uops": [
            given("h", SHAPES[0]),
            given("e", SHAPES[0]),
            *(given(name, shape) for name, shape in zip(WEIGHTS, SHAPES[1:], strict=True)),
            {"id": "s", "uop": "ADD", "src": ["h", "e"]},
            call("block", ["a"], "s", *WEIGHTS),
            call("block", ["b"], "a", *WEIGHTS),
        ],
        "outputs": ["b", "a"],
    }
    arg = {"graph": "step", "states": 1, "scanned": 1}
    source = {
        "graphs": {"block": graph_json(feed_forward, *SHAPES), "step": step},
        "uops": [
            given("h", h.shape),
            given("x", x.shape),
            *(given(name, shape) for name, shape in zip(WEIGHTS, SHAPES[1:], strict=True)),
            *(
                {"id": name, "uop": "LOOP", "src": ["h", "x", *WEIGHTS], "arg": {**arg, "result": place}}
                for place, name in enumerate(("last", "all"))
            ),
        ],
        "outputs": ["last", "all"],
    }
    assert [name for name in names_of(source) if name.endswith(("/a", "/b"))] == ["last/a", "last/b"]
    program = compiled(source)
    assert {kernel.runs for kernel in program.kernels} == {3}
    for place in range(len(program.kernels)):
        assert str(program.chain(place))


def test_a_call_with_a_loop_is_inlined() -> None:
    text = """
    graph @step(%h: fp32[n], %e: fp32[n]) { %a = add(%h, %e) return %a }
    graph @sum(%h: fp32[n], %x: fp32[m, n]) { %y = loop(%h, %x, graph=step, states=1, scanned=1, result=0) return %y }
    %x: fp32[3, 4] = input()
    %h: fp32[4] = input()
    %one = call @sum(%h, %x)
    %two = call @sum(%one, %x)
    return %two
    """
    program = compiled(text)
    assert len(program.dump("module", as_json=True)["loops"]) == 2


# where calls are not cut


def test_small_calls_and_calls_whose_results_one_uop_reads_are_inlined() -> None:
    def small(x: Tensor, up: Tensor, down: Tensor, scale: Tensor) -> list[Tensor]:
        return [x + (x @ up).relu() @ down * scale]

    def read_once(x: Tensor, up: Tensor, down: Tensor, scale: Tensor) -> list[Tensor]:
        return [feed_forward(x.exp(), up, down, scale)[0].log()]

    for body in (small, read_once):
        source = with_weights(
            call("block", ["a"], "x", *WEIGHTS), call("block", ["b"], "a", *WEIGHTS), outputs=["b"], body=body
        )
        assert names_of(source) == ["main"]


@pytest.mark.slow
def test_calls_that_a_program_states_against_its_order_are_left() -> None:
    """`a` needs a result of `b`, and `b` one of `a`: no call does, but a text may say so."""
    graph, _ = load(blocks(4))
    swapped = {"layer0": "a", "layer3": "a", "layer1": "b", "layer2": "b"}
    nodes = [msgspec.structs.replace(node, calls=tuple(swapped[call] for call in node.calls)) for node in graph.nodes]
    stated = Graph.build(nodes, graph.outputs)
    assert [step.name for step in split(stated, ()) if isinstance(step, Part)] == ["main"]
    compiled(stated)


@first_few(6, "seed", range(12))
def test_any_cut_gives_the_right_results(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs, cut at random: only cuts that need their own results are refused."""

    def cut(graph: Graph, known: object) -> tuple[CalledPart, ...]:
        rng = np.random.default_rng((seed, len(graph.nodes)))
        free = free_values(graph)
        computed = [node for node in graph.nodes if node.uop not in ("INPUT", "LOOP") and node.id not in free]
        groups: dict[str, list[str]] = {}
        for node in computed:
            groups.setdefault(str(rng.integers(4)), []).append(node.id)
        live = live_uops(graph)
        parts = [CalledPart((f"cut{name}",), frozenset(uops) & live) for name, uops in groups.items() if name != "0"]
        return without_cycles(graph, [part for part in parts if part.uops])

    monkeypatch.setattr("eqsat.looping.split.cut_calls", cut)
    graph = random_graph(np.random.default_rng((seed, 7)), 10, loops=seed % 2 == 1)
    nodes = [msgspec.structs.replace(node, calls=("any",)) for node in graph.nodes]
    compiled(Graph.build(nodes, graph.outputs))


# reports


@pytest.mark.slow
def test_reports_name_the_uops_of_each_call() -> None:
    program = repeated(3)
    per_call = len(program.kernels) // 3
    for place, kernel in enumerate(program.kernels):
        name = f"layer{place // per_call}"
        assert all(uop == name or uop.startswith(f"{name}/") for uop in kernel.uops)
        assert all(read.split(".")[0] == name for read in kernel.reads if read.endswith((".up", ".down")))
        chain = str(program.chain(place))
        assert chain
        assert not any(f"layer{other}/" in chain for other in range(3) if other != place // per_call)
        assert program.explain(place)
    assert str(program.explain())


@pytest.mark.slow
def test_why_not_within_a_call_and_between_calls() -> None:
    program = compiled(blocks(2))
    per_call = len(program.kernels) // 2
    assert program.why_not(per_call - 1, per_call).kind == "call"
    within = [program.why_not(place, place + 1) for place in (0, per_call)]
    assert within[0].kind == within[1].kind != "call"
    assert within[0].figures == within[1].figures


@pytest.mark.slow
def test_parts_are_explored_one_by_one() -> None:
    program = repeated(3)
    runs = program.explorations()
    assert list(runs) == ["layer0", "layer1", "layer2"]
    for number, (name, run) in enumerate(runs.items()):
        part = CompiledPart(program._compiled, number)
        assert [kernel.uops for kernel in run.kernels] == [kernel.uops for kernel in part.kernels]
        assert [kernel.writes for kernel in run.kernels] == [kernel.writes for kernel in part.kernels]
        assert [kernel.selection for kernel in run.kernels] == [kernel.selection for kernel in part.kernels]
        assert [kernel.estimated_ns for kernel in run.kernels] == [kernel.estimated_ns for kernel in part.kernels]
        assert program.egraph(name).tiny.keys() >= {name}
    assert explore(blocks(3), part="layer2").estimated_ns == runs["layer2"].estimated_ns
    with pytest.raises(EqsatError, match="layer0, layer1, layer2") as caught:
        program.egraph()
    assert caught.value.kind is Kind.INVALID_OPTION
