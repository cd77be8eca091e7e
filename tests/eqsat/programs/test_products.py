"""Families of products, from program to kernels: what they make of LoRA, norms before weights, queries, keys and
values, gated layers, batch norms and branches; the numbers stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.extraction.cover import Cover
from eqsat.extraction.extract import extract
from eqsat.model import read_model
from eqsat.options import Options
from eqsat.planning.target_pricer import pricer_for
from eqsat.runtime.program import Program
from eqsat.tensor import Tensor
from rules import select
from tests.support.fuzz.strategies import random_inputs
from tests.support.oracles.canary import saturate
from tests.support.programs import graphs
from tests.support.programs.usual_cpu import usual_cpu
from tests.support.sampling import first_few
from tests.support.stages.path import compiled as run_module
from tests.support.stages.path import complaint, covers

FAMILIES = ("products", "distribution", "scaling", "merging")
WITHOUT = [f"-{family}" for family in FAMILIES]

Write = Callable[[], Tensor | list[Tensor]]


def weights(name: str, *shape: int, dtype: str = "fp32") -> Tensor:
    rng = np.random.default_rng(sum(map(ord, name)))
    values = rng.standard_normal(shape) / np.sqrt(max(shape[0], 1))
    return tensor.constant(values.astype(tensor.input("x", shape, dtype).dtype.numpy), name=name)


def flops(program: Program) -> float:
    return sum(kernel.flops for kernel in program.kernels)


def compiled(result: Tensor | Sequence[Tensor], rules: Sequence[str] | None = None) -> Program:
    program = optimize_and_compile(result, cache=False, rules=rules)
    program.verify()
    return program


def before_and_after(write: Write) -> tuple[Program, Program]:
    return compiled(write(), rules=WITHOUT), compiled(write())


def lora(x: Tensor) -> Tensor:
    """A layer with its update beside it, as fine-tuning leaves it: bias between the two, and a scale."""
    update = (x @ weights("A", 64, 4)) @ weights("B", 4, 48)
    return x @ weights("W", 64, 48) + weights("b", 48) + update * 0.5


@pytest.mark.slow
def test_lora_joins_its_weights_where_they_are_constant() -> None:
    before, after = before_and_after(lambda: lora(tensor.input("x", (32, 64))))
    assert (len(before.kernels), len(after.kernels)) == (3, 1)
    assert flops(after) < 2 * 32 * 64 * 48 * 1.05


@pytest.mark.slow
@pytest.mark.parametrize("grouped", ["(xA)B", "x(AB)", "(AB)y", "A(By)"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_three_factors_are_multiplied_in_the_cheaper_order(grouped: str, dtype: str) -> None:
    a, b = tensor.input("a", (96, 3), dtype), tensor.input("b", (3, 96), dtype)
    x, y = tensor.input("x", (80, 96), dtype), tensor.input("y", (96, 80), dtype)
    written = {"(xA)B": (x @ a) @ b, "x(AB)": x @ (a @ b), "(AB)y": (a @ b) @ y, "A(By)": a @ (b @ y)}
    program = compiled(written[grouped])
    assert flops(program) < 0.25 * 2 * 80 * 96 * 96


def test_small_constants_are_not_multiplied_into_a_large_one() -> None:
    program = compiled((tensor.input("x", (64, 96)) @ weights("a", 96, 2)) @ weights("b", 2, 96))
    assert flops(program) < 0.25 * 2 * 64 * 96 * 96


@pytest.mark.slow
def test_products_that_share_a_factor_are_added_first() -> None:
    a, x, y = (tensor.input(name, (48, 48)) for name in "axy")
    before, after = before_and_after(lambda: a @ x - a @ y)
    assert flops(after) < 0.6 * flops(before)
    before, after = before_and_after(lambda: x @ a + y @ a)
    assert flops(after) < 0.6 * flops(before)


@pytest.mark.slow
def test_a_norm_leaves_its_gain_to_the_weights_and_its_statistic_to_the_product() -> None:
    x = tensor.input("x", (64, 256))
    program = compiled(nn.rms_norm(x, weights("g", 256)) @ weights("W", 256, 32))
    assert len(program.kernels) <= 3  # the roots of all rows may be a kernel of their own
    assert any("of_operand_into_right_constants" in rule for rule in program.kernels[-1].rules + all_rules(program))
    few = compiled(nn.rms_norm(tensor.input("x", (32, 256)), tensor.input("g", (256,))) @ weights("V", 256, 64))
    assert len(few.kernels) <= 3
    assert any(rule.startswith("statistic") for rule in all_rules(few))


def all_rules(program: Program) -> tuple[str, ...]:
    """The rules behind every kernel, those that run when the program is built among them."""
    return tuple(rule for call in program.dump("module", as_json=True)["calls"] for rule in call["rules"])


def attention(x: Tensor, bias: bool, length: int = 24, width: int = 64, heads: int = 4) -> Tensor:
    def linear(value: Tensor, name: str) -> Tensor:
        product = value @ weights(name, width, width)
        return product + weights(f"{name}_b", width) if bias else product

    def parts(name: str) -> Tensor:
        return linear(x, name).reshape(length, heads, width // heads).permute(1, 0, 2)

    mixed = nn.attention(parts("q"), parts("k"), parts("v"))
    return linear(mixed.permute(1, 0, 2).reshape(length, width), "o")


@pytest.mark.slow
@first_few(1, "bias", [True, False])
def test_queries_keys_and_values_are_one_product(bias: bool) -> None:
    before, after = before_and_after(lambda: attention(tensor.input("x", (24, 64)), bias))
    assert len(before.kernels) - len(after.kernels) == 2
    first = after.kernels[0]
    assert first.flops >= 2 * 24 * 64 * 3 * 64
    assert not any("copy" in kernel.name for kernel in after.kernels)


@pytest.mark.slow
def test_the_gate_and_what_it_opens_are_one_product() -> None:
    x = tensor.input("x", (16, 64))

    def gated() -> Tensor:
        opened = nn.silu(x @ weights("gate", 64, 128)) * (x @ weights("up", 64, 128))
        return opened @ weights("down", 128, 64)

    before, after = before_and_after(gated)
    assert (len(before.kernels), len(after.kernels)) == (3, 2)


def batch_normed(x: Tensor, out: int, size: int, name: str) -> Tensor:
    product = nn.conv2d(x, weights(name, out, x.shape[1], size, size), padding=size // 2)
    weight, bias, mean = (weights(f"{name}{part}", out) for part in "swm")
    return nn.batch_norm(product, mean=mean, var=weights(f"{name}v", out) ** 2 + 1.0, weight=weight, bias=bias)


@pytest.mark.slow
def test_a_batch_norm_folds_into_the_filters_and_a_block_is_one_kernel() -> None:
    x = tensor.input("x", (1, 8, 10, 10))
    program = compiled(nn.relu(batch_normed(x, 8, 3, "c") + x))
    (kernel,) = (kernel for kernel in program.kernels if not kernel.name.startswith("copy"))
    assert "mul" not in kernel.name
    assert any("constants" in rule for rule in all_rules(program))


@pytest.mark.slow
def test_branches_with_one_window_are_one_product() -> None:
    x = tensor.input("x", (1, 64, 14, 14))

    def branches() -> Tensor:
        results = [nn.relu(nn.conv2d(x, weights(f"c{out}", out, 64, 1, 1))) for out in (32, 48, 16)]
        return tensor.concatenate(results, axis=1)

    before, after = before_and_after(branches)
    assert sum(kernel.estimated_ns for kernel in after.kernels) < sum(kernel.estimated_ns for kernel in before.kernels)
    assert any("part_of_all" in rule for rule in all_rules(after))


def projected() -> Tensor:
    """Two branches, a batch norm on each."""
    x = tensor.input("x", (1, 64, 28, 28))
    y = nn.relu(batch_normed(x, 64, 3, "a"))
    return nn.relu(batch_normed(y, 128, 1, "b") + batch_normed(x, 128, 1, "c"))


def gates() -> Tensor:
    """Eight products of one row, each far from filling the machine."""
    x = tensor.input("x", (1, 512))
    results = [x @ weights(f"W{gate}", 512, 512) + weights(f"b{gate}", 512) for gate in range(8)]
    return (results[0].relu() + results[1].sigmoid()) * (results[2].sigmoid() + results[3].tanh()) * results[
        4
    ] * results[5] + (results[6].tanh() * results[7].relu())


@pytest.mark.slow
@pytest.mark.parametrize(("write", "kernels"), [(projected, 3), (gates, 2)])
def test_what_rules_offer_leaves_the_other_choices_there(write: Callable[[], Tensor], kernels: int) -> None:
    """Folded constants do not crowd out a kernel that has an epilogue; products of one row become one."""
    bound = read_model(write()).bind({}, False)
    names = sorted(bound.constants)

    def cover(rules: Sequence[str] | None) -> Cover:
        view, _ = saturate(bound.graph, select(rules), constants=names)
        return extract(view, bound.graph.outputs, pricer_for(usual_cpu(), Options()), constants=names)

    result = cover(["-winograd"])
    assert cover(None).time_ns <= result.time_ns <= cover([*WITHOUT, "-winograd"]).time_ns
    assert sum(kernel.price is not None for kernel in result.kernels) == kernels


def test_weights_that_are_not_constant_stay_apart() -> None:
    x = tensor.input("x", (8, 16))
    shared = [x @ tensor.input(name, (16, 16)) for name in "abc"]
    program = compiled(shared[0] * shared[1] * shared[2])
    assert not any("part" in rule for rule in all_rules(program))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right", "out"),
    [((2, 3, 5, 7), (2, 3, 7, 4), (2, 3, 5, 4)), ((3, 1, 6), (3, 6, 2), (3, 1, 2)), ((4, 0), (0, 3), (4, 3))],
    ids=str,
)
def test_batches_and_transposed_operands_are_contractions(
    left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...]
) -> None:
    a, b = tensor.input("a", left), tensor.input("b", right)
    turned_a = tensor.input("at", (*left[:-2], left[-1], left[-2])).swapaxes(-1, -2)
    turned_b = tensor.input("bt", (*right[:-2], right[-1], right[-2])).swapaxes(-1, -2)
    for x, y in ((a, b), (turned_a, b), (a, turned_b), (turned_a, turned_b)):
        program = compiled(x @ y)
        assert len(program.kernels) == 1
        rivals = [rival.name for rival in program.kernels[0].selection.rivals]
        assert "dot" in (program.kernels[0].name, *rivals) or 0 in left


COVERED = {
    "lora": lambda: lora(tensor.input("x", (6, 64))),
    "attention": lambda: attention(tensor.input("x", (5, 8)), True, 5, 8, 2),
    "norm": lambda: nn.rms_norm(tensor.input("x", (5, 9)), weights("g", 9)) @ weights("W", 9, 3),
    "block": lambda: nn.relu(batch_normed(tensor.input("x", (1, 2, 5, 5)), 2, 3, "c")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COVERED)
def test_every_cover_is_right(name: str) -> None:
    """The weights are known to the rules only, so that what they make of them runs as kernels."""
    bound = read_model(COVERED[name]()).bind({}, False)
    graph, names = bound.graph, sorted(bound.constants)
    view, stats = saturate(graph, select(), constants=names)
    assert any(stats.families[family] for family in FAMILIES)
    inputs = random_inputs(graph, np.random.default_rng(2))
    for cover in covers(graph, view, range(4)):
        assert not complaint(graph, inputs, run_module(*cover)(inputs))


@pytest.mark.slow
def test_egraphs_grow_a_little_and_linearly() -> None:
    sizes = []
    for layers in (1, 2, 4):
        graph = graphs.encoder(layers, 8, 8, 2)
        names = [name for name in graph.inputs if name != "x"]
        without = saturate(graph, select(WITHOUT), constants=names)[1].nodes
        sizes.append((without, saturate(graph, select(), constants=names)[1].nodes))
    assert sizes[2][1] - sizes[1][1] <= 2.05 * (sizes[1][1] - sizes[0][1])
    assert all(grown <= 1.25 * without for without, grown in sizes)
