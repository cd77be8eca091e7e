"""What a caller may hand in becomes one thing: a Model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat import tensor as t
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.model import FrontendModel, TinyModel, read_model
from ir.diagnostics import EqsatError, Kind
from ir.frontend import parse_frontend

TINY = {
    "uops": [
        {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "X", "dtype": "fp32", "shape": ["M", 3]}},
        {"id": "y", "uop": "NEG", "src": ["x"]},
    ]
}
FRONTEND = {
    "signature": {
        "inputs": [{"tensor": "X"}, {"tensor": "W", "role": "param"}],
        "outputs": [{"tensor": "Y"}, {"tensor": "X"}],
    },
    "tensors": {"X": {"dtype": "fp32", "shape": ["M", "K"]}, "W": {"dtype": "fp32", "shape": ["K", 2]}},
    "graph": [{"op": "MatMul", "name": "mm", "inputs": ["X", "W"], "outputs": ["Y"]}],
}


def test_documents_are_told_apart_by_their_keys(tmp_path: Path) -> None:
    for document, kind in ((TINY, TinyModel), (FRONTEND, FrontendModel)):
        file = tmp_path / "model"
        file.write_text("// a remark\n" + json.dumps(document))
        for form in (document, json.dumps(document), file, str(file)):
            assert type(read_model(form)) is kind
    assert type(read_model(parse_frontend(FRONTEND))) is FrontendModel


def test_a_tensor_called_uops_does_not_make_it_tiny() -> None:
    text = json.dumps(FRONTEND).replace('"Y"', '"uops"')
    assert read_model(text).bind({"M": 1, "K": 2}, False).results == ("uops", "X")


def test_sizes_and_arguments() -> None:
    model = read_model(FRONTEND, dims={"M": 4})
    assert model.arguments == ("X", "W")
    assert model.infer({}) == {"M": 4}
    assert model.infer({"X": (4, 5), "W": (5, 2)}) == {"M": 4, "K": 5}
    weighted = read_model(FRONTEND, constants={"W": np.zeros((7, 2), np.float32)})
    assert weighted.arguments == ("X",)
    assert weighted.infer({}) == {"K": 7}
    for shapes, kind in (
        ({"X": (5, 5)}, Kind.AXIS_SIZE_MISMATCH),
        ({"X": (4, 5), "W": (6, 2)}, Kind.AXIS_SIZE_MISMATCH),
        ({"W": (6, 3)}, Kind.INPUT_MISMATCH),
        ({"X": (4,)}, Kind.INPUT_MISMATCH),
    ):
        with pytest.raises(EqsatError) as caught:
            model.infer(shapes)
        assert caught.value.kind is kind


def test_a_bound_model_keeps_the_signature() -> None:
    bound = read_model(FRONTEND).bind({"M": 4, "K": 5}, strict=True)
    assert {name: type_.shape for name, type_ in bound.signature.items()} == {"X": (4, 5), "W": (5, 2)}
    assert [(name, type_.shape) for name, type_ in bound.outputs] == [("Y", (4, 2)), ("X", (4, 5))]


@pytest.mark.parametrize("source", [TINY, FRONTEND])
def test_a_missing_size_is_unbound_and_an_unused_one_is_noted(source: dict[str, Any]) -> None:
    with pytest.raises(EqsatError) as caught:
        read_model(source).bind({}, False)
    assert caught.value.kind is Kind.UNBOUND_DIM
    assert "M" in caught.value.diagnostics[0].details["missing"]
    notes = read_model(source, dims={"M": 1, "K": 1, "Q": 2}).bind({"M": 1, "K": 1, "Q": 2}, False).notes
    assert any("'Q'" in str(note) for note in notes)


def test_constants_with_and_without_names() -> None:
    x = t.input("const0", (2,))
    document, constants = tensor_to_tiny(
        [
            x + t.constant(np.ones(2)),
            x * t.constant(np.full(2, 3.0), "fp32", name="three"),
            t.constant(2.0, name="three"),
        ]
    )
    inputs = [uop["arg"]["tensor_id"] for uop in document["uops"] if uop["uop"] == "INPUT"]
    assert len(set(inputs)) == 4
    assert {"const0", "three"} < set(inputs)
    assert set(constants) == set(inputs) - {"const0"}
    assert constants["three"].dtype == np.float32


def test_one_input_may_be_written_twice() -> None:
    document, _ = tensor_to_tiny(t.input("x", (2,)) + t.input("x", (2,)))
    assert read_model(document).arguments == ("x",)
    with pytest.raises(EqsatError):
        read_model(tensor_to_tiny([t.input("x", (2,)) + 1, t.input("x", (3,)) + 1])[0]).bind({}, False)
