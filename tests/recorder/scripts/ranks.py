"""Two ranks on gloo: `python ranks.py STYLE FOLDER [fork]`, or the same under torchrun. Knows nothing of firstfault.

Each rank leaves its losses, a checksum of its final weights and its next random number in FOLDER/rankN.txt, as hexadecimal
floats, so that two runs can be compared to the last bit.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def model_of():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))


def batches(rank):
    x = torch.randn(192, 16, generator=torch.Generator().manual_seed(3))[rank::2]
    return [(a, a[:, :4].argmax(1)) for a in x.split(8)]


def whole(parameter):
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


def train(style, rank, out):
    model = model_of()
    if style == "sharded":
        from torch.distributed.fsdp import fully_shard

        for layer in (model[0], model[4]):
            fully_shard(layer)
        fully_shard(model)
    else:
        dist.barrier()
        model = nn.parallel.DistributedDataParallel(model)
    torch.manual_seed(rank)
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for i, (x, y) in enumerate(batches(rank)):
        opt.zero_grad()
        width = 7 if style == "fails" and rank == 1 and i == 7 else 16
        loss = F.cross_entropy(model(x[:, :width]), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        losses.append(loss.item())
    total = sum((whole(p).detach().double() * (i + 1)).sum() for i, p in enumerate(model.parameters()))
    found = [*losses, float(total), torch.rand(1).item()]
    Path(out, f"rank{rank}.txt").write_text("\n".join(float(f).hex() for f in found))


def leave():
    """Gloo's own threads drop the last tensors they sent; one that needs the GIL for it when Python ends aborts the process."""
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.5)


def spawned(rank, style, out):
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=2)
    train(style, rank, out)
    leave()


if __name__ == "__main__":
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        train(sys.argv[1], dist.get_rank(), sys.argv[2])
        leave()
    else:
        how = "fork" if "fork" in sys.argv[3:] else "spawn"
        mp.start_processes(spawned, (sys.argv[1], sys.argv[2]), nprocs=2, start_method=how)
