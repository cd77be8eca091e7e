"""CUDA text → cubins without a GPU: resources, instructions, the cache, and errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from codegen.compile import nvrtc
from codegen.compile.nvrtc_log import errors, resources
from codegen.text.gpu_to_cuda import cuda_text
from ir.diagnostics import EqsatError, Kind
from ir.kernel.gpu.device_functions import (
    DEVICE_FUNCTIONS,
    REGISTER_C,
    WARPGROUP_EFFECTS,
    DeviceFunction,
    parameters,
)
from ir.kernel.gpu.kernel import GpuKernel
from tests.support.gpu.gemm import gemm_kernel
from tests.support.gpu.instruction_counts import disassembler, ptx_counts, sass, sass_counts
from tests.support.gpu.nvrtc import ARCHES, needs_nvdisasm, needs_nvrtc
from tests.support.gpu.rows import softmax_kernel

KERNEL = gemm_kernel(200, 328, 72, bias=True, out="bf16", min_blocks=2)
ONE = 'extern "C" EQ_KERNEL(32, 1) void eq_one(eq_f32 *out) {\n  out[eq_thread()] = 1.0f;\n}\n'


# --- what the compiler makes of kernels ---


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_90", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    ("kernel", "copies", "wide_stores"),
    [
        (KERNEL, 24, 16),
        (gemm_kernel(4096, 4096, 4096, out="bf16", min_blocks=2), 24, 16),
        (gemm_kernel(4096, 4096, 4096, out="bf16", tile=(128, 256, 32), warps=(2, 4), stages=4), 24, 16),
        (gemm_kernel(201, 327, 71, dtype="fp16", bias=True), 0, 0),
    ],
    ids=["tails", "128x128", "128x256", "odd"],
)
def test_a_product_compiles_to_what_was_meant(kernel: GpuKernel, copies: int, wide_stores: int, arch: str) -> None:
    module = nvrtc.assemble(cuda_text(kernel), arch)
    [actual] = resources(module.log)
    assert actual.name == kernel.name
    assert not actual.spills
    assert actual.stack == 0
    assert actual.registers <= 65536 // (kernel.threads * kernel.min_blocks)
    assert actual.lints == ()
    expected = {"mma": 64, "ldmatrix": 16, "cp_async_16": copies, "cp_async": copies, "barrier": 3, "local": 0}
    expected |= {"ld_global_16": 0, "st_global_16": wide_stores}
    assert ptx_counts(module.ptx) == expected
    command = disassembler()
    if command is not None:
        assert sass_counts(sass(module.cubin, command)) == expected


@needs_nvrtc
@pytest.mark.parametrize(("columns", "dtype", "wide"), [(4096, "fp16", 4), (1001, "fp16", 0), (4096, "fp32", 8)])
def test_a_row_kernel_compiles(columns: int, dtype: str, wide: int) -> None:
    module = nvrtc.assemble(cuda_text(softmax_kernel(64, columns, dtype=dtype)), "sm_80")
    [result] = resources(module.log)
    assert not result.spills
    assert ptx_counts(module.ptx)["st_global_16"] == wide
    assert ptx_counts(module.ptx)["barrier"] == 2


# --- the prelude and the table of device functions say the same ---


def _taken(function: DeviceFunction) -> str:
    """C++ that compiles only if the prelude's function has the signature of the table."""
    result, takes = parameters(function)
    types = ", ".join(parameter.rpartition("*")[0] + "*" if "*" in parameter else parameter for parameter in takes)
    return f"  {{ {result} (*taken)({types}) = {_instance(function)}; (void)taken; }}"


def _instance(function: DeviceFunction) -> str:
    """The function's name, with a parameter for each of a template."""
    parameters_of_template = re.match(r"template <(.*?)>", function.signature)
    if parameters_of_template is None:
        return function.name
    return f"{function.name}<{', '.join('1024' for _ in parameters_of_template[1].split(','))}>"


@needs_nvrtc
def test_the_prelude_defines_the_table() -> None:
    lines = "\n".join(map(_taken, DEVICE_FUNCTIONS.values()))
    nvrtc.assemble(f"__device__ void eq_all() {{\n{lines}\n}}\n{ONE}", "sm_80")
    wrong = _taken(DEVICE_FUNCTIONS["eq_add_f32"]).replace("float", "double")
    with pytest.raises(EqsatError):
        nvrtc.assemble(f"__device__ void eq_all() {{\n{wrong}\n}}\n{ONE}", "sm_80")


_REGISTERS, _TEXTS = 128, 6
EVERYWHERE = [function for function in DEVICE_FUNCTIONS.values() if function.effect not in WARPGROUP_EFFECTS]
"""The functions that all architectures have."""


