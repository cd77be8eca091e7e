"""Marks tests that compile CUDA with NVRTC, which needs no GPU; they are skipped without NVRTC."""

from __future__ import annotations

import importlib.util

import pytest

from tests.support.gpu.instruction_counts import disassembler

HERE = importlib.util.find_spec("cupy_backends") is not None and importlib.util.find_spec("nvidia") is not None
needs_nvrtc = pytest.mark.skipif(not HERE, reason="CuPy and NVRTC are not installed: pip install 'eqsat[cuda]'")
needs_nvdisasm = pytest.mark.skipif(disassembler() is None, reason="there is no nvdisasm (wheel nvidia-cuda-nvdisasm)")
ARCHES = ("sm_80", "sm_90")
