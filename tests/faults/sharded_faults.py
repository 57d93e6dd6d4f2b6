"""Sharded and replicated trainings of two ranks with a fault: `python sharded_faults.py NAME ONSET [SEED]`."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from ranks_faults import Net, batches, update
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)


def tensor_parallel():
    """Two matrices shared by the ranks, after a layer norm that each rank has for itself."""
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    plan = {"2": ColwiseParallel(), "4": RowwiseParallel()}
    return parallelize_module(model, init_device_mesh("cpu", (2,)), plan)


def optimizer_made_before_sharding(rank, _):
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    sharded = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    for x, y in batches(rank):
        update(opt, F.cross_entropy(sharded(x), y))


def plain_layers_seeded_apart_beside_tensor_parallel_ones(rank, _):
    torch.manual_seed(rank)
    model = tensor_parallel()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for x, y in batches(0):
        update(opt, F.cross_entropy(model(x), y))


def one_rank_touches_a_replicated_bias(rank, s):
    torch.manual_seed(0)
    model = tensor_parallel()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(0)):
        update(opt, F.cross_entropy(model(x), y))
        if i == s and rank == 1:
            with torch.no_grad():
                model[4].bias.to_local()[0] += 0.01


def head_replaced_between_wrapping_and_the_first_step(rank, _):
    model = Net()
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    model.head = nn.Linear(32, 4)
    opt = torch.optim.Adam(ddp.parameters(), 1e-3)
    for x, y in batches(rank):
        update(opt, F.cross_entropy(ddp(x), y))


def main(rank, name, onset, seed, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(seed)
    globals()[name](rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    name, onset, seed = (*sys.argv[1:], "0")[:3]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (name, int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
