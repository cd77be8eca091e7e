"""Complex numbers and Fourier transforms, beside eager."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

import eqsat
from eqsat.frontends.torch.operator_table import COMPLEX_LOWERINGS, LOWERINGS, name_of
from eqsat.frontends.torch.survey import TorchSurvey
from eqsat.frontends.torch.trace import trace
from ir.diagnostics import EqsatError, EqsatWarning, Kind
from tests.support.torch.beside_eager import agree, normal

pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real")


def complex_normal(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    made: Callable[..., Any] = torch.compile(function, backend="eqsat", options={"fallback": False, **options})
    return made


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Rotary position embeddings of Llama's own code."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None]).flatten(3).type_as(x)


def filter_spectrum(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A layer of a Fourier neural operator (Li et al. 2021)."""
    low = torch.fft.rfft2(x)[..., : weight.shape[2], : weight.shape[3]]
    return torch.fft.irfft2(torch.einsum("bixy,ioxy->boxy", low, weight), s=x.shape[-2:])


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda x, y: (x + y, x - y.real, 2 - x, x + 1j, torch.add(x, y, alpha=2j), -x),
    "products": lambda x, y: (x * y, x * y.imag, 3j * x, x.conj() * x, x.square()),
    "quotients": lambda x, y: (x / y, x / y.real, 1j / x, x / 4, x.reciprocal()),
    "powers": lambda x, y: (x**3, x**-2, x**0, x**0.5, x.rsqrt()),
    "functions": lambda x, y: (x.exp(), x.log(), x.sin(), y.cos(), x.sgn(), x.sqrt()),
    "sizes": lambda x, y: (x.abs(), y.angle(), torch.linalg.vector_norm(x, dim=1), x.var(0), y.std()),
    "parts": lambda x, y: (torch.complex(x.real, y.imag), torch.polar(x.abs(), y.angle()), torch.view_as_real(x)),
    "comparisons": lambda x, y: (x == y, x != x.real, x.isnan(), y.isinf(), torch.isfinite(x)),
    "dtypes": lambda x, y: (x.to(torch.complex128) + y, x.double(), x.real.to(torch.complex64), x * x.abs().double()),
}
MOVEMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "views": lambda x, y: (x.T.contiguous(), x[:, ::2] + 1, x.reshape(-1)[3:] * 2, x[1].expand(3, -1) + y[0]),
    "joins": lambda x, y: (torch.cat([x, y.real], 1), torch.stack([x, y]), [*(x + y).split(2, 1)]),
    "choices": lambda x, y: (torch.where(x.real > 0, x, y), x.masked_fill(y.imag > 0, 2), x.tril(), x.roll(1, 0)),
    "sums": lambda x, y: (x.sum(), x.sum(0), y.mean(1, keepdim=True), x.cumsum(1)),
    "lookups": lambda x, y: (x[torch.tensor([2, 0])], x.index_select(1, torch.tensor([1, 1])), torch.zeros_like(x)),
    "new": lambda x, y: (
        torch.ones_like(x) + x,
        torch.full_like(x, 2j) * y,
        x.new_zeros(2) + 1,
        torch.ones_like(x.real),
    ),
    "pads": lambda x, y: (torch.nn.functional.pad(x, (1, 2), value=3), torch.nn.functional.pad(x, (1, 1), "reflect")),
    "products": lambda x, y: (x @ y.mT, torch.addmm(x[:, :3], x, y.T, beta=0.5, alpha=2j), torch.vdot(x[0], y[0])),
}


@pytest.mark.parametrize("family", ARITHMETIC)
def test_arithmetic(family: str) -> None:
    agree(ARITHMETIC[family], complex_normal(3, 5), complex_normal(3, 5), kernels=False)


@pytest.mark.parametrize("family", MOVEMENTS)
def test_movements_and_products(family: str) -> None:
    agree(MOVEMENTS[family], complex_normal(3, 5), complex_normal(3, 5), kernels=False)


