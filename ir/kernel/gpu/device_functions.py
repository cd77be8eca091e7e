"""The device functions: ALL functions that a GPU kernel's body may call, in one table with their meanings.

A body is C++17 without includes, `asm`, `__shared__` or CUDA builtins: expressions, loops and calls of these
functions. Two preludes define them, one as inline PTX and one as the emulator, so that the same text runs on both.

    extern "C" EQ_KERNEL(256, 2) void eq_k0(const eq_bf16 *__restrict__ A, eq_f32 *__restrict__ C) {
      const int thread = eq_thread();
      EQ_UNROLL
      for (int i = 0; i < 4; i++) eq_cp_async16(16 * thread + 4096 * i, A + 8 * thread + 2048 * i, 16);

Macros: `EQ_KERNEL(threads, min_blocks)` stands between `extern "C"` and `void`. A block has exactly `threads` threads,
in one dimension, and an SM holds at least `min_blocks` blocks. `EQ_UNROLL` stands above a loop that is unrolled
completely, `EQ_NO_UNROLL` above one that is not unrolled.

Types in memory (T → cell): f16 `eq_f16`, bf16 `eq_bf16` (opaque 16-bit structs), f32 `eq_f32` (float), f64 `eq_f64`
(double), integers `eq_i8` … `eq_i64` and `eq_u8` … `eq_u64`, bool `eq_bool` (one byte, 0 or 1).
In registers: fp16 and bf16 are held in `float`, rounded; bool is `bool`; the others have the C type of their cell. A
*word* is an `unsigned` that holds two halves (element 0 in the low 16 bits) or the bits of one tf32.

Blocks count one another in cells `eq_counter`: 0 before and after a launch, accessed by `eq_ticket` and `eq_await`
alone.

Shared memory is one array of bytes per block, addressed by byte offset (`unsigned`; 0 is its start, which is aligned
to 1024 bytes). Its size is a launch parameter. Its contents are undefined until written. A function that fills or
reads several registers takes a pointer to the first of an array.

Every access of n bytes is aligned to n bytes. Numbers follow Tiny IR: NaN stays NaN in max and min, integers wrap,
floats round to nearest even, denormals are kept.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from ir.dtype import DTYPES
from ir.kernel.elementwise import ElementwiseFunction, elementwise_functions
from ir.kernel.gpu.limits import WARPGROUP_COLUMNS, WARPGROUP_ROWS, WARPGROUP_TERMS


class Effect(enum.StrEnum):
    """The effect of a device function besides its result, and the threads that must call it together."""

    PLAIN = "plain"
    """No effect: a function of its arguments, registers behind pointers included."""
    ID = "id"
    """Returns the thread's place in block or grid."""
    GLOBAL_READ = "global_read"
    GLOBAL_WRITE = "global_write"
    GLOBAL_ATOMIC = "global_atomic"
    """Reads and writes memory in one step that orders nothing else."""
    FENCE = "fence"
    """Orders this thread's earlier accesses to memory before its later ones, for the whole device."""
    SHARED_READ = "shared_read"
    SHARED_WRITE = "shared_write"
    WARP = "warp"
    """All 32 lanes of a warp call the function together."""
    WARP_SHARED_READ = "warp_shared_read"
    """As WARP, and the function reads shared memory."""
    WARP_SYNC = "warp_sync"
    """As WARP. The warp's other lanes see accesses made before it, to shared and global memory, after it."""
    BARRIER = "barrier"
    """All threads of the block call the function. After it they see all accesses made before it."""
    ASYNC_COPY = "async_copy"
    """Starts a copy from global to shared memory; undefined until the thread that started it has waited for it."""
    COMMIT = "commit"
    """Closes the group of copies that this thread started since its last commit; the group may be empty."""
    WAIT = "wait"
    """Waits until all but the N latest groups of this thread are complete. Only this thread then sees them."""
    PROXY_FENCE = "proxy_fence"
    """Makes this thread's writes to shared memory visible to the products of warpgroups after the next barrier."""
    WARPGROUP = "warpgroup"
    """All threads of a warpgroup call the function: four warps, the first of which has a multiple of four as number."""
    WARPGROUP_PRODUCT = "warpgroup_product"
    """As WARPGROUP. Starts to read shared memory and to add to registers, until the warpgroup has waited for it."""


