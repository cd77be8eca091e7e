"""Layers that repeat in a graph without calls are optimized once, where one value in memory is handed on."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from eqsat import Program, nn, optimize_and_compile, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.looping import cut_calls
from eqsat.looping.parts import Part, parts_of
from eqsat.looping.split import split
from eqsat.tensor import Tensor
from ir.tiny.bind import load
from tests.support.programs.called_blocks import blocks, inlined
from tests.support.programs.usual_cpu import usual_cpu

Layer = Callable[[Tensor, str], Tensor]


def given(name: str, *shape: int) -> Tensor:
    return tensor.input(name, shape)


def norm(x: Tensor, name: str) -> Tensor:
    return nn.layer_norm(x, given(f"{name}.scale", 8), given(f"{name}.bias", 8))


def residual(x: Tensor, name: str) -> Tensor:
    hidden = nn.gelu(norm(x, name) @ given(f"{name}.up", 8, 16))
    return x + hidden @ given(f"{name}.down", 16, 8)


def norm_at_the_end(x: Tensor, name: str) -> Tensor:
    hidden = nn.gelu(x @ given(f"{name}.up", 8, 16))
    return norm(x + hidden @ given(f"{name}.down", 16, 8), name)


def chain(x: Tensor, name: str) -> Tensor:
    """Layers of which a matrix product reads the result alone: an activation is computed where it is read."""
    for place in range(4):
        x = nn.gelu(x @ given(f"{name}.{place}", 8, 8))
    return x


def network(layer: Layer, count: int, x: Tensor | None = None) -> Tensor:
    value = given("x", 6, 8) if x is None else x
    for place in range(count):
        value = layer(value, f"layer{place}")
    return value


def parts_of_program(outputs: Tensor | Sequence[Tensor]) -> list[Part]:
    return list(parts_of(split(load(tensor_to_tiny(outputs)[0])[0], ())))


def blocks_of(outputs: Tensor | Sequence[Tensor]) -> list[Part]:
    return [part for part in parts_of_program(outputs) if part.name.startswith("block")]


def compiled(outputs: Tensor | Sequence[Tensor]) -> Program:
    return optimize_and_compile(outputs, target=usual_cpu(), threads=1, cache=False, verify=True)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [residual, norm_at_the_end])
def test_repeated_layers_are_optimized_once(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = network(layer, 5)
    program = compiled(outputs)
    assert len(blocks_of(outputs)) >= 4
    fewer = compiled(network(layer, 3))
    assert len(fewer.stats.saturation.phases) == len(program.stats.saturation.phases)
    monkeypatch.setattr(cut_calls, "find_repeats", lambda *_: [])
    whole = compiled(outputs)
    assert len(program.kernels) == len(whole.kernels)
    assert program.cost <= whole.cost * 1.001
    arrays = program.random_inputs()
    np.testing.assert_allclose(program(arrays), whole(arrays), rtol=1e-5, atol=1e-5)


def test_layers_keep_the_kernel_of_a_norm_whole() -> None:
    """A block begins at the norm's first sum or behind the norm: never between the mean and the variance."""
    for layer in (residual, norm_at_the_end):
        for part in blocks_of(network(layer, 4)):
            sums = [node for node in part.graph.nodes if node.uop == "REDUCE"]
            assert len(sums) == 4
            rows = [part.graph.types[node.id].shape for node in sums].index((6,))
            assert [part.graph.types[node.id].shape for node in sums[rows : rows + 2]] == [(6,), (6,)]


def test_inlined_calls_are_found_again() -> None:
    parts = parts_of(split(load(inlined(blocks(4)))[0], ()))
    assert sum(part.name.startswith("block") for part in parts) >= 3


@pytest.mark.slow
def test_values_before_the_layers_may_be_read_by_all() -> None:
    mask = given("m", 6, 6).exp()

    def attention(x: Tensor, name: str) -> Tensor:
        q, k, v = (norm(x, f"{name}.{part}") @ given(f"{name}.{part}.w", 8, 8) for part in "qkv")
        return x + nn.softmax(q @ k.permute(1, 0) + mask) @ v

    outputs = network(attention, 5)
    assert len(blocks_of(outputs)) >= 3
    compiled(outputs)


@pytest.mark.slow
def test_results_of_layers_may_be_outputs() -> None:
    """Also views of results: the part of a layer writes them."""
    value, outputs = given("x", 6, 8), []
    for place in range(4):
        value = residual(value, f"layer{place}")
        outputs += [value.exp().sum(0).reshape(2, 4), value]
    parts = blocks_of(outputs)
    assert len(parts) >= 3
    assert all(any(part.graph.types[ref].shape == (2, 4) for ref in part.graph.outputs) for part in parts)
    program = compiled(outputs)
    assert len(program.kernels) % 4 == 0


def test_a_value_that_one_accumulator_reads_is_not_handed_over() -> None:
    assert len(parts_of_program(network(chain, 4))) == 1


def test_two_values_from_layer_to_layer_are_not_handed_over() -> None:
    h, c = given("h", 6, 8), given("c", 6, 8)
    for place in range(4):
        c = residual(c, f"c{place}") * h.exp()
        h = residual(h, f"h{place}") * c.tanh()
    assert len(parts_of_program([h, c])) == 1


def convolutions(x: Tensor, name: str) -> Tensor:
    """A layer of images whose kernels like the channels innermost."""
    rng = np.random.default_rng(len(name))
    hidden = x
    for inner, outer, taps in ((128, 64, 1), (64, 64, 3), (64, 64, 3), (64, 128, 1)):
        weights = tensor.constant(rng.standard_normal((outer, inner, taps, taps)).astype("float32") / 16)
        hidden = nn.conv2d(hidden.relu(), weights, padding=taps // 2)
    return x + hidden


@pytest.mark.slow
def test_images_between_layers_have_one_order_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = network(convolutions, 6, given("x", 1, 128, 14, 14))
    handed = {ref for block in blocks_of(outputs) for ref in block.graph.outputs}
    program = compiled(outputs)
    permuted = {line.split()[1].rstrip(":") for line in program.dump("module").splitlines() if " as i0," in line}
    assert handed & permuted
    monkeypatch.setattr(cut_calls, "find_repeats", lambda *_: [])
    whole = compiled(outputs)
    assert program.cost <= whole.cost * 1.02
    arrays = program.random_inputs()
    np.testing.assert_allclose(program(arrays), whole(arrays), rtol=1e-4, atol=1e-3)


def test_calls_of_a_program_and_repeated_blocks_have_other_names() -> None:
    source = blocks(3)
    names = [part.name for part in parts_of(split(load(source)[0], ()))]
    assert not any(name.startswith("block") for name in names)
