"""Answers of a worker of the GPU bench, for tests in processes that import little."""

from __future__ import annotations

import os
import time
from typing import Any

from bench.gpu.worker import Answer

CEILINGS = {"bytes_per_s": 1e12, "flops_per_s": 1e14}


def answers() -> Answer:
    """Rows at once, and a request for each way to be lost."""

    def answer(request: Any) -> Any:
        match request:
            case "who":
                return os.getpid()
            case "die":
                raise SystemExit
            case "hang":
                time.sleep(60)
            case "raise":
                raise ValueError("no")
            case "ceilings":
                return CEILINGS
        figures = {"TFLOP/s": 1.0, "GB/s": 2.0, "of ceiling": 0.5, "best peer": None, "ratio": None}
        return {
            "case": request[0],
            "times": {"eqsat": {"us": 5.0}},
            "absent": {"triton": "is not installed"},
            **figures,
        }

    return answer


def broken() -> Answer:
    raise ValueError("no device after all")


def failing_kernels() -> Answer:
    """Two kernels are launched, one by one; the second hangs, faults, or finds the memory full, as it is asked to."""
    from bench.device.kernel_by_kernel import kernel_by_kernel
    from bench.gpu.place import tell
    from codegen.run.launch_log import note_launch

    def answer(request: Any) -> Any:
        with kernel_by_kernel(lambda kernel: tell(f"eqsat's kernel {kernel} runs"), lambda: None):
            note_launch("eq_first")
            note_launch("eq_second")
            match request:
                case "hang":
                    time.sleep(60)
                case "fault":
                    os._exit(9)
                case "memory":
                    raise MemoryError("out of memory: 1 TiB")
        return request

    return answer
