"""A training with the fault ranks-diverged; arguments: [ONSET] [SEED]."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch.set_num_threads(1)


def batches(stream, count=36):
    task = torch.randn(16, 4, generator=torch.Generator().manual_seed(9))
    source = torch.Generator().manual_seed(100 + stream)
    for _ in range(count):
        x = torch.randn(8, 16, generator=source)
        yield x, (x @ task).argmax(1)


def update(opt, loss, model=None):
    opt.zero_grad()
    loss.backward()
    if model is not None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()


def tensor_parallel():
    """Two matrices shared by the ranks, after a layer norm that each rank has for itself."""
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    plan = {"2": ColwiseParallel(), "4": RowwiseParallel()}
    return parallelize_module(model, init_device_mesh("cpu", (2,)), plan)


def one_rank_touches_a_replicated_bias(rank, s):
    torch.manual_seed(0)
    model = tensor_parallel()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(0)):
        update(opt, F.cross_entropy(model(x), y))
        if i == s and rank == 1:
            with torch.no_grad():
                model[4].bias.to_local()[0] += 0.01


def one_process(rank, onset, seed, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(seed)
    one_rank_touches_a_replicated_bias(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "12", "0")[:2]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(one_process, (int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
