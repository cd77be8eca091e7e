"""Each device function of the table that computes, beside its meaning on arrays."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from codegen.simt import compile_kernels
from codegen.simt.compile import Kernels
from ir.dtype import DTYPES
from ir.kernel.gpu.device_functions import CELLS, DEVICE_FUNCTIONS, REGISTER_C, DeviceFunction, Effect
from ir.uop.table import FUNCTIONS
from tests.support.oracles.meanings import MEANINGS

C_DTYPES = {c: name for name, c in REGISTER_C.items() if name != "word"}
"""C type of a register → dtype; a word is a u32."""
SIGNATURE = re.compile(r"([\w ]+?) (eq_\w+)\(([^)*]*)\)")
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3e-39, 1e-45, 1e30, -1e30, 3.4e38, 65519, 65520, 6e-8, 3e-8, 2e-14]
FLOATS += [2.0**31, 2.0**32, 2.0**63, 2.0**64]
SPECIAL = [math.inf, -math.inf, math.nan]


def parts(function: DeviceFunction) -> tuple[str, tuple[str, ...]] | None:
    """C types of result and arguments, where all are registers."""
    match = SIGNATURE.fullmatch(function.signature)
    if function.effect is not Effect.PLAIN or match is None or not match[3]:
        return None
    arguments = tuple(parameter.rsplit(" ", 1)[0] for parameter in match[3].split(", "))
    return match[1], arguments


GROUPS: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
for _each in DEVICE_FUNCTIONS.values():
    if (_found := parts(_each)) is not None:
        GROUPS[_found].append(_each.name)


def cell(c_type: str) -> str:
    return f"eq_{CELLS[C_DTYPES[c_type]]}"


def numpy_type(c_type: str) -> np.dtype:
    return DTYPES[C_DTYPES[c_type]].numpy


def kernel_name(group: tuple[str, tuple[str, ...]]) -> str:
    return "eq_try_" + re.sub(r"\W", "_", "_".join((group[0], *group[1])))


def kernel_text(group: tuple[str, tuple[str, ...]], names: list[str]) -> str:
    """One kernel for all functions of these types; `which` says which."""
    result, arguments = group
    parameters = [f"const {cell(argument)} *x{place}" for place, argument in enumerate(arguments)]
    values = ", ".join(
        f"eq_ld_global_{cell(argument).removeprefix('eq_')}(x{place} + i)" for place, argument in enumerate(arguments)
    )
    store = f"eq_st_global_{cell(result).removeprefix('eq_')}"
    cases = "\n".join(
        f"      case {place}: {store}(y + i, {name}({values})); break;" for place, name in enumerate(names)
    )
    return f"""
