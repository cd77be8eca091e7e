"""Loads, stores and 16-bit formats of the C prelude, for each instruction set of this machine."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

from tests.support.cpu.lanes import STORAGE, Array, Lanes, assert_same, floats

pytestmark = pytest.mark.usefixtures("quiet")


class Fence:
    """Memory that ends where an unreadable page begins, and starts where another ends."""

    def __init__(self) -> None:
        page = mmap.PAGESIZE
        self._map = mmap.mmap(-1, 3 * page)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + page
        libc = ctypes.CDLL(None, use_errno=True)
        for outside in (self._start - page, self._start + page):
            assert libc.mprotect(ctypes.c_void_p(outside), ctypes.c_size_t(page), 0) == 0

    def put(self, data: Array, *, at_end: bool) -> int:
        """The address of a copy of `data` that touches the unreadable page after (or before) it."""
        address = self._start + (mmap.PAGESIZE - data.nbytes if at_end else 0)
        ctypes.memmove(address, data.ctypes.data, data.nbytes)
        return address

    def get(self, address: int, data: Array) -> Array:
        out = np.empty_like(data)
        ctypes.memmove(out.ctypes.data, address, data.nbytes)
        return out


@pytest.fixture(scope="module")
def fence() -> Fence:
    return Fence()


def _some(t: str, n: int) -> Array:
    return np.resize(np.array([1, 0, 3, 100, 7, 0, 9], np.float32).astype(STORAGE[t]), n)


@pytest.mark.parametrize("t", STORAGE)
@pytest.mark.parametrize("at_end", [True, False])
def test_tails_touch_only_their_lanes(lanes: Lanes, fence: Fence, t: str, at_end: bool) -> None:
    vl = lanes.vl
    for n in range(vl + 1):
        data = _some(t, n)
        out = np.full(vl, 5, np.float32).astype(STORAGE[t])
        lanes(f"loadn_{t}", [fence.put(data, at_end=at_end), out], vl, n)
        assert (out[:n] == data).all()
        assert not out[n:].any()
        address = fence.put(np.zeros_like(data), at_end=at_end)
        whole = _some(t, vl)
        lanes(f"tail_{t}", [whole, address], vl, n)
        assert (fence.get(address, data) == whole[:n]).all()
        kept = np.full(vl, 1, np.float32).astype(STORAGE[t])
        lanes(f"tail_{t}", [whole, kept], vl, n)
        assert (kept[n:] == 1).all()


@pytest.mark.parametrize("t", STORAGE)
@pytest.mark.parametrize("at_end", [True, False])
def test_whole_registers_from_the_last_element_to_the_first(lanes: Lanes, fence: Fence, t: str, at_end: bool) -> None:
    data, out = _some(t, lanes.vl), np.ones(lanes.vl, np.float32).astype(STORAGE[t])
    lanes(f"back_{t}", [fence.put(data, at_end=at_end), out], lanes.vl, lanes.vl)
    assert (out == data[::-1]).all()


@pytest.mark.parametrize("t", STORAGE)
def test_strides(lanes: Lanes, fence: Fence, t: str) -> None:
    vl = lanes.vl
    for n in range(vl + 1):
        for step in (2, 3):
            data = _some(t, max(step * (n - 1) + 1, 0))
            out = np.ones(vl, np.float32).astype(STORAGE[t])
            lanes(f"strided{step}_{t}", [fence.put(data, at_end=True), out], vl, n)
            assert (out[:n] == data[::step]).all()
            assert not out[n:].any()
        address = fence.put(np.zeros_like(data), at_end=True)
        lanes(f"scatter_{t}", [_some(t, vl), address], vl, n)
        back = fence.get(address, data)
        assert (back[::3] == _some(t, vl)[:n]).all()
        assert not back[1::3].any()


@pytest.mark.parametrize("t", STORAGE)
def test_splat_gather(lanes: Lanes, fence: Fence, t: str) -> None:
    vl = lanes.vl
    data = _some(t, 8)
    out = np.zeros(8 * vl, STORAGE[t])
    lanes(f"splat_{t}", [fence.put(data, at_end=True), out], 8 * vl)
    assert (out == np.repeat(data, vl)).all()

    rng = np.random.default_rng(2)
    index = rng.integers(0, 8, out.size)
    mask = rng.integers(0, 2, out.size).astype(np.bool_)
    far = np.where(mask, index, np.int64(1) << 40)
    lanes(f"gather_{t}", [fence.put(data, at_end=True), far, mask, out], out.size)
    assert (out == np.where(mask, data[index], np.zeros(1, data.dtype))).all()


@pytest.mark.parametrize("t", STORAGE)
def test_masked_loads_touch_their_lanes_only(lanes: Lanes, fence: Fence, t: str) -> None:
    vl = lanes.vl
    data, out = _some(t, vl), np.zeros(vl, STORAGE[t])
    for first, end in ((0, vl), (0, vl // 2), (1, vl), (vl - 1, vl), (0, 0)):
        mask = np.zeros(vl, np.bool_)
        mask[first:end:2] = True
        kept = data[:end]
        lanes(f"loadm_{t}", [fence.put(kept, at_end=True), mask, out], vl)
        assert (out == np.where(mask, data, np.zeros(1, data.dtype))).all()


@pytest.mark.parametrize("t", STORAGE)
def test_masked_loads_from_the_last_element_touch_their_lanes_only(lanes: Lanes, fence: Fence, t: str) -> None:
    vl = lanes.vl
    data, out = _some(t, vl), np.zeros(vl, STORAGE[t])
    for first, end in ((0, vl), (0, vl // 2), (1, vl), (vl - 1, vl), (0, 1)):
        mask = np.zeros(vl, np.bool_)
        mask[first:end:2] = True
        kept = data[vl - end :]  # the lanes from `end` on would lie before it
        lanes(f"backm_{t}", [fence.put(kept, at_end=False), mask, out], vl, end)
        assert (out == np.where(mask, data[::-1], np.zeros(1, data.dtype))).all()


def _near_halves() -> Array:
    """Every fp16 (and every bf16), the midpoints between neighbours, and a little to either side."""
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    values = np.concatenate(
        [bits.view(np.float16).astype(np.float32), bits.view(ml_dtypes.bfloat16).astype(np.float32)]
    )
    middle = (values[1:].astype(np.float64) + values[:-1]) / 2
    points = np.concatenate([values, middle.astype(np.float32), floats("f32")]).astype(np.float32)
    return np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)]).astype(np.float32)


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_half_conversions_exhaustively(lanes: Lanes, t: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    decoded = lanes.map(f"decode_{t}", np.float32, bits.view(STORAGE[t]))
    assert_same(decoded, bits.view(STORAGE[t]).astype(np.float32), "decode")
    assert (np.signbit(decoded) == (bits >> 15 == 1)).all()
    x = _near_halves()
    got = lanes.map(f"round_{t}", np.float32, x)
    assert_same(got, x.astype(STORAGE[t]).astype(np.float32), "round")
    number = ~np.isnan(x)
    assert (np.signbit(got) == np.signbit(x))[number].all()


def test_double_to_half_rounds_once(lanes: Lanes) -> None:
    half = np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = (half[1:] + half[:-1]) / 2
    x = np.concatenate([half, middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0), floats("f64")])
    x = np.concatenate([x, -x])
    assert_same(lanes.map("cast_f64_f16", np.float16, x), x.astype(np.float16), "cast_f64_f16")
