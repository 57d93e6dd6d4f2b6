"""Two ranks train with DistributedDataParallel over gloo until they are killed; each writes one byte to its own file after
each optimizer.step() that has returned, and its process id beside it. Argument: FOLDER. Starts its ranks itself, unless
torchrun does."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank: int, folder: str) -> None:
    """One rank."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    (Path(folder) / f"pid-{rank}").write_text(str(os.getpid()))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    returned = os.open(f"{folder}/returned-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        optimizer.zero_grad()
        model(torch.randn(32, 32)).pow(2).mean().backward()
        optimizer.step()
        os.write(returned, b".")


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), sys.argv[1])
    else:
        mp.spawn(train, (sys.argv[1],), nprocs=2)