WARPGROUP_EFFECTS = (Effect.PROXY_FENCE, Effect.WARPGROUP, Effect.WARPGROUP_PRODUCT)
"""Those of functions that only architectures with warpgroups have ("sm90a")."""


class DeviceFunction(msgspec.Struct, frozen=True):
    """One row. `signature` is C++; `nbytes` is the size of one thread's access to memory (0: none)."""

    name: str
    signature: str
    effect: Effect
    doc: str
    nbytes: int = 0


CELLS: Mapping[str, str] = MappingProxyType(
    {
        "fp16": "f16",
        "bf16": "bf16",
        "fp32": "f32",
        "fp64": "f64",
        "i8": "i8",
        "u8": "u8",
        "i16": "i16",
        "u16": "u16",
        "i32": "i32",
        "u32": "u32",
        "i64": "i64",
        "u64": "u64",
        "bool": "bool",
    }
)
"""dtype → T, the name of its cell in function names; `eq_T` is the C type of an element in memory."""

REGISTER_C: Mapping[str, str] = MappingProxyType(
    {
        "fp32": "float",
        "fp64": "double",
        "i8": "signed char",
        "u8": "unsigned char",
        "i16": "short",
        "u16": "unsigned short",
        "i32": "int",
        "u32": "unsigned",
        "i64": "long long",
        "u64": "unsigned long long",
        "bool": "bool",
        "word": "unsigned",
    }
)
"""Register dtype → C type."""

SUFFIXES: Mapping[str, str] = MappingProxyType({name: CELLS[name] for name in REGISTER_C if name in CELLS})
"""Register dtype → R, its name in function names."""

VECTOR_BYTES = (4, 8, 16)
"""Sizes that one thread moves at once, besides single elements."""

_APPROXIMATIONS: Mapping[str, str] = MappingProxyType(
    {
        "exp2_approx": "2ˣ within 2 ulp; x counts as 0 where it is denormal, and a denormal result is 0",
        "tanh_approx": "tanh x within a relative error of 2⁻¹¹",
    }
)
"""Of fp32 alone, by one instruction each, within the bounds of the PTX ISA (ex2.approx.ftz, tanh.approx)."""
_FLOATS = ("fp32", "fp64")
_ULPS = {"rsqrt": 2, "sigmoid": 4}
"""The largest error of a function in units of the last place; 2 of every other one that is approximated."""
_SHUFFLED = ("fp32", "fp64", "i32", "u32", "i64", "u64")
_SHUFFLES = {
    "xor": ("unsigned mask", "the value of lane (own ⊕ mask)"),
    "down": ("unsigned by", "the value of lane (own + by); the own one where that is beyond 31"),
    "up": ("unsigned by", "the value of lane (own − by); the own one where that is below 0"),
    "lane": ("unsigned lane", "the value of that lane"),
}


def register_suffix(dtype: str) -> str:
    """R of a register dtype; a "word" is a u32."""
    return "u32" if dtype == "word" else SUFFIXES[dtype]


def _ids() -> Iterator[DeviceFunction]:
    for name, doc in (
        ("thread", "the thread's number in its block"),
        ("lane", "thread % 32"),
        ("warp", "thread / 32, which the compiler knows to be the same in all lanes"),
        ("block_x", "the block's place in the grid"),
        ("block_y", "the block's place in the grid"),
        ("block_z", "the block's place in the grid"),
    ):
        yield DeviceFunction(f"eq_{name}", f"int eq_{name}()", Effect.ID, doc)


