"""DistributedDataParallel over gloo in two processes: a rank has half of the batch, both end with eager's weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

STEPS = 2


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))


def batch() -> tuple[Any, Any]:
    random = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=random), torch.randint(0, 3, (8,), generator=random)


def learn(run: Any, parameters: Any, x: Any, target: Any) -> None:
    optimizer = torch.optim.SGD(parameters, 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(run(x), target).backward()
        optimizer.step()


def train_rank(rank: int, meeting: str, results: str, cache: str) -> None:
    """What each process runs."""
    os.environ["EQSAT_CACHE_DIR"] = cache
    torch.set_num_threads(1)
    from eqsat.frontends.torch.backend import eqsat as backend

    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    model = network()
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    run = torch.compile(parallel, backend=backend, options={"fallback": False})
    x, target = (half.chunk(2)[rank] for half in batch())
    learn(run, model.parameters(), x, target)
    torch.save(model.state_dict(), f"{results}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    alone = network()
    learn(alone, alone.parameters(), *batch())
    arguments = (str(tmp_path / "meeting"), str(tmp_path), os.environ["EQSAT_CACHE_DIR"])
    torch.multiprocessing.spawn(train_rank, arguments, nprocs=2)
    for rank in range(2):
        result = torch.load(tmp_path / f"{rank}.pt")
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(result[name], value)
