"""Healthy sharded trainings of two ranks that look odd: `python odd_sharded.py NAME`."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from ranks_faults import Net, batches, update
from sharded_faults import tensor_parallel
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard


def main(rank, train):
    dist.init_process_group("gloo", init_method=train[1], rank=rank, world_size=2)
    torch.manual_seed(0)
    _TRAININGS[train[0]](rank)
    dist.destroy_process_group()


def _sharded_layers(rank):
    model = Net()
    fully_shard(model.body)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for x, y in batches(rank):
        update(opt, F.cross_entropy(model(x), y), model)


def _flat_shards(rank):
    model = FullyShardedDataParallel(Net(), device_id=torch.device("cpu"))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for x, y in batches(rank):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        model.clip_grad_norm_(1.0)
        opt.step()


def _tensor_parallel(_):
    model = tensor_parallel()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for x, y in batches(0):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_([p for p in model.parameters() if hasattr(p, "placements")], 1.0)
        opt.step()


_TRAININGS = {"layers": _sharded_layers, "flat": _flat_shards, "tensor": _tensor_parallel}


def train(name):
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, ((name, f"file://{folder}/store"),), nprocs=2, start_method="fork")


def layers_sharded_one_by_one():
    train("layers")


def flat_shards_of_a_whole_model():
    train("flat")


def tensor_parallel_layers_on_the_same_batches():
    train("tensor")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
