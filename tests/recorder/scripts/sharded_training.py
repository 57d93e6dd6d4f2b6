"""One training, whole or over two ranks on gloo: `python sharded_training.py STYLE FOLDER [clip]`. Knows nothing of firstfault.

STYLE: whole (one process, all of the batch), fsdp (fully_shard, a half of the batch each), tensor (parallelize_module, a
LayerNorm left as it is), sequence (the same, activations sharded too), replicas (fully_shard over a mesh of 2 × 2 ranks).
Each rank leaves its losses, norms that it computed itself, a checksum of its weights and its next random number in
FOLDER/rankN.txt, as hexadecimal floats.
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

torch.set_num_threads(1)
STEPS = 12
CLIPPED_TO = 0.3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 15)

    def forward(self, x):
        return self.down(torch.tanh(self.up(self.norm(x))))


def model_of(style):
    torch.manual_seed(0)
    model = Net()
    if style == "tensor":
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    elif style == "sequence":
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        plan = {
            "norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(),
        }
        parallelize_module(model, mesh, plan)
    elif style in {"fsdp", "replicas"}:
        names = ("replica", "shard") if style == "replicas" else ("shard",)
        mesh = init_device_mesh("cpu", (2,) * len(names), mesh_dim_names=names)
        fully_shard(model.up, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def batches(style, rank, world):
    x = torch.randn(STEPS, 16, 4, 16, generator=torch.Generator().manual_seed(3))
    y = x[..., :15].argmax(-1)
    mine = slice(rank, None, world) if style in {"fsdp", "replicas"} else slice(None)
    if style == "sequence":  # each rank has a half of every sequence, and all of its targets
        x = x.chunk(world, 2)[rank]
    return [(a[mine], b[mine]) for a, b in zip(x, y, strict=True)]


def whole(x):
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def train(style, rank, world, out, clips):
    model = model_of(style)
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    found = []
    for x, y in batches(style, rank, world):
        opt.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        if clips and style == "tensor":  # torch does not clip plain and sharded gradients together
            placed = [p for p in model.parameters() if hasattr(p, "placements")]
            nn.utils.clip_grad_norm_(placed, CLIPPED_TO)
        elif clips:
            nn.utils.clip_grad_norm_(model.parameters(), CLIPPED_TO)
        if style == "whole":
            found.append(torch.stack([p.grad.double().norm() for p in model.parameters()]).norm().item())
        opt.step()
        found.append(loss.item())
    total = sum((whole(p).detach().double() * (i + 1)).sum() for i, p in enumerate(model.parameters()))
    found += [float(total), torch.rand(1).item()]
    Path(out, f"rank{rank}.txt").write_text("\n".join(float(f).hex() for f in found))


def one_rank(rank, world, style, out, clips):
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=world)
    train(style, rank, world, out, clips)
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.5)  # gloo's threads drop what they sent last


if __name__ == "__main__":
    style, out, clips = sys.argv[1], sys.argv[2], "clip" in sys.argv
    if style == "whole":
        train(style, 0, 1, out, clips)
    else:
        world = 4 if style == "replicas" else 2
        mp.start_processes(one_rank, (world, style, out, clips), nprocs=world, start_method="fork")