def _scalars() -> Iterator[DeviceFunction]:
    """Elementwise functions `eq_<fn>_<R of the last argument>`: those of the uops, and a few that kernels need."""
    yield from map(_scalar, elementwise_functions())
    for dtype in _FLOATS:
        c, name = REGISTER_C[dtype], f"eq_fma_{SUFFIXES[dtype]}"
        yield DeviceFunction(name, f"{c} {name}({c} x, {c} y, {c} z)", Effect.PLAIN, "x·y + z rounded once")
    for fn, doc in (("max", "x ∨ y"), ("min", "x ∧ y")):
        yield DeviceFunction(f"eq_{fn}_bool", f"bool eq_{fn}_bool(bool x, bool y)", Effect.PLAIN, doc)
    c = REGISTER_C["fp32"]
    for fn, doc in _APPROXIMATIONS.items():
        yield DeviceFunction(f"eq_{fn}_f32", f"{c} eq_{fn}_f32({c} x)", Effect.PLAIN, doc)


def _scalar(function: ElementwiseFunction) -> DeviceFunction:
    name, letters = function.name, "pxy" if function.row.has_condition else "xyz"
    parameters = (
        f"{REGISTER_C[operand]} {letter}" for operand, letter in zip(function.operands, letters, strict=False)
    )
    ulps = _ULPS.get(function.fn, 2 if function.row.approximate else 0)
    doc = f"{function.row.doc}, within {ulps} ulp" if ulps else function.row.doc
    signature = f"{REGISTER_C[function.result]} {name}({', '.join(parameters)})"
    return DeviceFunction(name, signature, Effect.PLAIN, doc)


def _conversions() -> Iterator[DeviceFunction]:
    rule = "to floats nearest even; float to integer truncates, saturates, NaN gives 0; integers wrap; to bool x ≠ 0"
    for source in SUFFIXES:
        for to in SUFFIXES:
            if source != to:
                name = f"eq_cast_{SUFFIXES[source]}_{SUFFIXES[to]}"
                signature = f"{REGISTER_C[to]} {name}({REGISTER_C[source]} x)"
                yield DeviceFunction(name, signature, Effect.PLAIN, rule)
    yield DeviceFunction(
        "eq_odd_f32",
        "float eq_odd_f32(double x)",
        Effect.PLAIN,
        "x rounded to odd, so that rounding the result to 16 bits rounds x once",
    )
    for t in ("f16", "bf16"):
        plain = Effect.PLAIN
        yield DeviceFunction(
            f"eq_round_{t}", f"float eq_round_{t}(float x)", plain, f"the {t} nearest to x (ties to even), as a float"
        )
        yield DeviceFunction(
            f"eq_pack_{t}", f"unsigned eq_pack_{t}(float low, float high)", plain, f"both rounded to {t}, in one word"
        )
        yield DeviceFunction(f"eq_low_{t}", f"float eq_low_{t}(unsigned word)", plain, "its element 0")
        yield DeviceFunction(f"eq_high_{t}", f"float eq_high_{t}(unsigned word)", plain, "its element 1")
    yield DeviceFunction(
        "eq_tf32",
        "unsigned eq_tf32(float x)",
        Effect.PLAIN,
        "x rounded to tf32 (10 bits of mantissa, ties away; denormals towards 0); NaN stays NaN",
    )
    for t, c, word in (
        *(("f16", "float", "u16"), ("bf16", "float", "u16")),
        *(("f32", "float", "u32"), ("f64", "double", "u64")),
    ):
        u, to, of = REGISTER_C[word], f"eq_bits_{t}", f"eq_from_bits_{t}"
        yield DeviceFunction(to, f"{u} {to}({c} x)", Effect.PLAIN, f"the bits of x, which a {t} holds")
        yield DeviceFunction(of, f"{c} {of}({u} bits)", Effect.PLAIN, f"the {t} with these bits")
    for t, c in (("f32", "float"), ("f64", "double")):
        yield DeviceFunction(f"eq_inf_{t}", f"{c} eq_inf_{t}()", Effect.PLAIN, "+∞")
        yield DeviceFunction(f"eq_nan_{t}", f"{c} eq_nan_{t}()", Effect.PLAIN, "a quiet NaN")
    yield DeviceFunction(
        "eq_swizzle",
        "template <int bits> unsigned eq_swizzle(unsigned offset)",
        Effect.PLAIN,
        "offset ^ (offset >> 3 & (2^bits − 1) << 4): 16-byte chunks of 128 bytes permuted by the number of the 128 "
        "bytes, as TMA's swizzles of 32, 64 and 128 bytes do for bits 1, 2, 3; 0 bits change nothing",
    )
    yield DeviceFunction(
        "eq_clip",
        "int eq_clip(long long x, int high)",
        Effect.PLAIN,
        "x held within [0, high]: how much of a piece lies before a limit",
    )
    yield DeviceFunction(
        "eq_clip_wide", "long long eq_clip_wide(long long x, long long high)", Effect.PLAIN, "as eq_clip, in 64 bits"
    )


