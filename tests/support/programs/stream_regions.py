"""Regions with streams, built by hand: log-sum-exp, weighted means, attention. Any size may be 0 or 1."""

from __future__ import annotations

from ir.region.region import Definition, Number, Op, Operand, Region
from tests.support.programs.regions import Sizes, buffer, contraction, ewise, index_map, read, reduction, region, same


def stream(
    name: str,
    domain: Sizes,
    reduced: int,
    score: Operand,
    value: Operand | Number | None = None,
    fn: str = "exp",
    dtype: str = "fp32",
) -> Definition:
    """The sum of fn(score - max score)·value over the last `reduced` axes of `domain`; value 1 unless given."""
    given = Number(1.0, dtype) if value is None else value
    return Definition(name, Op("stream", fn, dtype, tuple(domain), (score, given), reduced=reduced))


def log_sum_exp(m: int = 4, n: int = 7, *, transposed: bool = False, fn: str = "exp", dtype: str = "fp32") -> Region:
    """Y[i] = log Σₖ exp X[i, k], or of X[k, i]; the base is 2 where `fn` is "exp2"."""
    over = (m, n)
    x = read("X", over, "i1", "i0") if transposed else same("X", over)
    log = {"exp": "log", "exp2": "log2"}[fn]
    body = [
        reduction("M", "max", over, 1, x, dtype=dtype),
        stream("L", over, 1, x, fn=fn, dtype=dtype),
        ewise("G", log, (m,), same("L", (m,)), dtype=dtype),
        ewise("S", "add", (m,), same("G", (m,)), same("M", (m,)), dtype=dtype),
    ]
    shape = (n, m) if transposed else over
    return region("log_sum_exp", [buffer("X", shape, dtype)], body, (m,), dtype=dtype)


def weighted_mean(m: int = 4, n: int = 7, *, transposed: bool = False, scale: float | None = None) -> Region:
    """Y[i] = Σₖ e^{c·X[i, k]}·V[i, k] / Σₖ e^{c·X[i, k]}, or over the first axis of both."""
    over = (m, n)
    at = ("i1", "i0") if transposed else ("i0", "i1")
    body = []
    x = read("X", over, *at)
    if scale is not None:
        body.append(ewise("C", "mul", over, x, Number(scale, "fp32")))
        x = same("C", over)
    body += [
        stream("A", over, 1, x, read("V", over, *at)),
        stream("L", over, 1, x),
        ewise("Q", "fdiv", (m,), same("A", (m,)), same("L", (m,))),
    ]
    shape = (n, m) if transposed else over
    return region("weighted_mean", [buffer("X", shape), buffer("V", shape)], body, (m,))


def level_mean(m: int = 4, n: int = 7, score: float | str = 2.0) -> Region:
    """Y[i] = Σₖ e^c·X[i, k] / Σₖ e^c: every score is the number c."""
    over, number = (m, n), Number(score, "fp32")
    body = [
        Definition("A", Op("stream", "exp", "fp32", over, (number, same("X", over)), reduced=1)),
        Definition("L", Op("stream", "exp", "fp32", over, (number, Number(1.0, "fp32")), reduced=1)),
        ewise("Q", "fdiv", (m,), same("A", (m,)), same("L", (m,))),
    ]
    return region("level_mean", [buffer("X", over)], body, (m,))


def weighted_mean_2d(b: int = 3, h: int = 4, w: int = 5) -> Region:
    """Y[i] = Σ over two axes, h and w, of e^X·V / Σ e^X, with V[w] alone."""
    over = (b, h, w)
    body = [
        stream("A", over, 2, same("X", over), read("V", over, "i2")),
        stream("L", over, 2, same("X", over)),
        ewise("Q", "fdiv", (b,), same("A", (b,)), same("L", (b,))),
    ]
    return region("weighted_mean_2d", [buffer("X", over), buffer("V", (w,))], body, (b,))


def log_softmax(m: int = 4, n: int = 7) -> Region:
    """Y[i, j] = X[i, j] - max - log Σₖ exp(X[i, k] - max): streams that are finished before the outputs' last axis."""
    over = (m, n)
    body = [
        reduction("M", "max", over, 1, same("X", over)),
        stream("L", over, 1, same("X", over)),
        ewise("G", "log", (m,), same("L", (m,))),
        ewise("D", "sub", over, same("X", over), read("M", over, "i0")),
        ewise("Y0", "sub", over, same("D", over), read("G", over, "i0")),
    ]
    return region("log_softmax", [buffer("X", over)], body, over)


def weighted_rows(m: int = 4, n: int = 7, v: int = 5) -> Region:
    """Y[i, j] = Σₖ e^{X[i, k]}·V[k, j] / Σₖ e^{X[i, k]}: scores from memory."""
    over, out = (m, v, n), (m, v)
    body = [
        stream("A", over, 1, read("X", over, "i0", "i2"), read("V", over, "i2", "i1")),
        stream("L", (m, n), 1, same("X", (m, n))),
        ewise("Q", "fdiv", out, same("A", out), read("L", out, "i0")),
    ]
    return region("weighted_rows", [buffer("X", (m, n)), buffer("V", (n, v))], body, out)


