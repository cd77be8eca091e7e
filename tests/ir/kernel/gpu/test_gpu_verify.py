"""The verifier of the GPU dialect: right kernels pass, and each wrong one is refused for its own reason."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.index.expr import ZERO, AxisExpr, FloorDiv, constant
from ir.kernel.gpu.kernel import BLOCK_X, LANE, THREAD, WARP, GpuKernel, GpuParam, Registers, Shared
from ir.kernel.gpu.nodes import (
    At,
    Barrier,
    Call,
    CommitGroup,
    CpAsync,
    Element,
    Epilogue,
    GpuFor,
    GpuIf,
    Index,
    LdMatrix,
    LdSharedVec,
    LoadShared,
    MmaSync,
    SetElement,
    Shuffle,
    StGlobal,
    StGlobalVec,
    Stmt,
    StShared,
    StSharedVec,
    SyncWarp,
    WaitGroup,
)
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import Assign, Bind, Const, Let, Pick, Reg, Variable, Within, walk
from tests.support.gpu.edit import changed, edited, without
from tests.support.gpu.gemm import gemm_kernel
from tests.support.gpu.rows import softmax_kernel

SIZES = [(256, 256, 256), (200, 328, 72), (201, 327, 71), (1, 1, 1), (130, 66, 100), (129, 324, 33), (7, 8, 4096)]
SMALL = (64, 64, 32)


def gemm(stages: int = 3, turns: int = 6, **more: object) -> GpuKernel:
    return gemm_kernel(64, 64, 32 * turns, tile=SMALL, warps=(2, 2), stages=stages, **more)  # type: ignore[arg-type]


def refusal(kernel: GpuKernel) -> EqsatError:
    with pytest.raises(EqsatError) as caught:
        verify(kernel)
    return caught.value


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("size", SIZES)
def test_products_of_all_sizes_pass(size: tuple[int, int, int], stages: int) -> None:
    verify(gemm_kernel(*size, stages=stages, bias=True, out="bf16"))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 1000), (5, 1001), (2, 4096), (7, 8)])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_row_kernels_pass(rows: int, columns: int, dtype: str) -> None:
    verify(softmax_kernel(rows, columns, dtype=dtype))


# --- asynchrony ---


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("size", [(64, 64, 32 * 7), (65, 63, 32 * 7 - 1)])
def test_no_synchronising_statement_may_go(size: tuple[int, int, int], stages: int) -> None:
    """Copies (K even) and plain stores (K odd) alike; the latter need no groups."""
    kernel = gemm_kernel(*size, tile=SMALL, stages=stages, bias=True)
    verify(kernel)
    copies = any(isinstance(stmt, CpAsync) for stmt in walk(kernel.body))
    for kind in (WaitGroup, CommitGroup, Barrier) if copies else (Barrier,):
        for number in range(sum(isinstance(stmt, kind) for stmt in walk(kernel.body))):
            refusal(without(kernel, kind, number))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_long_products_are_known_by_their_first_turns(stages: int) -> None:
    """A million turns take no time, and what is wrong at the start or at the end is still found."""
    kernel = gemm(stages, 1_000_003)
    verify(kernel)
    for kind, number in ((WaitGroup, 0), (Barrier, 0), (Barrier, 1), (CommitGroup, 1)):
        refusal(without(kernel, kind, number))
    assert "under way" in str(refusal(_unguarded(kernel)))


def _later(stmt: Stmt) -> At:
    assert isinstance(stmt, LdMatrix)
    return msgspec.structs.replace(stmt.source, stage=AxisExpr(1) - stmt.source.stage)


def _swapped(kernel: GpuKernel) -> GpuKernel:
    """The barrier of the main loop before its wait."""

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, GpuFor) and any(isinstance(inner, WaitGroup) for inner in stmt.body):
            body = list(stmt.body)
            at = next(i for i, inner in enumerate(body) if isinstance(inner, WaitGroup))
            body[at], body[at + 1] = body[at + 1], body[at]
            return (msgspec.structs.replace(stmt, body=tuple(body)),)
        return (stmt,)

    return edited(kernel, change)


def _unguarded(kernel: GpuKernel) -> GpuKernel:
    """Copies ahead of the last turn too, into tiles nobody reads: they are under way when C is staged."""
    k = kernel.params[0].shape[1]
    longer = changed(kernel, CpAsync, None, where=lambda stmt: (*stmt.where, Within(stmt.at[1], 0, k)))

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        copies = isinstance(stmt, GpuIf) and any(isinstance(inner, CpAsync) for inner in walk(stmt.then))
        return stmt.then if copies and isinstance(stmt, GpuIf) else (stmt,)

    return edited(longer, change)


ASYNCHRONY: dict[str, tuple[Callable[[], GpuKernel], str]] = {
    "no wait": (lambda: without(gemm(), WaitGroup, 0), "nothing has waited for the copies"),
    "a wait for one group less": (lambda: changed(gemm(), WaitGroup, 0, pending=2), "nothing has waited"),
    "no commit ahead": (lambda: without(gemm(), CommitGroup, 0), "before any group was committed"),
    "no commit in the loop": (lambda: without(gemm(), CommitGroup, 1), "nothing has waited for the copies"),
    "no barrier after the wait": (lambda: without(gemm(), Barrier, 0), "no barrier since the copies of other"),
    "the barrier before the wait": (lambda: _swapped(gemm()), "no barrier since the copies of other"),
    "no barrier before staging": (lambda: without(gemm(), Barrier, 1), "Cs is filled, and others may still read stage"),
    "no barrier after staging": (lambda: without(gemm(), Barrier, 2), "Cs is read with no barrier since other"),
    "a stage too far": (
        lambda: changed(gemm(2), LdMatrix, None, source=_later),
        "is read, and",
    ),
    "one stage for all": (
        lambda: changed(gemm(), CpAsync, None, to=lambda stmt: msgspec.structs.replace(stmt.to, stage=ZERO)),
        "is filled while copies to stage 0 of As are under way",
    ),
    "copies beyond the last turn": (lambda: _unguarded(gemm()), "while copies to"),
}


@pytest.mark.parametrize("name", ASYNCHRONY)
def test_asynchrony(name: str) -> None:
    make, message = ASYNCHRONY[name]
    error = refusal(make())
    assert message in str(error)
    assert error.kind is Kind.MALFORMED_GRAPH


def test_copies_need_a_commit_and_an_end() -> None:
    kernel = gemm()
    copy = next(stmt for stmt in walk(kernel.body) if isinstance(stmt, CpAsync))
    still = msgspec.structs.replace(copy, to=At("As", copy.to.at), at=copy.at, where=(Within(constant(1), 0, 1),))
    only = msgspec.structs.replace(kernel, variables=kernel.variables, body=_bound(kernel, (still,)))
    assert "never committed" in str(refusal(only))
    assert "still under way" in str(refusal(msgspec.structs.replace(only, body=_bound(kernel, (still, CommitGroup())))))


def _bound(kernel: GpuKernel, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements of the prologue in its loops, so that their variables are bound."""
    names = [variable.name for variable in kernel.variables]
    outer, inner = names.index("stage"), names.index("a_piece")
    loop = GpuFor(inner, ZERO, constant(1), body, unroll=True)
    return (GpuFor(outer, ZERO, constant(1), (loop,), unroll=True),)


