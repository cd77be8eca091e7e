"""The SIMT emulator: the text of a GPU kernel, compiled by the C++ compiler and run with a fiber for each thread.

    kernels = compile_kernels(text)
    report = kernels["eq_gemm"].launch((8, 8), [a, b, c], shared_bytes=49152, order=Order.RANDOM, seed=7)
    report.require_clean()

What it models, and what it does not: docs/emulator.md.
"""

from codegen.simt.compile import EmulatedKernel, compile_kernels
from codegen.simt.launch import Order
from codegen.simt.report import Counters, Finding, FindingKind, Report

__all__ = ["Counters", "EmulatedKernel", "Finding", "FindingKind", "Order", "Report", "compile_kernels"]