def _called(function: DeviceFunction) -> str:
    """A block that calls it on data, so that the assembler sees its instructions."""
    lines, arguments, after = list[str](), list[str](), list[str]()
    result, takes = parameters(function)
    for number, parameter in enumerate(takes):
        kind = parameter.removeprefix("const ").partition("*")[0].strip()
        if "*" not in parameter:
            arguments.append(f"(({kind} *)in)[{number}]")
        elif kind in REGISTER_C.values():
            each = f"EQ_UNROLL for (int j = 0; j < {_REGISTERS}; j++)"
            lines.append(f"{kind} r{number}[{_REGISTERS}]; {each} r{number}[j] = (({kind} *)in)[j];")
            after.append(f"{each} (({kind} *)out)[j] = r{number}[j];")
            arguments.append(f"r{number}")
        else:
            arguments.append(f"({kind} *){'in' if 'const' in parameter else 'out'}")
    kept = "" if result == "void" else f"(({result} *)out)[0] = "
    return f"{{ {' '.join(lines)} {kept}{_instance(function)}({', '.join(arguments)}); {' '.join(after)} }}"


def _all_called(functions: list[DeviceFunction]) -> str:
    cases = "\n".join(f"    case {number}: {_called(function)} break;" for number, function in enumerate(functions))
    head = 'extern "C" EQ_KERNEL(32, 1) void eq_all(char *in, char *out, int which) {'
    return f"{head}\n  switch (which) {{\n{cases}\n  }}\n}}\n"


_INSTRUCTIONS = re.compile("f16|tf32|max_f32|min_f32|shfl|cp_async|ldmatrix|mma|barrier|sync|shared_16")
"""Functions that are PTX of their own, which only the assembler checks."""


@pytest.mark.slow
@needs_nvrtc
def test_every_instruction_assembles() -> None:
    chosen = [one for one in EVERYWHERE if _INSTRUCTIONS.search(one.name) and "f16x" not in one.name]
    for arch in ARCHES:
        assert resources(nvrtc.assemble(_all_called(chosen), arch).log)


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("first", range(_TEXTS))
def test_every_function_assembles(first: int) -> None:
    """In several texts: one for all functions takes longer than all of these."""
    assert resources(nvrtc.assemble(_all_called(EVERYWHERE[first::_TEXTS]), "sm_80").log)


@needs_nvrtc
def test_functions_of_warpgroups_assemble_for_hopper_alone() -> None:
    functions = [function for function in DEVICE_FUNCTIONS.values() if function.effect in WARPGROUP_EFFECTS]
    for number in range(0, len(functions), 4):
        text = _all_called(functions[number : number + 4])
        assert resources(nvrtc.assemble(text, "sm_90a").log)
        with pytest.raises(EqsatError):
            nvrtc.assemble(text, "sm_90")


# --- the cache ---


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """How often NVRTC was asked, with a cache of its own."""
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))
    asked: list[str] = []
    real = nvrtc.assemble

    def counted(text: str, arch: str) -> nvrtc.NvrtcResult:
        asked.append(arch)
        return real(text, arch)

    monkeypatch.setattr(nvrtc, "assemble", counted)
    return asked


@needs_nvrtc
def test_a_cubin_is_made_once_for_each_text_and_arch(calls: list[str]) -> None:
    first = nvrtc.build(ONE, "sm_80")
    assert nvrtc.build(ONE, "sm_80") == first
    assert nvrtc.build(ONE, "sm80").path == first.path
    assert calls == ["sm_80"]
    assert first.kernels[0].name == "eq_one"
    assert first.path.read_bytes()[:4] == b"\x7fELF"
    assert nvrtc.build(ONE, "sm_90").path != first.path
    assert calls == ["sm_80", "sm_90"]


@needs_nvrtc
def test_a_product_and_a_sum_round_apart() -> None:
    """A fused one would round a value otherwise than the kernel that stores the product."""
    body = "out[0] = eq_add_f32(eq_mul_f32(out[1], out[2]), out[3]);"
    text = f'extern "C" EQ_KERNEL(32, 1) void eq_one(eq_f32 *out) {{ {body} }}\n'
    ptx = nvrtc.assemble(text, "sm_80").ptx
    assert "mul.rn.f32" in ptx
    assert "fma" not in ptx


@needs_nvrtc
@pytest.mark.parametrize("part", ["path", "ptx"])
def test_a_damaged_cubin_is_made_again(part: str, calls: list[str]) -> None:
    first: Path = getattr(nvrtc.build(ONE, "sm_80"), part)
    good = first.read_bytes()
    first.write_bytes(good[:-9])
    again = nvrtc.build(ONE, "sm_80")
    assert first.read_bytes() == good
    assert len(calls) == 2
    assert "damaged" in again.diagnostics[0].message