@pytest.mark.slow
def test_kernels_compute_all_of_this() -> None:
    def everything(x: Any, y: Any) -> Any:
        return [function(x, y) for family in (ARITHMETIC, MOVEMENTS) for function in family.values()]

    agree(everything, complex_normal(3, 5), complex_normal(3, 5))


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -1e-30])
def test_functions_of_special_numbers(value: float) -> None:
    """The parts of eager's functions where one part is 0, infinite, no number, or has a square out of range."""
    x = torch.complex(*torch.cartesian_prod(*[torch.tensor([value, 1.5, -2.0])] * 2).T)
    agree(lambda x: (x.abs(), x.angle(), x - 1j, x.conj(), x == x), x, kernels=False)
    agree(lambda x, y: (y / x, x / y, 1 / x), x, torch.full(x.shape, 1 + 2j), kernels=False)
    agree(lambda x: (x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.sgn(), x**-1), x, kernels=False)
    # eager's loops differ on the first element's square at 1e30: -inf among the last elements, else NaN
    agree(lambda x: x**2, x[1:] if value == 1e30 else x, kernels=False)
    finite = x[x.isfinite()]
    agree(lambda x: (x / (2 + 1j), (1 + 1j) / (x + 1), x.sqrt()), finite, kernels=False)


def test_operators_of_complex_numbers_that_torch_decomposes_are_lowered_for_real_ones_too() -> None:
    """An operator with a lowering for complex operands is never decomposed, so eager would run the real ones."""
    decomposed = {name_of(target) for target in torch._decomp.core_aten_decompositions()}
    assert decomposed & COMPLEX_LOWERINGS.keys() <= LOWERINGS.keys()
    agree(lambda x, y: torch.vdot(x, y) + 1, normal(5), normal(5), kernels=False)


