"""The commands' texts about ONNX models: their operators, and where results differ from onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LAYER_TOLERANCE = 1e-3
"""The error, relative to a tensor's largest value, up to which a tensor agrees with onnxruntime's."""


def compare_layers_aloud(model: str, inputs: Mapping[str, np.ndarray]) -> None:
    """Name the first tensor of an ONNX model that differs from onnxruntime's; exit status 1 if there is one."""
    import typer

    from eqsat.frontends.onnx.compare_layers import compare_layers

    layers = compare_layers(model, inputs)
    differing = [layer for layer in layers if not layer.error <= LAYER_TOLERANCE]
    for layer in differing[:1]:
        typer.echo(f"differs first: {layer.tensor}, by {layer.node} ({layer.op}): error {layer.error:.2e}")
        raise typer.Exit(1)
    largest = max((layer.error for layer in layers), default=0.0)
    typer.echo(f"{len(layers)} tensors agree with onnxruntime: largest error {largest:.2e} of the largest value")


def examine_model(path: str) -> None:
    """List the inputs and the operators of an ONNX model, those that are missing first."""
    import typer

    from eqsat.frontends.onnx.survey import survey_onnx

    survey = survey_onnx(path)
    typer.echo("opsets: " + ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in survey.opsets.items()))
    for name, text in survey.inputs.items():
        typer.echo(f"input {name}: {text}")
    width = max((len(use.name) for use in survey.operators), default=0)
    for use in sorted(survey.operators, key=lambda use: use.support != "missing"):
        typer.echo(f"{use.name:<{width}}  {use.nodes:5}  {use.support}")
    for message, tensor in survey.types.items():
        typer.echo(f"{message}: {tensor}")
    lacks = len(survey.missing) + len(survey.types)
    if lacks:
        typer.echo(f"missing: {', '.join((*survey.missing, *survey.types))}", err=True)
    raise typer.Exit(1 if lacks else 0)
