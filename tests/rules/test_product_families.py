"""What the families that take sums of products apart and put them together gain: programs, their kernels without the
family and with it, and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.model import read_model
from eqsat.runtime.program import Program
from eqsat.tensor import Tensor
from ir.dtype import TensorType
from ir.term.rule import Exactness
from rules import FAMILIES, select
from tests.support.fuzz.strategies import random_inputs
from tests.support.oracles.canary import saturate
from tests.support.sampling import first_few
from tests.support.stages.path import compiled as run_module
from tests.support.stages.path import complaint, covered, covers

Write = Callable[[], list[Tensor]]


def weights(name: str, *shape: int, dtype: str = "fp32") -> Tensor:
    rng = np.random.default_rng(sum(map(ord, name)))
    values = rng.standard_normal(shape) / np.sqrt(max(shape[0], 1))
    return tensor.constant(values.astype({"fp32": np.float32, "fp16": np.float16}[dtype]), name=name)


def narrow_cell(width: int = 128) -> list[Tensor]:
    """x·W + h·U in fp16, accumulated in fp32."""
    x, h = (tensor.input(name, (16, width), "fp16") for name in "xh")
    return [x @ weights("W", width, width, dtype="fp16") + h @ weights("U", width, width, dtype="fp16")]


def cell(width: int = 64, biases: int = 1) -> list[Tensor]:
    """A recurrent cell, tanh(x·W + h·U + b); with two biases as PyTorch writes it."""
    x, h = (tensor.input(name, (16, width)) for name in "xh")
    first, second = x @ weights("W", width, width), h @ weights("U", width, width)
    if biases == 2:
        return [((first + weights("b", width)) + (second + weights("c", width))).tanh()]
    return [(first + second + weights("b", width)).tanh()]


def gated_cell(width: int = 16) -> list[Tensor]:
    """An LSTM cell, its gates apart."""
    x, h, c = (tensor.input(name, (16, width)) for name in "xhc")
    gates = [
        x @ weights(f"W{gate}", width, width) + h @ weights(f"U{gate}", width, width) + weights(f"b{gate}", width)
        for gate in range(4)
    ]
    state = c * gates[0].sigmoid() + gates[1].sigmoid() * gates[2].tanh()
    return [state.tanh() * gates[3].sigmoid(), state]


def projected_block() -> list[Tensor]:
    """The end of a residual block: one convolution of the inner value, one of the input."""
    x, y = tensor.input("x", (1, 32, 7, 7)), tensor.input("y", (1, 16, 7, 7))
    return [nn.relu(nn.conv2d(y, weights("c", 64, 16, 1, 1)) + nn.conv2d(x, weights("p", 64, 32, 1, 1)))]


def difference() -> list[Tensor]:
    """x·A − y·B with padded convolutions, of other lengths."""
    x, y = tensor.input("x", (1, 4, 7, 7)), tensor.input("y", (1, 2, 7, 7))
    return [nn.conv2d(y, weights("c", 48, 2, 3, 3), padding=1) - nn.conv2d(x, weights("p", 48, 4, 3, 3), padding=1)]


def updated_layer(scale: float = 1.0) -> list[Tensor]:
    """x·(W + s·A·B), the update no constant."""
    x, a, b = tensor.input("x", (16, 96)), tensor.input("A", (96, 4)), tensor.input("B", (4, 96))
    update = a @ b
    return [x @ (weights("W", 96, 96) + (update if scale == 1 else update * scale))]


def normed_layer(rows: int = 256, width: int = 128, out: int = 8) -> list[Tensor]:
    x = tensor.input("x", (rows, width))
    return [nn.layer_norm(x, weights("g", width), weights("b", width)) @ weights("W", width, out)]


def branches(narrow: int = 8, wide: int = 8, stride: int = 1, others: tuple[int, ...] = ()) -> list[Tensor]:
    """Convolutions of one input, 1×1 and 3×3, and further ones of 1×1, as in SqueezeNet's and Inception's blocks."""
    x = tensor.input("x", (1, 16, 9, 9))
    one = [nn.conv2d(x, weights(f"a{at}", out, 16, 1, 1), stride=stride) for at, out in enumerate((narrow, *others))]
    three = nn.conv2d(x, weights("b", wide, 16, 3, 3), weights("c", wide), padding=1, stride=stride)
    return [nn.relu(branch) for branch in (*one, three)]


class Case(NamedTuple):
    """A program, the family and the rules that better it, and the level they need."""

    write: Write
    family: str
    rules: str
    level: Exactness = Exactness.ROUNDING


CASES = {
    "recurrent cell": Case(cell, "stacking", "stack_products_with_right_weights"),
    "recurrent cell, two biases": Case(
        lambda: cell(biases=2), "distribution", "pass_over_addends_right_right"
    ),
    "recurrent cell in fp16": Case(narrow_cell, "stacking", "stack_products_with_right_weights"),
    "residual projection": Case(projected_block, "stacking", "stack_products_with_right_weights"),
    "difference of convolutions": Case(difference, "stacking", "stack_products_with_right_weights"),
    "updated layer": Case(updated_layer, "distribution", "expand_right_sum_with_right_product"),
    "scaled update": Case(lambda: updated_layer(0.5), "distribution", "expand_right_sum_with_right_product"),
    "layer norm before a layer": Case(
        normed_layer, "centring", "shift_on_the_right_beside_right_constants mean_beside_right_constants",
        Exactness.RANGE,
    ),
    "branches of two windows": Case(branches, "enlarging", "enlarge_right_weights", Exactness.RANGE),
}  # fmt: skip


def built(case: Case, *rules: str) -> Program:
    """The program over row-major buffers: orders of axes are chosen after the rules."""
    program = optimize_and_compile(
        case.write(), cache=False, rules=rules or None, exactness=str(case.level), cost_model="-relayout"
    )
    program.verify()
    return program


def estimated(program: Program) -> float:
    return sum(kernel.estimated_ns for kernel in program.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_family_gains_and_the_result_stays(name: str) -> None:
    case = CASES[name]
    before, after = built(case, f"-{case.family}"), built(case)
    matches = after.stats.saturation.matches
    assert all(matches[rule] for rule in case.rules.split())
    assert estimated(after) < estimated(before)


@first_few(4, "name", CASES)
def test_every_cover_is_right(name: str) -> None:
    """The weights are known to the rules only, so that what they make of them runs as kernels."""
    case = CASES[name]
    bound = read_model(case.write()).bind({}, False)
    graph, names = bound.graph, sorted(bound.constants)
    view, _ = saturate(graph, select(exactness=case.level), case.level, constants=names)
    inputs = random_inputs(graph, np.random.default_rng(2))
    for cover in covers(graph, view, range(3)):
        assert not complaint(graph, inputs, run_module(*cover)(inputs))


@pytest.mark.slow
def test_gates_that_stand_apart_meet_in_one_product() -> None:
    """x·[W₁|…] and h·[U₁|…] are added whole, and that sum is one product; which of it is worth it, prices tell."""
    bound = read_model(gated_cell()).bind({}, False)
    names = sorted(bound.constants)
    view, stats = saturate(bound.graph, select(), constants=names)
    assert stats.matches["add_merged_products"]
    nodes = [(number, node) for number, nodes in view.classes.items() for node in nodes]
    sums = {number for number, node in nodes if node.ctor == "Contract" and node.sizes == (32,)}
    finished = {number for number, node in nodes if node.ctor == "Fin" and node.acc in sums}
    stored = {node.type for _, node in nodes if node.ctor == "Store" and node.value in finished}
    assert TensorType.of("fp32", (16, 64)) in stored
    inputs = random_inputs(bound.graph, np.random.default_rng(2))
    cover = covered(bound.graph, view, 1)
    assert not complaint(bound.graph, inputs, run_module(*cover)(inputs))


def test_products_of_what_is_no_constant_stay_apart() -> None:
    a, b, x, y = (tensor.input(name, (16, 16)) for name in "abxy")
    program = optimize_and_compile(a @ b + x @ y, cache=False)
    assert not any(program.stats.saturation.matches[rule.name] for rule in FAMILIES["stacking"])


@pytest.mark.slow
def test_cancelling_rules_wait_to_be_asked() -> None:
    program = optimize_and_compile(normed_layer(8, 6, 4), cache=False)
    assert not {rule.name for rule in FAMILIES["centring"]} & program.stats.saturation.matches.keys()


@pytest.mark.slow
def test_branches_of_two_windows_are_one_product() -> None:
    case = CASES["branches of two windows"]
    products = [
        [kernel.name for kernel in program.kernels if kernel.name.startswith("dot")]
        for program in (built(case, "-enlarging"), built(case))
    ]
    assert [len(product) for product in products] == [2, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "level", "enlarges", "merges"),
    [
        (branches, Exactness.ROUNDING, False, False),
        (branches, Exactness.RANGE, True, True),
        (lambda: branches(stride=2), Exactness.RANGE, True, True),
        (lambda: branches(narrow=10), Exactness.RANGE, True, True),
        (lambda: branches(narrow=11), Exactness.RANGE, False, False),
        (lambda: branches(others=(4,)), Exactness.RANGE, False, True),
    ],
    ids=["by default", "at range", "strided", "twice the terms", "more than twice", "alike already"],
)
def test_windows_are_enlarged_where_that_is_asked_for_and_worth_it(
    write: Write, level: Exactness, enlarges: bool, merges: bool
) -> None:
    """n·1 + 8·9 terms each become (n + 8)·9: with n = 10 that is within twice as many, 162 of 82; with 11 it is not."""
    bound = read_model(write()).bind({}, False)
    _, stats = saturate(bound.graph, select(exactness=level), level, constants=sorted(bound.constants))
    assert bool(stats.matches.get("enlarge_right_weights")) == enlarges
    assert bool(stats.matches["first_part_of_all_by_right_weights"]) == merges


@pytest.mark.slow
def test_sums_of_many_products_come_to_an_end() -> None:
    """Each addition is used up once: the e-graph grows with their number, not with the ways to group them."""
    sizes = []
    for count in (2, 4, 6):
        terms = [tensor.input(f"x{at}", (4, 6)) @ weights(f"W{at}", 6, 6) for at in range(count)]
        bound = read_model([sum(terms[1:], terms[0])]).bind({}, False)
        _, stats = saturate(bound.graph, select(), constants=sorted(bound.constants))
        assert all(str(phase.stop) == "saturated" for phase in stats.phases)
        sizes.append(stats.nodes)
    assert sizes[2] < 4 * sizes[1]
