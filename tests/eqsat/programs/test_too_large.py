"""Small documents that ask for more memory than there is end in ResourceExceeded, with sizes, before any is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import ir.host.memory
from eqsat import optimize_and_compile, tensor
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind, Severity
from ir.host.memory import bytes_text, host_bytes, memory_for

HUGE = 2**40


def x(*shape: int) -> Tensor:
    return tensor.input("x", shape)


def compiled(*results: Tensor, **options: Any) -> Any:
    return optimize_and_compile(list(results), **{"target": "cpu", "threads": 1, **options})


def stretched() -> np.ndarray:
    """4 TiB of which each element is the same."""
    return np.broadcast_to(np.ones(1, np.float32), (HUGE,))


def running_sums() -> Tensor:
    return (x(2**20, 1) + tensor.input("w", (1, 2**20))).cumsum(1).max(axis=1)


CASES: Mapping[str, tuple[Callable[[], Any], str]] = {
    "an iota": (lambda: compiled(tensor.iota((HUGE,), 0) + 1), "8.0 TiB"),
    "the sum of an iota": (lambda: compiled(tensor.iota((HUGE,), 0).sum()), "8.0 TiB"),
    "an iota of a GPU": (lambda: compiled(tensor.iota((HUGE,), 0) + 1, target="sm_80", emulate=True), "8.0 TiB"),
    "a lookup in an iota": (lambda: compiled(tensor.arange(HUGE).take(tensor.input("i", (3,), "i64"))), "8.0 TiB"),
    "a constant": (lambda: compiled(tensor.full((HUGE,), 1.0)), "4.0 TiB"),
    "an array that repeats one element": (lambda: tensor.constant(stretched()), "4.0 TiB"),
    "a bound constant": (lambda: compiled(x(HUGE)[:5] + 1, constants={"x": stretched()}), "4.0 TiB"),
    "an argument with gaps": (lambda: compiled(x(HUGE).sum())(stretched()), "4.0 TiB"),
    "random arguments": (lambda: compiled(x(HUGE).sum()).random_inputs(), "4.0 TiB"),
    "verify": (lambda: compiled(x(HUGE).sum()).verify(), "4.0 TiB"),
    "the playback": (lambda: compiled((x(2**20, 1) + tensor.input("w", (1, 2**20))).cumsum(1)[:1, :1]).verify(), "TiB"),
    "an output": (lambda: compiled(x(1).expand(HUGE) + 1)(np.ones(1, np.float32)), "4.0 TiB"),
    "a buffer between kernels": (lambda: compiled(running_sums()), "4.0 TiB"),
    "beyond addresses": (lambda: compiled(x(2**60) + 1), "2⁵⁹"),
    "beyond addresses, and empty": (lambda: compiled(x(0, 2**62) + 1), "2⁵⁹"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_a_diagnostic(name: str) -> None:
    call, message = CASES[name]
    with pytest.raises(EqsatError) as caught:
        call()
    assert caught.value.kind is Kind.RESOURCE_EXCEEDED
    assert message in str(caught.value)
    assert caught.value.diagnostics[0].details


def test_large_arguments_are_a_warning_since_they_may_be_mapped_files() -> None:
    (warning,) = [
        diagnostic for diagnostic in compiled(x(HUGE).sum()).diagnostics if diagnostic.kind is Kind.RESOURCE_EXCEEDED
    ]
    assert warning.severity is Severity.WARNING
    assert warning.details == {"largest": {"x": f"fp32[{HUGE}]"}}
    assert not compiled(x(8).sum()).diagnostics


def test_what_is_huge_and_never_held_runs() -> None:
    ones = np.ones(1, np.float32)
    assert compiled(tensor.iota((HUGE,), 0)[5:7] + x(1).cast("i64"))(ones).tolist() == [6, 7]
    rows = compiled((x(2**14, 1) + tensor.input("w", (1, 2**14))).max(axis=1))
    assert rows(np.zeros((2**14, 1), np.float32), np.ones((1, 2**14), np.float32)).tolist() == [1.0] * 2**14


def test_a_system_that_gives_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(EqsatError, match="no memory left for the table: 2\\.0 KiB") as caught,
        memory_for(2048, "load", "the table", at="t", shape=[512]),
    ):
        raise MemoryError
    assert caught.value.diagnostics[0].details == {"shape": [512]}
    monkeypatch.setattr(ir.host.memory, "host_bytes", lambda: 1000)
    with pytest.raises(EqsatError, match="2\\.0 KiB, and this machine has 1000 bytes"), memory_for(2048, "load", "it"):
        pytest.fail("the value is made")


def test_the_machine_has_memory() -> None:
    assert 2**28 < host_bytes() < 2**60
    assert [bytes_text(size) for size in (5, 1536, 3 * 2**40)] == ["5 bytes", "1.5 KiB", "3.0 TiB"]
