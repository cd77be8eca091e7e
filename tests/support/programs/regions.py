"""Regions built by hand, one per shape of kernel, for tests of the stages after extraction.

Buffers are named as in the formula of the builder's docstring. Any size may be 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from ir.index.expr import interval, parse_expr
from ir.index.guard import Bound, Guard, canonical_fill
from ir.index.map import AxisMap, axis_map, compose, parse_map
from ir.region.region import Buffer, Definition, MemRef, Number, Op, Operand, OpKind, Region, Yield

Sizes = tuple[int, ...]


def buffer(name: str, shape: Sizes, dtype: str = "fp32", *, constant: bool = False) -> Buffer:
    """A row-major buffer of `shape`."""
    return Buffer(name, MemRef(tuple(shape), dtype), constant=constant)


def read(
    value: str, domain: Sizes, *coords: str, pad: Mapping[int, int] | None = None, fill: float | str = 0
) -> Operand:
    """`value` at `coords` over the axes i0, i1, … of `domain`; `pad` gives, per padded coordinate, the
    operand's size there: outside it `fill` stands instead."""
    return Operand(value, index_map(domain, *coords, pad=pad, fill=fill))


def index_map(domain: Sizes, *coords: str, pad: Mapping[int, int] | None = None, fill: float | str = 0) -> AxisMap:
    """The map from `domain` to `coords`, written over i0, i1, …; `pad` and `fill` as in `read`."""
    if 0 in domain:
        return axis_map(domain, [parse_expr("0", ()) for _ in coords])
    exprs = [parse_expr(coord, _axes(len(domain)), domain) for coord in coords]
    bounds = tuple(Bound(exprs[position], 0, size) for position, size in (pad or {}).items())
    return axis_map(domain, exprs, [Guard(bounds, canonical_fill(float(fill)))] if bounds else [])


def same(value: str, domain: Sizes) -> Operand:
    """`value` at the point itself."""
    return read(value, domain, *_axes(len(domain)))


def ewise(name: str, fn: str, domain: Sizes, *inputs: Operand | Number, dtype: str = "fp32") -> Definition:
    """An elementwise op, unary where it has one operand."""
    kind: OpKind = "cast" if fn == "cast" else "copy" if fn == "copy" else _elementwise_kind(inputs)
    return Definition(name, Op(kind, fn, dtype, tuple(domain), tuple(inputs)))


def contraction(name: str, domain: Sizes, reduced: int, lhs: Operand, rhs: Operand, dtype: str = "fp32") -> Definition:
    """The sum of lhs·rhs over the last `reduced` axes of `domain`."""
    return Definition(name, Op("contraction", "sum", dtype, tuple(domain), (lhs, rhs), reduced=reduced))


def reduction(name: str, fn: str, domain: Sizes, reduced: int, x: Operand, dtype: str = "fp32") -> Definition:
    """`fn` (sum, max, min, prod) of x over the last `reduced` axes of `domain`."""
    return Definition(name, Op("reduce", fn, dtype, tuple(domain), (x,), reduced=reduced))


def region(
    name: str,
    inputs: Sequence[Buffer],
    body: Sequence[Definition],
    out: Sizes,
    *,
    value: str | None = None,
    at: Sequence[str] | None = None,
    dtype: str = "fp32",
    result: str = "Y",
) -> Region:
    """The region that writes its last value (or `value`), read at the coordinates `at`, to a buffer `result`."""
    coords = _axes(len(out)) if at is None else tuple(at)
    yielded = Yield(value or body[-1].name, result, index_map(out, *coords))
    return Region(name, tuple(inputs), (buffer(result, out, dtype),), tuple(body), (yielded,))


# --- contractions ---------------------------------------------------------------------------------


def gemm_bias_relu(m: int = 4, n: int = 6, k: int = 5, dtype: str = "fp32", acc: str = "fp32") -> Region:
    """C = relu(A·B + bias): seed 000 §15.1."""
    over, out = (m, n, k), (m, n)
    body = [
        contraction("C0", over, 1, read("A", over, "i0", "i2"), read("B", over, "i2", "i1"), acc),
        ewise("C1", "add", out, same("C0", out), read("bias", out, "i1"), dtype=acc),
        ewise("C2", "relu", out, same("C1", out), dtype=acc),
    ]
    if dtype != acc:
        body.append(ewise("C3", "cast", out, same("C2", out), dtype=dtype))
    inputs = [buffer("A", (m, k), dtype), buffer("B", (k, n), dtype, constant=True), buffer("bias", (n,), dtype)]
    return region("gemm_bias_relu", inputs, body, out, dtype=dtype, result="C")