LENGTHS = [1, 2, 3, 12, 97, 100, 128, 400, 1009, 2048]


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_any_length(n: int) -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.fft.fft(y), torch.fft.ifft(y), torch.fft.rfft(x), torch.fft.irfft(y[..., : n // 2 + 1], n=n)

    largest = 10 * math.sqrt(n) if n == 1009 else math.sqrt(n)  # a prime: one long sum
    agree(function, normal(2, n), complex_normal(2, n), kernels=False, rtol=2e-6, atol=1e-6 * largest)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_along_several_axes(norm: str) -> None:
    def function(x: Any, y: Any) -> Any:
        two = torch.fft.rfft2(x, norm=norm), torch.fft.irfft2(y, s=(6, 9), norm=norm)
        other = torch.fft.fft(y, dim=0, n=4, norm=norm), torch.fft.hfft(y, norm=norm), torch.fft.ihfft(x, norm=norm)
        return *two, *other, torch.fft.fftn(y, dim=(0, 2), norm=norm), torch.fft.fftshift(y)

    agree(function, normal(3, 6, 8), complex_normal(3, 6, 5), kernels=False, rtol=1e-5, atol=1e-5)


def test_transforms_in_fp64_are_exact_to_fp64() -> None:
    x = complex_normal(2, 512, dtype=torch.complex128)
    agree(lambda x: (torch.fft.fft(x), torch.fft.ifft(x)), x, kernels=False, rtol=1e-12, atol=1e-12)


def test_a_long_transform_without_factors_is_refused() -> None:
    graph = trace(lambda x: torch.fft.fft(x), torch.zeros(2, 4099))
    with pytest.raises(EqsatError, match="4099 is a prime above 4096") as caught:
        TorchSurvey().require_operators(graph.graph.nodes)
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.slow
def test_kernels_transform_windows_and_back() -> None:
    def function(x: Any) -> Any:
        window = torch.hann_window(64)
        spectrum = torch.stft(x, 64, 16, window=window, return_complex=True)
        return spectrum, spectrum.abs().square(), torch.istft(spectrum, 64, 16, window=window)

    agree(function, normal(2, 400), rtol=1e-4, atol=2e-5)


@pytest.mark.slow
def test_rotary_embeddings_as_complex_numbers() -> None:
    turns = torch.polar(torch.ones(8, 8), torch.rand(8, 8))
    agree(rotate, normal(2, 8, 4, 16), turns, gradients=True)


@pytest.mark.slow
def test_a_layer_in_frequencies_is_trained() -> None:
    weight = complex_normal(3, 4, 5, 5)
    agree(filter_spectrum, normal(2, 3, 16, 16), weight, gradients=True, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_gradients_of_arithmetic() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x * y / (y + 3)).abs(), (x.exp() @ y.mH).angle(), x.conj() + y.real

    agree(function, complex_normal(3, 5), complex_normal(3, 5), kernels=False, gradients=True, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (4, 3)])
def test_arguments_of_any_shape_order_and_conjugation(shape: tuple[int, ...]) -> None:
    x = complex_normal(*shape)
    for given in (x, x.conj(), x.permute(list(reversed(range(x.ndim))))):
        run = compiled(lambda x: (x * x, x.abs(), x.imag + 1, x.conj()))
        for ours, theirs in zip(run(given), (given * given, given.abs(), given.imag + 1, given.conj()), strict=True):
            torch.testing.assert_close(ours, theirs)
            assert not ours.numel() or ours.stride() == theirs.stride()


@pytest.mark.slow
def test_results_written_into_complex_arguments() -> None:
    def step(x: Any, y: Any) -> Any:
        x.add_(y)
        return x * 2

    x, y = complex_normal(3, 4), complex_normal(3, 4)
    ours, theirs = x.clone(), x.clone()
    torch.testing.assert_close(compiled(step)(ours, y), step(theirs, y))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_sizes_and_frozen_parameters() -> None:
    run = compiled(lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2j, n=x.shape[-1]), when_missing="wait")
    for size in (12, 20, 33):
        x = normal(2, size)
        torch._dynamo.mark_dynamic(x, 1)
        torch.testing.assert_close(run(x), torch.fft.irfft(torch.fft.rfft(x) * 2j, n=size), rtol=1e-4, atol=1e-5)
    layer = torch.nn.ParameterList([complex_normal(4, 3)])
    frozen = compiled(lambda x: x @ layer[0], freezing=True)
    with torch.no_grad():
        for _ in range(2):
            x = complex_normal(2, 4)
            torch.testing.assert_close(frozen(x), x @ layer[0])
            layer[0].mul_(2)


@pytest.mark.slow
def test_programs_of_modules_take_and_give_parts() -> None:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(8), torch.rand(8)))

        def forward(self, x: Any) -> Any:
            return x * self.turns, (x * self.turns).real

    module, x = Module(), complex_normal(3, 8)
    program = eqsat.from_torch(module, (x,))
    product, real = program(torch.view_as_real(x))
    torch.testing.assert_close(torch.view_as_complex(product), x * module.turns)
    torch.testing.assert_close(real, (x * module.turns).real)
    with pytest.raises(EqsatError, match=r"torch\.view_as_real") as caught:
        program(x.numpy())
    assert caught.value.kind is Kind.INPUT_MISMATCH
    parts = np.asarray(x).view(np.float32).reshape(*x.shape, 2)  # as the hint says
    np.testing.assert_allclose(program(parts)[1], real.numpy(), rtol=1e-6)


@pytest.mark.slow
def test_eager_runs_functions_of_complex_numbers_that_eqsat_lacks() -> None:
    x = complex_normal(3, 4)
    run = compiled(lambda x: (x * 2).tan() + x, fallback=None)
    with pytest.warns(EqsatWarning, match=r"aten\.tan\.default of complex numbers"):
        torch.testing.assert_close(run(x), (x * 2).tan() + x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(x)


@pytest.mark.slow
def test_eager_runs_fourier_transforms_beside_compiled_parts() -> None:
    programs: list[Any] = []
    run = compiled(lambda x: torch.fft.fft(x * 2).abs() + 1, fallback=None, on_program=programs.append)
    x = normal(3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(run(x), torch.fft.fft(x * 2).abs() + 1)
    assert len(programs) == 2
