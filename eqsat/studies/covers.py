"""Compiles and measures covers of one program on a CPU."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from types import FunctionType
from typing import Any

import msgspec
import numpy as np

from codegen.backends.cpu import CpuBackend
from codegen.compile.library import build
from codegen.compile.machine import machine, restrict
from codegen.plan.cpu.candidates import candidates
from codegen.poly.analyse import analyse
from codegen.run.executable import CpuExecutable
from codegen.text.program_to_c import c_units, kernel_texts, launch_table
from eqsat.assembly.assemble import assemble
from eqsat.assembly.fold import fold
from eqsat.cost.pricing import PlanPricer
from eqsat.cost.roofline import ALL_TERMS, Roofline, Terms
from eqsat.egraph.saturate import saturate
from eqsat.explanation.measurement import Measurement
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering.cover_search import CoverSearch, price_all
from eqsat.extraction.covering.greedy import greedy
from eqsat.extraction.covering.oracles.bound import CoverBound, bound
from eqsat.extraction.covering.oracles.shuffled import shuffle
from eqsat.extraction.covering.problem import Column, Covering, Problem
from eqsat.extraction.extract import extract
from eqsat.model import read_model
from eqsat.options import RuleChoice, check_options
from eqsat.pipeline import lower_module
from eqsat.planning.target_pricer import with_inputs
from eqsat.runtime.verify import random_inputs
from ir.diagnostics import Kind, fail
from ir.host.cache_folder import writable_cache
from ir.pricer import Price
from ir.target import Target
from ir.tiny.graph import Graph
from ir.uop.table import UOpKind
from rules import select

STAGE = "study"
SPREADS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.6)
"""Standard deviations of the log of the random factors on a kernel's price, by which covers are varied; 0: random
kernels."""
POOL, TRIES = 5, 60
"""Covers to choose from, and covers to try, per cover asked for."""
SAMPLE_SECONDS = 0.004
"""Time of one program in one round."""
LARGEST_BYTES = 2 << 30
"""Most bytes of the buffers of a program that is run: knock-outs may write out every product of a convolution."""
ENOUGH_SECONDS = 2.0
"""Time of one program in all rounds: long runs need fewer samples, since noise matters less."""


class Subject:
    """One program on one machine: its e-graph, and covers of it.

    Args:
        source: as `optimize_and_compile` takes it, or a function without arguments that makes it.
        dims: sizes of symbols, all of which must be known.
        rules, extractor: as there. terms: the terms of §11 that choose; reported prices have all terms.
    """

    def __init__(
        self,
        source: Any,
        target: Target,
        *,
        rules: RuleChoice = None,
        terms: Terms = ALL_TERMS,
        extractor: str = "pareto",
        dims: Mapping[str, int] | None = None,
    ) -> None:
        if target.is_gpu:
            message = f"covers are measured on CPUs, and {target.name} is a GPU"
            fail(Kind.INVALID_OPTION, STAGE, message, hint='target="calibrated" or "cpu"')
        self.terms = terms
        self.options = check_options(rules, "rounding", extractor, terms, None)
        model = read_model(source() if isinstance(source, FunctionType | partial) else source, dims=dims)
        self.bound = model.bind(model.infer({}), False)
        self.target = with_inputs(target, self.bound)
        _refuse_loops(self.bound.graph)
        self.constants = sorted(self.bound.constants)
        start = time.perf_counter()
        self.view, _ = saturate(
            self.bound.graph,
            select(self.options.rules, self.options.exactness),
            self.options.exactness,
            constants=self.constants,
        )
        self.saturate_seconds = time.perf_counter() - start
        self.pricer = PlanPricer(self.target, analyse, candidates, terms)

    def choosing(self, terms: Terms, extractor: str) -> Subject:
        """The same e-graph with other terms and another extractor."""
        other = copy.copy(self)
        other.__dict__.pop("_candidates", None)
        other.terms, other.pricer = terms, PlanPricer(self.target, analyse, candidates, terms)
        other.options = msgspec.structs.replace(self.options, extractor=extractor)
        return other

    def best(self) -> Cover:
        """The cover that the optimizer chooses."""
        return extract(
            self.view,
            self.bound.graph.outputs,
            self.pricer,
            constants=self.constants,
            extractor=self.options.extractor,
            joining=self.terms.joining,
            relayout=self.terms.relayout,
        )

    def optimality(self) -> tuple[Cover, CoverBound]:
        """The extractor's cover if kernels have one output and buffers are row-major, and a lower bound on the time of
        such covers. Prices every candidate."""
        outputs, extractor = self.bound.graph.outputs, self.options.extractor
        chosen = extract(
            self.view,
            outputs,
            self.pricer,
            constants=self.constants,
            extractor=extractor,
            joining=False,
            relayout=False,
        )
        return chosen, bound(self.view, outputs, self.pricer, constants=self.constants)

    def sample_covers(self, count: int, within: float, seed: int = 0) -> list[Cover]:
        """The optimizer's cover, then up to `count` others that cost at most `within` times as much, spread evenly over
        that range: covers by prices multiplied with random factors, and covers of random kernels."""
        best = self.best()
        others: dict[frozenset[tuple[object, ...]], Cover] = {}
        rng, chance = np.random.default_rng(seed), random.Random(seed)
        for tries in range(TRIES * count):
            if len(others) >= POOL * count:
                break
            spread = SPREADS[tries % len(SPREADS)]
            extractor = partial(_perturb, rng=rng, spread=spread) if spread else partial(shuffle, rng=chance)
            cover = self._candidates.materialize(CoverSearch(self._candidates, extractor).cover_with_known_prices())
            if cover.time_ns <= within * best.time_ns and _identity(cover) != _identity(best):
                others.setdefault(_identity(cover), cover)
        return [best, *_evenly(list(others.values()), count)]

    @cached_property
    def _candidates(self) -> Candidates:
        candidates = Candidates(self.view, self.bound.graph.outputs, self.pricer, self.constants)
        candidates.demand_as_written()
        price_all(candidates)
        return candidates

    def run(self, cover: Cover, threads: int) -> RunningCover:
        """The cover as code.

        Raises:
            EqsatError: ResourceExceeded, if its buffers take more than `LARGEST_BYTES`.
        """
        module, prices = assemble(cover, self.view, self.bound.graph, self.constants)
        held = module.arena_bytes + sum(slot.memref.nbytes for slot in module.slots if slot.role == "constant")
        if held > LARGEST_BYTES:
            fail(Kind.RESOURCE_EXCEEDED, STAGE, f"its buffers take {held / 2**30:.1f} GiB")
        return RunningCover(self, module, prices, threads)


def _refuse_loops(graph: Graph) -> None:
    """A study measures covers of one e-graph, and a loop has its own."""
    for node in graph.nodes:
        if node.op.kind is UOpKind.LOOP:
            message = "a study measures covers of one graph, and this program has a loop"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=node.id, hint="the body of the loop as a program")


def _identity(cover: Cover) -> frozenset[tuple[object, ...]]:
    return frozenset((kernel.writes, kernel.region, kernel.reads) for kernel in cover.kernels if kernel.price)


def _evenly(covers: Sequence[Cover], count: int) -> list[Cover]:
    """`count` of the covers, with prices as evenly spaced as possible."""
    left = sorted(covers, key=lambda cover: cover.time_ns)
    if len(left) <= count:
        return left
    chosen = []
    for price in np.geomspace(left[0].time_ns, left[-1].time_ns, count):
        chosen.append(min(left, key=lambda cover: abs(cover.time_ns - price)))
        left.remove(chosen[-1])
    return chosen


def _perturb(problem: Problem, rng: np.random.Generator, spread: float) -> Covering | None:
    factors = np.exp(spread * rng.standard_normal(len(problem.columns)))
    columns = (
        Column(column.writes, column.reads, column.cost * float(factor), column.marks)
        for column, factor in zip(problem.columns, factors, strict=True)
    )
    return greedy(Problem(tuple(columns), problem.roots))


class RunningCover:
    """A compiled program: `sample` runs it, `measurements` are the times so far."""

    def __init__(self, subject: Subject, module: Any, prices: Sequence[Price], threads: int) -> None:
        lowered = lower_module(module, tuple(prices), CpuBackend())
        table = launch_table(module, lowered)
        units = c_units(kernel_texts(lowered.values()), table, flush=True)
        start = time.perf_counter()
        library = build(units, restrict(machine(), subject.target.arch), cache=writable_cache()[0])
        self.compile_seconds = time.perf_counter() - start
        constants = fold(module, subject.bound.constants)
        self._executable = CpuExecutable(module, table, library, constants, threads)
        self._calls = [call for call in module.calls if call.when == "run"]
        self.prices, self._threads, self._target = tuple(prices), threads, subject.target
        self._inputs = list(random_inputs(subject.bound.signature, 0).values())
        self._outputs = [np.empty(type_.shape, type_.dtype.numpy) for _, type_ in subject.bound.outputs]
        self._least = np.full(len(self._calls), np.inf)
        self._repeats = 1
        self._sampled_seconds = 0.0

    @property
    def predicted_ns(self) -> float:
        """The sum of the prices."""
        return sum(price.time_ns for price in self.prices)

    @property
    def measured_ns(self) -> float:
        """The sum of the least times of all launches."""
        return float(self._least.sum())

    def measurements(self, program: str) -> list[Measurement]:
        """The least time of every launch, beside its price. program: its name."""
        return [
            Measurement(self._target.name, program, call.region.name, price.work, price.plan, price.time_ns, float(ns))
            for call, price, ns in zip(self._calls, self.prices, self._least, strict=True)
        ]

    def outputs(self) -> list[np.ndarray]:
        """The results of one run."""
        self._executable.run(self._inputs, self._outputs, self._threads)
        return [output.copy() for output in self._outputs]

    def sample(self) -> None:
        """Runs for a few ms, and keeps the least time of every launch."""
        start = time.perf_counter()
        taken = self._executable.profile(self._inputs, self._outputs, self._threads, self._repeats)
        seconds = time.perf_counter() - start
        self._sampled_seconds += seconds
        self._least = np.minimum(self._least, taken.min(axis=0))
        self._repeats = max(3, min(200, int(SAMPLE_SECONDS * (self._repeats + 1) / seconds)))

    @property
    def is_sampled_enough(self) -> bool:
        """Whether further samples are not worth their time."""
        return self._sampled_seconds >= ENOUGH_SECONDS


def measure(running: Sequence[RunningCover], rounds: int, seed: int = 0) -> None:
    """Takes `rounds` samples of all programs, fewer of long ones, in a new random order every round, so that other work
    on the machine disturbs all alike."""
    order = list(running)
    rng = random.Random(seed)
    for _ in range(rounds):
        rng.shuffle(order)
        for program in order:
            if not program.is_sampled_enough:
                program.sample()


def agree(running: Sequence[RunningCover], tolerance: float = 1e-3) -> bool:
    """Whether all programs compute the same, relative to the largest value."""
    first, *others = (program.outputs() for program in running)

    def near(a: np.ndarray, b: np.ndarray) -> bool:
        a, b = a.astype(np.float64), b.astype(np.float64)
        return bool(np.abs(a - b).max(initial=0.0) <= tolerance * max(1e-30, np.abs(a).max(initial=0.0)))

    return all(near(a, b) for other in others for a, b in zip(first, other, strict=True))


def whole_price(prices: Sequence[Price], target: Target) -> float:
    """The sum in ns by all terms of §11, whichever terms the prices were made with."""
    roofline = Roofline(target)
    return sum(roofline.estimate(price.work).time for price in prices)