def matmul(
    batch: Sizes = (),
    m: int = 4,
    n: int = 6,
    k: int = 5,
    *,
    lhs_t: bool = False,
    rhs_t: bool = False,
    out_t: bool = False,
    share_rhs: bool = False,
    dtype: str = "fp32",
) -> Region:
    """Y = A·B over batch axes, with A [.., k, m], B [.., n, k] or Y [.., n, m] where transposed; `share_rhs`
    gives B no batch axes."""
    rank = len(batch)
    row, col, red = f"i{rank}", f"i{rank + 1}", f"i{rank + 2}"
    over, lead = (*batch, m, n, k), _axes(rank)
    lhs = (red, row) if lhs_t else (row, red)
    rhs = (col, red) if rhs_t else (red, col)
    sizes = {row: m, col: n, red: k}
    rhs_lead = () if share_rhs else lead
    body = [contraction("C", over, 1, read("A", over, *lead, *lhs), read("B", over, *rhs_lead, *rhs), dtype)]
    inputs = [
        buffer("A", (*batch, *(sizes[axis] for axis in lhs)), dtype),
        buffer("B", (*(() if share_rhs else batch), *(sizes[axis] for axis in rhs)), dtype),
    ]
    out, at = ((*batch, n, m), (*lead, col, row)) if out_t else ((*batch, m, n), (*lead, row, col))
    return region("matmul", inputs, body, out, at=at if not out_t else (*lead, col, row), dtype=dtype)


def matvec(m: int = 4, k: int = 5) -> Region:
    """Y = A·x: a contraction with no n axis."""
    over = (m, k)
    body = [contraction("C", over, 1, read("A", over, "i0", "i1"), read("x", over, "i1"))]
    return region("matvec", [buffer("A", (m, k)), buffer("x", (k,))], body, (m,))


