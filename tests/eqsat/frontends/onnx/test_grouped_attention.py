"""GroupQueryAttention, against onnxruntime: prompts and steps, caches, rotations, biases and windows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import helper, numpy_helper

from eqsat import optimize_and_compile
from tests.eqsat.frontends.onnx.test_onnx import Arrays, by_onnxruntime, by_playback, model_of, refused

RNG = np.random.default_rng(0)
HEADS, GROUPS, SIZE = 4, 2, 16
ANGLES = np.outer(np.arange(32), 10.0 ** -np.linspace(0, 1, SIZE // 2))
NAMES = ("q", "k", "v", "past_key", "past_value", "lasts", "total", "cosines", "sines", "places", "bias")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


class Call(NamedTuple):
    """`length` queries, whose batches have their last keys at `lasts`, of a cache with `past` positions. total: the
    positions that count."""

    length: int
    total: int
    lasts: list[int]
    past: int | None = None
    packed: bool = False
    rotary: bool = False
    places: list[list[int]] | None = None
    has_bias: bool = False


def model(call: Call, **attrs: Any) -> tuple[Any, Arrays]:
    batch, groups = len(call.lasts), () if call.packed else ("k", "v")
    width = (HEADS + 2 * GROUPS if call.packed else HEADS) * SIZE
    inputs = {"q": normal(batch, call.length, width)}
    inputs |= {name: normal(batch, call.length, GROUPS * SIZE) for name in groups}
    if call.past is not None:
        inputs |= {name: normal(batch, GROUPS, call.past, SIZE) for name in ("past_key", "past_value")}
    inputs["lasts"] = np.asarray(call.lasts, np.int32)
    if call.places is not None:
        inputs["places"] = np.asarray(call.places)
    if call.has_bias:
        inputs["bias"] = normal(batch, HEADS, call.length, call.total)
    constants = {"total": np.asarray(call.total, np.int32)}
    if call.rotary:
        constants |= {"cosines": np.cos(ANGLES).astype(np.float32), "sines": np.sin(ANGLES).astype(np.float32)}
        attrs["do_rotary"] = 1
    names = [name if name in inputs or name in constants else "" for name in NAMES]
    attrs = {"num_heads": HEADS, "kv_num_heads": GROUPS, **attrs}
    outputs = ("y", "key", "value")
    node = helper.make_node("GroupQueryAttention", names, outputs, domain="com.microsoft", **attrs)
    made = model_of([node], inputs, outputs, constants)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made, inputs


PROMPT, STEP, CHUNK = Call(5, 5, [4, 4]), Call(1, 6, [5, 3], past=5), Call(3, 8, [7], past=5)
CASES: dict[str, tuple[Call, dict[str, Any]]] = {
    "prompt": (PROMPT, {}),
    "padded prompt": (Call(5, 5, [4, 2, 0]), {}),
    "prompt, empty cache": (Call(5, 5, [4], past=0), {}),
    "prompt, long cache": (Call(5, 5, [4], past=9), {}),
    "packed prompt, turned": (PROMPT._replace(packed=True, rotary=True), {}),
    "prompt with a first place": (PROMPT._replace(rotary=True, places=[[2, 3, 4, 5, 6], [1, 2, 3, 4, 5]]), {}),
    "prompt with a bias": (PROMPT._replace(has_bias=True), {}),
    "prompt, bidirectional": (PROMPT, {"causal": 0}),
    "prompt, window": (PROMPT, {"local_window_size": 2}),
    "prompt, soft cap": (PROMPT, {"softcap": 2.0, "scale": 0.2}),
    "step": (STEP, {}),
    "step, long cache": (Call(1, 6, [5], past=9), {}),
    "packed step, turned": (STEP._replace(packed=True, rotary=True), {}),
    "step, neighbours turned": (STEP._replace(rotary=True), {"rotary_interleaved": 1}),
    "step at places": (STEP._replace(rotary=True, places=[[7], [2]]), {}),
    "step with a bias": (STEP._replace(has_bias=True), {}),
    "step, window": (STEP, {"local_window_size": 3}),
    "chunk, turned": (CHUNK._replace(rotary=True), {}),
    "chunk, bidirectional": (CHUNK, {"causal": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_caches_agree_with_onnxruntime(name: str) -> None:
    """What follows the last key of a batch is not specified."""
    call, attrs = CASES[name]
    made, inputs = model(call, **attrs)
    for place, (actual, expected) in enumerate(
        zip(by_playback(made, inputs), by_onnxruntime(made, inputs), strict=True)
    ):
        assert actual.shape == expected.shape
        for batch, last in enumerate(call.lasts):
            queries = min(call.length, last + 1)
            own = (slice(queries),) if place == 0 else (slice(None), slice(last + 1))
            np.testing.assert_allclose(actual[batch][own], expected[batch][own], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("call", [Call(1, 6, [5], past=9, rotary=True, packed=True), Call(3, 8, [7], past=9)])
def test_caches_that_do_not_grow_are_updated_in_place(call: Call) -> None:
    made, inputs = model(call)
    program = optimize_and_compile(made, updates={"key": "past_key", "value": "past_value"})
    assert program.dump("module").count(" over past_") == 2
    expected = by_onnxruntime(made, inputs)
    caches = [inputs["past_key"], inputs["past_value"]]
    y, *held = program(inputs)
    assert [*map(id, held)] == [*map(id, caches)]
    for batch, last in enumerate(call.lasts):
        for actual, wanted in zip(caches, expected[1:], strict=True):
            np.testing.assert_array_equal(
                actual[batch, :, : last - call.length + 1], wanted[batch, :, : last - call.length + 1]
            )
            np.testing.assert_allclose(actual[batch, :, : last + 1], wanted[batch, :, : last + 1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y[batch], expected[0][batch], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_compiled_step_agrees() -> None:
    made, inputs = model(STEP._replace(rotary=True, packed=True))
    for actual, expected in zip(optimize_and_compile(made)(inputs), by_playback(made, inputs), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("attrs", "says"),
    [({"smooth_softmax": 1}, "smooth_softmax of"), ({"k_quant_type": "PER_TENSOR"}, "a cache of bytes of")],
)
def test_what_is_not_supported_says_so(attrs: dict[str, Any], says: str) -> None:
    assert f"{says} GroupQueryAttention is not supported" in refused(model(PROMPT, **attrs)[0])


def test_the_number_of_positions_must_be_known() -> None:
    made, _ = model(PROMPT)
    del made.graph.initializer[:]
    made.graph.input.append(helper.make_tensor_value_info("total", 6, []))
    assert "total_sequence_length must be known" in refused(made)


def test_positions_that_follow_from_the_shape_of_a_mask_are_known() -> None:
    """As language models are exported: the sizes are free, and the last keys are sums of the mask."""
    made, inputs = model(STEP)
    del made.graph.initializer[:]
    made.graph.input.remove(next(value for value in made.graph.input if value.name == "lasts"))
    made.graph.input.append(helper.make_tensor_value_info("mask", 6, ["batch", "total"]))
    constants = {"axis": np.asarray([1]), "one": np.asarray(1, np.int32), "at": np.asarray(1)}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["counts"], keepdims=0),
        helper.make_node("Sub", ["counts", "one"], ["lasts"]),
        helper.make_node("Shape", ["mask"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "at"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["total"], to=6),
        *made.graph.node,
    ]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    mask = np.asarray([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], np.int32)
    given = {**{name: array for name, array in inputs.items() if name != "lasts"}, "mask": mask}
    actual, expected = by_playback(made, given)[0], by_onnxruntime(made, given)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
