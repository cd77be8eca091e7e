"""Tags of lazy tensors and of models, and the reports that name kernels by them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from eqsat import nn, optimize_and_compile, tensor
from eqsat.frontends.onnx.module_of import module_of
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from ir.diagnostics import EqsatError, Kind
from ir.module.tag_text import tag_text
from ir.tiny.bind import load
from ir.tiny.parse import parse


def _tags(outputs: object) -> list[str | None]:
    document, _ = tensor_to_tiny(outputs)  # type: ignore[arg-type]
    return [uop.get("tag") for uop in document["uops"]]


def test_tags_nest_and_end() -> None:
    with tensor.tagged("encoder"):
        x = tensor.input("x", (4,))
        with tensor.tagged("0"):
            y = x.exp()
        z = y + 1
    assert _tags(z.sqrt()) == [None, "encoder.0", "encoder", None]


def test_a_tag_ends_with_an_error() -> None:
    with pytest.raises(ValueError, match="stop"), tensor.tagged("encoder"):
        raise ValueError("stop")
    assert _tags(tensor.input("x", (4,)).exp()) == [None, None]


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_tag_is_a_name(name: object) -> None:
    with pytest.raises(EqsatError) as error, tensor.tagged(name):  # type: ignore[arg-type]
        pass
    assert error.value.kind is Kind.INVALID_OPTION


def test_a_call_puts_its_tag_above_the_tags_of_its_graph() -> None:
    text = """
    graph @block(%x: fp32[4]) {
      %h = exp(%x, tag="act")
      %y = add(%h, 1)
      return %y
    }
    %x: fp32[4] = input()
    %a = call @block(%x, tag="layer0")
    return %a
    """
    graph, _ = load(parse(text))
    assert [node.tag for node in graph.nodes] == [None, "layer0.act", "layer0"]


@pytest.mark.slow
def test_reports_texts_and_tables_name_the_parts_of_a_model() -> None:
    x = tensor.input("x", (8, 16))
    with tensor.tagged("block.scale"):
        h = x * 3
    with tensor.tagged("block.act"):
        h = nn.softmax(h)
    program = optimize_and_compile(h, target="cpu", threads=1)
    (kernel,) = program.kernels
    assert kernel.tags == ("block.scale", "block.act")
    assert program.source().startswith("/* block.scale + act */\n")
    assert program.explain().count("block.scale + act") == 2  # in the table, and of the kernel
    assert program.explore().kernels[0].tags == kernel.tags
    program.verify()


def test_tags_change_no_machine_code() -> None:
    def units(name: str) -> dict[str, str]:
        with tensor.tagged(name):
            y = tensor.input("x", (8, 16)).exp()
        program = optimize_and_compile(y, target="cpu", threads=1)._compiled.artifact
        return {unit: text.replace(program.contract, "") for unit, text in program.units.items()}

    assert units("a") == units("b")


def test_onnx_nodes_are_tags_and_modules_of_torch_come_first() -> None:
    scopes = {
        "pkg.torch.onnx.name_scopes": "['', 'fc', 'relu_3']",
        "pkg.torch.onnx.class_hierarchy": "['m.Net', 'torch.nn.modules.activation.ReLU', 'aten.relu.default']",
    }
    nodes = [helper.make_node("Tanh", ["x"], ["a"], name="/act/Tanh"), helper.make_node("Relu", ["a"], ["y"], name="n")]
    for key, names in scopes.items():
        nodes[1].metadata_props.add(key=key, value=names)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:]))
    (kernel,) = optimize_and_compile(model, target="cpu", threads=1).kernels
    assert kernel.tags == ("/act/Tanh", "fc")


@pytest.mark.parametrize(
    ("scopes", "classes", "module"),
    [
        ("['', 'l.0', 'add_5']", "['m.Net', 'm.Block', 'aten.add.Tensor']", "l.0.add"),
        ("['', 'l', 'add']", "['m.Net', 'torch.nn.modules.container.Sequential', 'aten.add.Tensor']", "l.add"),
        ("['', 'view']", "['m.Net', 'aten.view.default']", "view"),
        ("['', 'l.0', 'add_5']", "['m.Net']", ""),
        ("[", "[", ""),
        ("3", "3", ""),
        ("[3, 4]", "[3, 4]", ""),
    ],
)
def test_modules_of_torch(scopes: str, classes: str, module: str) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=classes)
    assert module_of(node) == module


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ((), ""),
        (("a.b.conv", "a.b.bn", "a.b.relu"), "a.b.conv + bn + relu"),
        (("a.0", "a.1"), "a.0 + a.1"),
        (("/l/conv/Conv", "/l/relu/Relu", "x"), "/l/conv/Conv + relu/Relu + x"),
        (("a.b", "a.bc"), "a.b + bc"),
    ],
)
def test_tags_as_one_line(tags: tuple[str, ...], text: str) -> None:
    assert tag_text(tags) == text


def test_outputs_of_a_mapping_have_names() -> None:
    x = tensor.input("x", (3,))
    y, z = x + 1, x * 2
    program = optimize_and_compile({"loss": y, "n1": z, "again": y, "same": x}, target="cpu", threads=1)
    assert program.output_names == ["loss", "n1", "again", "same"]
    loss, doubled, again, same = program(np.arange(3, dtype="f"))
    assert [list(tensor_) for tensor_ in (loss, doubled, again, same)] == [[1, 2, 3], [0, 2, 4], [1, 2, 3], [0, 1, 2]]
    assert {name for kernel in program.kernels for name in kernel.writes} >= {"n1"}


@pytest.mark.parametrize("names", [{3: 0}, {"": 0}, {"a": 0, "b": 1}])
def test_names_and_outputs_of_a_mapping_are_checked(names: dict[object, int]) -> None:
    x = tensor.input("x", (3,))
    with pytest.raises(EqsatError) as error:
        optimize_and_compile({name: x if not place else 3 for name, place in names.items()}, target="cpu")
    assert error.value.kind is Kind.MALFORMED_GRAPH
