"""One model in one system: a forward pass and a training step as functions without arguments."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.torch_models.families import Batch, Family, families

EAGER, INDUCTOR, ONNXRUNTIME, EQSAT = "eager", "inductor", "onnxruntime", "eqsat"
FROZEN = ", frozen"
"""The end of the name of a system whose parameters are constants (`freezing`), as those of onnxruntime are."""
RUN_MODELS = (EAGER, INDUCTOR, INDUCTOR + FROZEN, ONNXRUNTIME, EQSAT, EQSAT + FROZEN)
TRAIN_MODELS = (EAGER, INDUCTOR, EQSAT)
"""The systems for forward passes and for training."""
RESULT_TOLERANCE, LOSS_TOLERANCE = 1e-3, 1e-2
"""Largest difference of a result and of a loss from eager's, relative to the greatest value."""


class Workload(NamedTuple):
    """A family's name, size and number of threads. folder: for models in ONNX's format."""

    name: str
    small: bool
    threads: int
    folder: Path

    @property
    def family(self) -> Family:
        return families()[self.name]

    def build(self) -> tuple[Any, Batch]:
        """The model and the inputs, the same in every process."""
        import torch

        torch.set_num_threads(self.threads)
        family = self.family
        torch.manual_seed(0)
        model, inputs = family.model(self.small), family.inputs(self.small)
        for parameter in model.parameters():
            if not parameter.any():  # a head of zeros would hide every difference
                torch.nn.init.normal_(parameter, std=0.02)
        return model, inputs


def forward_pass(workload: Workload, system: str, on_program: Callable[[Any], None] | None = None) -> Callable[[], Any]:
    """A function that runs the model in inference and returns its results, a tree of tensors.

    on_program: is called with each program of eqsat when it is built.
    """
    import torch

    model, inputs = workload.build()
    model.eval()
    if system == ONNXRUNTIME:
        return _in_onnxruntime(workload, model, inputs)
    called = _compiled(model, system, on_program)

    def run() -> Any:
        with torch.no_grad():
            return called(**inputs)

    return run


def training_step(
    workload: Workload, system: str, on_program: Callable[[Any], None] | None = None
) -> Callable[[], float]:
    """A function that runs a step of AdamW and returns the loss before the step.

    on_program: is called with each program of eqsat when it is built.
    """
    import torch

    model, inputs = workload.build()
    family = workload.family
    assert family.loss is not None
    loss_of, batch = family.loss, {**inputs, **family.labels(inputs)}
    model.train()
    called = _compiled(model, system, on_program)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(called(**batch), batch)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def tensors_of(results: Any) -> list[Any]:
    """The tensors among results, in order; a result of transformers is a mapping."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = pytree.tree_leaves(_plain(results))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _plain(results: Any) -> Any:
    return {name: _plain(value) for name, value in results.items()} if isinstance(results, Mapping) else results


def _compiled(model: Any, system: str, on_program: Callable[[Any], None] | None = None) -> Any:
    import torch

    if system == EAGER:
        return model
    options: dict[str, Any] = {"on_program": on_program} if on_program else {}
    if system.endswith(FROZEN):
        options["freezing"] = True
    return torch.compile(model, backend=system.removesuffix(FROZEN), options=options or None)


def _in_onnxruntime(workload: Workload, model: Any, inputs: Batch) -> Callable[[], Any]:
    """The exported model; the file is written once."""
    import onnxruntime
    import torch

    path = workload.folder / f"{workload.name}.onnx"
    if not path.exists():
        with torch.no_grad():
            exported = torch.onnx.export(model, kwargs=dict(inputs), dynamo=True, verbose=False)
        assert exported is not None
        exported.save(str(path))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = workload.threads, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {argument.name: inputs[argument.name].numpy() for argument in session.get_inputs()}
    return lambda: [torch.from_numpy(result) for result in session.run(None, given)]