def _memory() -> Iterator[DeviceFunction]:
    """`eq_ld_*` and `eq_st_*`: single elements T, vectors of n neighbours TxN, and raw bytes `_4`, `_8`, `_16`."""
    for dtype, t in CELLS.items():
        size = DTYPES[dtype].bytes
        register = REGISTER_C["fp32" if dtype in ("fp16", "bf16") else dtype]
        yield from _elements(t, register, size)
        for nbytes in VECTOR_BYTES:
            if nbytes > size:
                yield from _vectors(f"{t}x{nbytes // size}", register, f"eq_{t}", nbytes, f"{nbytes // size} elements")
    for nbytes in VECTOR_BYTES:
        yield from _vectors(str(nbytes), "unsigned", "void", nbytes, f"{nbytes // 4} words as they stand")


def _elements(t: str, register: str, size: int) -> Iterator[DeviceFunction]:
    read, write = Effect.GLOBAL_READ, Effect.GLOBAL_WRITE
    one, rounded = "one element", "one element, rounded to its type"
    yield DeviceFunction(f"eq_ld_global_{t}", f"{register} eq_ld_global_{t}(const eq_{t} *from)", read, one, size)
    yield DeviceFunction(
        f"eq_ld_global_{t}_if",
        f"{register} eq_ld_global_{t}_if(bool wanted, const eq_{t} *from)",
        read,
        "one element, or 0 without touching memory",
        size,
    )
    name = f"eq_st_global_{t}"
    yield DeviceFunction(name, f"void {name}(eq_{t} *to, {register} x)", write, rounded, size)
    yield DeviceFunction(
        f"{name}_if", f"void {name}_if(bool wanted, eq_{t} *to, {register} x)", write, f"{rounded}, or nothing", size
    )
    name = f"eq_ld_shared_{t}"
    yield DeviceFunction(name, f"{register} {name}(unsigned offset)", Effect.SHARED_READ, one, size)
    name = f"eq_st_shared_{t}"
    yield DeviceFunction(name, f"void {name}(unsigned offset, {register} x)", Effect.SHARED_WRITE, rounded, size)


def _vectors(suffix: str, register: str, cell: str, nbytes: int, doc: str) -> Iterator[DeviceFunction]:
    read, write = Effect.GLOBAL_READ, Effect.GLOBAL_WRITE
    name = f"eq_ld_global_{suffix}"
    yield DeviceFunction(name, f"void {name}({register} *to, const {cell} *from)", read, doc, nbytes)
    yield DeviceFunction(
        f"{name}_if",
        f"void {name}_if(bool wanted, {register} *to, const {cell} *from)",
        read,
        f"{doc}, or zeros without touching memory",
        nbytes,
    )
    name = f"eq_st_global_{suffix}"
    yield DeviceFunction(name, f"void {name}({cell} *to, const {register} *from)", write, doc, nbytes)
    yield DeviceFunction(
        f"{name}_if",
        f"void {name}_if(bool wanted, {cell} *to, const {register} *from)",
        write,
        f"{doc}, or nothing",
        nbytes,
    )
    name = f"eq_ld_shared_{suffix}"
    yield DeviceFunction(name, f"void {name}({register} *to, unsigned offset)", Effect.SHARED_READ, doc, nbytes)
    name = f"eq_st_shared_{suffix}"
    yield DeviceFunction(
        name, f"void {name}(unsigned offset, const {register} *from)", Effect.SHARED_WRITE, doc, nbytes
    )


