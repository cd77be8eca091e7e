"""Programs with loops, from lazy tensors to results: against NumPy and playback, and the size of what is compiled."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import eqsat
from eqsat import Program, optimize_and_compile, tensor
from eqsat.cli import app
from eqsat.explanation.explore import explore
from eqsat.explanation.graph_to_drawing import graph_to_drawing
from eqsat.looping.parts import Part, PartLoop, parts_of
from eqsat.looping.split import split
from eqsat.model import read_model
from eqsat.runtime.compiled import CompiledPart
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.module.launch_verify import verify as verify_table
from ir.module.module_verify import verify
from tests.support.fuzz.strategies import random_graph
from tests.support.sampling import first_few

RNG = np.random.default_rng(11)


def randn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def compiled(outputs: Any, **options: Any) -> Program:
    program = optimize_and_compile(outputs, **{"threads": 1, "cache": False, **options})
    verify(program._compiled.artifact.module)
    program.verify()
    return program


W, R = randn(6, 5) / 2, randn(6, 6) / 2


def network(steps: int, batch: int = 3, reverse: bool = False) -> list[Tensor]:
    """A recurrent network whose outputs go through another uop."""
    x, h = tensor.input("x", (steps, batch, 5)), tensor.input("h", (batch, 6))

    def step(state: Tensor, x_t: Tensor) -> tuple[Tensor, Tensor]:
        after = (x_t @ W.T + state @ R.T).tanh()
        return after, after * 2

    last, outputs = tensor.scan(step, h, x, reverse=reverse)
    return [last, outputs.relu()]


def by_numpy(x: np.ndarray, h: np.ndarray, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    result = np.empty((len(x), *h.shape), np.float32)
    for place in range(len(x))[:: -1 if reverse else 1]:
        h = np.tanh(x[place] @ W.T + h @ R.T)
        result[place] = np.maximum(h * 2, 0)
    return h, result


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("steps", "batch"), [(1, 3), (2, 3), (3, 1), pytest.param(1000, 2, marks=pytest.mark.slow), (4, 0)]
)
def test_scans_are_numpys_loops(steps: int, batch: int, reverse: bool) -> None:
    x, h = randn(steps, batch, 5), randn(batch, 6)
    actual = compiled(network(steps, batch, reverse))(x=x, h=h)
    for got, wanted in zip(actual, by_numpy(x, h, reverse), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_program_does_not_grow_with_its_steps() -> None:
    few, many = (compiled(network(steps)) for steps in (10, 1000))
    inside = [[kernel.function for kernel in program.kernels if kernel.runs > 1] for program in (few, many)]
    assert inside[0] == inside[1]
    assert len(few.kernels) == len(many.kernels)
    assert few.stats.uops == many.stats.uops
    assert len(few._compiled.artifact.table.launches) == len(many._compiled.artifact.table.launches)
    counts = [{kernel.runs for kernel in program.kernels} for program in (few, many)]
    assert counts == [{1, 10}, {1, 1000}]
    in_loop = [max(program.kernels, key=lambda kernel: kernel.runs) for program in (few, many)]
    assert in_loop[1].estimated_ns == pytest.approx(100 * in_loop[0].estimated_ns, rel=1e-6)
    texts = [[program._compiled.artifact.kernels[name] for name in inside[0]] for program in (few, many)]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_what_no_state_reaches_leaves_the_loop() -> None:
    program = compiled(network(50))
    before, inside = program.kernels[0], [kernel for kernel in program.kernels if kernel.runs == 50]
    assert (before.runs, before.reads[0]) == (1, "x")
    assert len(inside) == 1
    assert not any("x" in kernel.reads for kernel in inside)


def test_carries_may_be_nested_and_unchanged() -> None:
    x, k = tensor.input("x", (4, 3)), tensor.input("k", (3,))

    def step(carry: dict[str, Any], terms: tuple[Tensor, Tensor]) -> tuple[dict[str, Any], list[Tensor]]:
        a, (b, c) = carry["a"], carry["pair"]
        return {"a": b, "pair": (a + terms[0], c)}, [a, terms[0], k, terms[1], tensor.constant(2.0)]

    init = {"a": tensor.full((3,), 0.0), "pair": (k, tensor.full((), 7, "i64"))}
    carry, outputs = tensor.scan(step, init, (x, tensor.arange(4)))
    program = compiled([carry["a"], *carry["pair"], *outputs])
    xs, ks = randn(4, 3), randn(3)
    a, b, firsts = np.zeros(3, "f"), ks, []
    for row in xs:
        firsts.append(a)
        a, b = b, a + row
    wanted: list[Any] = [a, b, 7, np.stack(firsts), xs, np.stack([ks] * 4), np.arange(4), np.full(4, 2.0)]
    for got, value in zip(program(x=xs, k=ks), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-6)


def test_states_swap_places() -> None:
    a, b = tensor.input("a", (2,)), tensor.input("b", (2,))
    last, _ = tensor.scan(lambda carry, _: ((carry[1], carry[0]), None), (a, b), length=3)
    result = compiled(list(last))(a=np.array([1, 2], "f"), b=np.array([3, 4], "f"))
    assert [array.tolist() for array in result] == [[3, 4], [1, 2]]


def test_loops_follow_each_other_and_share_a_part() -> None:
    x = tensor.input("x", (5, 4))

    def total(state: Tensor, x_t: Tensor) -> tuple[Tensor, Tensor]:
        return state + x_t, state * x_t

    first, ys = tensor.scan(total, tensor.full((4,), 0.0), x)
    other, _ = tensor.scan(total, tensor.full((4,), 1.0), x, reverse=True)
    last, zs = tensor.scan(total, first * other, ys.relu() + x)
    array = randn(5, 4)
    program = compiled([last, zs.sum(0), other])
    assert len(program.dump("module", as_json=True)["loops"]) == 3
    assert program(x=array)[2] == pytest.approx(1 + array.sum(0), rel=1e-5)


@pytest.mark.parametrize("steps", [1, 3])
def test_loops_inside_loops(steps: int) -> None:
    x, w = tensor.input("x", (steps, 4, 6)), tensor.input("w", (6, 6))

    def row(state: Tensor, x_t: Tensor) -> tuple[Tensor, Tensor]:
        after, result = tensor.scan(lambda h, e: ((h + e @ w).tanh(), h), state, x_t)
        return after, result.sum(0)

    last, result = tensor.scan(row, tensor.full((6,), 0.0), x)
    arrays = {"x": randn(steps, 4, 6), "w": randn(6, 6) / 3}
    h, sums = np.zeros(6, "f"), []
    for block in arrays["x"]:
        sums.append(np.zeros(6, "f"))
        for x_t in block:
            sums[-1] = sums[-1] + h
            h = np.tanh(h + x_t @ arrays["w"])
    got = compiled([last, result])(arrays)
    np.testing.assert_allclose(got[0], h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], np.stack(sums), rtol=1e-4, atol=1e-5)


def test_no_steps() -> None:
    h = tensor.input("h", (3,))
    last, result = tensor.scan(lambda state, x_t: (state + x_t, state * 2), h, tensor.input("x", (0, 3)))
    assert last is h
    assert result.shape == (0, 3)


def test_a_loop_over_constants_is_a_loop_too() -> None:
    last, result = tensor.scan(lambda state, x_t: (state + x_t, state), tensor.full((), 0, "i64"), tensor.arange(5))
    program = compiled([last, result])
    assert [array.tolist() for array in program()] == [10, [0, 0, 1, 3, 6]]


def test_results_are_inputs_of_the_caller_and_twice_an_output() -> None:
    x, h = tensor.input("x", (3, 2)), tensor.input("h", (2,))
    last, result = tensor.scan(lambda state, x_t: (state * x_t, state), h, x)
    values = compiled([x, last, result, last, h])({"x": (a := randn(3, 2)), "h": (b := randn(2))})
    np.testing.assert_array_equal(values[0], a)
    np.testing.assert_allclose(values[1], b * a.prod(0), rtol=1e-5)
    np.testing.assert_array_equal(values[1], values[3])
    np.testing.assert_array_equal(values[4], b)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["exact", "range"])
def test_threads_do_not_change_bits(level: str) -> None:
    arrays = {"x": randn(7, 64, 5), "h": randn(64, 6)}
    results = [compiled(network(7, 64), threads=threads, exactness=level)(arrays) for threads in (1, 2, 4)]
    for other in results[1:]:
        assert [a.tobytes() for a in other] == [a.tobytes() for a in results[0]]


@pytest.mark.slow
def test_saved_programs_and_caches_keep_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    arrays = {"x": randn(9, 3, 5), "h": randn(3, 6)}
    program = optimize_and_compile(network(9), threads=1)
    wanted = program(arrays)
    program.save(tmp_path / "program")
    again = [
        optimize_and_compile(network(9), threads=1),
        eqsat.load(tmp_path / "program"),
        eqsat.load(tmp_path / "program", recompile=True),
    ]
    for other in again:
        other.verify()
        assert [a.tobytes() for a in other(arrays)] == [a.tobytes() for a in wanted]
        assert [kernel.runs for kernel in other.kernels] == [kernel.runs for kernel in program.kernels]


@pytest.mark.slow
def test_reports_know_runs() -> None:
    program = compiled(network(12))
    assert "12 in a loop" in program.explain()
    assert program.explained()["kernels"][-2]["runs"] == 12
    assert all(report.measured_ns for report in program.profile(program.random_inputs(), repeats=2))
    for place in range(len(program.kernels)):
        assert str(program.chain(place))
        assert program.explain(place)
    assert program.why_not(0, 1).kind == "loop"
    assert len(program.dump("egraph", as_json=True)["parts"]) == 3
    assert program.egraph("main").classes
    with pytest.raises(EqsatError, match="e-graph for each of its 3 parts"):
        program.egraph()


@pytest.mark.slow
def test_parts_are_explored_one_by_one() -> None:
    """Every part has the kernels, and the prices, that it has in the program."""
    program = compiled(network(3))
    runs = program.explorations()
    first, loop, last = runs
    assert (first, last) == ("main", "main.2")
    for number, run in enumerate(runs.values()):
        part = CompiledPart(program._compiled, number)
        assert [kernel.uops for kernel in run.kernels] == [kernel.uops for kernel in part.kernels]
        assert [kernel.estimated_ns for kernel in run.kernels] == [kernel.estimated_ns for kernel in part.kernels]
    alone = explore(network(3), part=loop)
    assert alone.estimated_ns == program.explore(loop).estimated_ns == runs[loop].estimated_ns
    assert len(alone.without("fusion").kernels) > len(alone.kernels)
    assert str(alone.chain(0))


@pytest.mark.slow
@pytest.mark.parametrize("part", [None, "n0"])
def test_a_part_is_explored_by_its_name(part: str | None) -> None:
    program = compiled(network(3))
    for find in (program.explore, program.egraph):
        with pytest.raises(EqsatError, match=r"main, .*, main\.2") as caught:
            find(part)
        assert caught.value.kind is Kind.INVALID_OPTION


def invoke(*words: str, status: int = 0) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, words)
    assert result.exit_code == status, result.output
    return result.output


@pytest.mark.slow
def test_commands_show_the_parts_of_a_model(tmp_path: Path) -> None:
    model = tmp_path / "network.json"
    model.write_text(json.dumps(read_model(network(3)).bind({}, strict=False).graph.to_json()))
    shown = invoke("explore", str(model))
    assert [line for line in shown.splitlines() if line.startswith("part ")][::2] == ["part main", "part main.2"]
    document = json.loads(invoke("explore", str(model), "--json"))["parts"]
    (loop,) = document.keys() - {"main", "main.2"}
    assert json.loads(invoke("explore", str(model), "--json", "--part", loop))["uops"] == document[loop]["uops"]
    page, picture = tmp_path / "page.html", tmp_path / "kernels.svg"
    invoke("explore", str(model), "--html", str(page))
    assert all(f'"{part}":{{"summary"' in page.read_text() for part in document)
    invoke("show", str(model), "--kernels", "--svg", str(picture))
    assert f"{loop}, after" in picture.read_text()


def test_pictures_name_the_graph_of_a_loop() -> None:
    graph = read_model(network(3)).bind({}, strict=False).graph
    drawn = graph_to_drawing(graph, "network")
    heads = [box.lines[0] for box in drawn.boxes.values()]
    assert [head.partition(" = ")[2] for head in heads if "loop" in head] == ["loop step 0", "loop step 1"]


def test_dims_and_axes_may_be_free() -> None:
    text = """
    graph @step(%h: fp32[n], %x: fp32[n]) {
      %a = add(%h, %x)
      return %a, %a
    }
    %x: fp32[steps, n] = input()
    %h: fp32[n] = input()
    %y = loop(%h, %x, graph=step, states=1, scanned=1, result=1)
    """
    program = optimize_and_compile(text, threads=1, cache=False)
    for shape in ((3, 4), (1, 2)):
        x = randn(*shape)
        np.testing.assert_allclose(program(x=x, h=np.zeros(shape[1], "f")), x.cumsum(0), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3])
def test_emulated_gpus_run_loops_on_aligned_memory(steps: int) -> None:
    """Elements of 15 floats begin at no multiple of 16 bytes."""
    program = compiled(network(steps, 3), target="sm_80", emulate=True, threads=None)
    (loop,) = program._compiled.artifact.module.loops
    for window in loop.windows:
        copied = {copy.source for copy in loop.loads} | {copy.target for copy in loop.copies}
        assert window.step % 16 == 0 or window.slot in copied


@first_few(8, "seed", range(24))
def test_random_programs_with_loops(seed: int) -> None:
    graph = random_graph(np.random.default_rng((seed, 5)), 8, loops=True)
    compiled(graph)


# what is refused


@pytest.mark.parametrize(
    ("build", "kind", "part"),
    [
        (lambda x: tensor.scan(x, x[0], x), Kind.MALFORMED_GRAPH, "a function of a carry"),
        (lambda x: tensor.scan(lambda h, e: h, x[0], x), Kind.MALFORMED_GRAPH, "returns a pair"),
        (lambda x: tensor.scan(lambda h, e: (h.cast("fp64"), h), x[0], x), Kind.DTYPE_MISMATCH, "the carry is fp32"),
        (lambda x: tensor.scan(lambda h, e: (h[:1], h), x[0], x), Kind.AXIS_SIZE_MISMATCH, "the carry is fp32"),
        (lambda x: tensor.scan(lambda h, e: ((h, h), h), x[0], x), Kind.MALFORMED_GRAPH, "the carry is fp32"),
        (lambda x: tensor.scan(lambda h, e: (h, h), x[0], (x, x[:2])), Kind.AXIS_SIZE_MISMATCH, "lengths differ"),
        (lambda x: tensor.scan(lambda h, e: (h, h), x[0], x[0, 0]), Kind.MALFORMED_GRAPH, "no axis 0"),
        (lambda x: tensor.scan(lambda h, e: (h, h), x[0]), Kind.MALFORMED_GRAPH, "length="),
    ],
)
def test_misuse_is_told(build: Callable[[Tensor], Any], kind: Kind, part: str) -> None:
    with pytest.raises(EqsatError) as caught:
        build(tensor.input("x", (3, 4)))
    assert caught.value.kind is kind
    assert part in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"trips": 1000}, "leaves"),
        ({"trips": 0}, "0 trips"),
        ({"first": 5}, "not its own"),
        ({"windows": ()}, "not those of its loops"),
    ],
)
def test_damaged_loops_are_found(change: dict[str, Any], part: str) -> None:
    module = compiled(network(4))._compiled.artifact.module
    (loop,) = module.loops
    damaged = msgspec.structs.replace(module, loops=(msgspec.structs.replace(loop, **change),))
    with pytest.raises(EqsatError, match=part):
        verify(damaged)


@pytest.mark.slow
def test_damaged_states_and_lives_are_found() -> None:
    module = compiled(network(4))._compiled.artifact.module
    (loop,) = module.loops
    turned = tuple(
        msgspec.structs.replace(window, tensors=window.tensors[::-1]) if window.initial else window
        for window in loop.windows
    )
    with pytest.raises(EqsatError, match="no trip writes what the next trip reads"):
        verify(msgspec.structs.replace(module, loops=(msgspec.structs.replace(loop, windows=turned),)))
    slots = tuple(
        msgspec.structs.replace(slot, last=slot.first) if slot.role == "arena" else slot for slot in module.slots
    )
    with pytest.raises(EqsatError, match="is not alive"):
        verify(msgspec.structs.replace(module, slots=slots))


@pytest.mark.slow
def test_launches_that_repeat_otherwise_than_calls_are_found() -> None:
    artifact = compiled(network(4))._compiled.artifact
    with pytest.raises(EqsatError, match="repeat in other loops"):
        verify_table(msgspec.structs.replace(artifact.table, loops=()), artifact.module, False)


# parts

EVERY_MOVEMENT = """
graph @step(%h: fp32[5], %x: fp32[4, 6], %k: fp32[6, 1]) {
  %a = permute(%x, perm=[1, 0])
  %b = pad(%a, pad=[[1, 0], [0, 2]], value=0.5)
  %c = shrink(%b, lo=[0, 1], hi=[7, 6], step=[2, 1])
  %d = flip(%c, axes=[0])
  %e = reshape(%d, result_shape=[20])
  %f = view(%e, result_shape=[10, 2], index_map=["2*i0 + i1"])
  %g = pool(%f, kernel=[3, 2], stride=[2, 1])
  %m = cumsum(%g, axis=2, dtype=fp32)
  %n = reshape(%m, result_shape=[4, 1, 6])
  %o = expand(%n, result_shape=[4, 5, 6])
  %p = reshape(%k, result_shape=[1, 1, 6])
  %q = expand(%p, result_shape=[4, 5, 6])
  %r = mul(%o, %q)
  %s: fp32[5] = reduce(%r, axes=[0, 2], op=SUM)
  %t = relu(%s)
  %u = add(%t, %h)
  return %u
}
%h: fp32[5] = input()
%x: fp32[3, 4, 6] = input()
%k: fp32[6, 1] = input()
%y = loop(%h, %x, %k, graph=step, states=1, scanned=1, result=0)
"""


@pytest.mark.slow
def test_every_movement_leaves_a_loop() -> None:
    model = read_model(EVERY_MOVEMENT)
    _, loop = split(model.bind({}, strict=False).graph, ())
    assert isinstance(loop, PartLoop)
    (inside,) = parts_of(loop.steps)
    assert [node.uop for node in inside.graph.nodes] == ["INPUT", "INPUT", "ADD"]
    compiled(EVERY_MOVEMENT)


def test_scatters_and_scans_leave_a_loop_with_their_axes() -> None:
    x, places = tensor.input("x", (5, 4, 3)), tensor.input("places", (5, 2, 3), "i64")

    def step(state: Tensor, terms: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        row, at = terms
        moved = row.cumsum(0).scatter(0, at, row[:2], "add")
        return state + moved, state

    outputs = list(tensor.scan(step, tensor.full((4, 3), 0.0), (x, places)))
    model = read_model(outputs)
    before, loop = split(model.bind({}, strict=False).graph, model.constants)
    assert isinstance(before, Part)
    assert {"SCATTER", "CUMSUM"} <= {node.uop for node in before.graph.nodes}
    assert isinstance(loop, PartLoop)
    compiled(outputs)


def test_lookups_masks_and_cheap_values_stay_in_the_loop() -> None:
    table, x = tensor.input("table", (9, 4)), tensor.input("x", (5, 4))
    places = tensor.input("places", (5, 2), "i64")

    def step(state: Tensor, terms: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        added = table.take(terms[0], 0).sum(0) * terms[1].exp()
        return tensor.where(tensor.arange(4) < 2, state + added, state), state

    outputs = list(tensor.scan(step, tensor.full((4,), 0.0), (places, x)))
    model = read_model(outputs)
    (loop,) = (
        step for step in split(model.bind({}, strict=False).graph, model.constants) if isinstance(step, PartLoop)
    )
    (inside,) = parts_of(loop.steps)
    assert {"GATHER", "EXP", "CMPLT"} <= {node.uop for node in inside.graph.nodes}
    compiled(outputs)


def test_movements_are_in_every_part_that_reads_them() -> None:
    """A broadcast of an argument is no buffer between two parts; a product is."""
    x, b = tensor.input("x", (3, 2, 4)), tensor.input("b", (4,))
    wide = b.expand(2, 4)
    scale = (b * b).expand(2, 4)
    last, _ = tensor.scan(lambda h, e: (h * scale + e * wide, None), tensor.full((2, 4), 0.0), x + wide)
    model = read_model([last + wide * scale])
    steps = split(model.bind({}, strict=False).graph, model.constants)
    assert [isinstance(step, PartLoop) for step in steps] == [False, True, False]
    first, inside, after = parts_of(steps)
    types = [str(first.graph.types[output]) for output in first.graph.outputs]
    assert sorted(types) == ["fp32[2, 4]", "fp32[2, 4]", "fp32[2, 4]", "fp32[3, 2, 4]", "fp32[4]"]
    assert "b" in after.reads
    assert "b" not in inside.reads