@pytest.mark.slow
@needs_nvrtc
def test_newer_architectures_have_cubins_of_their_own() -> None:
    """A kernel with tensor cores, `cp.async` and swizzles: nothing in the text is of sm_80 alone."""
    assert {"sm_80", "sm_90", "sm_100", "sm_120"} <= set(nvrtc.nvrtc_targets())
    for arch in ("sm_100", "sm_120"):
        assert resources(nvrtc.assemble(cuda_text(KERNEL), arch).log)[0].spills == 0


# --- errors ---


def _missing_library() -> None:
    raise RuntimeError("libnvrtc.so.13: cannot open shared object file")


@needs_nvrtc
def test_an_error_names_the_kernel_and_shows_the_line() -> None:
    broken = ONE.replace("eq_one", "eq_two").replace("1.0f", "missing")
    with pytest.raises(EqsatError) as caught:
        nvrtc.assemble(ONE + broken, "sm_80")
    [result] = caught.value.diagnostics
    assert result.kind is Kind.COMPILE_FAILED
    assert result.at == "eq_two"
    [error] = result.details["errors"]
    assert error == 'line 5: identifier "missing" is undefined: out[eq_thread()] = missing;'


@needs_nvrtc
def test_an_architecture_that_is_none() -> None:
    with pytest.raises(EqsatError) as caught:
        nvrtc.assemble(ONE, "sm_7")
    assert caught.value.kind is Kind.COMPILE_FAILED
    assert "is sm_7 an architecture?" in str(caught.value)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "NVRTC is called through CuPy, which is not installed; NVRTC's own wheel is not enough"),
        (SimpleNamespace(), "CuPy, through which NVRTC is called, cannot be loaded"),
        (SimpleNamespace(nvrtc=SimpleNamespace(getVersion=_missing_library)), "there is no NVRTC on this machine"),
    ],
    ids=["no CuPy", "another CuPy", "no library"],
)
def test_without_nvrtc_the_way_out_is_told(module: object, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", module)
    nvrtc._binding.cache_clear()
    try:
        with pytest.raises(EqsatError) as caught:
            nvrtc.build(ONE, "sm_80")
    finally:
        nvrtc._binding.cache_clear()
    assert caught.value.kind is Kind.NO_COMPILER
    assert reason in str(caught.value)
    assert "pip install 'eqsat[cuda]'" in str(caught.value)


@pytest.mark.slow
@needs_nvrtc
def test_the_examples_of_the_gpu_pages_run(calls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    docs = Path(__file__).parents[3] / "docs"
    pages = ("gpu.md", "gpu/contractions.md", "gpu/dialect.md")
    texts = [(docs / page).read_text(encoding="utf-8") for page in pages]
    ((program,), (rounded,), (kernel,)) = [re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in texts]
    exec(compile(kernel, "gpu.md", "exec"), {})
    assert capsys.readouterr().out == "False ()\n"
    assert calls == ["sm_90"]
    exec(compile(program, "gpu.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "spill_stores=0" in printed
    assert "{'n9': " in printed
    exec(compile(rounded, "gpu.md", "exec"), {})
    assert "'matmul': 'mma_tf32'" in capsys.readouterr().out


# --- the log ---

LOG = """\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7511) Potential Performance Loss: wgmma serialized due to a call in function 'eq_b'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'eq_a' for 'sm_80'
ptxas info    : Function properties for eq_a
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 16 barriers, 368 bytes cmem[0]
ptxas info    : Compiling entry function 'eq_b' for 'sm_80'
ptxas info    : Function properties for eq_b
ptxas         .     64 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
"""


def test_the_log_is_read() -> None:
    a, b = resources(LOG)
    assert (a.name, a.registers, a.barriers, a.spills, a.stack, a.static_shared) == ("eq_a", 14, 16, False, 0, 0)
    assert (b.name, b.registers, b.barriers, b.spills, b.stack, b.static_shared) == ("eq_b", 255, 1, True, 64, 1024)
    assert (b.spill_stores, b.spill_loads) == (8, 12)
    assert [lint[:5] for lint in a.lints] == ["C7508", "all 1"]
    assert [lint[:5] for lint in b.lints] == ["C7508", "C7511"]


def test_errors_are_read() -> None:
    log = 'k.cu(7): error: expected a ";"\n  }\n  ^\n\nother.h(3): error: no\nk.cu(9): catastrophic error: x\n'
    assert errors(log, "k.cu") == ((7, 'expected a ";"'), (9, "x"))


@needs_nvrtc
@needs_nvdisasm
def test_a_cubin_is_whole() -> None:
    """CuPy's binding drops a byte, which the disassembler notices and no later CuPy may add twice."""
    module = nvrtc.assemble(ONE, "sm_80")
    assert len(module.cubin) % 8 == 0
    assert "STG" in sass(module.cubin, disassembler() or "")