def _copies() -> Iterator[DeviceFunction]:
    for nbytes in VECTOR_BYTES:
        name = f"eq_cp_async{nbytes}"
        yield DeviceFunction(
            name,
            f"void {name}(unsigned to, const void *from, unsigned valid_bytes)",
            Effect.ASYNC_COPY,
            f"{nbytes} bytes to the shared offset `to`: the first valid_bytes ≤ {nbytes} from memory, then zeros; "
            "with 0 memory is not touched, and `from` may be any address",
            nbytes,
        )
    yield DeviceFunction("eq_cp_async_commit", "void eq_cp_async_commit()", Effect.COMMIT, "ends a group of copies")
    yield DeviceFunction(
        "eq_cp_async_wait",
        "template <int pending> void eq_cp_async_wait()",
        Effect.WAIT,
        "until at most `pending` of this thread's groups are incomplete",
    )
    yield DeviceFunction("eq_barrier", "void eq_barrier()", Effect.BARRIER, "all threads of the block")
    yield DeviceFunction("eq_sync_warp", "void eq_sync_warp()", Effect.WARP_SYNC, "all lanes of the warp")


def _blocks() -> Iterator[DeviceFunction]:
    """The functions by which blocks of one launch hand results to one another."""
    yield DeviceFunction(
        "eq_barrier_or",
        "int eq_barrier_or(bool x)",
        Effect.BARRIER,
        "all threads of the block; 1 in all of them where x holds in any, else 0",
    )
    yield DeviceFunction(
        "eq_fence",
        "void eq_fence()",
        Effect.FENCE,
        "what this thread did in memory, and what barriers told it of, comes before its next eq_ticket; what others "
        "fenced before their earlier tickets comes before what this thread does after it",
    )
    yield DeviceFunction(
        "eq_ticket",
        "int eq_ticket(eq_counter *counter, int count)",
        Effect.GLOBAL_ATOMIC,
        "the counter, which goes on by 1, and from count − 1 back to 0",
        4,
    )
    yield DeviceFunction(
        "eq_await",
        "void eq_await(eq_counter *counter, int count)",
        Effect.GLOBAL_ATOMIC,
        "waits while the counter is 0, then goes on as eq_ticket does",
        4,
    )


def _collectives() -> Iterator[DeviceFunction]:
    yield DeviceFunction(
        "eq_any_lane", "int eq_any_lane(bool x)", Effect.WARP, "1 in all lanes of the warp where x holds in any, else 0"
    )
    for way, (argument, doc) in _SHUFFLES.items():
        for dtype in _SHUFFLED:
            c, name = REGISTER_C[dtype], f"eq_shfl_{way}_{register_suffix(dtype)}"
            yield DeviceFunction(name, f"{c} {name}({c} x, {argument})", Effect.WARP, doc)
    for count in (1, 2, 4):
        for trans in ("", "_trans"):
            name = f"eq_ldmatrix_x{count}{trans}"
            turned = ", transposed: (column l//4, rows 2(l%4) and +1)" if trans else ""
            yield DeviceFunction(
                name,
                f"void {name}(unsigned *to, unsigned offset)",
                Effect.WARP_SHARED_READ,
                f"{count} matrices of 8 × 8 halves; row r of matrix m lies in 16 bytes at the offset of lane 8m + r "
                f"(lanes from {8 * count} on pass any). Lane l gets in word m of `to` the elements of matrix m "
                f"at (row l//4, columns 2(l%4) and +1){turned}",
                16,
            )
    for t in ("f16", "bf16"):
        name = f"eq_mma_m16n8k16_{t}"
        yield DeviceFunction(
            name,
            f"void {name}(float *d, const unsigned *a, const unsigned *b)",
            Effect.WARP,
            "d (16 × 8) += a (16 × 16) · b (16 × 8). With g = lane//4, t = lane%4: d[i] is at (g + 8(i//2), 2t + i%2); "
            "word i of a (4) at rows g + 8(i%2), columns 2t + 8(i//2) and +1; word i of b (2) at rows 2t + 8i and +1, "
            "column g",
        )
    yield DeviceFunction(
        "eq_mma_m16n8k8_tf32",
        "void eq_mma_m16n8k8_tf32(float *d, const unsigned *a, const unsigned *b)",
        Effect.WARP,
        "d (16 × 8) += a (16 × 8) · b (8 × 8) of tf32. d as above; word i of a (4) is at (g + 8(i%2), t + 4(i//2)); "
        "word i of b (2) at (t + 4i, g)",
    )