def conv_output(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    """The extent of a convolution's output along one axis."""
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def conv(
    batch: int = 1,
    c_in: int = 3,
    c_out: int = 4,
    size: tuple[int, int] = (7, 9),
    kernel: int = 3,
    stride: int = 2,
    pad: int = 1,
    dilation: int = 1,
    *,
    groups: int = 1,
    epilogue: bool = False,
    fn: str = "relu",
) -> Region:
    """Y = X * W (NCHW), in groups [n, g·o, h, w] where `groups` > 1; with `epilogue`, fn(Y·scale + shift)."""
    spatial = tuple(conv_output(extent, kernel, stride, pad, dilation) for extent in size)
    channel, out_channel = c_in // groups, c_out // groups
    over = (batch, c_out, *spatial, channel, kernel, kernel)
    group = f"i1 // {out_channel}"
    lead = "i4" if groups == 1 else f"{channel} * ({group}) + i4"
    rows, cols = (f"{stride}*i{axis} + {dilation}*i{axis + 3} - {pad}" for axis in (2, 3))
    padded = {2: size[0], 3: size[1]} if pad else {}
    body = [
        contraction(
            "C",
            over,
            3,
            read("X", over, "i0", lead, rows, cols, pad=padded),
            read("W", over, "i1", "i4", "i5", "i6"),
        )
    ]
    inputs = [
        buffer("X", (batch, c_in, *size)),
        buffer("W", (c_out, channel, kernel, kernel), constant=True),
    ]
    out = (batch, c_out, *spatial)
    if epilogue:
        body += [
            ewise("S", "mul", out, same("C", out), read("scale", out, "i1")),
            ewise("B", "add", out, same("S", out), read("shift", out, "i1")),
            ewise("R", fn, out, same("B", out)),
        ]
        inputs += [buffer("scale", (c_out,), constant=True), buffer("shift", (c_out,), constant=True)]
    return region("conv", inputs, body, out)


def conv_bn_relu(**how: int) -> Region:
    """Y = relu(conv(X, W)·scale + shift), 3×3, stride 2, pad 1 unless `how` says otherwise."""
    return conv(epilogue=True, **how)  # type: ignore[arg-type]


def attention_scores(b: int = 2, h: int = 3, m: int = 4, n: int = 5, d: int = 6) -> Region:
    """S = Q·Kᵀ·0.5 + mask[m, n]: the masked scores of attention, the mask broadcast over batch and heads."""
    over, out = (b, h, m, n, d), (b, h, m, n)
    body = [
        contraction("S0", over, 1, read("Q", over, "i0", "i1", "i2", "i4"), read("K", over, "i0", "i1", "i3", "i4")),
        ewise("S1", "mul", out, same("S0", out), Number(0.5, "fp32")),
        ewise("S2", "add", out, same("S1", out), read("mask", out, "i2", "i3")),
    ]
    inputs = [buffer("Q", (b, h, m, d)), buffer("K", (b, h, n, d)), buffer("mask", (m, n))]
    return region("attention_scores", inputs, body, out, result="S")


def prologue_gemm(m: int = 4, n: int = 6, k: int = 5) -> Region:
    """Y = relu(A)·B: the prologue lives in the product's domain."""
    over = (m, n, k)
    body = [
        ewise("P", "relu", (m, k), same("A", (m, k))),
        contraction("C", over, 1, read("P", over, "i0", "i2"), read("B", over, "i2", "i1")),
    ]
    return region("prologue_gemm", [buffer("A", (m, k)), buffer("B", (k, n))], body, (m, n))


def seen_through(view: str, given: Region, name: str = "X") -> Region:
    """The region with its input `name`, whose shape is the domain of `view`, read through this map: the input has the
    least shape that holds all elements read."""
    way = parse_map(view)
    shape = tuple(interval(expr, way.interior)[1] + 1 for expr in way.exprs)
    inputs = tuple(
        structs.replace(buffer, memref=MemRef(shape, buffer.memref.dtype)) if buffer.name == name else buffer
        for buffer in given.inputs
    )
    body = tuple(
        structs.replace(
            let, op=structs.replace(let.op, inputs=tuple(_behind(operand, name, way) for operand in let.op.inputs))
        )
        for let in given.body
    )
    return structs.replace(given, inputs=inputs, body=body)


def _behind(operand: Operand | Number, name: str, view: AxisMap) -> Operand | Number:
    if isinstance(operand, Number) or operand.value != name:
        return operand
    return Operand(name, compose(view, operand.map))


def moved_products() -> dict[str, Region]:
    """Products and convolutions of operands that are read backwards, enlarged, repeated or with zeros between."""
    product, image = matmul((), 21, 37, 18), conv(2, 5, 18, (10, 36), 3, 1, 1)
    zeros = "0<=i2 - 2*(i2//2)<1 and 0<=i3 - 2*(i3//2)<1"
    seen = {
        "every second row backwards": seen_through("[21,18] -> [40 - 2*i0, i1]", product, "A"),
        "every second term backwards": seen_through("[18,37] -> [34 - 2*i0, i1]", product, "B"),
        "columns backwards": seen_through("[18,37] -> [i0, 36 - i1]", product, "B"),
        "rows repeated": seen_through("[21,18] -> [i0//3, i1]", product, "A"),
        "columns repeated": seen_through("[18,37] -> [i0, i1//2]", product, "B"),
        "columns tiled": seen_through("[18,37] -> [i0, i1 - 6*(i1//6)]", product, "B"),
        "image turned": seen_through("[2,5,10,36] -> [i0, i1, 9 - i2, 35 - i3]", image),
        "image doubled": seen_through("[2,5,10,36] -> [i0, i1, i2//2, i3//2]", image),
        "image tiled": seen_through("[2,5,10,36] -> [i0, i1, i2 - 5*(i2//5), i3 - 9*(i3//9)]", image),
        "image at 3/4": seen_through("[2,5,10,36] -> [i0, i1, i2, (3*i3)//4]", image),
        "image with zeros between": seen_through(f"[2,5,10,36] -> [i0, i1, i2//2, i3//2] if {zeros} else 0", image),
        "every second pixel a zero": seen_through(
            "[2,5,10,36] -> [i0, i1, i2, i3] if 0<=i3 - 2*(i3//2)<1 else 0", image
        ),
        "ones between, one input channel": seen_through(
            f"[1,1,10,36] -> [i0, i1, i2//2, i3//2] if {zeros} else 1", conv(1, 1, 20, (10, 36), 3, 1, 1)
        ),
        "doubled, strided, in groups": seen_through(
            "[1,6,20,34] -> [i0, i1, i2//2, i3//2]", conv(1, 6, 16, (20, 34), 3, 2, 1, groups=2)
        ),
    }
    return {kind: structs.replace(region, name=kind) for kind, region in seen.items()}


# --- pointwise and movement -----------------------------------------------------------------------


def pointwise(shape: Sizes = (3, 5), dtype: str = "fp32") -> Region:
    """Y = exp(X + bias) · 2, bias along the last axis."""
    last = f"i{len(shape) - 1}"
    body = [
        ewise("A", "add", shape, same("X", shape), read("bias", shape, last), dtype=dtype),
        ewise("E", "exp", shape, same("A", shape), dtype=dtype),
        ewise("M", "mul", shape, same("E", shape), Number(2.0, dtype), dtype=dtype),
    ]
    inputs = [buffer("X", shape, dtype), buffer("bias", (shape[-1],), dtype)]
    return region("pointwise", inputs, body, shape, dtype=dtype)


def outer_sum(m: int = 3, n: int = 5) -> Region:
    """Y = a[:, None] + b[None, :]."""
    out = (m, n)
    body = [ewise("A", "add", out, read("a", out, "i0"), read("b", out, "i1"))]
    return region("outer_sum", [buffer("a", (m,)), buffer("b", (n,))], body, out)


def move(source: Sizes, out: Sizes, *coords: str, pad: Mapping[int, int] | None = None, fill: float = 0) -> Region:
    """Y = X at `coords`: any single movement."""
    body = [ewise("M", "copy", out, read("X", out, *coords, pad=pad, fill=fill))]
    return region("move", [buffer("X", source)], body, out)


def transpose(m: int = 5, n: int = 7) -> Region:
    """Y = Xᵀ."""
    return move((m, n), (n, m), "i1", "i0")


def pad2d(m: int = 4, n: int = 5, before: int = 1, after: int = 2, fill: float = 0) -> Region:
    """Y = X with a border of `fill` on both axes."""
    out = (m + before + after, n + before + after)
    return move((m, n), out, f"i0 - {before}", f"i1 - {before}", pad={0: m, 1: n}, fill=fill)


def padded_chain(n: int = 6) -> Region:
    """Y = relu(pad(X, 1, fill −1) + X2), the padded read inside a pointwise chain."""
    out = (n + 2,)
    body = [
        ewise("A", "add", out, read("X", out, "i0 - 1", pad={0: n}, fill=-1.0), same("X2", out)),
        ewise("R", "relu", out, same("A", out)),
    ]
    return region("padded_chain", [buffer("X", (n,)), buffer("X2", out)], body, out)


def iota(m: int = 3, n: int = 5) -> Region:
    """Y = X + the column's number."""
    out = (m, n)
    index = Definition("I", Op("index", "index", "fp32", out, index_map=index_map(out, "i1")))
    body = [index, ewise("A", "add", out, same("X", out), same("I", out))]
    return region("iota", [buffer("X", out)], body, out)


def gather(rows: int = 10, width: int = 4, count: int = 6) -> Region:
    """Y[i, j] = T[index[i], j]."""
    out = (count, width)
    body = [
        Definition(
            "G",
            Op("gather", "gather", "fp32", out, (read("T", (*out, rows), "i2", "i1"), read("index", out, "i0"))),
        )
    ]
    return region("gather", [buffer("T", (rows, width)), buffer("index", (count,), "i64")], body, out)


def scatter(
    shape: Sizes = (6, 4),
    axis: int = 0,
    count: int = 5,
    fn: str = "sum",
    *,
    dtype: str = "fp32",
    index: str = "i64",
    along: Sizes | None = None,
    prologue: bool = False,
    epilogue: bool = False,
) -> Region:
    """Y = X with U combined in at the positions I along `axis`. `along`: the axes of Y on which the index depends, by
    default all. `prologue`: Y = 2·X with U + U. `epilogue`: Y = Y + Y·X."""
    own = tuple(range(len(shape))) if along is None else along
    at_updates = tuple(count if k == axis else size for k, size in enumerate(shape))
    at_index = tuple(count if k == axis else size if k in own else 1 for k, size in enumerate(shape))
    domain = (*shape, count)
    coords = [f"i{len(shape)}" if k == axis else f"i{k}" for k in range(len(shape))]
    position = read("I", domain, *(coord if k == axis or k in own else "0" for k, coord in enumerate(coords)))
    source, updates = ("A", "B") if prologue else ("X", "U")
    body = [
        ewise("A", "mul", shape, same("X", shape), Number(2, dtype), dtype=dtype),
        ewise("B", "add", at_updates, same("U", at_updates), same("U", at_updates), dtype=dtype),
    ]
    op = Op(
        *("scatter", fn, dtype, domain),
        (read(source, domain, *_axes(len(shape))), position, read(updates, domain, *coords)),
        reduced=1,
        axis=axis,
    )
    inputs = [buffer("X", shape, dtype), buffer("I", at_index, index), buffer("U", at_updates, dtype)]
    after = [
        ewise("P", "mul", shape, same("S", shape), same("X", shape), dtype=dtype),
        ewise("Q", "add", shape, same("S", shape), same("P", shape), dtype=dtype),
    ]
    body = [*(body if prologue else []), Definition("S", op), *(after if epilogue else [])]
    return region("scatter", inputs, body, shape, dtype=dtype)


# --- reductions and scans -------------------------------------------------------------------------


def row_reduce(m: int = 4, n: int = 7, fn: str = "sum") -> Region:
    """Y[i] = fn over j of X[i, j]."""
    body = [reduction("R", fn, (m, n), 1, same("X", (m, n)))]
    return region("row_reduce", [buffer("X", (m, n))], body, (m,))


def column_reduce(m: int = 4, n: int = 7, fn: str = "sum") -> Region:
    """Y[j] = fn over i of X[i, j]."""
    body = [reduction("R", fn, (n, m), 1, read("X", (n, m), "i1", "i0"))]
    return region("column_reduce", [buffer("X", (m, n))], body, (n,))


def total(shape: Sizes = (3, 4), fn: str = "sum") -> Region:
    """Y[] = fn of all of X."""
    body = [reduction("R", fn, shape, len(shape), same("X", shape))]
    return region("total", [buffer("X", shape)], body, ())


def row_max_of_scaled(m: int = 4, n: int = 7) -> Region:
    """Y[i] = max over j of 0.5·X[i, j]: softmax, first piece."""
    body = [
        ewise("P", "mul", (m, n), same("X", (m, n)), Number(0.5, "fp32")),
        reduction("R", "max", (m, n), 1, same("P", (m, n))),
    ]
    return region("row_max_of_scaled", [buffer("X", (m, n))], body, (m,))


def sum_of_exp(m: int = 4, n: int = 7) -> Region:
    """Y[i] = sum over j of exp(X[i, j] − max[i]): softmax, second piece."""
    over = (m, n)
    body = [
        ewise("D", "sub", over, same("X", over), read("max", over, "i0")),
        ewise("E", "exp", over, same("D", over)),
        reduction("R", "sum", over, 1, same("E", over)),
    ]
    return region("sum_of_exp", [buffer("X", over), buffer("max", (m,))], body, (m,))


def normalize(m: int = 4, n: int = 7) -> Region:
    """Y = exp(X − max) / sum: softmax, third piece."""
    over = (m, n)
    body = [
        ewise("D", "sub", over, same("X", over), read("max", over, "i0")),
        ewise("E", "exp", over, same("D", over)),
        ewise("Q", "fdiv", over, same("E", over), read("sum", over, "i0")),
    ]
    return region("normalize", [buffer("X", over), buffer("max", (m,)), buffer("sum", (m,))], body, over)


def centre_rows(m: int = 4, n: int = 7) -> Region:
    """Y = X − sum over j of X: a reduction whose value spans a subset of the output's axes."""
    over = (m, n)
    body = [
        reduction("R", "sum", over, 1, same("X", over)),
        ewise("D", "sub", over, same("X", over), read("R", over, "i0")),
    ]
    return region("centre_rows", [buffer("X", over)], body, over)


def cumsum(m: int = 3, n: int = 6, axis: int = 1, fn: str = "sum") -> Region:
    """Y = X accumulated along `axis`."""
    over = (m, n)
    body = [Definition("S", Op("scan", fn, "fp32", over, (same("X", over),), axis=axis))]
    return region("cumsum", [buffer("X", over)], body, over)


def maxpool(
    batch: int = 1, c: int = 2, size: tuple[int, int] = (7, 8), kernel: int = 3, stride: int = 2, pad: int = 1
) -> Region:
    """Y = the maximum over windows of X, padded with −inf."""
    spatial = tuple(conv_output(extent, kernel, stride, pad, 1) for extent in size)
    over = (batch, c, *spatial, kernel, kernel)
    rows, cols = (f"{stride}*i{axis} + i{axis + 2} - {pad}" for axis in (2, 3))
    padded = {2: size[0], 3: size[1]} if pad else {}
    x = read("X", over, "i0", "i1", rows, cols, pad=padded, fill="-inf")
    body = [reduction("R", "max", over, 2, x)]
    return region("maxpool", [buffer("X", (batch, c, *size))], body, over[:4])


def conv_then_pool(c_in: int = 2, c_out: int = 3, size: int = 9) -> Region:
    """Y = maxpool 2×2 of conv 3×3: an accumulator read inside a reduction (seed 003's compute-at)."""
    inner = size - 2
    outer = inner // 2
    over = (c_out, inner, inner, c_in, 3, 3)
    window = (c_out, outer, outer, 2, 2)
    body = [
        contraction(
            "C",
            over,
            3,
            read("X", over, "i3", "i1 + i4", "i2 + i5"),
            read("W", over, "i0", "i3", "i4", "i5"),
        ),
        reduction("P", "max", window, 2, read("C", window, "i0", "2*i1 + i3", "2*i2 + i4")),
    ]
    inputs = [buffer("X", (c_in, size, size)), buffer("W", (c_out, c_in, 3, 3))]
    return region("conv_then_pool", inputs, body, (c_out, outer, outer))


def corpus() -> tuple[Region, ...]:
    """One region of every kind, odd sizes, sizes 0 and 1 included."""
    flags = (False, True)
    return (
        gemm_bias_relu(),
        gemm_bias_relu(64, 48, 33, "fp16"),
        gemm_bias_relu(1, 6, 5),
        gemm_bias_relu(4, 1, 5),
        gemm_bias_relu(4, 6, 1),
        gemm_bias_relu(0, 6, 5),
        gemm_bias_relu(4, 6, 0),
        *(matmul((2,), lhs_t=a, rhs_t=b, out_t=c) for a in flags for b in flags for c in flags),
        matmul((2, 3)),
        matmul((2, 3), share_rhs=True),
        matvec(),
        prologue_gemm(),
        conv(),
        conv(stride=1, pad=0),
        conv(dilation=2, stride=1, pad=2),
        conv(kernel=1, stride=1, pad=0),
        conv(kernel=1, stride=2, pad=0),
        conv(c_in=4, c_out=6, groups=2),
        conv_bn_relu(),
        seen_through("[1,3,7,9] -> [i0, i1, 6 - i2, 8 - i3]", conv()),
        seen_through("[1,3,7,9] -> [i0, i1, i2//2, i3//3]", conv(stride=1)),
        attention_scores(),
        pointwise(),
        pointwise((1, 5)),
        pointwise((0, 5)),
        outer_sum(),
        transpose(),
        pad2d(),
        padded_chain(),
        iota(),
        gather(),
        scatter(),
        scatter((3, 4, 5), 1, 7, along=(0,), prologue=True),
        row_reduce(),
        row_reduce(4, 0),
        row_reduce(4, 1, "max"),
        column_reduce(),
        total(),
        row_max_of_scaled(),
        sum_of_exp(),
        normalize(),
        centre_rows(),
        cumsum(),
        cumsum(axis=0),
        maxpool(),
    )


def _axes(count: int) -> tuple[str, ...]:
    return tuple(f"i{axis}" for axis in range(count))


def _elementwise_kind(inputs: Sequence[Operand | Number]) -> OpKind:
    return "unary" if len(inputs) == 1 else "ewise"


def softmaxes(m: int = 4, n: int = 7, times: int = 2, dtype: str = "fp32") -> Region:
    """Y = softmax(softmax(… X)) over rows, so many times: M0, D0, E0, S0 and Q0 are of the first, and so on."""
    over, body, value = (m, n), list[Definition](), "X"
    for k in range(times):
        body += [
            reduction(f"M{k}", "max", over, 1, same(value, over), dtype),
            ewise(f"D{k}", "sub", over, same(value, over), read(f"M{k}", over, "i0"), dtype=dtype),
            ewise(f"E{k}", "exp", over, same(f"D{k}", over), dtype=dtype),
            reduction(f"S{k}", "sum", over, 1, same(f"E{k}", over), dtype),
            ewise(f"Q{k}", "fdiv", over, same(f"E{k}", over), read(f"S{k}", over, "i0"), dtype=dtype),
        ]
        value = f"Q{k}"
    return region("softmaxes", [buffer("X", over, dtype)], body, over, dtype=dtype)