extern "C" EQ_KERNEL(32, 1) void {kernel_name(group)}({", ".join(parameters)}, {cell(result)} *y, int which, int n) {{
  for (int i = eq_thread(); i < n; i += 32) {{
    switch (which) {{
{cases}
    }}
  }}
}}
"""


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return compile_kernels("".join(kernel_text(group, names) for group, names in GROUPS.items()))


def samples(c_type: str, place: int) -> np.ndarray:
    """48 × 48 pairs: values in rows (place 0) or in columns."""
    dtype = numpy_type(c_type)
    rng = np.random.default_rng(7)
    if dtype.kind == "f":
        drawn = rng.standard_normal(48 - len(FLOATS) - len(SPECIAL)) * np.exp2(rng.integers(-20, 20))
        values = np.array([*FLOATS, *SPECIAL, *drawn]).astype(dtype)
    elif dtype.kind == "b":
        values = np.arange(48) % 2 == 0
    else:
        info = np.iinfo(dtype)
        ends = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, info.bits - 1, info.bits]
        edges = np.array([*ends, 0, 1, 2, 3, 7], dtype)
        drawn = rng.integers(info.min, info.max, 48 - len(edges), dtype, endpoint=True)
        values = np.concatenate([edges, drawn])
    pairs = np.repeat(values, 48) if place == 0 else np.tile(values, 48)
    return pairs if place < 2 else np.roll(pairs, 17)


def computed(kernels: Kernels, name: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """What the kernel gives, and the arguments."""
    group = parts(DEVICE_FUNCTIONS[name])
    assert group is not None
    arguments = [samples(dtype, place) for place, dtype in enumerate(group[1])]
    y = np.zeros(48 * 48, numpy_type(group[0]))
    report = kernels[kernel_name(group)].launch((1,), [*arguments, y, GROUPS[group].index(name), y.size])
    assert not report.findings
    return y, arguments


ULPS = {**{fn: 2 for fn, row in FUNCTIONS.items() if row.approximate}, "rsqrt": 2, "sigmoid": 4}
TRIED = [name for names in GROUPS.values() for name in names]
ELEMENTWISE = {
    fn: [name for name in TRIED if name.startswith(f"eq_{fn}_") and not name.endswith(("_f16", "_bf16", "_approx_f32"))]
    for fn in MEANINGS
}
APPROXIMATIONS = {"eq_exp2_approx_f32": 2 * 2.0**-23, "eq_tanh_approx_f32": 2.0**-11}
"""The relative error of each instruction by the PTX ISA, for results that are no denormals."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fn", MEANINGS)
def test_elementwise(kernels: Kernels, fn: str) -> None:
    for name in ELEMENTWISE[fn]:
        got, arguments = computed(kernels, name)
        if fn not in ULPS:
            np.testing.assert_array_equal(got, MEANINGS[fn](*arguments).astype(got.dtype), err_msg=name)
            continue
        wide = np.longdouble if fn in ("pow", "rsqrt") else np.float64
        wanted = MEANINGS[fn](*(argument.astype(wide) for argument in arguments)).astype(got.dtype)
        other = ~((got == wanted) | (np.isnan(got) & np.isnan(wanted)))
        error = np.abs(got[other].astype(np.float64) - wanted[other].astype(np.float64))
        assert np.all(error <= ULPS[fn] * np.spacing(np.abs(wanted[other]))), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_approximations_stay_within_the_bounds_of_the_instructions(kernels: Kernels, name: str) -> None:
    got, (x,) = computed(kernels, name)
    wanted = MEANINGS[name.split("_")[1]](x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    near = (np.abs(wanted) >= np.finfo(np.float32).tiny) & (np.abs(wanted) < np.finfo(np.float32).max)
    rounding = 2.0**-21  # the emulator takes the largest error that the instruction may have
    assert np.all(np.abs(got[near] / wanted[near] - 1) <= APPROXIMATIONS[name] + rounding)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", sorted({name.split("_")[2] for name in TRIED if "_cast_" in name}))
def test_casts(kernels: Kernels, source: str) -> None:
    for name in (name for name in TRIED if name.startswith(f"eq_cast_{source}_")):
        got, (x,) = computed(kernels, name)
        if x.dtype.kind == "f" and got.dtype.kind in "iu":
            info = np.iinfo(got.dtype)
            wanted = [0 if math.isnan(v) else max(info.min, min(info.max, _truncated(v, info.max))) for v in x.tolist()]
            assert got.tolist() == wanted, name
        else:
            np.testing.assert_array_equal(got, x.astype(got.dtype), err_msg=name)


def _truncated(value: float, most: int) -> int:
    return int(value) if math.isfinite(value) else int(math.copysign(most + 1, value))


class TestHalves:
    """fp16 and bf16 in registers."""

    @pytest.mark.parametrize(("t", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_every_half_and_the_middles_between(self, t: str, dtype: type[Any]) -> None:
        text = f"""
extern "C" EQ_KERNEL(64, 1) void eq_halves(const eq_f32 *x, eq_f32 *y, eq_i32 *words, eq_f32 *low,
                                           eq_f32 *high, int n) {{
  for (int i = eq_thread(); i < n; i += 64) {{
    const float value = eq_ld_global_f32(x + i);
    const unsigned word = eq_pack_{t}(value, -value);
    eq_st_global_f32(y + i, eq_round_{t}(value));
    eq_st_global_i32(words + i, (int)word);
    eq_st_global_f32(low + i, eq_low_{t}(word));
    eq_st_global_f32(high + i, eq_high_{t}(word));
  }}
}}
"""
        halves = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
        halves = np.sort(halves[np.isfinite(halves)])
        middles = (halves[1:].astype(np.float64) + halves[:-1]) / 2
        x = np.concatenate(
            [halves, middles, np.nextafter(middles.astype(np.float32), np.float32(np.inf)), [np.inf, -np.inf, np.nan]]
        ).astype(np.float32)
        y, low, high = (np.zeros(x.size, np.float32) for _ in range(3))
        words = np.zeros(x.size, np.int32)
        report = compile_kernels(text)["eq_halves"].launch((1,), [x, y, words, low, high, x.size])
        assert not report.findings
        wanted = x.astype(dtype)
        np.testing.assert_array_equal(y, wanted.astype(np.float32))
        np.testing.assert_array_equal(low, y)
        np.testing.assert_array_equal(high, -y)
        numbers = ~np.isnan(x)
        np.testing.assert_array_equal((words & 0xFFFF)[numbers], wanted.view(np.uint16)[numbers])

    def test_odd_rounding_rounds_doubles_once(self, kernels: Kernels) -> None:
        got, (x,) = computed(kernels, "eq_odd_f32")
        near = 1 + 2.0**-11 + 2.0**-40  # above the middle of two fp16: a double rounding loses the last bit
        assert not np.array_equal(np.float32(near).astype(np.float16), np.float64(near).astype(np.float16))
        with np.errstate(all="ignore"):
            for half in (np.float16, ml_dtypes.bfloat16):
                np.testing.assert_array_equal(got.astype(half).astype(np.float32), x.astype(half).astype(np.float32))


def test_tf32(kernels: Kernels) -> None:
    got, (x,) = computed(kernels, "eq_tf32")
    bits = x.view(np.uint32)
    normal = np.isfinite(x) & (np.abs(x) >= np.finfo(np.float32).smallest_normal)
    wanted = np.where(np.isnan(x), np.uint32(0x7FFFFFFF), np.where(normal, bits + 0x1000, bits)) & ~np.uint32(0x1FFF)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_bits(kernels: Kernels, t: str) -> None:
    """Registers hold 16-bit floats as f32."""
    kind = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}.get(t)
    got, (x,) = computed(kernels, f"eq_bits_{t}")
    with np.errstate(over="ignore"):
        held = x if kind is None else x.astype(kind)
    exact = held.astype(x.dtype) == x
    np.testing.assert_array_equal(got[exact], held.view(got.dtype)[exact])
    value, (bits,) = computed(kernels, f"eq_from_bits_{t}")
    wanted = bits.view(value.dtype if kind is None else kind).astype(value.dtype)
    np.testing.assert_array_equal(value, wanted)


def test_fma_rounds_once(kernels: Kernels) -> None:
    text = """
extern "C" EQ_KERNEL(32, 1) void eq_fused(eq_f32 *y) {
  const float x = 1 + 0x1p-12f;
  if (eq_thread() == 0) eq_st_global_f32(y, eq_fma_f32(x, x, -(1 + 0x1p-11f)));
}
"""
    y = np.zeros(1, np.float32)
    compile_kernels(text)["eq_fused"].launch((1,), [y])
    assert y[0] == np.float32(2.0**-24)
    got, (x, y, z) = computed(kernels, "eq_fma_f32")
    with np.errstate(all="ignore"):
        near = x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)
        np.testing.assert_allclose(got, near.astype(np.float32), rtol=2.0**-23)


@pytest.mark.parametrize("name", ["eq_clip", "eq_clip_wide"])
def test_clip(name: str, kernels: Kernels) -> None:
    got, (x, high) = computed(kernels, name)
    fits = high >= 0
    np.testing.assert_array_equal(got[fits], np.clip(x, 0, np.maximum(high, 0))[fits])


def test_every_function_that_computes_has_a_test() -> None:
    elementwise = {name for names in ELEMENTWISE.values() for name in names} | APPROXIMATIONS.keys()
    others = {"odd", "round", "pack", "low", "high", "tf32", "bits", "from", "clip", "cast", "fma"}
    assert all(name in elementwise or name.split("_")[1] in others for name in TRIED)
    untried = {function.name for function in DEVICE_FUNCTIONS.values() if function.effect is Effect.PLAIN} - set(TRIED)
    assert untried <= {"eq_swizzle", "eq_inf_f32", "eq_inf_f64", "eq_nan_f32", "eq_nan_f64"}


def test_every_function_of_the_table_is_there() -> None:
    """Each can be called with the types that the table names, and gives the type it names."""
    checks = []
    for function in DEVICE_FUNCTIONS.values():
        parts_of_signature = re.fullmatch(r"(?:template <(.*?)> )?(.*)", function.signature)
        assert parts_of_signature
        template, plain = parts_of_signature.groups()
        head, arguments = plain[:-1].split("(", 1)
        result, name = head.rsplit(" ", 1)
        types = [re.sub(r"\w+$", "", argument).strip() for argument in arguments.split(", ") if argument]
        called = f"{name}<{', '.join('1' for _ in template.split(', '))}>" if template else name
        checks.append(f"static_assert(__is_same(decltype({called}({', '.join(f'({t})0' for t in types)})), {result}));")
    compile_kernels("\n".join(checks) + '\nextern "C" EQ_KERNEL(32, 1) void eq_nothing() { }')
    assert len(checks) == len(DEVICE_FUNCTIONS) > 500