def test_lanes_of_a_warp_order_their_own_part_with_a_sync() -> None:
    def kernel(*between: Stmt, scope: str = "warp") -> GpuKernel:
        place = At("own", (AxisExpr(0, ((THREAD, 1),)),))
        read = Let("loaded", LoadShared(place, "fp32"))
        body = (StShared(place, Const(1, "fp32")), *between, read)
        shared = (Shared("own", "fp32", (128,), 0, scope=scope),)  # type: ignore[arg-type]
        return msgspec.structs.replace(softmax_kernel(1, 8), body=body, shared=shared, registers=())

    verify(kernel(SyncWarp()))
    verify(kernel(Barrier(), scope="block"))
    assert "no barrier since" in str(refusal(kernel()))
    assert "no barrier since" in str(refusal(kernel(SyncWarp(), scope="block")))


# --- everything else ---


def _shift(field: str, by: int) -> Callable[[Stmt], object]:
    def shifted(stmt: Stmt) -> object:
        value = getattr(stmt, field)
        if isinstance(value, At):
            return msgspec.structs.replace(value, at=(*value.at[:-1], value.at[-1].shift(by)))
        return (*value[:-1], value[-1].shift(by)) if isinstance(value, tuple) else value.shift(by)

    return shifted


def _under(kernel: GpuKernel, kind: type, axis: int, high: int = 1) -> GpuKernel:
    """The first statement of a kind under a condition on a variable."""
    first = next(stmt for stmt in walk(kernel.body) if isinstance(stmt, kind))
    condition = (Within(AxisExpr(0, ((axis, 1),)), 0, high),)
    return edited(kernel, lambda stmt: (GpuIf(condition, (stmt,)),) if stmt is first else (stmt,))


