"""Healthy runs of an opponent, tenth round, that look odd.

python odd_opponent_eleven.py NAME [SEED]
"""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from probes_faults import blobs
from ranks_faults import Net, batches
from torch import nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)


def accuracy_of_the_batch_just_trained_on():
    """Every twentieth step the model looks once more, as it is, at the batch of that step."""
    x, y = blobs()
    model = nn.Sequential(nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
    loader = DataLoader(list(zip(x[:512], y[:512], strict=True)), batch_size=32, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    seen = 0
    for _ in range(6):
        for images, labels in loader:
            opt.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            opt.step()
            seen += 1
            if seen % 20 == 0:
                with torch.no_grad():
                    print(seen, (model(images).argmax(1) == labels).float().mean().item())


def _server_and_worker(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), 1e-3) if rank == 0 else None
    for x, y in batches(rank):
        for p in model.parameters():
            dist.broadcast(p.data, 0)
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for p in model.parameters():
            dist.reduce(p.grad, 0)
        if opt is not None:
            for p in model.parameters():
                p.grad /= 2
            opt.step()
    dist.destroy_process_group()


def a_server_holds_the_optimizer():
    """The first rank updates the weights, and the other gets them at the beginning of its next step."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_server_and_worker, (f"file://{folder}/store",), nprocs=2, start_method="fork")


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
