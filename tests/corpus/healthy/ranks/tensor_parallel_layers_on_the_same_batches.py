"""A healthy training that looks odd."""

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


def tensor_parallel():
    """Two matrices shared by the ranks, after a layer norm that each rank has for itself."""
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    plan = {"2": ColwiseParallel(), "4": RowwiseParallel()}
    return parallelize_module(model, init_device_mesh("cpu", (2,)), plan)


def tensor_parallel_layers_on_the_same_batches(_):
    model = tensor_parallel()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for x, y in batches(0):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


def one_process(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    tensor_parallel_layers_on_the_same_batches(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(one_process, (f"{folder}/store",), nprocs=2, start_method="fork")
