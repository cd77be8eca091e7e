"""Loads, stores, copies and the operations of a warp, beside their definitions on arrays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from codegen.simt import FindingKind, Report, compile_kernels
from codegen.simt.compile import Kernels
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from ir.kernel.gpu.device_functions import CELLS, DEVICE_FUNCTIONS, REGISTER_C

RNG = np.random.default_rng(11)
LANES = np.arange(32)


def collective_text() -> str:
    """ldmatrix, mma and shuffles: each lane brings its words and takes its result."""
    matrices = "".join(
        f"""
extern "C" EQ_KERNEL(32, 1) void eq_matrix_x{count}{trans}(const eq_i32 *X, const eq_i32 *offsets, eq_i32 *Y) {{
  for (int i = 0; i < 16; i++) eq_st_shared_i32(4 * (32 * i + eq_lane()), eq_ld_global_i32(X + 32 * i + eq_lane()));
  eq_barrier();
  unsigned words[{count}];
  eq_ldmatrix_x{count}{trans}(words, eq_ld_global_i32(offsets + eq_lane()));
  for (int i = 0; i < {count}; i++) eq_st_global_i32(Y + {count} * eq_lane() + i, (int)words[i]);
}}"""
        for count in (1, 2, 4)
        for trans in ("", "_trans")
    )
    products = "".join(
        f"""
extern "C" EQ_KERNEL(32, 1) void eq_product_{name}(const eq_i32 *A, const eq_i32 *B, eq_f32 *D) {{
  unsigned a[4], b[2];
  float d[4];
  eq_ld_global_16(a, A + 4 * eq_lane());
  eq_ld_global_8(b, B + 2 * eq_lane());
  eq_ld_global_f32x4(d, D + 4 * eq_lane());
  eq_mma_{name}(d, a, b);
  eq_st_global_f32x4(D + 4 * eq_lane(), d);
}}"""
        for name in ("m16n8k16_f16", "m16n8k16_bf16", "m16n8k8_tf32")
    )
    shuffles = "".join(
        f"""
extern "C" EQ_KERNEL(32, 1) void eq_shuffle_{way}_{t}(const eq_{t} *X, const eq_i32 *by, eq_{t} *Y) {{
  const int lane = eq_lane();
  eq_st_global_{t}(Y + lane, eq_shfl_{way}_{t}(eq_ld_global_{t}(X + lane), eq_ld_global_i32(by + lane)));
}}"""
        for way in ("xor", "down", "up", "lane")
        for t in ("f32", "f64", "i32", "i64")
    )
    return matrices + products + shuffles


def cell_text() -> str:
    """Every width of every cell: from memory through shared memory and back, with and without the predicate."""
    results = []
    for dtype, t in CELLS.items():
        register = REGISTER_C["fp32" if dtype in ("fp16", "bf16") else dtype]
        for count in (1, *(n for n in (2, 4, 8, 16) if f"eq_ld_global_{t}x{n}" in DEVICE_FUNCTIONS)):
            results.append(_one_cell(t, register) if count == 1 else _several_cells(t, register, count))
    return "".join(results)


def _one_cell(t: str, register: str) -> str:
    size = DTYPES[next(name for name, cell in CELLS.items() if cell == t)].bytes
    return f"""
extern "C" EQ_KERNEL(32, 1) void eq_cells_{t}x1(const eq_{t} *X, eq_{t} *Y, eq_{t} *Z) {{
  const int lane = eq_lane();
  eq_st_shared_{t}({size} * lane, eq_ld_global_{t}(X + lane));
  {register} x = eq_ld_shared_{t}({size} * lane);
  eq_st_global_{t}(Y + lane, x);
  x = eq_ld_global_{t}_if(lane % 2, X + (lane % 2 ? lane : 1 << 20));
  eq_st_global_{t}_if(lane < 20, Z + lane, x);
}}
"""


def _several_cells(t: str, register: str, count: int) -> str:
    return f"""
extern "C" EQ_KERNEL(32, 1) void eq_cells_{t}x{count}(const eq_{t} *X, eq_{t} *Y, eq_{t} *Z) {{
  const int lane = eq_lane();
  {register} x[{count}];
  eq_ld_global_{t}x{count}(x, X + {count} * lane);
  eq_st_shared_{t}x{count}((unsigned)sizeof(eq_{t}) * {count} * lane, x);
  {register} y[{count}];
  eq_ld_shared_{t}x{count}(y, (unsigned)sizeof(eq_{t}) * {count} * lane);
  eq_st_global_{t}x{count}(Y + {count} * lane, y);
  eq_ld_global_{t}x{count}_if(lane % 2, x, X + {count} * (lane % 2 ? lane : 1 << 20));
  eq_st_global_{t}x{count}_if(lane < 20, Z + {count} * lane, x);
}}
"""


def copy_text() -> str:
    return "".join(
        f"""
