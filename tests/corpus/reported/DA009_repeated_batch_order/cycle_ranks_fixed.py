import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WORLD = 2
STEPS = 120


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 16, generator=g)
    t = torch.randn(16, 4, generator=torch.Generator().manual_seed(77))
    y = (torch.tanh(x @ t) + 0.05 * torch.randn(n, 4, generator=g)).argmax(1)
    return TensorDataset(x, y)


def cycle_dataloader(dataloader):
    epoch = 0
    while True:
        dataloader.sampler.set_epoch(epoch)
        for batch in dataloader:
            yield batch
        epoch += 1


def average_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= WORLD


def run(rank, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    train_set, valid_set = make_data(640, 1), make_data(256, 2)
    sampler = DistributedSampler(train_set, num_replicas=WORLD, rank=rank, shuffle=True, drop_last=False)
    loader = DataLoader(train_set, batch_size=16, sampler=sampler)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data = cycle_dataloader(loader)
    vx, vy = valid_set.tensors
    for step in range(STEPS):
        model.train()
        x, y = next(data)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if rank == 0 and (step + 1) % 20 == 0:
            model.eval()
            with torch.no_grad():
                out = model(vx)
                print(f"step {step + 1} loss {loss.item():.4f} valid {F.cross_entropy(out, vy).item():.4f} "
                      f"acc {(out.argmax(1) == vy).float().mean().item():.3f}", flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    mp.spawn(run, args=(free_port(),), nprocs=WORLD)
