"""Kernels of torch models are called by the modules that they compute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import eqsat  # noqa: E402 - torch first
from eqsat.frontends.torch.module_path import tag_of  # noqa: E402

LINEAR, CONTAINER = torch.nn.Linear, torch.nn.Sequential


@pytest.mark.parametrize(
    ("meta", "tag"),
    [
        ({"nn_module_stack": {"1": ("L['self']", CONTAINER), "2": ("L['self'].layers[0].fc", LINEAR)}}, "layers.0.fc"),
        ({"nn_module_stack": {"1": ("", CONTAINER), "2": ("layers.0", CONTAINER)}}, "layers.0.add"),
        ({"nn_module_stack": {"1": ("L['self']._modules['a']", "torch.nn.modules.linear.Linear")}}, "_modules.a"),
        ({"fwd_nn_module_stack": {"1": ("L['fn'].0", LINEAR)}}, "0 backward"),
        ({}, "add"),
    ],
)
def test_the_tag_of_a_node(meta: Any, tag: str) -> None:
    assert tag_of(SimpleNamespace(meta=meta, name="add_5")) == tag


@pytest.mark.slow
def test_kernels_of_an_exported_module_name_its_layers() -> None:
    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return self.fc(x).relu() + x

    program = eqsat.from_torch(torch.nn.Sequential(Block()), (torch.ones(4, 8),), target="cpu", threads=1)
    assert {tag for kernel in program.kernels for tag in kernel.tags} == {"0.fc", "0.relu", "0.add"}