extern "C" EQ_KERNEL(32, 1) void eq_copy{n}(const eq_u8 *X, const eq_i32 *valid, eq_u8 *Y) {{
  const int lane = eq_lane(), bytes = eq_ld_global_i32(valid + lane);
  eq_cp_async{n}({n} * lane, bytes ? X + {n} * lane : X + (1 << 20), bytes);
  eq_cp_async_commit();
  eq_cp_async_wait<0>();
  for (int i = 0; i < {n}; i++) eq_st_global_u8(Y + {n} * lane + i, eq_ld_shared_u8({n} * lane + i));
}}"""
        for n in (4, 8, 16)
    )


RULES = """
extern "C" EQ_KERNEL(64, 1) void eq_sums(const eq_f32 *X, eq_f32 *Y, int step) {
  eq_st_global_f32(Y + eq_thread(), eq_ld_global_f32(X + step * eq_thread()));
}
extern "C" EQ_KERNEL(32, 1) void eq_banks(eq_f32 *Y, int step) {
  eq_st_shared_f32(4 * step * eq_lane(), 1);
  eq_st_global_f32(Y + eq_lane(), eq_ld_shared_f32(4 * step * eq_lane()));
}
extern "C" EQ_KERNEL(32, 1) void eq_wide_banks(eq_f32 *Y, int step) {
  float x[4] = {1, 2, 3, 4};
  eq_st_shared_f32x4(16 * step * eq_lane(), x);
}
extern "C" EQ_KERNEL(32, 1) void eq_in_place(const eq_f32 *X, eq_f32 *Y) {
  const int at = 32 * eq_block_x() + eq_lane();
  eq_st_global_f32(Y + at, 2 * eq_ld_global_f32(X + at));
}
extern "C" EQ_KERNEL(32, 1) void eq_neighbour(const eq_f32 *X, eq_f32 *Y, int blocks) {
  const int block = eq_block_x();
  eq_st_global_f32(Y + 32 * block + eq_lane(), eq_ld_global_f32(X + 32 * ((block + 1) % blocks) + eq_lane()));
}
extern "C" EQ_KERNEL(64, 1) void eq_halves_of_words(eq_i16 *Y) {
  eq_st_shared_i16(2 * eq_thread(), (short)eq_thread());
  eq_barrier();
  eq_st_global_i16(Y + eq_thread(), eq_ld_shared_i16(2 * (63 - eq_thread())));
}
extern "C" EQ_KERNEL(64, 1) void eq_halves_race(eq_i16 *Y) {
  eq_st_shared_i16(2 * (eq_thread() / 2), (short)eq_thread());
}
extern "C" EQ_KERNEL(32, 1) void eq_words_before_halves(eq_i16 *Y) {
  eq_st_shared_i32(4 * eq_lane(), eq_lane());
  eq_st_global_i16(Y + eq_lane(), eq_ld_shared_i16(4 * (31 - eq_lane())));
}
extern "C" EQ_KERNEL(32, 1) void eq_half_written(eq_i32 *Y) {
  eq_st_shared_i16(4 * eq_lane(), 1);
  eq_st_global_i32(Y + eq_lane(), eq_ld_shared_i32(4 * eq_lane()));
}
extern "C" EQ_KERNEL(32, 1) void eq_copy_into_halves(const eq_i32 *X, eq_i32 *Y) {
  eq_st_shared_i16(4 * eq_lane(), 1);
  eq_cp_async4(4 * eq_lane(), X + eq_lane(), 4);
  eq_cp_async_commit();
  eq_cp_async_wait<0>();
  eq_st_global_i32(Y + eq_lane(), eq_ld_shared_i32(4 * eq_lane()));
}
extern "C" EQ_KERNEL(32, 1) void eq_lanes_read_copies(const eq_i32 *X, eq_i32 *Y) {
  eq_cp_async4(4 * eq_lane(), X + eq_lane(), 4);
  eq_cp_async_commit();
  eq_cp_async_wait<0>();
  eq_st_global_i32(Y + eq_lane(), eq_ld_shared_i32(4 * (31 - eq_lane())));
}
extern "C" EQ_KERNEL(32, 1) void eq_last_block_remains(eq_i32 *Y, int write) {
  if (write || eq_block_x() == 0) eq_st_shared_i32(4 * eq_lane(), 1);
  eq_sync_warp();
  eq_st_global_i32(Y + 32 * eq_block_x() + eq_lane(), eq_ld_shared_i32(4 * eq_lane()));
}
extern "C" EQ_KERNEL(32, 1) void eq_places(eq_i32 *Y) {
  const int block = (eq_block_z() * 2 + eq_block_y()) * 3 + eq_block_x();
  eq_st_global_i32(Y + 32 * block + eq_thread(), 100 * eq_block_x() + 10 * eq_block_y() + eq_block_z());
}
"""


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return compile_kernels(collective_text() + cell_text() + copy_text() + RULES)


def random_bits(shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(-(2**31), 2**31, shape, np.int64).astype(np.int32)


@pytest.mark.parametrize("trans", ["", "_trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(kernels: Kernels, count: int, trans: str) -> None:
    x = random_bits((512,))
    rows = RNG.permutation(128)[:32].astype(np.int32)
    y = np.zeros((32, count), np.int32)
    offsets = np.where(8 * count > LANES, 16 * rows, 3).astype(np.int32)  # lanes beyond the matrices pass anything
    report = kernels[f"eq_matrix_x{count}{trans}"].launch((1,), [x, offsets, y], shared_bytes=2048)
    assert not report.findings
    halves = x.view(np.uint16).reshape(128, 8)
    got = y.view(np.uint16).reshape(32, count, 2)
    for matrix in range(count):
        values = halves[rows[8 * matrix : 8 * matrix + 8]]
        values = values.T if trans else values
        for lane in LANES:
            assert got[lane, matrix].tolist() == values[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2].tolist()


@pytest.mark.parametrize(("name", "cell"), [("f16", "fp16"), ("bf16", "bf16")])
def test_mma_of_halves(kernels: Kernels, name: str, cell: str) -> None:
    dtype = DTYPES[cell].numpy
    a, b = RNG.standard_normal((16, 16)).astype(dtype), RNG.standard_normal((16, 8)).astype(dtype)
    c = RNG.standard_normal((16, 8)).astype(np.float32)
    a_words, b_words, d = np.zeros((32, 4, 2), dtype), np.zeros((32, 2, 2), dtype), np.zeros((32, 4), np.float32)
    for lane in range(32):
        group, pair = lane // 4, 2 * (lane % 4)
        for word in range(4):
            row, column = group + 8 * (word % 2), pair + 8 * (word // 2)
            a_words[lane, word] = a[row, column : column + 2]
            d[lane, word] = c[group + 8 * (word // 2), pair + word % 2]
        for word in range(2):
            b_words[lane, word] = b[pair + 8 * word : pair + 8 * word + 2, group]
    report = kernels[f"eq_product_m16n8k16_{name}"].launch((1,), [_words(a_words), _words(b_words), d])
    assert not report.findings
    _check_product(d, a.astype(np.float64) @ b.astype(np.float64) + c)


def test_mma_of_tf32(kernels: Kernels) -> None:
    a, b = RNG.standard_normal((16, 8)).astype(np.float32), RNG.standard_normal((8, 8)).astype(np.float32)
    c = RNG.standard_normal((16, 8)).astype(np.float32)
    a_words, b_words, d = np.zeros((32, 4), np.float32), np.zeros((32, 2), np.float32), np.zeros((32, 4), np.float32)
    for lane in range(32):
        group, place = lane // 4, lane % 4
        a_words[lane] = [a[group + 8 * (word % 2), place + 4 * (word // 2)] for word in range(4)]
        b_words[lane] = [b[place + 4 * word, group] for word in range(2)]
        d[lane] = [c[group + 8 * (word // 2), 2 * place + word % 2] for word in range(4)]
    report = kernels["eq_product_m16n8k8_tf32"].launch((1,), [a_words.view(np.int32), b_words.view(np.int32), d])
    assert not report.findings
    low = np.uint32(0xFFFFE000)
    seen = [(matrix.view(np.uint32) & low).view(np.float32).astype(np.float64) for matrix in (a, b)]
    _check_product(d, seen[0] @ seen[1] + c)


def _words(halves: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(halves).view(np.int32)


def _check_product(d: np.ndarray, wanted: np.ndarray) -> None:
    for lane in range(32):
        for word in range(4):
            assert d[lane, word] == pytest.approx(
                wanted[lane // 4 + 8 * (word // 2), 2 * (lane % 4) + word % 2], rel=1e-5, abs=1e-5
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("way", ["xor", "down", "up", "lane"])
def test_shuffles(kernels: Kernels, way: str, dtype: type[Any]) -> None:
    t = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}[np.dtype(dtype).name]
    x = (RNG.standard_normal(32) * 1e6).astype(dtype)
    y = np.zeros_like(x)
    for by in (np.full(32, 1), np.full(32, 16), RNG.integers(0, 32, 32)):
        kernels[f"eq_shuffle_{way}_{t}"].launch((1,), [x, by.astype(np.int32), y])
        wanted = {"xor": LANES ^ by, "down": LANES + by, "up": LANES - by, "lane": by}[way]
        wanted = np.where((wanted < 0) | (wanted > 31), LANES, wanted)
        np.testing.assert_array_equal(y, x[wanted])


@pytest.mark.parametrize("dtype", CELLS)
def test_cells_of_every_width(kernels: Kernels, dtype: str) -> None:
    numpy = DTYPES[dtype].numpy
    tried = 0
    for count in (1, 2, 4, 8, 16):
        name = f"eq_cells_{CELLS[dtype]}x{count}"
        if name not in kernels:
            continue
        tried += 1
        x = RNG.integers(0, 2 if dtype == "bool" else 100, (32, count)).astype(numpy)
        y, z = np.zeros_like(x), np.ones_like(x)
        report = kernels[name].launch((1,), [x, y, z], shared_bytes=32 * count * numpy.itemsize)
        assert not report.findings
        np.testing.assert_array_equal(y, x)
        wanted = np.where((LANES % 2 == 1)[:, None], x, numpy.type(0))
        np.testing.assert_array_equal(z, np.where((LANES < 20)[:, None], wanted, numpy.type(1)))
    assert tried == {1: 4, 2: 4, 4: 3, 8: 2}[numpy.itemsize]


@pytest.mark.parametrize("nbytes", [4, 8, 16])
def test_copies_fill_with_zeros(kernels: Kernels, nbytes: int) -> None:
    x = RNG.integers(1, 256, 32 * nbytes).astype(np.uint8)
    valid = (LANES % (nbytes + 1)).astype(np.int32)
    y = np.full_like(x, 77)
    report = kernels[f"eq_copy{nbytes}"].launch((1,), [x, valid, y], shared_bytes=32 * nbytes)
    assert not report.findings
    kept = np.arange(nbytes)[None, :] < valid[:, None]
    np.testing.assert_array_equal(y, np.where(kept, x.reshape(32, nbytes), 0).ravel())


class TestCounts:
    @pytest.mark.parametrize(("step", "sectors"), [(1, 8), (2, 16), (8, 64), (0, 2), (100, 64)])
    def test_sectors(self, kernels: Kernels, step: int, sectors: int) -> None:
        x, y = np.zeros(64 * max(step, 1), np.float32), np.zeros(64, np.float32)
        count = kernels["eq_sums"].launch((1,), [x, y, step]).counters
        assert (count.global_loads, count.global_load_sectors) == (2, sectors)
        assert (count.global_stores, count.global_store_sectors) == (2, 8)

    @pytest.mark.parametrize(("step", "conflicts"), [(1, 0), (2, 1), (3, 0), (4, 3), (32, 31), (33, 0)])
    def test_banks(self, kernels: Kernels, step: int, conflicts: int) -> None:
        count = kernels["eq_banks"].launch((1,), [np.zeros(32, np.float32), step], shared_bytes=128 * 33).counters
        assert count.shared_bank_conflicts == 2 * conflicts

    @pytest.mark.parametrize(("step", "conflicts"), [(1, 0), (2, 4), (8, 28), (9, 0)])
    def test_banks_of_wide_accesses(self, kernels: Kernels, step: int, conflicts: int) -> None:
        count = kernels["eq_wide_banks"].launch((1,), [np.zeros(1, np.float32), step], shared_bytes=512 * 9).counters
        assert count.shared_bank_conflicts == conflicts


def run(kernels: Kernels, name: str, *arguments: object, grid: tuple[int, ...] = (1,)) -> Report:
    return kernels[name].launch(grid, arguments, shared_bytes=128)


class TestOrderOfMemory:
    """What is a race and what is none."""

    def test_one_array_may_be_read_and_written_in_place(self, kernels: Kernels) -> None:
        x = np.arange(96, dtype=np.float32)
        assert not run(kernels, "eq_in_place", x, x, grid=(3,)).findings
        np.testing.assert_array_equal(x, 2 * np.arange(96))

    def test_a_block_may_not_read_what_another_writes(self, kernels: Kernels) -> None:
        x = np.arange(96, dtype=np.float32)
        assert run(kernels, "eq_neighbour", x, x, 3, grid=(3,)).kinds == (FindingKind.BLOCK_RACE,)
        assert not run(kernels, "eq_neighbour", x, np.zeros_like(x), 3, grid=(3,)).findings

    def test_halves_of_a_word_are_two_places(self, kernels: Kernels) -> None:
        y = np.zeros(64, np.int16)
        assert not run(kernels, "eq_halves_of_words", y).findings
        np.testing.assert_array_equal(y, np.arange(64)[::-1])

    def test_one_half_is_one_place(self, kernels: Kernels) -> None:
        assert run(kernels, "eq_halves_race", np.zeros(64, np.int16)).kinds == (FindingKind.SHARED_RACE,)

    def test_a_word_and_its_half_meet(self, kernels: Kernels) -> None:
        assert FindingKind.SHARED_RACE in run(kernels, "eq_words_before_halves", np.zeros(32, np.int16)).kinds

    def test_half_a_word_is_not_a_word(self, kernels: Kernels) -> None:
        assert run(kernels, "eq_half_written", np.zeros(32, np.int32)).kinds == (FindingKind.UNINITIALISED_SHARED,)

    def test_a_copy_fills_a_word_that_was_written_in_parts(self, kernels: Kernels) -> None:
        x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
        assert not run(kernels, "eq_copy_into_halves", x, y).findings
        np.testing.assert_array_equal(x, y)

    def test_a_wait_is_for_the_own_copies_alone(self, kernels: Kernels) -> None:
        x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
        kinds = set(run(kernels, "eq_lanes_read_copies", x, y).kinds)
        assert kinds & {FindingKind.SHARED_RACE, FindingKind.COPY_NOT_WAITED_FOR, FindingKind.UNINITIALISED_SHARED}

    def test_shared_memory_does_not_outlive_its_block(self, kernels: Kernels) -> None:
        y = np.zeros(64, np.int32)
        assert not run(kernels, "eq_last_block_remains", y, 1, grid=(2,)).findings
        kinds = run(kernels, "eq_last_block_remains", y, 0, grid=(2,)).kinds
        assert kinds == (FindingKind.UNINITIALISED_SHARED,)


class TestArguments:
    def test_blocks_know_their_place(self, kernels: Kernels) -> None:
        y = np.zeros((2, 2, 3, 32), np.int32)
        run(kernels, "eq_places", y, grid=(3, 2, 2))
        z, row, column, _ = np.indices(y.shape)
        np.testing.assert_array_equal(y, 100 * column + 10 * row + z)

    @pytest.mark.parametrize(
        "arguments",
        [
            [np.zeros(64, np.float32)],
            [np.zeros(64, np.float64), np.zeros(64, np.float32), 1],
            [np.zeros((64, 2), np.float32)[:, 0], np.zeros(64, np.float32), 1],
            [[0.0], np.zeros(64, np.float32), 1],
        ],
    )
    def test_arguments_that_do_not_fit(self, kernels: Kernels, arguments: list[object]) -> None:
        with pytest.raises(EqsatError) as raised:
            kernels["eq_sums"].launch((1,), arguments)
        assert raised.value.kind is Kind.INPUT_MISMATCH

    def test_launches_of_several_host_threads_do_not_meet(self, kernels: Kernels) -> None:
        def one(number: int) -> bool:
            x = np.full(64, number, np.float32)
            y = np.zeros(64, np.float32)
            return not kernels["eq_sums"].launch((1,), [x, y, 1]).findings and bool((y == number).all())

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(one, range(50)))

    def test_arrays_that_overlap(self, kernels: Kernels) -> None:
        x = np.zeros(128, np.float32)
        with pytest.raises(EqsatError, match="overlap"):
            kernels["eq_in_place"].launch((1,), [x[:64], x[32:96]])

    def test_a_kernel_that_is_not_there(self, kernels: Kernels) -> None:
        with pytest.raises(EqsatError, match="eq_nothing"):
            kernels["eq_nothing"]

    @pytest.mark.parametrize(
        "text",
        [
            "void f() {}",
            'extern "C" EQ_KERNEL(33, 1) void eq_k(int n) { }',
            'extern "C" EQ_KERNEL(32, 1) void eq_k(char *x) { }',
            'extern "C" EQ_KERNEL(32, 1) void eq_k(int n) { undefined(n); }',
        ],
    )
    def test_texts_that_are_no_kernels(self, text: str) -> None:
        with pytest.raises(EqsatError) as raised:
            compile_kernels(text)
        assert raised.value.kind is Kind.COMPILE_FAILED