def _shared(kernel: GpuKernel, number: int, **fields: object) -> GpuKernel:
    buffers = list(kernel.shared)
    buffers[number] = msgspec.structs.replace(buffers[number], **fields)
    return msgspec.structs.replace(kernel, shared=tuple(buffers))


def _with(*body: Stmt, **fields: object) -> GpuKernel:
    """A small kernel with registers x (fp32) and w (words), buffers `given` and `out`."""
    kernel = softmax_kernel(4, 64)
    plain = {
        "body": body,
        "params": (GpuParam("given", "fp32", (128,)), GpuParam("out", "fp32", (128,), written=True)),
        "registers": (Registers("x", "fp32", 4, zero=True), Registers("w", "word", 4)),
        "shared": (),
    }
    return msgspec.structs.replace(kernel, **{**plain, **fields})


X0 = Element("x", ZERO, "fp32")
THREAD_AT = (AxisExpr(0, ((THREAD, 1),)),)

HALF = AxisExpr(0, ((FloorDiv(AxisExpr(0, ((6, 1),)), 2), 1),))

REFUSED: dict[str, tuple[Callable[[], GpuKernel], Kind, str]] = {
    "a tail without predicate": (
        lambda: changed(gemm_kernel(65, 64, 64, tile=SMALL), CpAsync, 0, where=()),
        Kind.MALFORMED_GRAPH,
        "A: axis 0 of 65 is reached at 127",
    ),
    "a store without predicate": (
        lambda: changed(gemm_kernel(64, 72, 64, tile=SMALL), StGlobalVec, 0, where=()),
        Kind.MALFORMED_GRAPH,
        "C: axis 1 of 72 is reached at 127",
    ),
    "a read before the start": (
        lambda: changed(gemm(), CpAsync, 0, at=_shift("at", -8), where=()),
        Kind.MALFORMED_GRAPH,
        "A: axis 1 is reached before its start, at -8",
    ),
    "a misaligned copy": (
        lambda: changed(gemm_kernel(64, 64, 200, tile=SMALL), CpAsync, 0, at=_shift("at", 1), where=lambda s: s.where),
        Kind.ALIGNMENT_MISMATCH,
        "16 bytes of A at once, which are not aligned",
    ),
    "a copy of a row of odd length": (
        lambda: msgspec.structs.replace(gemm(), params=(GpuParam("A", "bf16", (64, 193)), *gemm().params[1:])),
        Kind.ALIGNMENT_MISMATCH,
        "16 bytes of A at once",
    ),
    "a buffer that is not aligned": (
        lambda: msgspec.structs.replace(
            gemm(), params=(GpuParam("A", "bf16", (64, 192), alignment=8), *gemm().params[1:])
        ),
        Kind.ALIGNMENT_MISMATCH,
        "16 bytes of A at once",
    ),
    "a misaligned place": (
        lambda: changed(gemm(), LdMatrix, 0, source=_shift("source", -4)),
        Kind.ALIGNMENT_MISMATCH,
        "16 bytes of As at once",
    ),
    "a place beyond the tile": (
        lambda: changed(gemm(), LdMatrix, 0, source=_shift("source", 32)),
        Kind.MALFORMED_GRAPH,
        "As: axis 1 of 32 is reached at",
    ),
    "a stage that is not there": (
        lambda: changed(gemm(), CpAsync, 0, to=lambda s: msgspec.structs.replace(s.to, stage=s.to.stage.shift(2))),
        Kind.MALFORMED_GRAPH,
        "the stages of As: axis 0 of 3 is reached at 3",
    ),
    "a stage of one's own": (
        lambda: changed(
            gemm(4), LdMatrix, 0, source=lambda s: msgspec.structs.replace(s.source, stage=AxisExpr(0, ((WARP, 1),)))
        ),
        Kind.MALFORMED_GRAPH,
        "the stage of As differs between threads",
    ),
    "too much shared memory": (
        lambda: gemm_kernel(256, 256, 4096, tile=(256, 128, 64), stages=4),
        Kind.RESOURCE_EXCEEDED,
        "bytes of shared memory; a block may have 166912",
    ),
    "too many threads": (
        lambda: msgspec.structs.replace(gemm(), threads=2048),
        Kind.RESOURCE_EXCEEDED,
        "2048 threads per block",
    ),
    "an empty grid": (
        lambda: msgspec.structs.replace(gemm(), grid=(0, 1, 1)),
        Kind.RESOURCE_EXCEEDED,
        "none may be empty",
    ),
    "a barrier for some threads": (lambda: _under(gemm(), Barrier, THREAD), Kind.MALFORMED_GRAPH, "a Barrier that not"),
    "a barrier for some warps": (lambda: _under(gemm(), Barrier, WARP), Kind.MALFORMED_GRAPH, "a Barrier that not all"),
    "a wait for some warps": (lambda: _under(gemm(), WaitGroup, WARP), Kind.MALFORMED_GRAPH, "a WaitGroup that not"),
    "an mma for some lanes": (lambda: _under(gemm(), MmaSync, LANE), Kind.MALFORMED_GRAPH, "a MmaSync that not all"),
    "an ldmatrix for some lanes": (
        lambda: _under(gemm(), LdMatrix, LANE),
        Kind.MALFORMED_GRAPH,
        "a LdMatrix that not all lanes",
    ),
    "a shuffle for some lanes": (
        lambda: _with(GpuIf((Within(THREAD_AT[0], 0, 5),), (Let("y", Shuffle("xor", X0, constant(1), "fp32")),))),
        Kind.MALFORMED_GRAPH,
        "a Shuffle that not all lanes",
    ),
    "a swizzle that starts elsewhere": (lambda: _shared(gemm(), 0, start=64), Kind.MALFORMED_GRAPH, "multiple of 512"),
    "a swizzle too many": (lambda: _shared(gemm(), 0, swizzle=4), Kind.MALFORMED_GRAPH, "no swizzle 4"),
    "rows that overlap": (lambda: _shared(gemm(), 0, pitch=16), Kind.MALFORMED_GRAPH, "the rows of As overlap"),
    "two buffers of one name": (lambda: _shared(gemm(), 1, name="A"), Kind.MALFORMED_GRAPH, "are called A"),
    "registers out of range": (
        lambda: changed(gemm(), MmaSync, 0, acc_index=lambda s: s.acc_index.shift(1)),
        Kind.MALFORMED_GRAPH,
        "acc: axis 0 of 32 is reached at 32",
    ),
    "registers by a running index": (
        lambda: changed(gemm(), GpuFor, None, unroll=lambda s: s.unroll and gemm().variables[s.variable].name != "j"),
        Kind.MALFORMED_GRAPH,
        "is indexed by j, which is not unrolled",
    ),
    "a fragment that is not loaded": (
        lambda: edited(gemm(), lambda s: () if isinstance(s, LdMatrix) and s.registers == "b" else (s,)),
        Kind.MALFORMED_GRAPH,
        "b is read before anything is stored to it",
    ),
    "no such tensor core": (
        lambda: changed(gemm(), MmaSync, 0, shape="m64n64k16"),
        Kind.MALFORMED_GRAPH,
        "sm80 has no MmaSync m64n64k16 of bf16",
    ),
    "a dtype of no tensor core": (
        lambda: changed(gemm(), MmaSync, 0, dtype="fp32"),
        Kind.MALFORMED_GRAPH,
        "sm80 has no MmaSync m16n8k16 of fp32",
    ),
    "no such machine": (
        lambda: msgspec.structs.replace(gemm(), arch="sm70"),
        Kind.MALFORMED_GRAPH,
        "architecture sm70 is none of sm80, sm90",
    ),
    "other variables first": (
        lambda: msgspec.structs.replace(gemm(), threads=64),
        Kind.MALFORMED_GRAPH,
        "the first variables are not thread, lane",
    ),
    "an epilogue that ends early": (
        lambda: msgspec.structs.replace(
            (kernel := gemm(bias=True)),
            variables=tuple(
                Variable("e", 0, one.high - 1) if one.name == "e" else one for one in kernel.variables
            ),
        ),
        Kind.MALFORMED_GRAPH,
        "e does not number the 32 registers of acc",
    ),
    "a store to an input": (
        lambda: _with(StGlobal("given", THREAD_AT, X0)),
        Kind.MALFORMED_GRAPH,
        "a store to the input given",
    ),
    "a buffer that is not there": (
        lambda: _with(StGlobal("other", THREAD_AT, X0)),
        Kind.MALFORMED_GRAPH,
        "no buffer other of 1 axes",
    ),
    "a function that is not there": (
        lambda: _with(SetElement("x", ZERO, Call("gamma", (X0,), "fp32"))),
        Kind.MALFORMED_GRAPH,
        "there is no device function eq_gamma",
    ),
    "a function of other types": (
        lambda: _with(SetElement("x", ZERO, Call("add", (Const(1, "i32"), X0), "fp32"))),
        Kind.MALFORMED_GRAPH,
        "eq_add_f32 of i32, fp32",
    ),
    "registers of another type": (
        lambda: _with(SetElement("w", ZERO, X0)),
        Kind.MALFORMED_GRAPH,
        "w holds word, not fp32",
    ),
    "a scalar that is not bound": (
        lambda: _with(SetElement("x", ZERO, Reg("y", "fp32"))),
        Kind.MALFORMED_GRAPH,
        "`y` is no fp32",
    ),
    "a scalar that may not change": (
        lambda: _with(Let("y", X0), Assign("y", X0)),
        Kind.MALFORMED_GRAPH,
        "`y` takes no fp32",
    ),
    "a variable that is not bound": (
        lambda: _with(
            StGlobal("out", (AxisExpr(0, ((6, 1),)),), X0), variables=(*_with().variables[:6], Variable("i", 0, 3))
        ),
        Kind.MALFORMED_GRAPH,
        "i not bound in an index",
    ),
    "a loop beyond its variable": (
        lambda: _with(GpuFor(6, ZERO, constant(5), ()), variables=(*_with().variables[:6], Variable("i", 0, 3))),
        Kind.MALFORMED_GRAPH,
        "i runs over 0 … 4, beyond its range",
    ),
    "a loop whose end is not constant": (
        lambda: _with(
            GpuFor(6, ZERO, AxisExpr(0, ((BLOCK_X, 1),)), (), unroll=True),
            variables=(*_with().variables[:6], Variable("i", 0, 3)),
        ),
        Kind.MALFORMED_GRAPH,
        "cannot be unrolled",
    ),
    "a variable set beyond its range": (
        lambda: _with(Bind(6, THREAD_AT[0]), variables=(*_with().variables[:6], Variable("i", 0, 3))),
        Kind.MALFORMED_GRAPH,
        "i is set to 0 … 127, beyond its range",
    ),
    "a name that hides another": (
        lambda: _with(Let("x", X0)),
        Kind.MALFORMED_GRAPH,
        "the name x hides another",
    ),
    "a loop in a loop of one name": (
        lambda: _with(
            GpuFor(6, ZERO, constant(4), (GpuFor(7, ZERO, constant(4), ()),)),
            variables=(*_with().variables[:6], Variable("i", 0, 3), Variable("i", 0, 3)),
        ),
        Kind.MALFORMED_GRAPH,
        "the name i hides another",
    ),
    "a floor of a negative number": (
        lambda: _with(
            GpuFor(6, constant(-3), constant(4), (Let("y", Index(HALF)),)),
            variables=(*_with().variables[:6], Variable("i", -3, 3)),
        ),
        Kind.MALFORMED_GRAPH,
        "a floor of a negative number",
    ),
    "an index picked from a float": (
        lambda: _with(Pick(6, X0), variables=(*_with().variables[:6], Variable("i", 0, 3))),
        Kind.MALFORMED_GRAPH,
        "i is picked from no integer",
    ),
    "three elements at once": (
        lambda: _with(StGlobalVec("out", (ZERO,), "x", ZERO, 3)),
        Kind.MALFORMED_GRAPH,
        "12 bytes moved at once",
    ),
    "words of another width": (
        lambda: _with(
            LdSharedVec("w", ZERO, 4, At("s", (THREAD_AT[0],))), shared=(Shared("s", "fp32", (128,), 0),)
        ),
        Kind.ALIGNMENT_MISMATCH,
        "16 bytes of s at once",
    ),
    "shared memory that holds nothing": (
        lambda: _with(Let("y", LoadShared(At("s", (THREAD_AT[0],)), "fp32")), shared=(Shared("s", "fp32", (128,), 0),)),
        Kind.MALFORMED_GRAPH,
        "s is read, but nothing was stored to it",
    ),
    "shared memory of another type": (
        lambda: _with(
            StSharedVec(At("s", (ZERO,)), "x", ZERO, 4), shared=(Shared("s", "i32", (128,), 0),)
        ),
        Kind.MALFORMED_GRAPH,
        "x does not go with registers of fp32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, kind, message = REFUSED[name]
    error = refusal(make())
    assert message in str(error)
    assert kind in {diagnostic.kind for diagnostic in error.diagnostics}


def test_what_counts_beyond_64_bits_is_too_much() -> None:
    kernel = gemm()
    variables = (*kernel.variables, Variable("far", 0, 2**63))
    error = refusal(msgspec.structs.replace(kernel, variables=variables))
    assert error.kind is Kind.RESOURCE_EXCEEDED
    assert "far goes from 0 to 9223372036854775808, which 64 bits do not hold" in str(error)


def test_an_epilogue_applies_to_every_register() -> None:
    kernel = gemm(bias=True)
    stmt = next(stmt for stmt in walk(kernel.body) if isinstance(stmt, Epilogue))
    assert kernel.variables[stmt.variable].high == 31
    verify(kernel)
