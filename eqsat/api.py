"""The two calls that everything else serves: `optimize_and_compile` and `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat import pipeline
from eqsat.clock import Progress
from eqsat.compiled import Compiled
from eqsat.model import read_model
from eqsat.options import Budget, Options, exactness_named
from eqsat.program import Program
from eqsat.verify import verify_compiled
from ir.diagnostics import EqsatError, Kind
from ir.rule import Exactness
from ir.target import Target


def optimize_and_compile(
    source: Any,
    *,
    target: str | Target = "auto",
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
    rules: Sequence[str] | None = None,
    exactness: str | Exactness = Exactness.ROUNDING,
    extractor: str = "pareto",
    cost_model: str = "roofline",
    budget: Budget | None = None,
    threads: int | None = None,
    verify: bool = False,
    strict: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Program:
    """Find a better program of fewer and faster kernels, write those kernels, and compile them.

    Args:
        source: Tiny IR (dict, JSON text, a file, `ir.tiny.Graph`), lazy tensors, Frontend IR, or an ONNX model.
        target: "auto" (the CPU where there is no GPU), "cpu", or a Target.
        dims: sizes of symbolic dims. Where some stay free, the program compiles a variant at each new shape.
        constants: arrays by input name; they leave the signature, fold, and are packed.
        rules: the families to use; None is all of them.
        exactness: the highest level allowed: "exact" < "reassociate" < "rounding" < "range".
        extractor: "pareto", "greedy" or "tree". cost_model: "roofline".
        budget: limits of saturation.
        threads: of each call; None is every core.
        verify: compare with playback on random inputs before returning.
        strict: refuse what the loader would have to insert.
        cache: keep and reuse optimized programs on disk.
        progress: called with the name of each stage as it begins.

    Raises:
        EqsatError: whatever is wrong with the program, the options or the machine, as diagnostics.
    """
    options = Options(
        rules=None if rules is None else tuple(rules),
        exactness=exactness_named(exactness),
        extractor=extractor,
        cost_model=cost_model,
        budget=budget or Budget(),
        strict=strict,
    )
    model = read_model(source, dict(constants or {}))
    chosen = pipeline.find_target(target)
    fixed = dict(dims or {})

    def specialise(sizes: Mapping[str, int]) -> Compiled:
        compiled = pipeline.compile_model(model.bind({**fixed, **sizes}, strict), chosen, options, cache, progress)
        if verify:
            verify_compiled(compiled)
        return compiled

    workers = threads or chosen.units
    try:
        return Program(model, specialise, workers, specialise({}))
    except EqsatError as error:
        free = error.diagnostics[0].details.get("missing") if error.kind is Kind.UNBOUND_DIM else None
        if not free:
            raise
        return Program(model, specialise, workers, None, free)


def load(path: str | os.PathLike[str], threads: int | None = None) -> Program:
    """A program that `Program.save` wrote; needs no compiler on a machine like the one that saved it.

    Raises:
        EqsatError: MalformedGraph for a damaged file, UnknownTarget for another kind of machine.
    """
    return pipeline.load_stored(Path(path), threads)


def examine() -> dict[str, str]:
    """What this machine offers, measured in about a second: what `eqsat doctor` prints."""
    return pipeline.examine()