def attention(
    b: int = 2,
    m: int = 4,
    n: int = 7,
    d: int = 6,
    v: int = 5,
    *,
    scale: float | None = 0.5,
    bias: bool = False,
    mask: bool = False,
    causal: bool = False,
    group: int = 1,
    keys_first: bool = False,
    key_rows: bool = False,
    fn: str = "exp",
    dtype: str = "fp32",
    acc: str = "fp32",
) -> Region:
    """O[b, i, j] = Σₖ e^{s}·V[b, k, j] / Σₖ e^{s}, with s[b, i, k] = Q[b, i, :]·K[b, k, :]·scale.

    bias, mask, causal: s + bias[i, k]; -inf where mask[b, k] is 0; -inf where k > i. group: so many neighbouring b
    share one K and V. keys_first: the product is of K and Q. key_rows: K is [b, d, n]. acc: the dtype of values.
    """
    scores, out = (b, m, n), (b, m, v)
    head = f"i0 // {group}" if group > 1 else "i0"
    dot = (b, m, n, d)
    query, key = read("Q", dot, "i0", "i1", "i3"), read("K", dot, head, *(("i3", "i2") if key_rows else ("i2", "i3")))
    sides = (key, query) if keys_first else (query, key)
    body = [contraction("S0", dot, 1, *sides, acc)]
    inputs = [buffer("Q", (b, m, d), dtype)]
    inputs.append(buffer("K", (b // group, d, n) if key_rows else (b // group, n, d), dtype))
    inputs.append(buffer("V", (b // group, n, v), dtype))

    def then(fn: str, *others: Operand | Number) -> None:
        body.append(ewise(f"S{len(body)}", fn, scores, same(body[-1].name, scores), *others, dtype=acc))

    if scale is not None:
        then("mul", Number(scale, acc))
    if bias:
        inputs.append(buffer("bias", (m, n), acc))
        then("add", read("bias", scores, "i1", "i2"))
    if mask:
        inputs.append(buffer("mask", (b, n), "bool"))
        score = same(body[-1].name, scores)
        body.append(
            ewise("masked", "where", scores, read("mask", scores, "i0", "i2"), score, Number("-inf", acc), dtype=acc)
        )
    if causal:
        score = same(body[-1].name, scores)
        for name, axis in (("at_i", "i1"), ("at_k", "i2")):
            index = Op("index", "index", "i32", scores, index_map=index_map(scores, axis))
            body.append(Definition(name, index))
        body.append(ewise("seen", "cmple", scores, same("at_k", scores), same("at_i", scores), dtype="bool"))
        body.append(ewise("cut", "where", scores, same("seen", scores), score, Number("-inf", acc), dtype=acc))
    last = body[-1].name
    over = (b, m, v, n)
    body += [
        stream("A", over, 1, read(last, over, "i0", "i1", "i3"), read("V", over, head, "i3", "i2"), fn, acc),
        stream("L", scores, 1, same(last, scores), fn=fn, dtype=acc),
        ewise("O0", "fdiv", out, same("A", out), read("L", out, "i0", "i1"), dtype=acc),
    ]
    if dtype != acc:
        body.append(ewise("O1", "cast", out, same("O0", out), dtype=dtype))
    return region("attention", inputs, body, out, dtype=dtype, result="O")


def classifier_log_sum_exp(m: int = 4, n: int = 7, d: int = 6) -> Region:
    """Y[i] = log Σₖ exp(X[i, :]·W[k, :]): a contraction in the score, and no columns."""
    over, own = (m, n, d), (m, n)
    body = [
        contraction("S", over, 1, read("X", over, "i0", "i2"), read("W", over, "i1", "i2")),
        reduction("M", "max", own, 1, same("S", own)),
        stream("L", own, 1, same("S", own)),
        ewise("G", "log", (m,), same("L", (m,))),
        ewise("Y0", "add", (m,), same("G", (m,)), same("M", (m,))),
    ]
    return region("classifier_log_sum_exp", [buffer("X", (m, d)), buffer("W", (n, d))], body, (m,))


SMALL = (
    log_sum_exp(5, 37),
    log_sum_exp(5, 300, transposed=True),
    log_sum_exp(70, 1),
    log_sum_exp(3, 0),
    log_sum_exp(0, 3),
    log_sum_exp(3, 40, fn="exp2", dtype="bf16"),
    log_sum_exp(3, 40, dtype="fp16"),
    log_sum_exp(3, 20, dtype="fp64"),
    weighted_mean(5, 129, scale=0.5),
    weighted_mean(33, 19, transposed=True),
    weighted_mean_2d(3, 20, 5),
    log_softmax(5, 70),
    level_mean(5, 70),
    level_mean(3, 20, "inf"),
    level_mean(3, 0),
)
"""Sums of exponentials without contractions, at sizes of every kind."""