def _warpgroups() -> Iterator[DeviceFunction]:
    yield DeviceFunction(
        "eq_proxy_fence",
        "void eq_proxy_fence()",
        Effect.PROXY_FENCE,
        "what this thread stored and copied to shared memory is visible to products that follow the next barrier",
    )
    for n in WARPGROUP_COLUMNS:
        yield DeviceFunction(
            f"eq_wgmma_fence_n{n}",
            f"void eq_wgmma_fence_n{n}(float *d)",
            Effect.WARPGROUP,
            f"what the threads did to the {n // 2} accumulators d comes before later products",
        )
        for t in ("f16", "bf16"):
            name = f"eq_wgmma_m{WARPGROUP_ROWS}n{n}k{WARPGROUP_TERMS}_{t}"
            yield DeviceFunction(
                name,
                f"template <int panel_a, int panel_b> void {name}(float *d, unsigned a, unsigned b)",
                Effect.WARPGROUP_PRODUCT,
                f"starts d (64 × {n}) += a (64 × 16) · b (16 × {n}). With g = lane//4, t = lane%4: d[i] of warp w is "
                "at (16(w%4) + g + 8(i//2%2), 8(i//4) + 2t + i%2). a and b start at these bytes of shared memory. "
                "Terms side by side (panel 0): row r of a, and column r of b, is in 128 bytes from 128r on. Rows, or "
                "columns, side by side: term k of numbers 64p to 64p + 63 is in 128 bytes from panel·p + 128k on. All "
                "is swizzled as by eq_swizzle<3>",
            )
        yield DeviceFunction(
            f"eq_wgmma_wait_n{n}",
            f"template <int pending> void eq_wgmma_wait_n{n}(float *d)",
            Effect.WARPGROUP,
            "until at most `pending` of the warpgroup's groups are incomplete; d may then be touched where none of "
            "these adds to it",
        )
    yield DeviceFunction(
        "eq_wgmma_commit", "void eq_wgmma_commit()", Effect.WARPGROUP, "ends a group of products; it may be empty"
    )


def _table() -> Mapping[str, DeviceFunction]:
    rows = (*_ids(), *_scalars(), *_conversions(), *_memory(), *_copies(), *_blocks(), *_collectives(), *_warpgroups())
    return MappingProxyType({row.name: row for row in rows})


DEVICE_FUNCTIONS: Mapping[str, DeviceFunction] = _table()
"""Every function that a kernel's body may call, by name."""


def called_function(fn: str, arguments: Sequence[str], result: str) -> str:
    """The name of the device function of a `Call`: `eq_<fn>_<R of the last argument>`, or `eq_<fn>` if there is only
    one. The name of a cast has both types. The name may be missing in the table."""
    last = register_suffix(arguments[-1]) if arguments else ""
    if fn == "cast":
        return f"eq_cast_{last}_{register_suffix(result)}"
    typed = f"eq_{fn}_{last}"
    return typed if typed in DEVICE_FUNCTIONS else f"eq_{fn}"


def parameters(function: DeviceFunction) -> tuple[str, list[str]]:
    """The C types of the function's result and of its parameters."""
    head, _, tail = function.signature.partition(f"{function.name}(")
    types = [
        parameter.strip().rpartition(" ")[0] if "*" not in parameter else parameter
        for parameter in tail.rstrip(")").split(",")
    ]
    return head.rpartition(">")[2].strip(), [parameter for parameter in types if parameter]
